package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/infra"
	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/infra/guard"
	"github.com/settle-run/settle/machines/samples"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/host/hosttest"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// TestATaskWaitsThroughTheFunction runs workflows whose task invokes the function. A rejected event fails the task
// immediately. An accepted event is in the queue once, in the message group of the instance.
func TestATaskWaitsThroughTheFunction(t *testing.T) {
	t.Parallel()
	const task = `"$task": {"token.$": "$$.Task.Token", "state.$": "$$.State.Name"}`
	for name, c := range map[string]struct{ payload, fails string }{
		"a wait":                    {payload: `{"instance": "job/1", "event": {"type": "settle.wait", ` + task + `}}`},
		"a wait with an event":      {payload: `{"instance": "job/1", "event": {"type": "queued", "run_id": 1, "job_id": 1, ` + task + `}}`},
		"no instance":               {`{"instance": "job", "event": {"type": "settle.wait", ` + task + `}}`, "instance"},
		"an unknown machine":        {`{"instance": "jobs/1", "event": {"type": "settle.wait", ` + task + `}}`, `instance\": unknown machine`},
		"no token":                  {`{"instance": "job/1", "event": {"type": "settle.wait"}}`, "$task"},
		"an undeclared event":       {`{"instance": "job/1", "event": {"type": "unheard of", ` + task + `}}`, "undeclared"},
		"a payload of wrong shape":  {`{"instance": "job/1", "event": {"type": "queued", "run_id": "one", ` + task + `}}`, "wrong payload"},
		"an event that is not JSON": {`{"instance": "job/1", "event": "settle.wait"}`, "$task"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				described, received := runTask(t, c.payload)
				if c.fails != "" {
					if described.Status != types.ExecutionStatusFailed || aws.ToString(described.Error) != sqsqueue.TaskInvalid || !strings.Contains(aws.ToString(described.Cause), c.fails) || len(received) > 0 {
						t.Errorf("want the task to fail with %s, %q and no message, got %s %s %s and %d messages", sqsqueue.TaskInvalid, c.fails,
							described.Status, aws.ToString(described.Error), aws.ToString(described.Cause), len(received))
					}
					return
				}
				if described.Status != types.ExecutionStatusRunning || len(received) != 1 {
					t.Fatalf("want a waiting task and one message, got %s and %d", described.Status, len(received))
				}
				var body struct {
					Task struct{ Token, State string } `json:"$task"`
				}
				if err := json.Unmarshal([]byte(*received[0].Body), &body); err != nil {
					t.Fatal(err)
				}
				if body.Task.Token == "" || body.Task.State != "Queued" || received[0].Attributes["MessageGroupId"] != "job/1" {
					t.Errorf("want the token of Queued in the group job/1, got a token of %d bytes of %q in %q", len(body.Task.Token), body.Task.State, received[0].Attributes["MessageGroupId"])
				}
			})
		})
	}
}

// runTask runs a workflow with one task, which invokes the function with the payload. It returns the execution and the
// messages in the queue.
func runTask(t *testing.T, payload string) (*sfn.DescribeExecutionOutput, []sqstypes.Message) {
	t.Helper()
	cloud := awslocal.New(awslocal.Config{})
	config := aws.Config{
		Region: awslocal.Region, BaseEndpoint: aws.String("http://aws.local"), HTTPClient: cloud.HTTPClient(),
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	}
	queues, workflows := sqs.NewFromConfig(config), sfn.NewFromConfig(config)
	queue, err := queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("settle.fifo"), Attributes: map[string]string{"FifoQueue": "true"}})
	if err != nil {
		t.Fatal(err)
	}
	handler := newTokenTask(t, config, *queue.QueueUrl)
	if err := cloud.Register("tokentask", awslocal.Function{Start: func() awslocal.Invoker { return handler }}); err != nil {
		t.Fatal(err)
	}
	machine, err := workflows.CreateStateMachine(t.Context(), &sfn.CreateStateMachineInput{
		Name: aws.String("m"), RoleArn: aws.String("arn:aws:iam::000000000000:role/any"),
		Definition: aws.String(`{"StartAt": "Queued", "States": {"Queued": {"Type": "Task", "End": true,
			"Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken", "Parameters": {"FunctionName": "tokentask", "Payload": ` + payload + `}}}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	execution, err := workflows.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: machine.StateMachineArn})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	described, err := workflows.DescribeExecution(t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: execution.ExecutionArn})
	if err != nil {
		t.Fatal(err)
	}
	received, err := queues.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: queue.QueueUrl, MaxNumberOfMessages: 10, MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{"All"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return described, received.Messages
}

// newTokenTask returns the function, restricted to its role.
func newTokenTask(t *testing.T, config aws.Config, queueURL string) lambda.Handler {
	t.Helper()
	config = guard.Restrict(t, config, infra.Stack{Name: "settle", Account: awslocal.Account, Region: awslocal.Region}, "tokentask")
	process := &host.Process{
		Env:      host.NewEnv(hosttest.Environment()),
		Settings: host.Settings{QueueURL: queueURL}, AWS: config, Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	}
	machines, err := samples.Machines(process)
	if err != nil {
		t.Fatal(err)
	}
	hosted, err := durable.NewMachines(machines...)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := host.TokenTask(samples.Machines).Handler(process, hosted)
	if err != nil {
		t.Fatal(err)
	}
	return lambda.NewHandler(handler)
}
