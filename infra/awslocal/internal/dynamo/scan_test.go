package dynamo_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// scan runs a Scan of the table called "table" to its end and returns how often it found
// each id.
func scan(t *testing.T, client *dynamodb.Client, input dynamodb.ScanInput) map[string]int {
	t.Helper()
	input.TableName = aws.String("table")
	seen := map[string]int{}
	for pages := dynamodb.NewScanPaginator(client, &input); pages.HasMorePages(); {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			seen[names([]item{i}, "id")]++
		}
	}
	return seen
}

func TestScan_finds_every_item_once(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	expected := map[string]int{}
	for i := range 100 {
		id := fmt.Sprint("item-", i)
		put(t, client, item{"id": str(id), "n": num(i)})
		expected[id] = 1
	}
	want(t, "in one page", expected, scan(t, client, dynamodb.ScanInput{}))
	want(t, "in pages", expected, scan(t, client, dynamodb.ScanInput{Limit: aws.Int32(7)}))
	segments := map[string]int{}
	const total = 3
	for segment := range int32(total) {
		found := scan(t, client, dynamodb.ScanInput{Segment: &segment, TotalSegments: aws.Int32(total), Limit: aws.Int32(10)})
		if len(found) < 10 {
			t.Errorf("segment %d: want about a third of the items, got %d", segment, len(found))
		}
		for id, times := range found {
			segments[id] += times
		}
	}
	want(t, "in segments", expected, segments)
	want(t, "filtered", 10, len(scan(t, client, dynamodb.ScanInput{
		Limit: aws.Int32(3), FilterExpression: aws.String("n < :ten"), ExpressionAttributeValues: item{":ten": num(10)},
	})))
}

func TestScan_continues_after_a_deleted_item(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	for i := range 10 {
		put(t, client, item{"id": str(fmt.Sprint(i))})
	}
	first, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("table"), Limit: aws.Int32(4)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("table"), Key: first.LastEvaluatedKey}); err != nil {
		t.Fatal(err)
	}
	want(t, "the rest", 6, len(scan(t, client, dynamodb.ScanInput{ExclusiveStartKey: first.LastEvaluatedKey})))
}

func TestScan_rejects_bad_segments(t *testing.T) {
	t.Parallel()
	client := newTable(t, "id")
	for message, input := range map[string]dynamodb.ScanInput{
		"The TotalSegments parameter is required": {Segment: aws.Int32(0)},
		"The Segment parameter is required":       {TotalSegments: aws.Int32(2)},
		"is not less than TotalSegments: 2":       {Segment: aws.Int32(2), TotalSegments: aws.Int32(2)},
		"greater than or equal to 1":              {Limit: aws.Int32(0)},
		"starting key is invalid":                 {ExclusiveStartKey: item{"other": str("a")}},
	} {
		input.TableName = aws.String("table")
		_, err := client.Scan(t.Context(), &input)
		wantError(t, err, "ValidationException", message)
	}
}
