package scheduler

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

var epochTest = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	queueARN = "arn:aws:sqs:us-east-1:000000000000:events.fifo"
	deadARN  = "arn:aws:sqs:us-east-1:000000000000:dead"
	roleARN  = "arn:aws:iam::000000000000:role/scheduler"
)

// bench drives a model as a server does, and records the requests that it fires.
type bench struct {
	*testing.T
	model *Model
	now   time.Time
	fired []string // "+4s {request}", in order
	// fail returns the error of a sent request, or nil.
	fail func(request string) *wire.Error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return &bench{T: t, model: New(), now: epochTest, fail: func(string) *wire.Error { return nil }}
}

// advance lets time pass, and stops at each time that Next returns.
func (b *bench) advance(d time.Duration) {
	b.Helper()
	end := b.now.Add(d)
	for {
		b.perform()
		next, ok := b.model.Next()
		if !ok || next.After(end) {
			break
		}
		if !next.After(b.now) {
			b.Fatalf("Next still returns %v after Advance to %v", next, b.now)
		}
		b.now = next
	}
	b.now = end
}

func (b *bench) perform() {
	b.model.Advance(b.now)
	for firings := b.model.TakeFirings(); len(firings) > 0; firings = b.model.TakeFirings() {
		for _, f := range firings {
			b.fired = append(b.fired, fmt.Sprintf("+%v %s", b.now.Sub(epochTest), f.Request))
			b.model.Finish(b.now, f.ID, b.fail(string(f.Request)))
		}
	}
}

// call performs a call whose path may have a query.
func (b *bench) call(method, target, body string) (string, *wire.Error) {
	b.Helper()
	path, query, _ := strings.Cut(target, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		b.Fatal(err)
	}
	if !Serves(path) {
		b.Fatalf("Serves(%q) is false", path)
	}
	b.model.Advance(b.now)
	answer, failed := b.model.Serve(b.now, method, path, values, []byte(body))
	b.perform()
	return string(answer), failed
}

// ok makes a call that must succeed.
func (b *bench) ok(method, target, body string) string {
	b.Helper()
	answer, err := b.call(method, target, body)
	if err != nil {
		b.Fatalf("%s %s %s: %v", method, target, body, err)
	}
	return answer
}

// refused checks that a call fails with this code, this status and a message that contains `words`.
func (b *bench) refused(method, target, body, code string, status int, words string) {
	b.Helper()
	answer, err := b.call(method, target, body)
	if err == nil {
		b.Errorf("%s %s: got %s, want %s", method, target, answer, code)
		return
	}
	if err.Code != code || err.Status != status || !strings.Contains(err.Message, words) {
		b.Errorf("%s %s: got %s (%d): %s, want %s (%d) with %q", method, target, err.Code, err.Status, err.Message, code, status, words)
	}
}

// body returns the body of CreateSchedule for a FIFO queue. Overrides are JSON members, identified by a path such as
// "Target.Input". null removes a member.
func body(expression string, overrides ...string) string {
	members := map[string]any{
		"ScheduleExpression": expression,
		"FlexibleTimeWindow": map[string]any{"Mode": "OFF"},
		"Target": map[string]any{
			"Arn": queueARN, "RoleArn": roleARN, "Input": "hello", "SqsParameters": map[string]any{"MessageGroupId": "g"},
		},
	}
	for _, o := range overrides {
		path, value, _ := strings.Cut(o, "=")
		var v any
		if err := json.Unmarshal([]byte(value), &v); err != nil {
			panic(o + ": " + err.Error())
		}
		at := members
		names := strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			at = at[name].(map[string]any)
		}
		if last := names[len(names)-1]; v == nil {
			delete(at, last)
		} else {
			at[last] = v
		}
	}
	return string(wire.Encode(members))
}

func at(after time.Duration) string {
	return "at(" + epochTest.Add(after).Format(atLayout) + ")"
}

func (b *bench) wantFired(want ...string) {
	b.Helper()
	if diff := cmp.Diff(want, b.fired); diff != "" {
		b.Errorf("fired (-want +got):\n%s", diff)
	}
}

const hello = `{"QueueUrl":"events.fifo","MessageBody":"hello","MessageGroupId":"g"}`

