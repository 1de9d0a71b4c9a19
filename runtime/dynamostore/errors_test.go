package dynamostore

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/runtime/durable"
)

func TestDynamoDBsOwnSizeLimitIsTooLarge(t *testing.T) {
	t.Parallel()
	validation := func(message string) error {
		return &smithy.OperationError{Err: &smithy.GenericAPIError{Code: "ValidationException", Message: message}}
	}
	var tooLarge *durable.TooLargeError
	for _, message := range []string{"Item size has exceeded the maximum allowed size", "Item size to update has exceeded the maximum allowed size"} {
		if err := classify(validation(message)); !errors.As(err, &tooLarge) || tooLarge.Bytes <= tooLarge.BytesMax {
			t.Errorf("%s: got %v, want a *durable.TooLargeError beyond its limit", message, err)
		}
	}
	if err := classifyAlias(validation("One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes")); !errors.Is(err, durable.ErrRefused) {
		t.Errorf("got %v, want durable.ErrRefused", err)
	}
	denied := &smithy.OperationError{Err: &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "no"}}
	for _, err := range []error{classify(denied), classifyAlias(denied), classifyAlias(&types.ResourceNotFoundException{})} {
		if !errors.Is(err, durable.ErrDenied) || errors.Is(err, durable.ErrRefused) {
			t.Errorf("got %v, want durable.ErrDenied", err)
		}
	}
	other := validation("One or more parameter values were invalid")
	if err := classify(other); err != other { //nolint:errorlint // must return the identical error
		t.Errorf("got %v, want it unchanged", err)
	}
}
