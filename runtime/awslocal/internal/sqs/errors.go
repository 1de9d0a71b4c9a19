package sqs

import "github.com/settle-run/settle/runtime/awslocal/internal/wire"

// queryPrefix begins the codes that SQS's query protocol gives to most of its own errors.
const queryPrefix = "AWS.SimpleQueueService."

// namedf returns an error whose query protocol code is its JSON code behind queryPrefix.
func namedf(code, format string, args ...any) *wire.Error {
	err := wire.Errorf(code, format, args...)
	err.QueryCode = queryPrefix + code
	return err
}

func missingParameter(name string) *wire.Error {
	return wire.Errorf("MissingParameter", "The request must contain the parameter %s.", name)
}

// invalidParameter says, in SQS's words, that the value of a parameter cannot be used.
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
