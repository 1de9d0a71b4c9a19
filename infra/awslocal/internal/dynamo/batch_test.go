package dynamo_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func batchWrite(t *testing.T, client *dynamodb.Client, requests ...types.WriteRequest) error {
	t.Helper()
	out, err := client.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"table": requests}})
	if err == nil {
		want(t, "unprocessed", 0, len(out.UnprocessedItems))
	}
	return err
}

func putRequest(id string, n int) types.WriteRequest {
	return types.WriteRequest{PutRequest: &types.PutRequest{Item: item{"id": str(id), "n": num(n)}}}
}

func deleteRequest(id string) types.WriteRequest {
	return types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: item{"id": str(id)}}}
}

func TestBatch_messages(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	var puts []types.WriteRequest
	for i := range 26 {
		puts = append(puts, putRequest(fmt.Sprint(i), i))
	}
	if err := batchWrite(t, client, puts[:25]...); err != nil {
		t.Fatal(err)
	}
	want(t, "items", 25, len(scan(t, client, dynamodb.ScanInput{})))
	if err := batchWrite(t, client, putRequest("new", 1), deleteRequest("3")); err != nil {
		t.Fatal(err)
	}
	wantError(t, batchWrite(t, client, puts...), "ValidationException", "less than or equal to 25")
	wantError(t, batchWrite(t, client, putRequest("twice", 1), deleteRequest("twice")), "ValidationException", "Provided list of item keys contains duplicates")
	wantError(t, batchWrite(t, client, putRequest("good", 1), putRequest("", 1)), "ValidationException", "empty string value")
	want(t, "nothing written from a rejected batch", item(nil), get(t, client, item{"id": str("good")}))

	keys := []item{{"id": str("1")}, {"id": str("3")}, {"id": str("new")}}
	out, err := client.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
		"table": {Keys: keys, ProjectionExpression: aws.String("n")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "found", []item{{"n": num(1)}, {"n": num(1)}}, out.Responses["table"])
	want(t, "unprocessed", 0, len(out.UnprocessedKeys))
	_, err = client.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
		"table": {Keys: append(keys, keys[0])},
	}})
	wantError(t, err, "ValidationException", "Provided list of item keys contains duplicates")
	var many []item
	for i := range 101 {
		many = append(many, item{"id": str(fmt.Sprint(i))})
	}
	_, err = client.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"table": {Keys: many}}})
	wantError(t, err, "ValidationException", "Too many items requested for the BatchGetItem call")
}

func TestBatchGet_leaves_items_beyond_16_MB_unprocessed(t *testing.T) {
	t.Parallel()
	client, service := newService(t)
	createTable(t, client, "table", "id")
	const items = 42 // 41 of them are less than 16 MB
	text := strings.Repeat("x", 399<<10)
	var keys []item
	for i := range items {
		call(t, service.model, "PutItem", fmt.Sprintf(`{"TableName": "table", "Item": {"id": {"S": "%d"}, "text": {"S": "%s"}}}`, i, text))
		keys = append(keys, item{"id": str(fmt.Sprint(i))})
	}
	request := map[string]types.KeysAndAttributes{"table": {Keys: keys, ProjectionExpression: aws.String("id")}}
	var found []int
	for len(request) > 0 {
		out, err := client.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: request})
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, len(out.Responses["table"]))
		request = out.UnprocessedKeys
	}
	want(t, "found", []int{41, 1}, found)
}
