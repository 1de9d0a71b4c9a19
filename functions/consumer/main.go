// Command consumer is the Lambda function behind the FIFO queue: it applies the events of
// instances. Its event source mapping must report batch item failures.
package main

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/functions/internal/boot"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/sfncallback"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

func main() {
	boot.Main(newHandler, boot.Table, boot.QueueURL, boot.DeadLetterQueueURL, boot.DelayQueueURL, boot.SignupCodeKey)
}

func newHandler(p boot.Process) (any, error) {
	machines, err := p.Machines()
	if err != nil {
		return nil, err
	}
	return handlerOf(p, machines)
}

// handlerOf returns the function that hosts the machines.
func handlerOf(p boot.Process, machines *durable.Machines) (any, error) {
	client := sqs.NewFromConfig(p.AWS)
	store := newStore(p)
	queue := sqsqueue.New(client, p.Settings.QueueURL, p.Settings.DeadLetterQueueURL)
	timers, err := newTimers(p, schedule.NewDelayQueue(client, p.Settings.DelayQueueURL, time.Now))
	if err != nil {
		return nil, err
	}
	states := sfn.NewFromConfig(p.AWS)
	workflows, err := sfncallback.NewWorkflows(states, p.Settings.Workflows)
	if err != nil {
		return nil, err
	}
	loop, err := durable.New(machines, durable.Ports{
		Store: store, Queue: queue, Timers: timers, Tokens: sfncallback.New(states), Executions: workflows,
		Acknowledger: sqsqueue.NewAcknowledger(client, p.Settings.QueueURL),
	}, durable.Config{Logger: p.Logger})
	if err != nil {
		return nil, err
	}
	return sqsqueue.Handler(loop), nil
}

// newStore returns the store on the table, which keeps the index if the table has one.
func newStore(p boot.Process) *dynamostore.Store {
	if p.Settings.TableIndex {
		return dynamostore.NewIndexed(dynamodb.NewFromConfig(p.AWS), p.Settings.Table)
	}
	return dynamostore.New(dynamodb.NewFromConfig(p.AWS), p.Settings.Table)
}

// newTimers returns timers by the delay queue, and by EventBridge Scheduler if it is set up.
func newTimers(p boot.Process, delays *schedule.DelayQueue) (durable.Timers, error) {
	if p.Settings.SchedulerRoleARN == "" {
		return delays, nil
	}
	return schedule.NewTimers(delays, scheduler.NewFromConfig(p.AWS), schedule.SchedulerConfig{
		Group: p.Settings.ScheduleGroup, QueueARN: p.Settings.DelayQueueARN, RoleARN: p.Settings.SchedulerRoleARN,
	})
}
