package conformance_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
)

// statesBehaviours lists the behaviours of Step Functions: standard workflows with JSONPath.
var statesBehaviours = []behaviour{
	{name: "create_describe", test: createDescribe, promise: "A state machine is created, described and listed. Creating it again changes nothing. An invalid definition fails with InvalidDefinition."},
	{name: "pass_choice_wait_fail", test: passChoiceWaitFail, promise: "Pass, Choice, Wait, Succeed and Fail work as documented: an execution waits for the given time, and ends with its output or with error and cause."},
	{name: "start_idempotent", test: startIdempotent, promise: "While an execution runs, starting it again with its name and input returns its ARN. With another input, or after its end, this fails with ExecutionAlreadyExists. A missing machine fails with StateMachineDoesNotExist."},
	{name: "sqs_wait_success", test: sqsWaitSuccess, connection: true, promise: "sqs:sendMessage.waitForTaskToken sends a FIFO message with a token. The execution is RUNNING until SendTaskSuccess, and continues with its output."},
	{name: "sqs_wait_failure", test: sqsWaitFailure, promise: "SendTaskFailure fails the execution with its error and cause, unless a Catch continues with both."},
	{name: "sqs_wait_retry", test: sqsWaitRetry, promise: "Retry sends another message after its interval, with a new token. Earlier tokens fail with TaskTimedOut."},
	{name: "heartbeat_keeps_alive", test: heartbeatKeepsAlive, promise: "Regular SendTaskHeartbeat calls within HeartbeatSeconds keep a task alive."},
	{name: "heartbeat_timeout", test: heartbeatTimeout, promise: "A task without a heartbeat for HeartbeatSeconds since the last one fails with States.HeartbeatTimeout, which Catch can name."},
	{name: "task_timeout", test: taskTimeout, promise: "A task that takes TimeoutSeconds fails with States.Timeout, with or without heartbeats. Success, failure and heartbeat then fail with TaskTimedOut."},
	{name: "token_errors", test: tokenErrors, promise: "An unknown token fails with InvalidToken, a used one with TaskTimedOut, and an output that is not JSON with InvalidOutput. None of them changes an execution."},
	{name: "stop_execution", test: stopExecution, promise: "StopExecution ends an execution permanently as ABORTED, with its error and cause. Its token then fails with TaskTimedOut."},
	{name: "history", test: history, promise: "GetExecutionHistory returns each event of an execution, page by page, with ascending or descending IDs: started, entered, scheduled, submitted, succeeded, exited."},
	{name: "parallel_map", test: parallelMap, promise: "Parallel and inline Map run their branches and iterations concurrently, at most MaxConcurrency at a time. Tokens of several groups may be answered in any order. The results keep the order of the branches."},
	{name: "lambda_wait", test: lambdaWait, promise: "lambda:invoke.waitForTaskToken passes the token to a function of Cloud.Register. The execution waits for the token, not for the function."},
}

// execution is an execution accessed through the SDK.
type execution struct {
	t   *testing.T
	w   *world
	arn string
}

// task returns a Task state that sends its token and input to a group of the queue. It appends `fields`, which must
// start with a comma, to the state.
func (q queue) task(group, fields string) string {
	return `{"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken", "Parameters": {
		"QueueUrl": "` + q.url + `", ` + group + `, "MessageDeduplicationId.$": "States.UUID()",
		"MessageBody": {"token.$": "$$.Task.Token", "input.$": "$"}}` + fields + `}`
}

// inGroup returns the message group parameter of a task.
func inGroup(name string) string { return `"MessageGroupId": "` + name + `"` }

const ends = `, "End": true`

// definition returns the definition of a machine with these states. "S" is the first state.
func definition(states string) *string {
	return aws.String(`{"StartAt": "S", "States": {` + states + `}}`)
}

// machine creates a state machine and returns its ARN.
func (w *world) machine(t *testing.T, states string) string {
	t.Helper()
	out, err := w.sfn.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
		Name: aws.String(w.name()), RoleArn: aws.String(anyRole), Definition: definition(states),
	})
	must(t, "CreateStateMachine", err)
	return *out.StateMachineArn
}

// start starts an execution of a machine.
func (w *world) start(t *testing.T, machine, input string) execution {
	t.Helper()
	out, err := w.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{
		StateMachineArn: &machine, Name: aws.String(w.name()), Input: &input,
	})
	must(t, "StartExecution", err)
	return execution{t, w, *out.ExecutionArn}
}

