package dynamostore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
)

// cancelingClient cancels each transaction, with one code for each of its items.
type cancelingClient struct {
	dynamostore.Client
	codes []string
}

func (c *cancelingClient) TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	canceled := &types.TransactionCanceledException{}
	for _, code := range c.codes {
		canceled.CancellationReasons = append(canceled.CancellationReasons, types.CancellationReason{Code: aws.String(code)})
	}
	return nil, canceled
}

// The codes are those of the DynamoDB API Reference, TransactWriteItems.
func TestAClaimIsRefusedOnlyForItsOwnFault(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		codes []string
		want  error // nil: none of these
	}{
		{[]string{"None", "ValidationError"}, durable.ErrRefused},
		{[]string{"None", "TransactionConflict"}, nil},
		{[]string{"TransactionConflict", "None"}, nil},
		{[]string{"None", "ThrottlingError"}, nil},
		{[]string{"None", "ProvisionedThroughputExceeded"}, nil},
		{[]string{"ConditionalCheckFailed", "ConditionalCheckFailed"}, durable.ErrConflict},
		{[]string{"ConditionalCheckFailed", "ValidationError"}, durable.ErrConflict},
	} {
		err := dynamostore.New(&cancelingClient{codes: test.codes}, "settle").Claim(t.Context(), "x", durable.InstanceID{Machine: "m", ID: "1"}, time.Unix(0, 0), 1)
		for _, known := range []error{durable.ErrRefused, durable.ErrConflict, durable.ErrAliasTaken, durable.ErrDenied} {
			if err == nil || errors.Is(err, known) != errors.Is(test.want, known) {
				t.Errorf("%v: got %v, want %v", test.codes, err, test.want)
			}
		}
	}
}
