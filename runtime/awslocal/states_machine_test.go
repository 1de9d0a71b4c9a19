package awslocal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/settle-run/settle/runtime/awslocal"
)

const passes = `"S": {"Type": "Pass", "End": true}`

func TestStatesCreateDescribe(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		arn := w.create("m", passes)
		if again := w.create("m", passes); again != arn || arn != "arn:aws:states:us-east-1:000000000000:stateMachine:m" {
			t.Errorf("ARNs: got %s, then %s", arn, again)
		}
		got, err := w.client.DescribeStateMachine(t.Context(), &sfn.DescribeStateMachineInput{StateMachineArn: &arn})
		if err != nil {
			t.Fatal(err)
		}
		if *got.Name != "m" || got.Status != types.StateMachineStatusActive || got.Type != types.StateMachineTypeStandard ||
			!strings.Contains(*got.Definition, passes) || *got.RoleArn != anyRole || !got.CreationDate.Equal(time.Now()) {
			t.Errorf("DescribeStateMachine: got %+v", got)
		}
		list, err := w.client.ListStateMachines(t.Context(), &sfn.ListStateMachinesInput{})
		if err != nil || len(list.StateMachines) != 1 || *list.StateMachines[0].StateMachineArn != arn {
			t.Errorf("ListStateMachines: got %+v, %v", list, err)
		}
		for definition, part := range map[string]string{
			`{`: "INVALID_JSON_DESCRIPTION",
			`{"StartAt": "S", "States": {"S": {"Type": "Pass", "Next": "Nope"}}}`:                                  "Missing 'Next' target: Nope at /States/S/Next",
			`{"QueryLanguage": "JSONata", "StartAt": "S", "States": {"S": {"Type": "Pass", "End": true}}}`:         "JSONata",
			`{"StartAt": "S", "States": {"S": {"Type": "Task", "Resource": "arn:aws:states:::x:y", "End": true}}}`: "arn:aws:states:::x:y",
		} {
			_, err := w.client.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{Name: aws.String("n"), RoleArn: aws.String(anyRole), Definition: &definition})
			wantCode(t, err, "InvalidDefinition")
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %v, want it to say %s", definition, err, part)
			}
		}
	})
}

func TestStatesPassChoiceWaitFail(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		machine := w.create("m", `"S": {"Type": "Pass", "Result": 2, "ResultPath": "$.added", "Next": "W"},
			"W": {"Type": "Wait", "SecondsPath": "$.wait", "Next": "C"},
			"C": {"Type": "Choice", "Choices": [{"Variable": "$.ok", "BooleanEquals": true, "Next": "Good"}], "Default": "Bad"},
			"Good": {"Type": "Succeed"}, "Bad": {"Type": "Fail", "Error": "Custom", "Cause": "because"}`)
		good, bad := w.start(machine, "good", `{"ok":true,"wait":5}`), w.start(machine, "bad", `{"ok":false,"wait":7}`)
		w.sleep(4999 * time.Millisecond)
		w.wantEnd(good, types.ExecutionStatusRunning)
		w.sleep(time.Millisecond)
		w.wantEnd(good, types.ExecutionStatusSucceeded, `{"added":2,"ok":true,"wait":5}`)
		w.wantEnd(bad, types.ExecutionStatusRunning)
		w.sleep(2 * time.Second)
		w.wantEnd(bad, types.ExecutionStatusFailed, "Custom", "because")
	})
}

func TestStatesStartIdempotent(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		machine := w.create("m", `"S": {"Type": "Wait", "Seconds": 10, "End": true}`)
		first := w.start(machine, "x", `{"a":1}`)
		w.sleep(time.Second)
		if again := w.start(machine, "x", `{"a":1}`); again != first {
			t.Errorf("got %s, then %s", first, again)
		}
		try := func(machine, input string) error {
			_, err := w.client.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Name: aws.String("x"), Input: &input})
			return err
		}
		wantCode(t, try(machine, `{}`), "ExecutionAlreadyExists")
		wantCode(t, try(machine+"2", `{}`), "StateMachineDoesNotExist")
		w.sleep(time.Minute)
		wantCode(t, try(machine, `{"a":1}`), "ExecutionAlreadyExists")
	})
}

func TestStatesStopExecution(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		execution := w.run(`"S": `+w.task("g", `, "End": true`), `{}`)
		token := w.token()
		if _, err := w.client.StopExecution(t.Context(), &sfn.StopExecutionInput{ExecutionArn: &execution, Error: aws.String("E"), Cause: aws.String("C")}); err != nil {
			t.Fatal(err)
		}
		w.wantEnd(execution, types.ExecutionStatusAborted, "E", "C")
		wantCode(t, w.trySuccess(token, `1`), "TaskTimedOut")
		wantCode(t, w.tryHeartbeat(token), "TaskTimedOut")
	})
}