func TestGetSchedule_returns_the_definition_with_defaults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.now = b.now.Add(1500 * time.Millisecond)
	if got, want := b.ok("POST", "/schedules/s", body("rate(1 hour)", "StartDate=1772400000.25", "Description=\"d\"")),
		`{"ScheduleArn":"arn:aws:scheduler:us-east-1:000000000000:schedule/default/s"}`; got != want {
		t.Errorf("created: got %s, want %s", got, want)
	}
	want := `{"ActionAfterCompletion":"NONE","Description":"d","FlexibleTimeWindow":{"Mode":"OFF"},"ScheduleExpression":"rate(1 hour)",` +
		`"ScheduleExpressionTimezone":"UTC","StartDate":1772400000.25,"State":"ENABLED","Target":{"Arn":"` + queueARN + `","Input":"hello",` +
		`"RetryPolicy":{"MaximumEventAgeInSeconds":86400,"MaximumRetryAttempts":185},"RoleArn":"` + roleARN + `","SqsParameters":{"MessageGroupId":"g"}},` +
		`"Arn":"arn:aws:scheduler:us-east-1:000000000000:schedule/default/s","CreationDate":1772366401.5,"GroupName":"default",` +
		`"LastModificationDate":1772366401.5,"Name":"s"}`
	if got := b.ok("GET", "/schedules/s?groupName=default", ""); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRequests_that_are_unsupported_are_rejected_by_name(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok("POST", "/schedules/s", body(at(time.Hour)))
	b.ok("POST", "/schedule-groups/g", `{}`)

	b.refused("POST", "/schedules/s", body(at(time.Hour)), "ConflictException", 409, "Schedule s already exists.")
	b.refused("POST", "/schedule-groups/default", "", "ConflictException", 409, "Schedule group default already exists.")
	b.refused("GET", "/schedules/s?groupName=g", "", "ResourceNotFoundException", 404, "Schedule s does not exist.")
	b.refused("PUT", "/schedules/other", body(at(time.Hour)), "ResourceNotFoundException", 404, "Schedule other does not exist.")
	b.refused("DELETE", "/schedules/other", "", "ResourceNotFoundException", 404, "Schedule other does not exist.")
	b.refused("POST", "/schedules/n", body(at(time.Hour), `GroupName="none"`), "ResourceNotFoundException", 404, "Schedule group none does not exist.")
	b.refused("GET", "/schedules?ScheduleGroup=none", "", "ResourceNotFoundException", 404, "Schedule group none does not exist.")
	b.refused("DELETE", "/schedule-groups/none", "", "ResourceNotFoundException", 404, "Schedule group none does not exist.")
	b.refused("DELETE", "/schedule-groups/default", "", "ValidationException", 0, "default cannot be deleted")
	b.refused("GET", "/tags/"+groupARN("none"), "", "ResourceNotFoundException", 404, "Schedule group none does not exist.")
	b.refused("GET", "/tags/"+scheduleARN("default/s"), "", "ValidationException", 0, "expected resourceArn to be the ARN of a schedule group")
	b.refused("PATCH", "/schedules/s", "", "UnknownOperationException", 404, "PATCH /schedules/s")
	b.refused("GET", "/schedules/s?verbose=1", "", "ValidationException", 0, `"verbose" of GetSchedule`)
	b.refused("GET", "/schedules?State=RUNNING", "", "ValidationException", 0, "[ENABLED, DISABLED]")
	b.refused("GET", "/schedules?MaxResults=101", "", "ValidationException", 0, "less than or equal to 100")

	for _, expression := range []string{
		"at(2026-03-01T12:00:00Z)", "at(2026-03-01)", "at(2026-03-01T1:00:00)", "at(2026-02-30T00:00:00)", "at(2026-03-01T12:00:00", "rate(10)",
		"at(1899-12-31T23:59:59)", "rate(0 minutes)", "rate(10 seconds)", "rate( 10 minutes )", " rate(10 minutes)", "rate(-1 days)", "tomorrow",
	} {
		b.refused("POST", "/schedules/n", body(expression), "ValidationException", 0, "Invalid Schedule Expression "+expression+".")
	}
	b.refused("POST", "/schedules/n", body("at(9999-12-31T23:59:59)", `ScheduleExpressionTimezone="America/New_York"`),
		"ValidationException", 0, "Invalid Schedule Expression")
	b.refused("POST", "/schedules/n", body("rate(1 day)", "StartDate=1e15"), "SerializationException", 0, "from 0 to 253402300799, got 1")
	for words, override := range map[string]string{
		"at 'name' failed to satisfy constraint: Member must have length less": `Name=null`, // the loop below then uses a name of 65 characters
		`awslocal does not support the parameter "KmsKeyArn"`:                  `KmsKeyArn="k"`,
		`awslocal does not support the parameter "EcsParameters"`:              `Target.EcsParameters={}`,
		"cron expressions, got cron(0 1 * * ? *)":                              `ScheduleExpression="cron(0 1 * * ? *)"`,
		"Invalid ScheduleExpressionTimezone Mars/Olympus":                      `ScheduleExpressionTimezone="Mars/Olympus"`,
		"Invalid ScheduleExpressionTimezone Local":                             `ScheduleExpressionTimezone="Local"`,
		"'flexibleTimeWindow' failed to satisfy":                               `FlexibleTimeWindow=null`,
		"'flexibleTimeWindow.maximumWindowInMinutes' failed to satisfy":        `FlexibleTimeWindow.Mode="FLEXIBLE"`,
		"expected no MaximumWindowInMinutes":                                   `FlexibleTimeWindow.MaximumWindowInMinutes=5`,
		"'target.roleArn' failed to satisfy":                                   `Target.RoleArn=null`,
		"Value 'nobody' at 'target.roleArn'":                                   `Target.RoleArn="nobody"`,
		"Provided Arn is not in correct format.":                               `Target.Arn="events.fifo"`,
		"awslocal does not support the target arn:aws:lambda":                  `Target.Arn="arn:aws:lambda:us-east-1:000000000000:function:f"`,
		"does not support the target arn:aws:sqs:eu-west-1":                    `Target.Arn="arn:aws:sqs:eu-west-1:000000000000:q"`,
		"awslocal does not support a target without Input":                     `Target.Input=null`,
		"standard queue": `Target.DeadLetterConfig={"Arn":"` + queueARN + `"}`,
		"'59' at 'target.retryPolicy.maximumEventAgeInSeconds'": `Target.RetryPolicy={"MaximumEventAgeInSeconds":59}`,
		"'186' at 'target.retryPolicy.maximumRetryAttempts'":    `Target.RetryPolicy={"MaximumRetryAttempts":186}`,
		"expected no target.sqsParameters":                      `Target.Arn="` + universalSQS + `"`,
		"[NONE, DELETE]":                                        `ActionAfterCompletion="STOP"`,
		"cannot be earlier than 5 minutes ago":                  `StartDate=1772366099`,
		"must be later than the StartDate":                      `EndDate=1772366400`,
	} {
		name := "n"
		if override == "Name=null" {
			name = strings.Repeat("n", 65)
		}
		b.refused("POST", "/schedules/"+name, body("rate(1 hour)", "StartDate=1772366400", override), "ValidationException", 0, words)
	}
	for words, input := range map[string]string{
		"expected the JSON object of SQS SendMessage": `hello`,
		"'Message' are not present in api":            `{"QueueUrl":"q","Message":"m"}`,
		"'QueueUrl' are required":                     `{"MessageBody":"m"}`,
	} {
		b.refused("POST", "/schedules/n", body(at(time.Hour), `Target.Arn="`+universalSQS+`"`, `Target.SqsParameters=null`,
			"Target.Input="+string(wire.Encode(input))), "ValidationException", 0, words)
	}
	if Serves("/2015-03-31/functions") || Serves("/") {
		t.Error("Serves accepts a path of another service")
	}
	if got := b.ok("GET", "/schedules", ""); strings.Count(got, `"Arn":"arn:aws:scheduler`) != 1 {
		t.Errorf("want the first schedule only, got %s", got)
	}
}

