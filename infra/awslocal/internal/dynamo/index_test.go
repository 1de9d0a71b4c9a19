package dynamo_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// queryByN returns a Query of the index by-n for its partition "g".
func queryByN() *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		TableName: aws.String("table"), IndexName: aws.String("by-n"),
		KeyConditionExpression: aws.String("g = :g"), ExpressionAttributeValues: item{":g": str("g")},
	}
}

func newIndexed(t *testing.T) *dynamodb.Client {
	t.Helper()
	client, _ := newService(t)
	createIndexed(t, client)
	return client
}

func TestIndex_is_sparse_and_rejects_unsupported_reads(t *testing.T) {
	t.Parallel()
	client := newIndexed(t)
	put(t, client, item{"id": str("a"), "g": str("g"), "n": num(1), "more": str("text")})
	put(t, client, item{"id": str("b"), "g": str("g")})
	entries := func() []item {
		out, err := client.Query(t.Context(), queryByN())
		if err != nil {
			t.Fatal(err)
		}
		return out.Items
	}
	want(t, "keys only, complete keys only", []item{{"id": str("a"), "g": str("g"), "n": num(1)}}, entries())
	if _, err := update(t, client, "SET n = :n", item{":n": num(2)}, ""); err != nil {
		t.Fatal(err)
	}
	want(t, "after an update", []item{{"id": str("a"), "g": str("g"), "n": num(2)}}, entries())
	if _, err := update(t, client, "REMOVE n", nil, ""); err != nil {
		t.Fatal(err)
	}
	want(t, "after REMOVE of its key", []item(nil), entries())

	consistent := queryByN()
	consistent.ConsistentRead = aws.Bool(true)
	_, err := client.Query(t.Context(), consistent)
	wantError(t, err, "ValidationException", "Consistent reads are not supported on global secondary indexes")
	whole := queryByN()
	whole.Select = types.SelectAllAttributes
	_, err = client.Query(t.Context(), whole)
	wantError(t, err, "ValidationException", "Select type ALL_ATTRIBUTES is not supported for global secondary index by-n")
	missing := queryByN()
	missing.IndexName = aws.String("by-x")
	_, err = client.Query(t.Context(), missing)
	wantError(t, err, "ValidationException", "The table does not have the specified index: by-x")
}

func TestIndex_rejects_keys_of_other_types(t *testing.T) {
	t.Parallel()
	client := newIndexed(t)
	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("table"), Item: item{"id": str("a"), "n": str("1")}})
	wantError(t, err, "ValidationException", "Type mismatch for Index Key n Expected: N Actual: S IndexName: by-n")
	_, err = client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("table"), Item: item{"id": str("a"), "s": str("")}})
	wantError(t, err, "ValidationException", "IndexName: by-s, IndexKey: s")
	_, err = update(t, client, "SET n = :n", item{":n": str("1")}, "")
	wantError(t, err, "ValidationException", "secondary index key to a value that is not supported")
}

func TestIndex_scan_returns_the_indexed_items(t *testing.T) {
	t.Parallel()
	client := newIndexed(t)
	for i := range 5 {
		put(t, client, item{"id": str(fmt.Sprint(i)), "s": str("s"), "more": num(i)})
	}
	put(t, client, item{"id": str("not in it")})
	if _, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("table"), Key: item{"id": str("3")}}); err != nil {
		t.Fatal(err)
	}
	var found []item
	input := &dynamodb.ScanInput{TableName: aws.String("table"), IndexName: aws.String("by-s"), Limit: aws.Int32(2)}
	for pages := dynamodb.NewScanPaginator(client, input); pages.HasMorePages(); {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, page.Items...)
	}
	want(t, "entries", 4, len(found))
	want(t, "attributes", 3, len(found[0]))
}
