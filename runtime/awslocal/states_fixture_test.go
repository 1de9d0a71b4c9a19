package awslocal_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/settle-run/settle/runtime/awslocal"
)

const anyRole = "arn:aws:iam::000000000000:role/any"

// workflows is the Step Functions of a Cloud as its tests see it, through the SDK, with a
// FIFO queue for its tasks.
type workflows struct {
	t      *testing.T
	client *sfn.Client
	queue  queue
}

// inWorkflows runs a test in virtual time with a Cloud of its own.
func inWorkflows(t *testing.T, test func(t *testing.T, w workflows)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, map[string]string{"VisibilityTimeout": "43200"})
		client := sfn.New(sfn.Options{
			Region:       awslocal.Region,
			BaseEndpoint: aws.String("http://aws.local"),
			Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
			HTTPClient:   q.cloud.HTTPClient(),
			Retryer:      aws.NopRetryer{},
		})
		test(t, workflows{t, client, q})
	})
}

// task is a Task state that sends its token to the queue's group g, with further fields.
func (w workflows) task(group, fields string) string {
	return `{"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken", "Parameters": {
		"QueueUrl": "` + w.queue.url + `", "MessageGroupId": "` + group + `", "MessageDeduplicationId.$": "States.UUID()",
		"MessageBody": {"token.$": "$$.Task.Token", "in.$": "$"}}` + fields + `}`
}

// create creates a machine of the states given, of which "S" is the first.
func (w workflows) create(name, states string) string {
	w.t.Helper()
	out, err := w.client.CreateStateMachine(w.t.Context(), &sfn.CreateStateMachineInput{
		Name: &name, RoleArn: aws.String(anyRole), Definition: aws.String(`{"StartAt": "S", "States": {` + states + `}}`),
	})
	if err != nil {
		w.t.Fatalf("CreateStateMachine: %v", err)
	}
	return *out.StateMachineArn
}

func (w workflows) start(machine, name, input string) string {
	w.t.Helper()
	out, err := w.client.StartExecution(w.t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Name: &name, Input: &input})
	if err != nil {
		w.t.Fatalf("StartExecution: %v", err)
	}
	return *out.ExecutionArn
}

// run creates a machine of states and starts it.
func (w workflows) run(states, input string) string {
	w.t.Helper()
	return w.start(w.create("m", states), "x", input)
}

// wantEnd fails unless an execution has the status, and the output or the error and cause.
func (w workflows) wantEnd(execution string, status types.ExecutionStatus, want ...string) {
	w.t.Helper()
	out, err := w.client.DescribeExecution(w.t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: &execution})
	if err != nil {
		w.t.Fatalf("DescribeExecution: %v", err)
	}
	var got []string
	for _, part := range []*string{out.Output, out.Error, out.Cause} {
		if part != nil {
			got = append(got, *part)
		}
	}
	if out.Status != status || strings.Join(got, "|") != strings.Join(want, "|") {
		w.t.Fatalf("got %s %q, want %s %q", out.Status, got, status, want)
	}
}

// token receives the next message and returns the token in it. It waits up to 20 s.
func (w workflows) token() string {
	w.t.Helper()
	messages := w.queue.receive(waiting(20))
	if len(messages) != 1 {
		w.t.Fatalf("received %d messages, want one with a token", len(messages))
	}
	w.queue.delete(messages...)
	var body struct{ Token string }
	if err := json.Unmarshal([]byte(*messages[0].Body), &body); err != nil {
		w.t.Fatal(err)
	}
	return body.Token
}

func (w workflows) trySuccess(token, output string) error {
	_, err := w.client.SendTaskSuccess(w.t.Context(), &sfn.SendTaskSuccessInput{TaskToken: &token, Output: &output})
	return err
}

func (w workflows) success(token, output string) {
	w.t.Helper()
	if err := w.trySuccess(token, output); err != nil {
		w.t.Fatalf("SendTaskSuccess: %v", err)
	}
}

func (w workflows) tryFailure(token, name, cause string) error {
	_, err := w.client.SendTaskFailure(w.t.Context(), &sfn.SendTaskFailureInput{TaskToken: &token, Error: &name, Cause: &cause})
	return err
}

func (w workflows) failure(token, name, cause string) {
	w.t.Helper()
	if err := w.tryFailure(token, name, cause); err != nil {
		w.t.Fatalf("SendTaskFailure: %v", err)
	}
}

func (w workflows) tryHeartbeat(token string) error {
	_, err := w.client.SendTaskHeartbeat(w.t.Context(), &sfn.SendTaskHeartbeatInput{TaskToken: &token})
	return err
}

// sleep lets virtual time pass, and what happens in it be done.
func (w workflows) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
