package dynamo_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo"
)

const createIndexedTable = `{"TableName": "table", "BillingMode": "PAY_PER_REQUEST",
	"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "n", "AttributeType": "N"}],
	"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
	"GlobalSecondaryIndexes": [{"IndexName": "by-n", "KeySchema": [{"AttributeName": "n", "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}]}`

// call performs an operation at a fixed time.
func call(tb testing.TB, m *dynamo.Model, operation, body string) string {
	tb.Helper()
	answer, failed := m.Call(time.Unix(1_800_000_000, 0), operation, []byte(body))
	if failed != nil {
		tb.Fatalf("%s %s: %v", operation, body, failed)
	}
	return string(answer)
}

// TestModel_returns_reproducible_answers checks that the same calls return the same answers, byte for byte.
func TestModel_returns_reproducible_answers(t *testing.T) {
	t.Parallel()
	run := func() []string {
		m := dynamo.New()
		answers := []string{call(t, m, "CreateTable", createIndexedTable)}
		for i := range 50 {
			answers = append(answers, call(t, m, "PutItem", fmt.Sprintf(
				`{"TableName": "table", "Item": {"id": {"S": "%d"}, "n": {"N": "%d"}, "m": {"M": {"c": {"S": "x"}, "a": {"NS": ["3", "1"]}, "b": {"NULL": true}}}}, "ReturnConsumedCapacity": "INDEXES"}`, i, i%7)))
		}
		return append(answers,
			call(t, m, "Scan", `{"TableName": "table", "Limit": 20}`),
			call(t, m, "Scan", `{"TableName": "table", "IndexName": "by-n", "ReturnConsumedCapacity": "INDEXES"}`),
			call(t, m, "BatchGetItem", `{"RequestItems": {"table": {"Keys": [{"id": {"S": "3"}}, {"id": {"S": "1"}}]}}, "ReturnConsumedCapacity": "TOTAL"}`),
			call(t, m, "DescribeTable", `{"TableName": "table"}`),
		)
	}
	first := run()
	for range 5 {
		if again := run(); !slices.Equal(first, again) {
			t.Fatalf("want %q\ngot  %q", first, again)
		}
	}
}

// BenchmarkCall measures single calls on tables of two sizes. The cost must not depend on the size.
func BenchmarkCall(b *testing.B) {
	for _, items := range []int{1_000, 100_000} {
		m := dynamo.New()
		call(b, m, "CreateTable", createIndexedTable)
		for i := range items {
			call(b, m, "PutItem", fmt.Sprintf(`{"TableName": "table", "Item": {"id": {"S": "item/%d"}, "n": {"N": "%d"}, "state": {"S": "verifying"}}}`, i, i%1000))
		}
		for _, test := range []struct {
			operation, body string
			// values is the number of different values for the body's placeholder.
			values int
		}{
			{"GetItem", `{"TableName": "table", "Key": {"id": {"S": "item/%d"}}}`, items},
			{"Scan", `{"TableName": "table", "Limit": 1, "ExclusiveStartKey": {"id": {"S": "item/%d"}}}`, items},
			{"Query", `{"TableName": "table", "IndexName": "by-n", "Limit": 1, "KeyConditionExpression": "n = :n", "ExpressionAttributeValues": {":n": {"N": "%d"}}}`, 1000},
			{"UpdateItem", `{"TableName": "table", "Key": {"id": {"S": "item/%d"}}, "UpdateExpression": "ADD revision :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}`, items},
			{"PutItem", `{"TableName": "table", "Item": {"id": {"S": "item/%d"}, "n": {"N": "2000"}, "state": {"S": "verifying"}}, "ConditionExpression": "attribute_exists(id)"}`, items},
		} {
			b.Run(fmt.Sprintf("%s/%d", test.operation, items), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					call(b, m, test.operation, fmt.Sprintf(test.body, i*7919%test.values))
				}
			})
		}
	}
}
