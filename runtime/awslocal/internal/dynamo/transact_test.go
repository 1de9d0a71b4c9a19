package dynamo_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/awslocal/internal/dynamo"
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

// wantReasons fails the test unless err is a canceled transaction with these codes, and
// returns the reasons.
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

func TestDynamoDB_transact_ok(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	createTable(t, client, "other", "id", "k:N")
	put(t, client, item{"id": str("updated"), "n": num(1)})
	put(t, client, item{"id": str("deleted")})
	put(t, client, item{"id": str("checked"), "n": num(1)})
	err := transact(
		t, client,
		types.TransactWriteItem{Put: &types.Put{TableName: aws.String("other"), Item: item{"id": str("put"), "k": num(1)}}},
		types.TransactWriteItem{Update: &types.Update{
			TableName: aws.String("table"), Key: item{"id": str("updated")},
			UpdateExpression: aws.String("SET n = n + :n"), ExpressionAttributeValues: item{":n": num(1)},
		}},
		types.TransactWriteItem{Delete: &types.Delete{TableName: aws.String("table"), Key: item{"id": str("deleted")}}},
		types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: aws.String("table"), Key: item{"id": str("checked")},
			ConditionExpression: aws.String("n = :n"), ExpressionAttributeValues: item{":n": num(1)},
		}},
	)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "updated", item{"id": str("updated"), "n": num(2)}, get(t, client, item{"id": str("updated")}))
	want(t, "deleted", item(nil), get(t, client, item{"id": str("deleted")}))
	want(t, "checked", item{"id": str("checked"), "n": num(1)}, get(t, client, item{"id": str("checked")}))
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("other"), Key: item{"id": str("put"), "k": num(1)}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "put", item{"id": str("put"), "k": num(1)}, out.Item)
}

func TestDynamoDB_transact_cancel_reasons(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	stored := item{"id": str("b"), "n": num(1)}
	put(t, client, stored)
	err := transact(
		t, client,
		transactPut(item{"id": str("a")}, ""),
		transactPut(item{"id": str("b")}, "attribute_not_exists(id)"),
		transactPut(item{"id": str("c")}, ""),
	)
	reasons := wantReasons(t, err, "None", "ConditionalCheckFailed", "None")
	want(t, "item", stored, reasons[1].Item)
	want(t, "message", "The conditional request failed", aws.ToString(reasons[1].Message))
	want(t, "items", map[string]int{"b": 1}, scan(t, client, dynamodb.ScanInput{}))
}

func TestDynamoDB_transact_two_failures(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	err := transact(
		t, client,
		transactPut(item{"id": str("a")}, "attribute_exists(id)"),
		transactPut(item{"id": str("b")}, ""),
		transactPut(item{"id": str("c")}, "attribute_exists(id)"),
	)
	wantReasons(t, err, "ConditionalCheckFailed", "None", "ConditionalCheckFailed")
	want(t, "items", 0, len(scan(t, client, dynamodb.ScanInput{})))
}

func TestDynamoDB_transact_validation(t *testing.T) {
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

func TestDynamoDB_transact_idempotency(t *testing.T) {
	t.Parallel()
	client, clock := newService(t)
	createTable(t, client, "table", "id")
	add := func(n int) error {
		_, err := client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
			ClientRequestToken: aws.String("token"),
			TransactItems: []types.TransactWriteItem{{Update: &types.Update{
				TableName: aws.String("table"), Key: item{"id": str("a")},
				UpdateExpression: aws.String("ADD n :n"), ExpressionAttributeValues: item{":n": num(n)},
			}}},
		})
		return err
	}
	for range 3 {
		if err := add(1); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "after repeats", item{"id": str("a"), "n": num(1)}, get(t, client, item{"id": str("a")}))
	var mismatch *types.IdempotentParameterMismatchException
	if err := add(2); !errors.As(err, &mismatch) {
		t.Errorf("other request: want IdempotentParameterMismatchException, got %v", err)
	}
	clock.advance(dynamo.TokenWindow)
	if err := add(1); err != nil {
		t.Fatal(err)
	}
	want(t, "after the window", item{"id": str("a"), "n": num(2)}, get(t, client, item{"id": str("a")}))
}

func TestDynamoDB_transact_get(t *testing.T) {
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
