package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/settle-run/settle/infra/awslocal"
)

const passes = `"S": {"Type": "Pass", "End": true}`

func createDescribe(t *testing.T, w *world) {
	name := w.name()
	create := func(name, definition string) (string, error) {
		out, err := w.sfn.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
			Name: &name, RoleArn: aws.String(anyRole), Definition: &definition,
		})
		if err != nil {
			return "", err
		}
		return *out.StateMachineArn, nil
	}
	text := *definition(passes)
	arn, err := create(name, text)
	must(t, "CreateStateMachine", err)
	again, err := create(name, text)
	must(t, "CreateStateMachine again", err)
	want(t, "the ARN", arn, again)
	_, err = create(name, *definition(`"S": {"Type": "Succeed"}`))
	wantAs(t, "another definition", err, new(*types.StateMachineAlreadyExists))

	got, err := w.sfn.DescribeStateMachine(t.Context(), &sfn.DescribeStateMachineInput{StateMachineArn: &arn})
	must(t, "DescribeStateMachine", err)
	want(t, "DescribeStateMachine", []string{name, arn, text, anyRole, "ACTIVE", "STANDARD"},
		[]string{*got.Name, *got.StateMachineArn, *got.Definition, *got.RoleArn, string(got.Status), string(got.Type)})
	want(t, "listed", 1, w.listed(t, arn))

	for what, broken := range map[string]string{
		"no JSON":         `{`,
		"no start":        `{"States": {` + passes + `}}`,
		"no such start":   `{"StartAt": "T", "States": {` + passes + `}}`,
		"no such next":    *definition(`"S": {"Type": "Pass", "Next": "T"}`),
		"no end":          *definition(`"S": {"Type": "Pass"}`),
		"no such type":    *definition(`"S": {"Type": "Leap", "End": true}`),
		"unreachable":     *definition(passes + `, "T": {"Type": "Pass", "End": true}`),
		"a bad path":      *definition(`"S": {"Type": "Pass", "InputPath": "a.b", "End": true}`),
		"a bad intrinsic": *definition(`"S": {"Type": "Pass", "Parameters": {"a.$": "States.Nope()"}, "End": true}`),
	} {
		absent := w.name()
		arn, err := create(absent, broken)
		if arn != "" || errorCode(err) != "InvalidDefinition" {
			t.Errorf("%s: got %q, %v, want InvalidDefinition", what, arn, err)
		}
	}
	absent := arn + "2"
	want(t, "listed", 0, w.listed(t, absent))
	_, err = w.sfn.DescribeStateMachine(t.Context(), &sfn.DescribeStateMachineInput{StateMachineArn: &absent})
	wantAs(t, "DescribeStateMachine of none", err, new(*types.StateMachineDoesNotExist))
}

// listed returns how often a machine occurs on all pages of ListStateMachines.
func (w *world) listed(t *testing.T, arn string) (n int) {
	t.Helper()
	pages := sfn.NewListStateMachinesPaginator(w.sfn, &sfn.ListStateMachinesInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		must(t, "ListStateMachines", err)
		for _, machine := range page.StateMachines {
			if *machine.StateMachineArn == arn {
				n++
			}
		}
	}
	return n
}

