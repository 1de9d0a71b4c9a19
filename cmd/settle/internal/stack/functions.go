package stack

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/functions/gateway/httpapi"
	"github.com/settle-run/settle/runtime/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/sfncallback"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// functionTimeout is the time-out of the functions, Lambda's word for the longest that one
// invocation may take.
const functionTimeout = time.Minute

// newGateway returns the handler that the gateway function serves.
func (s *Stack) newGateway(queues queueURLs) (http.Handler, error) {
	queue := sqsqueue.New(sqs.NewFromConfig(s.AWS()), queues.fifo, queues.deadLetter)
	return httpapi.New(s.machines, queue, s.store, httpapi.Config{
		GitHubSecret: s.config.GitHubSecret, Callbacks: s.config.Callbacks, Now: s.config.Now, Logger: s.config.Logger,
	})
}

// poll starts the functions that queues feed, each behind its own poller.
func (s *Stack) poll(queues queueURLs) error {
	client := sqs.NewFromConfig(s.AWS())
	queue := sqsqueue.New(client, queues.fifo, queues.deadLetter)
	delays := schedule.NewDelayQueue(client, queues.delay, s.config.Now)
	timers, err := schedule.NewTimers(delays, scheduler.NewFromConfig(s.AWS()), schedule.SchedulerConfig{
		QueueARN: arn("sqs", DelayQueue), RoleARN: s.RoleARN("settle-scheduler"),
	})
	if err != nil {
		return err
	}
	states := sfn.NewFromConfig(s.AWS())
	workflows, err := s.workflows(states)
	if err != nil {
		return err
	}
	loop, err := durable.New(s.machines, durable.Ports{
		Store: s.store, Queue: queue, Timers: timers, Tokens: sfncallback.New(states), Executions: workflows,
		Acknowledger: sqsqueue.NewAcknowledger(client, queues.fifo),
	}, durable.Config{Now: s.config.Now, Logger: s.config.Logger})
	if err != nil {
		return err
	}
	forwarder := schedule.NewForwarder(delays, queue)
	ends := sfncallback.NewForwarder(states, queue, s.config.Logger)

	ctx, cancel := context.WithCancel(context.Background())
	s.stopPolling = cancel
	for source, handler := range map[string]any{
		Queue:           sqsqueue.Handler(loop),
		DelayQueue:      sqsqueue.EachHandler(s.config.Logger, forwarder.Forward),
		ExecutionsQueue: sqsqueue.EachHandler(s.config.Logger, ends.Forward),
	} {
		s.polling.Go(func() {
			mapping := awslocal.EventSource{Queue: source, Timeout: functionTimeout, ReportBatchItemFailures: true, Resume: true}
			if err := s.cloud.Poll(ctx, mapping, func() awslocal.Invoker { return lambda.NewHandler(handler) }); err != nil {
				s.fail(fmt.Errorf("the function behind %s has stopped: %w", source, err))
			}
		})
	}
	return nil
}

// tokenTask returns the function TokenTask. The executions of a data folder may invoke it before the queue is
// there.
func (s *Stack) tokenTask() awslocal.Invoker {
	return lambda.NewHandler(func(ctx context.Context, task sqsqueue.Task) error {
		select {
		case <-s.started:
			queue := sqsqueue.New(sqs.NewFromConfig(s.AWS()), s.QueueURL(), "")
			return sqsqueue.TaskHandler(s.machines, queue)(ctx, task)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// workflows returns the workflows that the machines start: state machines of the same names, which whoever
// develops here creates.
func (s *Stack) workflows(client *sfn.Client) (*sfncallback.Workflows, error) {
	arns := map[string]string{}
	for _, workflow := range s.machines.Workflows() {
		arns[workflow] = arn("states", "stateMachine:"+workflow)
	}
	return sfncallback.NewWorkflows(client, arns)
}

// arn returns the ARN of a resource of this machine's AWS.
func arn(service, name string) string {
	return "arn:aws:" + service + ":" + awslocal.Region + ":" + awslocal.Account + ":" + name
}