func TestStatesHistory(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		execution := w.run(`"S": `+w.task("g", `, "End": true`), `{}`)
		began := time.Now()
		w.sleep(3 * time.Second)
		w.success(w.token(), `"done"`)
		var events []types.HistoryEvent
		pages := sfn.NewGetExecutionHistoryPaginator(w.client, &sfn.GetExecutionHistoryInput{ExecutionArn: &execution, MaxResults: 3})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, page.Events...)
		}
		var got []string
		for _, e := range events {
			got = append(got, fmt.Sprintf("%d<%d %s +%v", e.Id, e.PreviousEventId, e.Type, e.Timestamp.Sub(began)))
		}
		want := []string{"1<0 ExecutionStarted +0s", "2<0 TaskStateEntered +0s", "3<2 TaskScheduled +0s", "4<3 TaskStarted +0s", "5<4 TaskSubmitted +0s",
			"6<5 TaskSucceeded +3s", "7<6 TaskStateExited +3s", "8<7 ExecutionSucceeded +3s"}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("history:\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
		if d := events[2].TaskScheduledEventDetails; *d.ResourceType != "sqs" || *d.Resource != "sendMessage.waitForTaskToken" {
			t.Errorf("TaskScheduled: got %+v", d)
		}
		if d := events[4].TaskSubmittedEventDetails; !strings.Contains(*d.Output, `"MessageId":`) {
			t.Errorf("TaskSubmitted: got %s, want the answer of SendMessage", *d.Output)
		}
		if d := events[6].StateExitedEventDetails; *d.Name != "S" || *d.Output != `"done"` {
			t.Errorf("TaskStateExited: got %+v", d)
		}
	})
}

func TestStatesParallelMap(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		task := func(name, group string) string {
			return `{"StartAt": "` + name + `", "States": {"` + name + `": ` + w.task(group, `, "End": true`) + `}}`
		}
		execution := w.run(`"S": {"Type": "Parallel", "Branches": [`+task("A", "a")+`, `+task("B", "b")+`], "ResultPath": "$.both", "Next": "M"},
			"M": {"Type": "Map", "ItemsPath": "$.items", "MaxConcurrency": 2, "ItemProcessor": `+task("I", "i")+`, "End": true}`, `{"items": ["x", "y", "z"]}`)
		tokens := []string{w.token(), w.token()}
		w.success(tokens[1], `"b"`)
		w.wantEnd(execution, types.ExecutionStatusRunning)
		w.success(tokens[0], `"a"`)
		tokens = []string{w.token(), w.token()}
		w.success(tokens[1], `"Y"`)
		w.success(w.token(), `"Z"`)
		w.wantEnd(execution, types.ExecutionStatusRunning)
		w.success(tokens[0], `"X"`)
		w.wantEnd(execution, types.ExecutionStatusSucceeded, `["X","Y","Z"]`)
	})
}

// invokes is an Invoker made of a function.
type invokes func(ctx context.Context, payload []byte) ([]byte, error)

func (i invokes) Invoke(ctx context.Context, payload []byte) ([]byte, error) { return i(ctx, payload) }

func TestStatesLambdaWait(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		tokens := make(chan string, 1)
		register(t, w, "asks", func(_ context.Context, payload []byte) ([]byte, error) {
			var in struct{ Token string }
			if err := json.Unmarshal(payload, &in); err != nil {
				return nil, err
			}
			tokens <- in.Token
			return []byte(`"asked"`), nil
		})
		execution := w.run(`"S": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken", "End": true,
			"Parameters": {"FunctionName": "asks", "Payload": {"token.$": "$$.Task.Token"}}}`, `{}`)
		token := <-tokens
		w.sleep(time.Hour)
		w.wantEnd(execution, types.ExecutionStatusRunning)
		w.success(token, `{"answer":42}`)
		w.wantEnd(execution, types.ExecutionStatusSucceeded, `{"answer":42}`)
	})
}

func TestStatesLambdaInvoke(t *testing.T) {
	t.Parallel()
	inWorkflows(t, func(t *testing.T, w workflows) {
		register(t, w, "doubles", func(_ context.Context, payload []byte) ([]byte, error) {
			var n int
			if err := json.Unmarshal(payload, &n); err != nil {
				return nil, &awslocal.FunctionError{Type: "NoNumber", Message: "it is none"}
			}
			return fmt.Append(nil, 2*n), nil
		})
		machine := w.create("m", `"S": {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Parameters": {"FunctionName": "doubles", "Payload.$": "$"},
			"OutputPath": "$.Payload", "Catch": [{"ErrorEquals": ["NoNumber"], "Next": "C"}], "End": true}, "C": {"Type": "Pass", "Result": "caught", "End": true}`)
		good, bad := w.start(machine, "good", `21`), w.start(machine, "bad", `"x"`)
		w.sleep(time.Second)
		w.wantEnd(good, types.ExecutionStatusSucceeded, `42`)
		w.wantEnd(bad, types.ExecutionStatusSucceeded, `"caught"`)
	})
}

func register(t *testing.T, w workflows, name string, f invokes) {
	t.Helper()
	if err := w.queue.cloud.Register(name, awslocal.Function{Start: func() awslocal.Invoker { return f }}); err != nil {
		t.Fatal(err)
	}
}