func passChoiceWaitFail(t *testing.T, w *world) {
	machine := w.machine(t, `"S": {"Type": "Pass", "Result": {"n": 2}, "ResultPath": "$.added", "Next": "W"},
		"W": {"Type": "Wait", "SecondsPath": "$.wait", "Next": "C"},
		"C": {"Type": "Choice", "Choices": [
			{"And": [{"Variable": "$.ok", "BooleanEquals": true}, {"Variable": "$.added.n", "NumericGreaterThan": 1}], "Next": "Good"},
			{"Variable": "$.ok", "StringEquals": "maybe", "Next": "Picky"}], "Default": "Bad"},
		"Picky": {"Type": "Pass", "Parameters": {"was.$": "$.ok"}, "End": true},
		"Good": {"Type": "Succeed", "OutputPath": "$.added"}, "Bad": {"Type": "Fail", "Error": "Custom", "Cause": "because"}`)
	began := time.Now()
	good, bad := w.start(t, machine, `{"ok": true, "wait": 3}`), w.start(t, machine, `{"ok": false, "wait": 5}`)
	picky := w.start(t, machine, `{"ok": "maybe", "wait": 0}`)
	picky.wantSuccess(`{"was": "maybe"}`)
	w.untilJustBefore(t, began.Add(3*time.Second))
	good.wantRunning()
	w.until(began.Add(3 * time.Second))
	good.wantSuccess(`{"n": 2}`)
	w.untilJustBefore(t, began.Add(5*time.Second))
	bad.wantRunning()
	w.until(began.Add(5 * time.Second))
	bad.wantEnd(types.ExecutionStatusFailed, "Custom", "because")
}

func startIdempotent(t *testing.T, w *world) {
	machine, name := w.machine(t, `"S": {"Type": "Wait", "Seconds": 4, "End": true}`), w.name()
	start := func(machine, input string) (execution, error) {
		out, err := w.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Name: &name, Input: &input})
		if err != nil {
			return execution{}, err
		}
		return execution{t, w, *out.ExecutionArn}, nil
	}
	began := time.Now()
	x, err := start(machine, `{"a": 1}`)
	must(t, "StartExecution", err)
	time.Sleep(time.Second)
	again, err := start(machine, `{"a": 1}`)
	must(t, "the same name and input", err)
	want(t, "the ARN", x.arn, again.arn)
	_, err = start(machine, `{"a": 2}`)
	wantAs(t, "another input", err, new(*types.ExecutionAlreadyExists))
	_, err = start(machine+"2", `{"a": 1}`)
	wantAs(t, "another machine", err, new(*types.StateMachineDoesNotExist))
	list, err := w.sfn.ListExecutions(t.Context(), &sfn.ListExecutionsInput{StateMachineArn: &machine})
	must(t, "ListExecutions", err)
	want(t, "executions", 1, len(list.Executions))
	w.until(began.Add(4 * time.Second)) // the second start did not restart the wait
	x.wantSuccess(`{"a": 1}`)
	_, err = start(machine, `{"a": 1}`)
	wantAs(t, "the same once it is at its end", err, new(*types.ExecutionAlreadyExists))
}

func stopExecution(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	waits := w.execute(t, `"S": {"Type": "Wait", "Seconds": 2, "End": true}`, `{}`)
	asks := w.execute(t, `"S": `+q.task(inGroup("g"), `, "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "C"}]`+ends)+`, "C": {"Type": "Succeed"}`, `{}`)
	token := q.token()
	for _, x := range []execution{waits, asks} {
		_, err := w.sfn.StopExecution(t.Context(), &sfn.StopExecutionInput{ExecutionArn: &x.arn, Error: aws.String("E"), Cause: aws.String("C")})
		must(t, "StopExecution", err)
		x.wantEnd(types.ExecutionStatusAborted, "E", "C")
	}
	w.wantOver(t, token)
	time.Sleep(3 * time.Second)
	waits.wantEnd(types.ExecutionStatusAborted, "E", "C")
	asks.wantEnd(types.ExecutionStatusAborted, "E", "C")
	_, err := w.sfn.StopExecution(t.Context(), &sfn.StopExecutionInput{ExecutionArn: aws.String(asks.arn + "2")})
	wantAs(t, "StopExecution of none", err, new(*types.ExecutionDoesNotExist))
}

// events returns the history of the execution, page by page.
func (x execution) events(reversed bool) (events []types.HistoryEvent) {
	x.t.Helper()
	pages := sfn.NewGetExecutionHistoryPaginator(x.w.sfn, &sfn.GetExecutionHistoryInput{ExecutionArn: &x.arn, MaxResults: 3, ReverseOrder: reversed})
	for pages.HasMorePages() {
		page, err := pages.NextPage(x.t.Context())
		must(x.t, "GetExecutionHistory", err)
		if len(page.Events) > 3 {
			x.t.Fatalf("GetExecutionHistory: got %d events, want at most 3 a page", len(page.Events))
		}
		events = append(events, page.Events...)
	}
	return events
}

