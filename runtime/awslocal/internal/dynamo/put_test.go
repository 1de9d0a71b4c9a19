package dynamo_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// ignoreUnexported lets cmp compare the SDK's types.
var ignoreUnexported = cmpopts.IgnoreUnexported(
	types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberB{},
	types.AttributeValueMemberBOOL{}, types.AttributeValueMemberNULL{}, types.AttributeValueMemberM{},
	types.AttributeValueMemberL{}, types.AttributeValueMemberSS{}, types.AttributeValueMemberNS{},
	types.AttributeValueMemberBS{}, types.ConsumedCapacity{}, types.Capacity{}, types.KeysAndAttributes{},
	types.ItemResponse{}, types.CancellationReason{},
)

// want fails the test unless got equals want.
func want(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, ignoreUnexported, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: -want +got\n%s", what, diff)
	}
}

func TestDynamoDB_put_if_absent(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	once := func(value string) error {
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: aws.String("table"), Item: item{"id": str("a"), "v": str(value)},
			ConditionExpression: aws.String("attribute_not_exists(id)"),
		})
		return err
	}
	if err := once("first"); err != nil {
		t.Fatal(err)
	}
	wantError(t, once("second"), "ConditionalCheckFailedException", "The conditional request failed")
	want(t, "item", item{"id": str("a"), "v": str("first")}, get(t, client, item{"id": str("a")}))
}

func TestDynamoDB_put_version_check(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	put(t, client, item{"id": str("a"), "version": num(1)})
	bump := func(from, to int) error {
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{
			TableName: aws.String("table"), Item: item{"id": str("a"), "version": num(to)},
			ConditionExpression:       aws.String("#v = :v"),
			ExpressionAttributeNames:  map[string]string{"#v": "version"},
			ExpressionAttributeValues: item{":v": num(from)},
		})
		return err
	}
	if err := bump(1, 2); err != nil {
		t.Fatal(err)
	}
	var failed *types.ConditionalCheckFailedException
	if err := bump(1, 3); !errors.As(err, &failed) {
		t.Errorf("stale version: want ConditionalCheckFailedException, got %v", err)
	}
	want(t, "item", item{"id": str("a"), "version": num(2)}, get(t, client, item{"id": str("a")}))
}

func TestDynamoDB_ccf_return_all_old(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	stored := item{"id": str("a"), "v": num(7)}
	put(t, client, stored)
	const all = types.ReturnValuesOnConditionCheckFailureAllOld
	table, condition := aws.String("table"), aws.String("attribute_not_exists(id)")
	_, putErr := client.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: table, Item: item{"id": str("a")}, ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: all,
	})
	_, updateErr := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: table, Key: item{"id": str("a")}, ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: all,
		UpdateExpression: aws.String("REMOVE v"),
	})
	_, deleteErr := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: table, Key: item{"id": str("a")}, ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: all,
	})
	for operation, err := range map[string]error{"put": putErr, "update": updateErr, "delete": deleteErr} {
		var failed *types.ConditionalCheckFailedException
		if !errors.As(err, &failed) {
			t.Errorf("%s: want ConditionalCheckFailedException, got %v", operation, err)
			continue
		}
		want(t, operation, stored, failed.Item)
	}
	_, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: table, Key: item{"id": str("a")}, ConditionExpression: condition})
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) || failed.Item != nil {
		t.Errorf("not asked for: want ConditionalCheckFailedException without item, got %v with %v", err, failed.Item)
	}
	want(t, "item", stored, get(t, client, item{"id": str("a")}))
}

func TestPutAndDelete_return_the_old_item(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	first, second := item{"id": str("a"), "v": num(1)}, item{"id": str("a"), "v": num(2)}
	put(t, client, first)
	replaced, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("table"), Item: second, ReturnValues: types.ReturnValueAllOld})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "replaced", first, replaced.Attributes)
	deleted, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("table"), Key: item{"id": str("a")}, ReturnValues: types.ReturnValueAllOld})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "deleted", second, deleted.Attributes)
	again, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("table"), Key: item{"id": str("a")}, ReturnValues: types.ReturnValueAllOld})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "deleted again", item(nil), again.Attributes)
	_, err = client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("table"), Item: second, ReturnValues: types.ReturnValueAllNew})
	wantError(t, err, "ValidationException", "ReturnValues can only be ALL_OLD or NONE")
	want(t, "after the refusal", item(nil), get(t, client, item{"id": str("a")}))
}
