package dynamo_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// transact runs a transaction of writes.
func transact(t *testing.T, client *dynamodb.Client, writes ...types.TransactWriteItem) error {
	t.Helper()
	_, err := client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: writes})
	return err
}

func transactPut(i item, condition string) types.TransactWriteItem {
	write := &types.Put{TableName: aws.String("table"), Item: i, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}
	if condition != "" {
		write.ConditionExpression = &condition
	}
	return types.TransactWriteItem{Put: write}
}

// wantReasons fails the test unless err reports a canceled transaction and its reasons have these codes. It returns the
// reasons.
func wantReasons(t *testing.T, err error, codes ...string) []types.CancellationReason {
	t.Helper()
	var canceled *types.TransactionCanceledException
	if !errors.As(err, &canceled) {
		t.Fatalf("want TransactionCanceledException %v, got %v", codes, err)
	}
	var got []string
	for _, reason := range canceled.CancellationReasons {
		got = append(got, aws.ToString(reason.Code))
	}
	want(t, "codes", codes, got)
	want(t, "message", "Transaction cancelled, please refer cancellation reasons for specific reasons ["+strings.Join(codes, ", ")+"]", canceled.ErrorMessage())
	return canceled.CancellationReasons
}

func TestTransactWrite_messages(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	err := transact(t, client, transactPut(item{"id": str("a")}, ""), transactPut(item{"id": str("a"), "n": num(1)}, ""))
	wantError(t, err, "ValidationException", "Transaction request cannot include multiple operations on one item")
	var many []types.TransactWriteItem
	for i := range 101 {
		many = append(many, transactPut(item{"id": str(fmt.Sprint(i))}, ""))
	}
	wantError(t, transact(t, client, many...), "ValidationException", "Member must have length less than or equal to 100")
	both := transactPut(item{"id": str("a")}, "")
	both.Delete = &types.Delete{TableName: aws.String("table"), Key: item{"id": str("a")}}
	wantError(t, transact(t, client, both), "ValidationException", "TransactItems can only contain one of Check, Put, Update or Delete")
	err = transact(t, client, transactPut(item{"id": str("a")}, ""), transactPut(item{"id": num(1)}, ""))
	reasons := wantReasons(t, err, "None", "ValidationError")
	want(t, "reason", "One or more parameter values were invalid: Type mismatch for key id expected: S actual: N", *reasons[1].Message)
	want(t, "items", 0, len(scan(t, client, dynamodb.ScanInput{})))
	if err := transact(t, client, many[:100]...); err != nil {
		t.Errorf("100 items: %v", err)
	}
}

func TestTransactGet_reasons(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	put(t, client, item{"id": str("a"), "n": num(1), "m": num(2)})
	read := func(id types.AttributeValue, projection *string) types.TransactGetItem {
		return types.TransactGetItem{Get: &types.Get{TableName: aws.String("table"), Key: item{"id": id}, ProjectionExpression: projection}}
	}
	out, err := client.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{
		TransactItems: []types.TransactGetItem{read(str("nothing"), nil), read(str("a"), aws.String("n"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "responses", []types.ItemResponse{{}, {Item: item{"n": num(1)}}}, out.Responses)
	_, err = client.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{
		TransactItems: []types.TransactGetItem{read(str("a"), nil), read(num(1), nil)},
	})
	wantReasons(t, err, "None", "ValidationError")
}