func history(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	began := time.Now()
	x := w.execute(t, `"S": `+q.task(inGroup("g"), ends), `{"a": 1}`)
	token := q.token()
	time.Sleep(2 * time.Second)
	must(t, "SendTaskSuccess", w.success(t, token, `"done"`))
	x.wantSuccess(`"done"`)

	events := x.events(false)
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprintf("%d<%d %s", e.Id, e.PreviousEventId, e.Type))
	}
	want(t, "history", []string{
		"1<0 ExecutionStarted", "2<0 TaskStateEntered", "3<2 TaskScheduled", "4<3 TaskStarted", "5<4 TaskSubmitted",
		"6<5 TaskSucceeded", "7<6 TaskStateExited", "8<7 ExecutionSucceeded",
	}, got)
	for i, e := range events {
		happened := began
		if i >= 5 {
			happened = began.Add(2 * time.Second)
		}
		w.wantAt(t, got[i], *e.Timestamp, happened)
	}
	want(t, "input", anyJSON(t, `{"a": 1}`), anyJSON(t, *events[0].ExecutionStartedEventDetails.Input))
	scheduled := events[2].TaskScheduledEventDetails
	want(t, "TaskScheduled", []string{"sqs", "sendMessage.waitForTaskToken"}, []string{*scheduled.ResourceType, *scheduled.Resource})
	var submitted struct{ MessageId string }
	must(t, "TaskSubmitted", json.Unmarshal([]byte(*events[4].TaskSubmittedEventDetails.Output), &submitted))
	if submitted.MessageId == "" {
		t.Errorf("TaskSubmitted: got %s, want the answer of SendMessage", *events[4].TaskSubmittedEventDetails.Output)
	}
	want(t, "TaskSucceeded", `"done"`, *events[5].TaskSucceededEventDetails.Output)
	want(t, "TaskStateExited", []string{"S", `"done"`}, []string{*events[6].StateExitedEventDetails.Name, *events[6].StateExitedEventDetails.Output})
	want(t, "ExecutionSucceeded", `"done"`, *events[7].ExecutionSucceededEventDetails.Output)

	reversed := x.events(true)
	slices.Reverse(reversed)
	var ids []int64
	for _, e := range reversed {
		ids = append(ids, e.Id)
	}
	want(t, "reversed", []int64{1, 2, 3, 4, 5, 6, 7, 8}, ids)
}

// invokes adapts a function to Invoker.
type invokes func(ctx context.Context, payload []byte) ([]byte, error)

func (i invokes) Invoke(ctx context.Context, payload []byte) ([]byte, error) { return i(ctx, payload) }

func lambdaWait(t *testing.T, w *world) {
	if w.cloud == nil {
		t.Skip("needs Cloud.Register, which only awslocal in process has")
	}
	payloads := make(chan string, 10)
	must(t, "Register", w.cloud.Register("asks", awslocal.Function{Start: func() awslocal.Invoker {
		return invokes(func(_ context.Context, payload []byte) ([]byte, error) {
			payloads <- string(payload)
			return []byte(`"asked"`), nil
		})
	}}))
	x := w.execute(t, `"S": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken", "End": true,
		"Parameters": {"FunctionName": "asks", "Payload": {"token.$": "$$.Task.Token", "n.$": "$.n"}}}`, `{"n": 7}`)
	var payload struct {
		Token string
		N     int
	}
	must(t, "the payload", json.Unmarshal([]byte(<-payloads), &payload))
	want(t, "n", 7, payload.N)
	w.pass(time.Hour)
	x.wantRunning()
	must(t, "SendTaskSuccess", w.success(t, payload.Token, `{"answer": 42}`))
	x.wantSuccess(`{"answer": 42}`)
	want(t, "further invocations", 0, len(payloads))
}
