package awslocal_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
)

// listener receives the status-change events of a Cloud.
type listener struct {
	workflows
	queues *sqs.Client
}

// listen returns a listener on the queue "changes", the queue of Config.StatusChanges. It creates the queue if needed.
func listen(t *testing.T, cloud *awslocal.Cloud) listener {
	t.Helper()
	queues := sqs.New(sqs.Options{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: cloud.HTTPClient(),
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
	if _, err := queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("changes")}); err != nil {
		t.Fatal(err)
	}
	return listener{workflows: newWorkflows(t, cloud), queues: queues}
}

// received returns the events received since the last call.
func (l listener) received() (events []string) {
	l.t.Helper()
	for {
		out, err := l.queues.ReceiveMessage(l.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String("changes"), MaxNumberOfMessages: 10})
		if err != nil {
			l.t.Fatal(err)
		}
		for _, m := range out.Messages {
			events = append(events, *m.Body)
			if _, err := l.queues.DeleteMessage(l.t.Context(), &sqs.DeleteMessageInput{QueueUrl: aws.String("changes"), ReceiptHandle: m.ReceiptHandle}); err != nil {
				l.t.Fatal(err)
			}
		}
		if len(out.Messages) == 0 {
			return events
		}
	}
}

// change is the part of an event that tests check.
type change struct {
	Detail struct {
		Name, Status                string
		Input, Output, Error, Cause *string
		InputDetails, OutputDetails *struct{ Included bool }
	}
}

func (c change) String() string {
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	included := func(d *struct{ Included bool }) any {
		if d == nil {
			return "-"
		}
		return d.Included
	}
	d := c.Detail
	return fmt.Sprintf("%s %s %v/%v %s %s", d.Name, d.Status, included(d.InputDetails), included(d.OutputDetails), text(d.Error), text(d.Cause))
}

func changes(t *testing.T, events []string) string {
	t.Helper()
	var lines []string
	for _, event := range events {
		var c change
		if err := json.Unmarshal([]byte(event), &c); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, c.String())
	}
	return strings.Join(lines, "\n")
}

func TestStatusChangesHaveTheFormOfEventBridge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := listen(t, awslocal.New(awslocal.Config{StatusChanges: "changes"}))
		machine := l.create("m", `"S": {"Type": "Wait", "Seconds": 2, "End": true}`)
		began := time.Now()
		l.start(machine, "e", `{ "a": 1}`)
		l.sleep(3 * time.Second)
		events := l.received()
		const head = `{"account":"000000000000","detail":{"cause":null,"error":null,"executionArn":"arn:aws:states:us-east-1:000000000000:execution:m:e","input":"{ \"a\": 1}","inputDetails":{"included":true},"name":"e",`
		want := []string{
			head + fmt.Sprintf(`"output":null,"outputDetails":null,"startDate":%d,"stateMachineAliasArn":null,"stateMachineArn":"arn:aws:states:us-east-1:000000000000:stateMachine:m","stateMachineVersionArn":null,"status":"RUNNING","stopDate":null},`, began.UnixMilli()) +
				`"detail-type":"Step Functions Execution Status Change","id":"ID","region":"us-east-1","resources":["arn:aws:states:us-east-1:000000000000:execution:m:e"],"source":"aws.states","time":"2000-01-01T00:00:00Z","version":"0"}`,
			head + fmt.Sprintf(`"output":"{ \"a\": 1}","outputDetails":{"included":true},"startDate":%d,"stateMachineAliasArn":null,"stateMachineArn":"arn:aws:states:us-east-1:000000000000:stateMachine:m","stateMachineVersionArn":null,"status":"SUCCEEDED","stopDate":%d},`, began.UnixMilli(), began.UnixMilli()+2000) +
				`"detail-type":"Step Functions Execution Status Change","id":"ID","region":"us-east-1","resources":["arn:aws:states:us-east-1:000000000000:execution:m:e"],"source":"aws.states","time":"2000-01-01T00:00:02Z","version":"0"}`,
		}
		if len(events) != len(want) {
			t.Fatalf("want %d events, got %v", len(want), events)
		}
		for i, event := range events {
			before, rest, _ := strings.Cut(event, `"id":"`)
			_, after, _ := strings.Cut(rest, `"`)
			if got := before + `"id":"ID"` + after; got != want[i] {
				t.Errorf("event %d:\nwant %s\ngot  %s", i, want[i], got)
			}
		}
	})
}

func TestStatusChangesOfEveryFinalStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := listen(t, awslocal.New(awslocal.Config{StatusChanges: "changes"}))
		fails := l.create("fails", `"S": {"Type": "Fail", "Error": "E", "Cause": "C"}`)
		waits := l.create("waits", `"S": {"Type": "Wait", "Seconds": 60, "End": true}`)
		out, err := l.client.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{Name: aws.String("late"), RoleArn: aws.String(anyRole),
			Definition: aws.String(`{"TimeoutSeconds": 5, "StartAt": "S", "States": {"S": {"Type": "Wait", "Seconds": 60, "End": true}}}`)})
		if err != nil {
			t.Fatal(err)
		}
		l.start(fails, "f", "{}")
		l.start(*out.StateMachineArn, "t", "{}")
		execution := l.start(waits, "a", "{}")
		l.sleep(10 * time.Second)
		if _, err := l.client.StopExecution(t.Context(), &sfn.StopExecutionInput{ExecutionArn: &execution, Error: aws.String("X"), Cause: aws.String("Y")}); err != nil {
			t.Fatal(err)
		}
		const want = "f RUNNING true/- - -\nf FAILED true/- E C\nt RUNNING true/- - -\na RUNNING true/- - -\nt TIMED_OUT true/- - -\na ABORTED true/- X Y"
		if got := changes(t, l.received()); got != want {
			t.Errorf("want\n%s\ngot\n%s", want, got)
		}
	})
}

func TestStatusChangesOmitLongInputsAndOutputs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := listen(t, awslocal.New(awslocal.Config{StatusChanges: "changes"}))
		machine := l.create("m", `"S": {"Type": "Pass", "End": true}`)
		text := func(n int) string { return `"` + strings.Repeat("x", n-6) + `"` } // Escaped as a JSON string, the text has n bytes.
		l.start(machine, "fits", text(124<<10))
		l.start(machine, "both", text(124<<10+1))
		l.start(machine, "each", text(248<<10+1))
		const want = "fits RUNNING true/- - -\nfits SUCCEEDED true/true - -\nboth RUNNING true/- - -\nboth SUCCEEDED false/true - -\neach RUNNING false/- - -\neach SUCCEEDED false/false - -"
		if got := changes(t, l.received()); got != want {
			t.Errorf("want\n%s\ngot\n%s", want, got)
		}
	})
}

func TestStatusChangesCanBeLostDuplicatedAndLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := map[string]awslocal.StatusChangeFault{"lost": {Lost: true}, "twice": {Duplicated: true}, "late": {Late: time.Minute}}
		var asked []string
		l := listen(t, awslocal.New(awslocal.Config{StatusChanges: "changes", StatusChangeFault: func(c awslocal.StatusChange) awslocal.StatusChangeFault {
			asked = append(asked, fmt.Sprint(c.Number, " ", c.Execution[strings.LastIndex(c.Execution, ":")+1:], " ", c.Status))
			if c.Status == "RUNNING" {
				return awslocal.StatusChangeFault{Lost: true}
			}
			return faults[c.Name]
		}}))
		machine := l.create("m", `"S": {"Type": "Pass", "End": true}`)
		for _, name := range []string{"lost", "twice", "late"} {
			l.start(machine, name, "{}")
		}
		if got := changes(t, l.received()); got != "twice SUCCEEDED true/true - -\ntwice SUCCEEDED true/true - -" {
			t.Errorf("want two copies of twice, got %s", got)
		}
		l.sleep(time.Minute)
		if got := changes(t, l.received()); got != "late SUCCEEDED true/true - -" {
			t.Errorf("want late, got %s", got)
		}
		if got, want := strings.Join(asked, ", "), "1 lost RUNNING, 2 lost SUCCEEDED, 3 twice RUNNING, 4 twice SUCCEEDED, 5 late RUNNING, 6 late SUCCEEDED"; got != want {
			t.Errorf("want StatusChangeFault to be asked about %s, got %s", want, got)
		}
	})
}

// TestStatusChangesSurviveARestart closes a Cloud before the status changes of one execution are received, and before
// another execution ends.
func TestStatusChangesSurviveARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := awslocal.Config{StatusChanges: "changes", Data: t.TempDir()}
		open := func() (*awslocal.Cloud, listener) {
			cloud, err := awslocal.Open(config)
			if err != nil {
				t.Fatal(err)
			}
			return cloud, listen(t, cloud)
		}
		cloud, l := open()
		l.start(l.create("m", `"S": {"Type": "Pass", "End": true}`), "before", "{}")
		l.start(l.create("n", `"S": {"Type": "Wait", "Seconds": 60, "End": true}`), "between", "{}")
		if err := cloud.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		cloud, l = open()
		const want = "before RUNNING true/- - -\nbefore SUCCEEDED true/true - -\nbetween RUNNING true/- - -\nbetween SUCCEEDED true/true - -"
		if got := changes(t, l.received()); got != want {
			t.Errorf("want\n%s\ngot\n%s", want, got)
		}
		if err := cloud.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
