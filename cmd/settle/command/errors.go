package command

import (
	"errors"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/cmd/settle/internal/simulation"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

// The exit codes. The package documentation explains them.
const (
	ExitDone     = 0
	ExitFailed   = 1
	ExitUsage    = 2
	ExitNotFound = 3
	ExitRefused  = 4
	ExitTimeUp   = 5
	ExitIDReused = 6
	// ExitInterrupted is the exit code that shells report for SIGINT.
	ExitInterrupted = 130
	// ExitUnread is the exit code that shells report for SIGPIPE.
	ExitUnread = 141
)

// exitCodes maps errors to exit codes. The first match counts.
var exitCodes = []struct {
	err  error
	code int
}{
	{errInterrupted, ExitInterrupted},
	{errUnread, ExitUnread},
	{errUsage, ExitUsage},
	{instances.ErrID, ExitUsage},
	{dynamostore.ErrCursor, ExitUsage},
	{simulation.ErrName, ExitUsage},
	{errNotFound, ExitNotFound},
	{durable.ErrUnknownMachine, ExitNotFound},
	{errTimeUp, ExitTimeUp},
	{dynamostore.ErrIDReused, ExitIDReused},
	{errRefused, ExitRefused},
	{instances.ErrEnded, ExitRefused},
	{instances.ErrInUse, ExitRefused},
	{simulation.ErrRefused, ExitRefused},
	{durable.ErrReserved, ExitRefused},
	{producer.ErrTooLarge, ExitRefused},
	{statechart.ErrNotAnEvent, ExitRefused},
	{statechart.ErrUndeclared, ExitRefused},
	{statechart.ErrPayload, ExitRefused},
}

// refusal is the error of a machine that rejects the new context of a move. It counts as errRefused.
type refusal struct{ error }

func (r refusal) Unwrap() error        { return r.error }
func (r refusal) Is(target error) bool { return target == errRefused }

func exitCode(err error) int {
	for _, known := range exitCodes {
		if errors.Is(err, known.err) {
			return known.code
		}
	}
	return ExitFailed
}

// unknown is the SDK's placeholder for a code or a message that is missing in the response.
const unknown = "UnknownError"

// brief returns the text of an error. An AWS call that failed with a 4xx status is shortened to the service's code and
// message. A 5xx failure stays complete, because AWS support asks for its request ID. The error of a call without a
// response also stays complete, because its text contains the address.
func brief(err error) string {
	text := err.Error()
	for _, call := range calls(err) {
		var refusal smithy.APIError
		var response *awshttp.ResponseError
		if !errors.As(call, &refusal) || errors.As(call, &response) && response.HTTPStatusCode() >= http.StatusInternalServerError {
			continue
		}
		code, message := refusal.ErrorCode(), strings.TrimSpace(refusal.ErrorMessage())
		switch {
		case code == "" || code == unknown:
			continue // The response is not from AWS, and the error has only its status and the operation. Keep the whole text.
		case message == "" || message == unknown:
			text = strings.ReplaceAll(text, call.Error(), code)
		default:
			text = strings.ReplaceAll(text, call.Error(), code+": "+message)
		}
	}
	return text
}

// calls returns the failed SDK calls in an error. If a call failed because an inner call failed, for example the call
// for credentials, calls returns only the inner call.
func calls(err error) []*smithy.OperationError {
	var found []*smithy.OperationError
	switch wrapping := err.(type) { //nolint:errorlint // The function looks at each error of the tree.
	case interface{ Unwrap() error }:
		if inner := wrapping.Unwrap(); inner != nil {
			found = calls(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wrapping.Unwrap() {
			found = append(found, calls(inner)...)
		}
	}
	if call, ok := err.(*smithy.OperationError); ok && len(found) == 0 { //nolint:errorlint // As above.
		found = append(found, call)
	}
	return found
}