func TestListSchedules_pages_in_order_and_filters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok("POST", "/schedule-groups/a", "{}")
	b.ok("POST", "/schedule-groups/a-b", "{}") // "a-" sorts before "a/"
	for i, group := range []string{"a", "default", "a-b"} {
		for n := range 5 {
			state := []string{`"ENABLED"`, `"DISABLED"`}[n%2]
			b.ok("POST", fmt.Sprintf("/schedules/x%d.%d", (i+n)%5, i), body(at(time.Hour), "GroupName=\""+group+"\"", "State="+state))
		}
	}
	list := func(query string) []string {
		var names []string
		for token, pages := "", 0; ; pages++ {
			var page listSchedulesOutput
			if err := json.Unmarshal([]byte(b.ok("GET", "/schedules?"+query+token, "")), &page); err != nil {
				t.Fatal(err)
			}
			for _, s := range page.Schedules {
				names = append(names, s.GroupName+"/"+s.Name)
			}
			if page.NextToken == "" {
				return names
			}
			token = "&NextToken=" + url.QueryEscape(page.NextToken)
			if pages > 20 {
				t.Fatal("paging does not end")
			}
		}
	}
	for query, want := range map[string][]string{
		"MaxResults=2&ScheduleGroup=a":                   {"a/x0.0", "a/x1.0", "a/x2.0", "a/x3.0", "a/x4.0"},
		"MaxResults=1&NamePrefix=x2":                     {"a-b/x2.2", "a/x2.0", "default/x2.1"},
		"ScheduleGroup=default&State=DISABLED":           {"default/x2.1", "default/x4.1"},
		"ScheduleGroup=a-b&NamePrefix=x0":                {"a-b/x0.2"},
		"ScheduleGroup=a-b&NamePrefix=y":                 nil,
		"MaxResults=1&State=DISABLED&ScheduleGroup=a":    {"a/x1.0", "a/x3.0"},
		"MaxResults=100&NamePrefix=x1&ScheduleGroup=a-b": {"a-b/x1.2"},
	} {
		if got := list(query); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	if got := list("MaxResults=4"); len(got) != 15 || !slices.IsSorted(got) {
		t.Errorf("got %q, want all 15 in order", got)
	}
}

