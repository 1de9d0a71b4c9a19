package dynamo_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo"
)

// FuzzCall checks that no request makes the model panic, and that every answer is JSON.
func FuzzCall(f *testing.F) {
	for _, seed := range [][2]string{
		{"CreateTable", createIndexedTable},
		{"PutItem", `{"TableName": "table", "Item": {"id": {"S": "a"}, "n": {"N": "1"}, "l": {"L": [{"BS": ["AA=="]}]}}, "ConditionExpression": "attribute_not_exists(#n)", "ExpressionAttributeNames": {"#n": "n"}}`},
		{"UpdateItem", `{"TableName": "table", "Key": {"id": {"S": "a"}}, "UpdateExpression": "ADD n :n SET l[0] = :n", "ExpressionAttributeValues": {":n": {"N": "1"}}, "ReturnValues": "UPDATED_NEW"}`},
		{"GetItem", `{"TableName": "table", "Key": {"id": {"S": "a"}}, "ProjectionExpression": "l[0], n"}`},
		{"DeleteItem", `{"TableName": "table", "Key": {"id": {"S": "a"}}, "ReturnValues": "ALL_OLD"}`},
		{"Query", `{"TableName": "table", "IndexName": "by-n", "KeyConditionExpression": "n = :n", "ExpressionAttributeValues": {":n": {"N": "1"}}, "ExclusiveStartKey": {"id": {"S": "a"}, "n": {"N": "1"}}}`},
		{"Scan", `{"TableName": "table", "Segment": 1, "TotalSegments": 3, "FilterExpression": "size(l) > :n", "ExpressionAttributeValues": {":n": {"N": "1"}}}`},
		{"BatchGetItem", `{"RequestItems": {"table": {"Keys": [{"id": {"S": "a"}}]}}}`},
		{"BatchWriteItem", `{"RequestItems": {"table": [{"PutRequest": {"Item": {"id": {"S": "b"}}}}, {"DeleteRequest": {"Key": {"id": {"S": "a"}}}}]}}`},
		{"TransactWriteItems", `{"ClientRequestToken": "t", "TransactItems": [{"ConditionCheck": {"TableName": "table", "Key": {"id": {"S": "a"}}, "ConditionExpression": "attribute_exists(id)"}}, {"Put": {"TableName": "table", "Item": {"id": {"S": "c"}}}}]}`},
		{"TransactGetItems", `{"TransactItems": [{"Get": {"TableName": "table", "Key": {"id": {"S": "a"}}}}]}`},
		{"UpdateTimeToLive", `{"TableName": "table", "TimeToLiveSpecification": {"AttributeName": "n", "Enabled": true}}`},
		{"ListTables", `{"Limit": 1}`},
		{"ListTagsOfResource", `{"ResourceArn": "arn:aws:dynamodb:us-east-1:000000000000:table/table"}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, operation, body string) {
		m := dynamo.New()
		now := time.Unix(1_800_000_000, 0)
		call(t, m, "CreateTable", createIndexedTable)
		call(t, m, "PutItem", `{"TableName": "table", "Item": {"id": {"S": "a"}, "n": {"N": "1"}, "l": {"L": [{"N": "1"}]}}}`)
		for range 2 {
			answer, failed := m.Call(now, operation, []byte(body))
			if failed == nil && !json.Valid(answer) {
				t.Errorf("answer: want JSON, got %q", answer)
			}
			now = now.Add(time.Hour)
		}
	})
}
