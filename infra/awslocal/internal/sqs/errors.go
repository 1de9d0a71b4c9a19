package sqs

import "github.com/settle-run/settle/infra/awslocal/internal/wire"

// queryPrefix starts most of SQS's own error codes in the query protocol.
const queryPrefix = "AWS.SimpleQueueService."

// namedf returns an error whose query protocol code is queryPrefix plus its JSON code.
func namedf(code, format string, args ...any) *wire.Error {
	err := wire.Errorf(code, format, args...)
	err.QueryCode = queryPrefix + code
	return err
}

func missingParameter(name string) *wire.Error {
	return wire.Errorf("MissingParameter", "The request must contain the parameter %s.", name)
}

// invalidParameter returns SQS's error for an invalid parameter value.
func invalidParameter(name string, value any, reason string) *wire.Error {
	return wire.Errorf("InvalidParameterValue",
		"Value %v for parameter %s is invalid. Reason: %s", value, name, reason)
}

func noSuchQueue(name string) *wire.Error {
	err := wire.Errorf("QueueDoesNotExist",
		"The specified queue does not exist: there is no queue %q; create it with CreateQueue.", name)
	err.QueryCode = queryPrefix + "NonExistentQueue"
	return err
}