func TestGroups_have_tags_and_are_deleted_with_their_schedules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok("POST", "/schedule-groups/g", `{"Tags":[{"Key":"team","Value":"a"},{"Key":"env","Value":"test"}]}`)
	b.ok("POST", "/schedules/s", body(at(time.Minute), `GroupName="g"`))
	b.ok("POST", "/schedules/s", body(at(2*time.Minute)))
	b.now = b.now.Add(time.Second)
	b.ok("POST", "/tags/"+groupARN("g"), `{"Tags":[{"Key":"team","Value":"b"},{"Key":"more","Value":"c"}]}`)
	b.ok("DELETE", "/tags/"+groupARN("g")+"?TagKeys=env&TagKeys=none", "")
	if got, want := b.ok("GET", "/tags/"+groupARN("g"), ""), `{"Tags":[{"Key":"team","Value":"b"},{"Key":"more","Value":"c"}]}`; got != want {
		t.Errorf("tags: got %s, want %s", got, want)
	}
	if got, want := b.ok("GET", "/tags/"+groupARN("default"), ""), `{"Tags":[]}`; got != want {
		t.Errorf("tags of default: got %s, want %s", got, want)
	}
	if got, want := b.ok("GET", "/schedule-groups/g", ""), `{"Arn":"arn:aws:scheduler:us-east-1:000000000000:schedule-group/g",`+
		`"CreationDate":1772366400,"LastModificationDate":1772366401,"Name":"g","State":"ACTIVE"}`; got != want {
		t.Errorf("group: got %s, want %s", got, want)
	}
	if got := b.ok("GET", "/schedule-groups?MaxResults=1", ""); !strings.Contains(got, `"Name":"default"`) || !strings.Contains(got, `"NextToken":"g"`) {
		t.Errorf("groups: got %s, want default and a token", got)
	}
	if got := b.ok("GET", "/schedule-groups?MaxResults=1&NextToken=g&NamePrefix=g", ""); !strings.Contains(got, `"Name":"g"`) || strings.Contains(got, "NextToken") {
		t.Errorf("groups: got %s, want g and no token", got)
	}
	b.ok("DELETE", "/schedule-groups/g", "")
	b.refused("GET", "/schedule-groups/g", "", "ResourceNotFoundException", 404, "Schedule group g does not exist.")
	b.advance(time.Hour)
	b.wantFired("+2m0s " + hello) // Only the schedule of the default group fires.
}
