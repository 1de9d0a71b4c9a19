// Package wire defines the error type that awslocal's service models and HTTP layer share.
package wire

import "fmt"

// Error is an AWS API error, independent of the protocol. The HTTP layer writes it as AWS JSON 1.0 ({"__type":
// "<Namespace>#<Code>", "message": ...}) or as the XML of the query protocol.
type Error struct {
	// Code is the error's shape name without its namespace, such as "ConditionalCheckFailedException" or
	// "QueueDoesNotExist".
	Code string
	// Message describes the expected and the actual value, and the remedy.
	Message string
	// Status is the HTTP status. Zero means 400.
	Status int
	// QueryCode is the code in SQS's query protocol if it differs from Code, such as
	// "AWS.SimpleQueueService.NonExistentQueue". Empty means Code.
	QueryCode string
	// Members holds additional members of the error's JSON form, such as "Item" of ConditionalCheckFailedException.
	// Values must marshal with encoding/json.
	Members map[string]any
}

// Error implements the error interface.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Errorf returns an Error with status 400 and a formatted message.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
