package dynamostore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/runtime/durable"
)

// ErrNoTable is returned by every method of Store if the table does not exist.
var ErrNoTable = fmt.Errorf("no such table: check its name, the Region and the account (%w)", durable.ErrDenied)

// classify converts an error of DynamoDB to the error that durable.Store promises. It returns every other error
// unchanged.
func classify(err error) error {
	var condition *types.ConditionalCheckFailedException
	var missing *types.ResourceNotFoundException
	var api smithy.APIError
	switch {
	case errors.As(err, &condition):
		return durable.ErrConflict
	case errors.As(err, &missing):
		return fmt.Errorf("%w: %w", ErrNoTable, err)
	case errors.As(err, &api) && api.ErrorCode() == "ValidationException" &&
		strings.Contains(api.ErrorMessage(), "exceeded the maximum allowed size"):
		// The item was small enough by the estimate of itemBytes, but DynamoDB refuses it. DynamoDB does not report its
		// size, so report one byte over the limit.
		return &durable.TooLargeError{Bytes: ItemBytesMax + 1, BytesMax: ItemBytesMax}
	case errors.As(err, &api) && api.ErrorCode() == "AccessDeniedException":
		return fmt.Errorf("%w: %w", durable.ErrDenied, err)
	default:
		return err
	}
}

// classifyAlias is classify for writes of aliases. The calls differ only in the alias, so a ValidationException means
// that the alias is invalid.
func classifyAlias(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "ValidationException" {
		return fmt.Errorf("%w: %w", durable.ErrRefused, err)
	}
	return classify(err)
}
