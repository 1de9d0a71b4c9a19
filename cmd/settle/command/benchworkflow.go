package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/cmd/settle/internal/load"
	"github.com/settle-run/settle/infra/prices"
	"github.com/settle-run/settle/runtime/producer"
)

// Limits of the workflows.
const (
	// benchExecutionsMax is the maximum number of executions of each workflow. Their histories fit into the quota of
	// GetExecutionHistory.
	benchExecutionsMax = 100
	// callbackSecondsMax is the timeout of the callback. If a run is killed, this timeout ends its executions.
	callbackSecondsMax = 300
)

// standardWorkflow waits for a callback, branches on its outcome, and ends. %[1]s is the partition, %[2]q the URL of the
// queue for the token, and %[3]d callbackSecondsMax.
const standardWorkflow = `{
  "StartAt": "Callback",
  "States": {
    "Callback": {
      "Type": "Task", "Resource": "arn:%[1]s:states:::sqs:sendMessage.waitForTaskToken", "TimeoutSeconds": %[3]d,
      "Parameters": {"QueueUrl": %[2]q, "MessageBody": {"token.$": "$$.Task.Token"}}, "Next": "Branch"
    },
    "Branch": {"Type": "Choice", "Choices": [{"Variable": "$.outcome", "StringEquals": "verified", "Next": "Verified"}], "Default": "Rejected"},
    "Verified": {"Type": "Succeed"},
    "Rejected": {"Type": "Fail"}
  }
}`

// expressWorkflow only branches: an Express workflow cannot wait for a callback.
const expressWorkflow = `{
  "StartAt": "Branch",
  "States": {
    "Branch": {"Type": "Choice", "Choices": [{"Variable": "$.outcome", "StringEquals": "verified", "Next": "Verified"}], "Default": "Rejected"},
    "Verified": {"Type": "Succeed"},
    "Rejected": {"Type": "Fail"}
  }
}`

// benchOutcome is the input of the Express workflow, and the output of the callback in the Standard workflow.
const benchOutcome = `{"outcome": "verified"}`

// workflowReport is the result of a workflow.
type workflowReport struct {
	Type types.StateMachineType `json:"type"`
	// Unsupported is the error of an endpoint without workflows of this type. The other fields are then zero.
	Unsupported string       `json:"unsupported,omitempty"`
	Executions  int          `json:"executions,omitempty"`
	StartToEnd  load.Summary `json:"start_to_end,omitzero"`
	SenderLag   load.Summary `json:"sender_lag,omitzero"`
	// Transitions counts the start of an execution and the states that it enters. It is 0 for Express workflows.
	Transitions int `json:"transitions_per_execution,omitempty"`
	// BilledGigabyteSeconds is the usage that Express reports for an execution.
	BilledGigabyteSeconds float64          `json:"billed_gigabyte_seconds_per_execution,omitempty"`
	Computed              workflowComputed `json:"computed,omitzero"`
}

type workflowComputed struct {
	DollarsPerMillion float64 `json:"usd_per_million_executions"`
}

// workflows measures workflows.
type workflows struct {
	*bench
	states *sfn.Client
	// callbacks is the URL of the queue that receives the tokens.
	callbacks string

	// fail ends the measurement with an error.
	fail context.CancelCauseFunc

	mu     sync.Mutex
	open   map[string]bool // ARNs of executions that have not ended
	times  []time.Duration
	counts int64   // transitions of all executions
	billed float64 // gigabyte-seconds of all executions
}

// executions returns how many executions of each workflow the benchmark starts.
func (b *bench) executions() int { return min(b.flags.Events, benchExecutionsMax) }

// workflowsPriceMax returns the estimated price of the workflows in millionths of a dollar.
func (b *bench) workflowsPriceMax() float64 {
	const transitions = 4 // the start, Callback, Branch, Verified
	standard := transitions*prices.MillionTransitions + 3*prices.MillionSQSRequests
	express := prices.MillionExpressRequests + 1e6*expressGigabyteSecondsMin*prices.ExpressGigabyteSecond
	return float64(b.executions()) * (standard + express)
}

// expressGigabyteSecondsMin is the minimum that Express bills for an execution: 64 MB for 100 ms.
const expressGigabyteSecondsMin = 0.0064

