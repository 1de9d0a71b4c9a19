package dynamo_test

import (
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

// want compares the value `got` with the expected value, and fails the test if they differ.
func want(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, ignoreUnexported, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: -want +got\n%s", what, diff)
	}
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
	want(t, "after the rejected put", item(nil), get(t, client, item{"id": str("a")}))
}
