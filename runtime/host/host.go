// Package host runs machines in Lambda functions: the consumer, the gateway and the functions around them. A module with its own
// machines has a main package for each function:
//
//	func main() { host.Main(host.Consumer(machines)) }
//
//	func machines(p *host.Process) ([]durable.Machine, error) {
//		bank := bank.New(p.Env.Text("BANK_URL", "the address of the bank"))
//		return []durable.Machine{durable.Host(order.New(bank), durable.MachineConfig{})}, nil
//	}
//
// The functions read their settings from environment variables. If one is missing or invalid, the process logs its name and exits
// before the first event:
//
//	SETTLE_TABLE                   the DynamoDB table                                      consumer, gateway
//	SETTLE_TABLE_INDEX             on if the table has the index by_state                  consumer
//	SETTLE_QUEUE_URL               the FIFO queue                                          all
//	SETTLE_DEAD_LETTER_QUEUE_URL   its FIFO dead-letter queue                              consumer
//	SETTLE_DELAY_QUEUE_URL         the standard queue for timers                           consumer, delay
//	SETTLE_DELAY_QUEUE_ARN, SETTLE_SCHEDULER_ROLE_ARN, SETTLE_SCHEDULE_GROUP               consumer, delay, for timers beyond 15 minutes
//	SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN   the queue for undeliverable timers                consumer, delay
//	SETTLE_WORKFLOWS               name=ARN of the state machines that charts start        consumer
//	SETTLE_EVENT_BUS               the event bus for the events that charts emit           consumer; without it, they are dropped
//	SETTLE_HISTORY_MAX             transitions stored per instance, 1 to 100               consumer; 20 by default
//	SETTLE_HOPS_MAX                messages between instances in a row, 1 to 1000000       consumer; 1000 by default
//	SETTLE_RECORD                  the share of the instances to record, such as 0.01      consumer; none by default
//	SETTLE_RECORD_REDACT, SETTLE_RECORD_KEY   keys to redact, and the secret for it        consumer; none by default
//	SETTLE_BASE_PATH               the path of a custom domain's API mapping               gateway; none by default
//	SETTLE_SERVICE                 the name in metrics and traces; settle by default
//	SETTLE_LOG_LEVEL               debug, info, warn or error
//	SETTLE_LOG_PAYLOADS            on to log event payloads, without task tokens
//	OTEL_EXPORTER_OTLP_ENDPOINT    a collector for traces, OTLP over HTTP; none by default
//	OTEL_EXPORTER_OTLP_HEADERS     headers for it: name=value, separated by commas
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
	"github.com/settle-run/settle/runtime/internal/readcache"
	"github.com/settle-run/settle/runtime/limits"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/sfncallback"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// Machines builds the machines that a function hosts. It is called once, when the process starts. If a variable that it
// reads is missing or invalid, the process exits and the result is not used.
type Machines func(p *Process) ([]durable.Machine, error)

// ThirdParties are the third parties that may send requests to the gateway, keyed by the names in their addresses.
type ThirdParties struct {
	Webhooks  map[string]gateway.Webhook
	Callbacks map[string]gateway.Callback
}

// Consumer returns the function behind the FIFO queue. It applies events to instances. Its event source mapping must
// report batch item failures.
func Consumer(machines Machines) Function {
	return Function{
		Requires: []string{Table, QueueURL, DeadLetterQueueURL, DelayQueueURL},
		Machines: machines, Handler: newConsumer,
	}
}

// Gateway returns the function behind an HTTP API or a function URL. It sends events to instances, shows instances, and
// accepts webhooks and callbacks. `parties` may be nil. The machines only validate events and compute views.
func Gateway(machines Machines, parties func(p *Process) ThirdParties) Function {
	return Function{
		Requires: []string{Table, QueueURL},
		Machines: machines,
		Handler: func(p *Process, hosted *durable.Machines) (any, error) {
			if parties == nil {
				return newGateway(p, hosted, ThirdParties{})
			}
			return newGateway(p, hosted, parties(p))
		},
	}
}

// TokenTask returns the function that a Step Functions task invokes to wait for an instance
// (arn:aws:states:::lambda:invoke.waitForTaskToken). It validates the event and sends it to the FIFO queue. A task that
// sends to the queue directly skips the validation.
func TokenTask(machines Machines) Function {
	return Function{Requires: []string{QueueURL}, Machines: machines, Handler: newTokenTask}
}

// Delay returns the function behind the delay queue. It sends due timers to the FIFO queue. Its event source mapping must
// report batch item failures.
func Delay() Function {
	return Function{Requires: []string{QueueURL, DelayQueueURL}, Handler: newDelay}
}

// Executions returns the function behind the queue of an EventBridge rule for "Step Functions Execution Status Change".
// When an execution ends, it sends an event to the instance that started it. Its event source mapping must report batch
// item failures.
func Executions() Function {
	return Function{Requires: []string{QueueURL}, Handler: newExecutions}
}

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
	observer, err := p.observer()
	if err != nil {
		return nil, err
	}
	store := newStore(p)
	loop, err := durable.New(machines, durable.Ports{
		Store: store, Queue: p.queue(client), Timers: timers, Limiter: limits.New(store, time.Now),
		Tokens: sfncallback.New(states), Executions: workflows, Acknowledger: sqsqueue.NewAcknowledger(client, p.Settings.QueueURL),
		Cache: readcache.New(time.Now, readcache.HitsMin),
	}, durable.Config{
		Logger: p.Logger, Observer: observer, Emit: newEmit(p, machines), Lanes: p.Settings.Lanes, HistoryMax: p.Settings.HistoryMax, HopsMax: p.Settings.HopsMax,
	})
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

// newTimers returns the delay queue and, if EventBridge Scheduler is configured, the timers that use it.
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
	handler, err := gateway.New(machines, p.Queue(), store, gateway.Config{
		Webhooks: parties.Webhooks, Callbacks: parties.Callbacks, BasePath: p.Settings.BasePath, Logger: p.Logger,
	})
	if err != nil {
		return nil, err
	}
	return gateway.Lambda(p.Telemetry.HTTP(handler)), nil
}

// newDelay returns the handler of the delay queue.
func newDelay(p *Process, _ *durable.Machines) (any, error) {
	delays, timers, err := newTimers(p)
	if err != nil {
		return nil, err
	}
	forwarder := schedule.NewForwarder(delays, timers, p.Telemetry.Sender(p.Queue()))
	return p.Telemetry.Each(sqsqueue.EachHandler(p.Logger, func(ctx context.Context, body string) error {
		err := forwarder.Forward(ctx, body)
		if errors.Is(err, schedule.ErrNotDelayed) {
			// Do not return the error of Forward. It may quote the body.
			return fmt.Errorf("%w: %d bytes in another format: inspect the message once it is in the dead-letter queue", schedule.ErrNotDelayed, len(body))
		}
		return err
	})), nil
}

// newExecutions returns the handler of the queue that reports ended executions.
func newExecutions(p *Process, _ *durable.Machines) (any, error) {
	forwarder := sfncallback.NewForwarder(sfn.NewFromConfig(p.RuntimeAWS()), p.Telemetry.Sender(p.Queue()), p.Logger)
	return p.Telemetry.Each(sqsqueue.EachHandler(p.Logger, forwarder.Forward)), nil
}

// newTokenTask returns the handler of Step Functions tasks.
func newTokenTask(p *Process, machines *durable.Machines) (any, error) {
	return sqsqueue.TaskHandler(machines, p.Telemetry.Sender(p.Queue())), nil
}