// measureWorkflows measures both types, and deletes all resources that it creates.
func (b *bench) measureWorkflows(ctx context.Context) (reports []workflowReport, err error) {
	calling, stop := graceful(ctx)
	defer stop()
	queue, err := b.client.CreateQueue(calling, &sqs.CreateQueueInput{QueueName: &b.run})
	if err != nil {
		return nil, fmt.Errorf("creating the queue %s: %w", b.run, err)
	}
	url := aws.ToString(queue.QueueUrl)
	defer func() {
		if _, failed := b.client.DeleteQueue(calling, &sqs.DeleteQueueInput{QueueUrl: &url}); failed != nil {
			err = errors.Join(err, fmt.Errorf("deleting the queue %s, delete it yourself: %w", url, failed))
		}
	}()
	partition := strings.Split(b.flags.StepFunctions, ":")[1]
	standard := fmt.Sprintf(standardWorkflow, partition, url, callbackSecondsMax)
	for _, typ := range []types.StateMachineType{types.StateMachineTypeStandard, types.StateMachineTypeExpress} {
		w := &workflows{bench: b, states: sfn.NewFromConfig(b.settings), callbacks: url, open: map[string]bool{}}
		definition, start := standard, w.runStandard
		if typ == types.StateMachineTypeExpress {
			definition, start = expressWorkflow, w.runExpress
		}
		report, err := w.measure(ctx, typ, definition, start)
		if err != nil {
			return reports, err
		}
		reports = append(reports, report)
	}
	return reports, nil
}

