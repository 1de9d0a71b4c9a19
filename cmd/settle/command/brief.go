package command

import (
	"errors"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// unknown is the SDK's placeholder for a code or a message that is missing in the response.
const unknown = "UnknownError"

// brief returns the text of an error. An AWS call that failed with a 4xx status is shortened to the service's code and
// message. A 5xx failure stays complete, because AWS support asks for its request ID. So does a call without a
// response, because its text contains the address.
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
			continue // The response is not from AWS. The status and the operation are all there is.
		case message == "" || message == unknown:
			text = strings.ReplaceAll(text, call.Error(), code)
		default:
			text = strings.ReplaceAll(text, call.Error(), code+": "+message)
		}
	}
	return text
}

// calls returns the failed SDK calls in an error. If one call failed because of another one, for example while fetching
// credentials, only the inner one is returned.
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
