package guard

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRequestIsParsedIntoAnOperation reads requests in wire format.
func TestRequestIsParsedIntoAnOperation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path, target, body string
		want                       operation
	}{
		{"POST", "/", "AmazonSQS.SendMessage", `{"QueueUrl": "q"}`, operation{service: "SQS", name: "SendMessage", queueURL: "q"}},
		{"POST", "/", "AmazonSQS.SendMessageBatch", `{"QueueUrl": "q", "Entries": []}`, operation{service: "SQS", name: "SendMessageBatch", queueURL: "q"}},
		{"POST", "/", "DynamoDB_20120810.UpdateItem", `{"TableName": "t", "Key": {"instance": {"S": "job/7"}}}`,
			operation{service: "DynamoDB", name: "UpdateItem", table: "t", keys: []string{"job/7"}}},
		{"POST", "/", "DynamoDB_20120810.PutItem", `{"TableName": "t", "Item": {"instance": {"S": "job/7"}, "state": {"S": "queued"}}}`,
			operation{service: "DynamoDB", name: "PutItem", table: "t", keys: []string{"job/7"}}},
		{"POST", "/", "DynamoDB_20120810.TransactWriteItems", `{"TransactItems": [
			{"ConditionCheck": {"TableName": "t", "Key": {"instance": {"S": "job/7"}}}},
			{"Put": {"TableName": "t", "Item": {"instance": {"S": "alias/a"}}}},
			{"Update": {"TableName": "u", "Key": {"instance": {"S": "job/8"}}}},
			{"Delete": {"TableName": "t", "Key": {"instance": {"S": "job/9"}}}}, {"Merge": {}}, {}]}`,
			operation{service: "DynamoDB", name: "TransactWriteItems", items: []item{
				{"ConditionCheck", "t", []string{"job/7"}}, {"Put", "t", []string{"alias/a"}}, {"Update", "u", []string{"job/8"}},
				{"Delete", "t", []string{"job/9"}}, {"Merge", "", nil}, {},
			}}},
		{"POST", "/", "DynamoDB_20120810.Query", `{"TableName": "t", "IndexName": "by_state"}`, operation{service: "DynamoDB", name: "Query", table: "t", index: "by_state"}},
		{"POST", "/", "AWSStepFunctions.StartExecution", `{"stateMachineArn": "m"}`, operation{service: "SFN", name: "StartExecution", stateMachine: "m"}},
		{"POST", "/", "AWSStepFunctions.DescribeExecution", `{"executionArn": "e"}`, operation{service: "SFN", name: "DescribeExecution", execution: "e"}},
		{"POST", "/schedules/s", "", `{"GroupName": "g", "Target": {"RoleArn": "r"}}`, operation{service: "Scheduler", name: "CreateSchedule", schedule: "s", group: "g", passedRole: "r"}},
		{"DELETE", "/schedules/s?groupName=g", "", "", operation{service: "Scheduler", name: "DeleteSchedule", schedule: "s", group: "g"}},
		{"POST", "/", "Other.Call", "no JSON", operation{name: "Call"}},
	} {
		request := httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
		request.Header.Set("X-Amz-Target", c.target)
		if diff := cmp.Diff(c.want, operationIn(request, []byte(c.body)), cmp.AllowUnexported(operation{}, item{})); diff != "" {
			t.Errorf("%s %s %s (-want +got):\n%s", c.method, c.path, c.target, diff)
		}
	}
}