// measure creates a workflow, calls `run` for each of its executions at --rate, and deletes the workflow.
func (w *workflows) measure(ctx context.Context, typ types.StateMachineType, definition string, run func(ctx, calling context.Context, machine string) error) (report workflowReport, err error) {
	report.Type = typ
	calling, stop := graceful(ctx)
	defer stop()
	ctx, w.fail = context.WithCancelCause(ctx)
	defer w.fail(nil)
	name := w.run + "-" + strings.ToLower(string(typ))
	created, err := w.states.CreateStateMachine(calling, &sfn.CreateStateMachineInput{Name: &name, Type: typ, RoleArn: &w.flags.StepFunctions, Definition: &definition})
	var unsupported *types.StateMachineTypeNotSupported
	if errors.As(err, &unsupported) {
		report.Unsupported = unsupported.ErrorMessage()
		return report, nil
	}
	if err != nil {
		return report, fmt.Errorf("creating the workflow %s: %w", name, err)
	}
	defer func() {
		for arn := range w.open { // Stopping fails if the execution has just ended.
			_, _ = w.states.StopExecution(calling, &sfn.StopExecutionInput{ExecutionArn: aws.String(arn)})
		}
		if _, failed := w.states.DeleteStateMachine(calling, &sfn.DeleteStateMachineInput{StateMachineArn: created.StateMachineArn}); failed != nil {
			err = errors.Join(err, fmt.Errorf("deleting the workflow %s, delete it yourself: %w", aws.ToString(created.StateMachineArn), failed))
		}
	}()
	answering, stopAnswers := context.WithCancel(ctx)
	var answers sync.WaitGroup
	if typ == types.StateMachineTypeStandard {
		answers.Go(func() { w.answer(answering, calling) })
	}
	defer answers.Wait()
	defer stopAnswers()
	task := w.session.newTask("starting executions of the workflow " + name)
	defer task.end()
	lags, err := load.Pace(ctx, w.session.Now, w.executions(), w.flags.Rate, func(int, time.Time) {
		if err := run(ctx, calling, aws.ToString(created.StateMachineArn)); err != nil {
			w.fail(err)
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err = cmp.Or(err, context.Cause(ctx)); err != nil {
		return report, err
	}
	executions := float64(len(w.times))
	report.Executions, report.StartToEnd, report.SenderLag = len(w.times), load.Summarize(w.times), load.Summarize(lags)
	report.Transitions, report.BilledGigabyteSeconds = int(w.counts)/len(w.times), w.billed/executions
	dollars := float64(w.counts)/executions*prices.MillionTransitions + 3*prices.MillionSQSRequests // the token's message: a send, a receive, a delete
	if typ == types.StateMachineTypeExpress {
		dollars = prices.MillionExpressRequests + 1e6*report.BilledGigabyteSeconds*prices.ExpressGigabyteSecond
	}
	report.Computed.DollarsPerMillion = rounded(dollars, 2)
	return report, nil
}

// runStandard starts an execution and reads its history until it has ended. StartExecution gets the context `calling`,
// so that Ctrl-C cannot lose the ARN needed to stop the execution.
func (w *workflows) runStandard(ctx, calling context.Context, machine string) error {
	started, err := w.states.StartExecution(calling, &sfn.StartExecutionInput{StateMachineArn: &machine})
	if err != nil {
		return fmt.Errorf("starting an execution of %s: %w", machine, err)
	}
	arn := aws.ToString(started.ExecutionArn)
	w.mu.Lock()
	w.open[arn] = true
	w.mu.Unlock()
	for pause := producer.PollFirst; ; pause = producer.NextPoll(pause) {
		if err := load.Sleep(ctx, pause); err != nil {
			return err
		}
		history, err := w.states.GetExecutionHistory(ctx, &sfn.GetExecutionHistoryInput{ExecutionArn: &arn})
		if err != nil {
			return fmt.Errorf("reading the history of %s: %w", arn, err)
		}
		first, last := history.Events[0], history.Events[len(history.Events)-1]
		switch last.Type { // After any other event, the history continues.
		case types.HistoryEventTypeExecutionSucceeded:
			transitions := int64(1) // the start
			for _, event := range history.Events {
				if event.StateEnteredEventDetails != nil {
					transitions++
				}
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.open, arn)
			w.times, w.counts = append(w.times, last.Timestamp.Sub(*first.Timestamp)), w.counts+transitions
			return nil
		case types.HistoryEventTypeExecutionFailed, types.HistoryEventTypeExecutionTimedOut, types.HistoryEventTypeExecutionAborted:
			return fmt.Errorf("expected %s to succeed, got %s: the role may lack sqs:SendMessage on %s", arn, last.Type, w.callbacks)
		}
	}
}

// runExpress runs an execution.
func (w *workflows) runExpress(ctx, _ context.Context, machine string) error {
	ended, err := w.states.StartSyncExecution(ctx, &sfn.StartSyncExecutionInput{StateMachineArn: &machine, Input: aws.String(benchOutcome)})
	if err != nil {
		return fmt.Errorf("running an execution of %s: %w", machine, err)
	}
	if ended.Status != types.SyncExecutionStatusSucceeded {
		return fmt.Errorf("expected %s to succeed, got %s: %s", aws.ToString(ended.ExecutionArn), ended.Status, aws.ToString(ended.Cause))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.times = append(w.times, ended.StopDate.Sub(*ended.StartDate))
	if billing := ended.BillingDetails; billing != nil {
		w.billed += float64(billing.BilledDurationInMilliseconds) / 1000 * float64(billing.BilledMemoryUsedInMB) / 1024
	}
	return nil
}

// answer receives the tokens and completes their tasks until ctx ends. Calls in flight may last until `calling` ends.
func (w *workflows) answer(ctx, calling context.Context) {
	var answers sync.WaitGroup
	defer answers.Wait()
	for ctx.Err() == nil {
		received, err := w.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &w.callbacks, MaxNumberOfMessages: 10, WaitTimeSeconds: 1})
		if err != nil {
			if ctx.Err() == nil {
				w.fail(fmt.Errorf("receiving tokens from %s: %w", w.callbacks, err))
			}
			return
		}
		for _, message := range received.Messages {
			answers.Go(func() {
				var body struct{ Token string }
				err := json.Unmarshal([]byte(aws.ToString(message.Body)), &body)
				if err == nil {
					_, err = w.states.SendTaskSuccess(calling, &sfn.SendTaskSuccessInput{TaskToken: &body.Token, Output: aws.String(benchOutcome)})
				}
				if err == nil {
					_, err = w.client.DeleteMessage(calling, &sqs.DeleteMessageInput{QueueUrl: &w.callbacks, ReceiptHandle: message.ReceiptHandle})
				}
				if err != nil {
					w.fail(fmt.Errorf("answering a task: %w", err))
				}
			})
		}
	}
}
