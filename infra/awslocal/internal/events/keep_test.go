package events

import (
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/record/recordtest"
)

// now is the time of all calls.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// call performs operations, each given as its name, a space and its input. It returns the last answer.
func call(t *testing.T, m *Model, operations ...string) (answer string) {
	t.Helper()
	for _, operation := range operations {
		name, body, _ := strings.Cut(operation, " ")
		out, err := m.Call(now, name, []byte(body))
		if err != nil {
			t.Fatalf("%s: %v", operation, err)
		}
		answer = string(out)
	}
	return answer
}

func TestRestoreReturnsTheSameAnswers(t *testing.T) {
	t.Parallel()
	m, kept := New(), recordtest.Kept{}
	m.Keep()
	call(t, m,
		`CreateEventBus {"Name":"team/orders","Description":"d"}`, `CreateEventBus {"Name":"gone"}`, `PutRule {"Name":"r","EventBusName":"gone","EventPattern":"{\"source\":[\"a\"]}"}`,
		`PutRule {"Name":"r","EventBusName":"team/orders","EventPattern":"{\"source\":[\"a\"]}","State":"DISABLED"}`,
		`PutTargets {"Rule":"r","EventBusName":"team/orders","Targets":[{"Id":"t","Arn":"arn:aws:sqs:us-east-1:000000000000:q.fifo","SqsParameters":{"MessageGroupId":"g"}}]}`,
		`PutRule {"Name":"d","EventPattern":"{\"source\":[\"a\"]}"}`, `PutRule {"Name":"gone","EventPattern":"{\"source\":[\"a\"]}"}`)
	kept.Apply(m.TakeRecords())
	call(t, m, `DeleteEventBus {"Name":"gone"}`, `DeleteRule {"Name":"gone"}`, `EnableRule {"Name":"r","EventBusName":"team/orders"}`,
		`PutEvents {"Entries":[{"Source":"a","DetailType":"b","Detail":"{}","EventBusName":"team/orders"}]}`)
	kept.Apply(m.TakeRecords())

	again := New()
	if err := again.Restore(kept.Each); err != nil {
		t.Fatal(err)
	}
	m.TakeDeliveries()
	for _, operation := range []string{
		`ListEventBuses {}`, `ListRules {}`, `ListRules {"EventBusName":"team/orders"}`, `ListTargetsByRule {"Rule":"r","EventBusName":"team/orders"}`,
		`PutEvents {"Entries":[{"Source":"a","DetailType":"b","Detail":"{}","EventBusName":"team/orders"}]}`,
	} {
		if want, got := call(t, m, operation), call(t, again, operation); got != want {
			t.Errorf("%s: got %s, want %s", operation, got, want)
		}
	}
	if want, got := m.TakeDeliveries(), again.TakeDeliveries(); len(got) != 1 || string(got[0].Request) != string(want[0].Request) {
		t.Errorf("got the deliveries %s, want %s", got, want)
	}
}

func TestRestoreRejectsUnknownRecords(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{"x": "{}", "rule/none:r": "{}", "rule/default:r": `{"EventPattern":"{}"}`, "rule/default:s": `[]`, "bus/b": `[]`} {
		if err := New().Restore(recordtest.Kept{key: []byte(value)}.Each); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: got %v, want an error that names the record", key, err)
		}
	}
}

func TestUnsupportedFeaturesAreRejected(t *testing.T) {
	t.Parallel()
	for operation, want := range map[string]string{
		`CreateArchive {}`: "awslocal does not support the operation CreateArchive",
		`PutRule {"Name":"r","ScheduleExpression":"rate(1 minute)"}`:                                                         `awslocal does not support the parameter "ScheduleExpression"`,
		`PutTargets {"Rule":"r","Targets":[{"Id":"t","Arn":"arn:aws:sqs:us-east-1:000000000000:q","InputPath":"$.detail"}]}`: `awslocal does not support the parameter "InputPath"`,
		`PutTargets {"Rule":"r","Targets":[{"Id":"t","Arn":"arn:aws:lambda:us-east-1:000000000000:function:f"}]}`:            "awslocal does not support the target arn:aws:lambda:",
		`PutRule {"Name":"r"}`:               "awslocal does not support ScheduleExpression",
		`PutRule {"Name":"r r"}`:             "failed to satisfy constraint",
		`CreateEventBus {"Name":"default"}`:  "Event bus default already exists",
		`PutEvents {"Entries":[]}`:           "expected 1 to 10 entries, got 0",
		`PutEvents {"EndpointId":"a.b"}`:     `awslocal does not support the parameter "EndpointId"`,
		`PutEvents {"Entries":"x"}`:          "expected a JSON object with the operation's parameters",
		`DescribeRule {"Name":"missing"}`:    "Rule missing does not exist on EventBus default",
		`ListRules {"EventBusName":"other"}`: "Event bus other does not exist",
	} {
		m := New()
		call(t, m, `PutRule {"Name":"r","EventPattern":"{\"source\":[\"a\"]}"}`)
		name, body, _ := strings.Cut(operation, " ")
		if _, err := m.Call(now, name, []byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", operation, err, want)
		}
	}
}
