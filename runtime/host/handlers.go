package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/sfncallback"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// newConsumer returns the handler of the FIFO queue, which applies events to instances.
func newConsumer(p *Process, machines *durable.Machines) (any, error) {
	client := sqs.NewFromConfig(p.RuntimeAWS())
	delays, scheduled, err := newTimers(p)
	if err != nil {
		return nil, err
	}
	var timers durable.Timers = delays
	if scheduled != nil {
		timers = scheduled
	}
	states := sfn.NewFromConfig(p.RuntimeAWS())
	workflows, err := sfncallback.NewWorkflows(states, p.Settings.Workflows)
	if err != nil {
		return nil, err
	}
	loop, err := durable.New(machines, durable.Ports{
		Store: newStore(p), Queue: sqsqueue.New(client, p.Settings.QueueURL, p.Settings.DeadLetterQueueURL), Timers: timers,
		Tokens: sfncallback.New(states), Executions: workflows, Acknowledger: sqsqueue.NewAcknowledger(client, p.Settings.QueueURL),
	}, durable.Config{Logger: p.Logger, Observer: p.Telemetry.Observer(), HistoryMax: p.Settings.HistoryMax})
	if err != nil {
		return nil, err
	}
	return sqsqueue.Handler(loop), nil
}

// newStore returns the store, which maintains the index if the table has one.
func newStore(p *Process) *dynamostore.Store {
	if p.Settings.TableIndex {
		return dynamostore.NewIndexed(dynamodb.NewFromConfig(p.RuntimeAWS()), p.Settings.Table)
	}
	return dynamostore.New(dynamodb.NewFromConfig(p.RuntimeAWS()), p.Settings.Table)
}

// newTimers returns the delay queue, and timers by EventBridge Scheduler if it is configured.
func newTimers(p *Process) (*schedule.DelayQueue, *schedule.Timers, error) {
	delays := schedule.NewDelayQueue(sqs.NewFromConfig(p.RuntimeAWS()), p.Settings.DelayQueueURL, time.Now)
	if p.Settings.SchedulerRoleARN == "" {
		return delays, nil, nil
	}
	timers, err := schedule.NewTimers(delays, scheduler.NewFromConfig(p.RuntimeAWS()), schedule.SchedulerConfig{
		Group: p.Settings.ScheduleGroup, QueueARN: p.Settings.DelayQueueARN, RoleARN: p.Settings.SchedulerRoleARN,
		DeadLetterQueueARN: p.Settings.DelayDeadLetterQueueARN, Logger: p.Logger,
	})
	return delays, timers, err
}

// newGateway returns the handler of the API.
func newGateway(p *Process, machines *durable.Machines, parties ThirdParties) (any, error) {
	store := dynamostore.New(dynamodb.NewFromConfig(p.RuntimeAWS()), p.Settings.Table)
	handler, err := gateway.New(machines, sender(p), store, gateway.Config{Webhooks: parties.Webhooks, Callbacks: parties.Callbacks, Logger: p.Logger})
	if err != nil {
		return nil, err
	}
	return gateway.Lambda(p.Telemetry.HTTP(handler)), nil
}

// sender returns the FIFO queue for functions that only send events.
func sender(p *Process) *sqsqueue.Queue {
	return sqsqueue.New(sqs.NewFromConfig(p.RuntimeAWS()), p.Settings.QueueURL, "")
}

// newDelay returns the handler of the delay queue.
func newDelay(p *Process, _ *durable.Machines) (any, error) {
	delays, timers, err := newTimers(p)
	if err != nil {
		return nil, err
	}
	forwarder := schedule.NewForwarder(delays, timers, p.Telemetry.Sender(sender(p)))
	return p.Telemetry.Each(sqsqueue.EachHandler(p.Logger, func(ctx context.Context, body string) error {
		err := forwarder.Forward(ctx, body)
		if errors.Is(err, schedule.ErrNotDelayed) {
			// Do not return the error itself. It may quote the body.
			return fmt.Errorf("%w: %d bytes in another format: inspect the message once it is in the dead-letter queue", schedule.ErrNotDelayed, len(body))
		}
		return err
	})), nil
}

// newExecutions returns the handler of the queue for ends of executions.
func newExecutions(p *Process, _ *durable.Machines) (any, error) {
	forwarder := sfncallback.NewForwarder(sfn.NewFromConfig(p.RuntimeAWS()), p.Telemetry.Sender(sender(p)), p.Logger)
	return p.Telemetry.Each(sqsqueue.EachHandler(p.Logger, forwarder.Forward)), nil
}

// newTokenTask returns the handler of Step Functions tasks.
func newTokenTask(p *Process, machines *durable.Machines) (any, error) {
	return sqsqueue.TaskHandler(machines, p.Telemetry.Sender(sender(p))), nil
}
