// Package wire holds what the service models of awslocal and its HTTP layer share: the
// form in which AWS reports an error.
package wire

import "fmt"

// Error is an AWS API error, independent of the protocol that carries it. The HTTP layer
// writes it as AWS JSON 1.0 ({"__type": "<Namespace>#<Code>", "message": ...}) or as the
// XML of the query protocol.
type Error struct {
	// Code is the error's shape name without namespace, such as
	// "ConditionalCheckFailedException" or "QueueDoesNotExist".
	Code string
	// Message says what was expected, what came, and what to do.
	Message string
	// Status is the HTTP status; zero means 400.
	Status int
	// QueryCode is the code that SQS's query protocol uses where it differs from Code,
	// such as "AWS.SimpleQueueService.NonExistentQueue"; empty means Code.
	QueryCode string
	// Members are the further members of the error's JSON form, such as "Item" of
	// ConditionalCheckFailedException. Values must marshal with encoding/json.
	Members map[string]any
}

// Error implements the error interface.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Errorf returns an Error with status 400 and a formatted message.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
