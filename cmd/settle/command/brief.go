package command

import (
	"errors"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// unknown stands in the SDK's errors for a code or a message that the answer does not have.
const unknown = "UnknownError"

// brief returns the text of an error in which a call that AWS has refused stands as the service's code and message alone. A call
// that has failed on AWS's side keeps all that the SDK tells, as its request ID is what AWS's support asks for; so does one that had
// no answer, whose address is in there.
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
			continue // It is not AWS that has answered: the status and the operation are all there is.
		case message == "" || message == unknown:
			text = strings.ReplaceAll(text, call.Error(), code)
		default:
			text = strings.ReplaceAll(text, call.Error(), code+": "+message)
		}
	}
	return text
}

// calls returns the failed calls of the SDK in an error; of those that were made for another one, such as for its credentials,
// the inner ones.
func calls(err error) []*smithy.OperationError {
	var found []*smithy.OperationError
	switch wrapping := err.(type) { //nolint:errorlint // Each error of the tree is looked at.
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