// execute creates a machine and starts an execution of it.
func (w *world) execute(t *testing.T, states, input string) execution {
	t.Helper()
	return w.start(t, w.machine(t, states), input)
}

func (x execution) describe() *sfn.DescribeExecutionOutput {
	x.t.Helper()
	out, err := x.w.sfn.DescribeExecution(x.t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &x.arn})
	must(x.t, "DescribeExecution", err)
	return out
}

// wantRunning fails unless the execution is running.
func (x execution) wantRunning() {
	x.t.Helper()
	out := x.describe()
	want(x.t, "the status", types.ExecutionStatusRunning, out.Status)
	want(x.t, "the output while it runs", "", aws.ToString(out.Output))
}

// end returns the result of the execution, which must have ended.
func (x execution) end() *sfn.DescribeExecutionOutput {
	x.t.Helper()
	for deadline := time.Now().Add(x.w.late); ; time.Sleep(50 * time.Millisecond) {
		if x.w.virtual() {
			x.w.settle()
		}
		if out := x.describe(); out.Status != types.ExecutionStatusRunning || !time.Now().Before(deadline) {
			return out
		}
	}
}

// wantSuccess fails unless the execution succeeds with an output.
func (x execution) wantSuccess(output string) {
	x.t.Helper()
	out := x.end()
	want(x.t, "the status", types.ExecutionStatusSucceeded, out.Status)
	want(x.t, "the output", anyJSON(x.t, output), anyJSON(x.t, aws.ToString(out.Output)))
}

// wantEnd fails unless the execution ends with this status, error and cause.
func (x execution) wantEnd(status types.ExecutionStatus, name, cause string) {
	x.t.Helper()
	out := x.end()
	want(x.t, "the status", status, out.Status)
	want(x.t, "error and cause", []string{name, cause}, []string{aws.ToString(out.Error), aws.ToString(out.Cause)})
}

// anyJSON decodes a JSON text and keeps the text of its numbers.
func anyJSON(t *testing.T, text string) (value any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	must(t, "reading "+text, decoder.Decode(&value))
	return value
}

// tokens receives n task messages, waiting up to 20 s for each. It returns the tokens and inputs by message group.
func (q queue) tokens(n int) (tokens, inputs map[string]string) {
	q.t.Helper()
	tokens, inputs = map[string]string{}, map[string]string{}
	for received := 0; received < n; {
		messages := q.receive(upTo(10), waiting(20))
		if received += len(messages); len(messages) == 0 || received > n {
			q.t.Fatalf("received %d messages of tasks, want %d", received, n)
		}
		for _, m := range messages {
			var body struct {
				Token string
				Input json.RawMessage
			}
			must(q.t, "reading "+*m.Body, json.Unmarshal([]byte(*m.Body), &body))
			group := m.Attributes["MessageGroupId"]
			tokens[group], inputs[group] = body.Token, string(body.Input)
		}
		q.delete(messages...)
	}
	return tokens, inputs
}

// token receives the task message of group g and returns its token.
func (q queue) token() string {
	q.t.Helper()
	tokens, _ := q.tokens(1)
	if tokens["g"] == "" {
		q.t.Fatalf("received tokens of the groups %v, want one of g", tokens)
	}
	return tokens["g"]
}

func (w *world) success(t *testing.T, token, output string) error {
	t.Helper()
	_, err := w.sfn.SendTaskSuccess(t.Context(), &sfn.SendTaskSuccessInput{TaskToken: &token, Output: &output})
	return err
}

func (w *world) failure(t *testing.T, token, name, cause string) error {
	t.Helper()
	_, err := w.sfn.SendTaskFailure(t.Context(), &sfn.SendTaskFailureInput{TaskToken: &token, Error: &name, Cause: &cause})
	return err
}

func (w *world) heartbeat(t *testing.T, token string) error {
	t.Helper()
	_, err := w.sfn.SendTaskHeartbeat(t.Context(), &sfn.SendTaskHeartbeatInput{TaskToken: &token})
	return err
}

// wantOver fails unless all calls with the token are rejected.
func (w *world) wantOver(t *testing.T, token string) {
	t.Helper()
	for what, err := range map[string]error{
		"SendTaskSuccess":   w.success(t, token, `1`),
		"SendTaskFailure":   w.failure(t, token, "E", "C"),
		"SendTaskHeartbeat": w.heartbeat(t, token),
	} {
		if over := new(types.TaskTimedOut); !errors.As(err, &over) {
			t.Fatalf("%s with a token that is over: got %v, want TaskTimedOut", what, err)
		}
	}
}
