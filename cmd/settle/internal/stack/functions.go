package stack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/eventbridgebus"
	"github.com/settle-run/settle/runtime/gateway"
	"github.com/settle-run/settle/runtime/limits"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/sfncallback"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// functionTimeoutDefault is the default timeout of functions. It equals the consumer's timeout in infra/template.yaml.
const functionTimeoutDefault = 45 * time.Second

// newGateway returns the handler that the gateway function serves.
func (s *Stack) newGateway(queues queueURLs) (http.Handler, error) {
	settings := s.role("gateway")
	queue, store := sqsqueue.New(sqs.NewFromConfig(settings), queues.fifo, ""), dynamostore.NewIndexed(dynamodb.NewFromConfig(settings), Table)
	return gateway.New(s.machines, queue, store, gateway.Config{
		Webhooks: s.config.Webhooks, Callbacks: s.config.Callbacks, Now: s.config.Now, Logger: s.config.Logger, LogDetails: true,
	})
}

// function creates an execution environment of a Lambda function behind a queue.
type function func() awslocal.Invoker

// inProcess returns a function that runs in this process.
func inProcess(handler any) function {
	return func() awslocal.Invoker { return lambda.NewHandler(handler) }
}

// timers returns the delay queue and the timers of a function. Both use the function's AWS settings.
func (s *Stack) timers(settings aws.Config, queues queueURLs) (*schedule.DelayQueue, *schedule.Timers, error) {
	delays := schedule.NewDelayQueue(sqs.NewFromConfig(settings), queues.delay, s.config.Now)
	timers, err := schedule.NewTimers(delays, scheduler.NewFromConfig(settings), schedule.SchedulerConfig{
		QueueARN: arn("sqs", DelayQueue), RoleARN: s.RoleARN(schedulerRole), DeadLetterQueueARN: arn("sqs", DelayDeadLetterQueue),
		Logger: s.config.Logger,
	})
	return delays, timers, err
}

// poll starts the functions behind queues, each with its own poller.
func (s *Stack) poll(queues queueURLs) error {
	newConsumer, concurrency := s.consumerInProcess, map[string]int{Queue: s.config.Concurrency}
	if s.config.Consumer != "" {
		newConsumer = s.consumerProcesses
	}
	consumer, err := newConsumer(queues)
	if err != nil {
		return err
	}
	settings := s.role("delay")
	delays, timers, err := s.timers(settings, queues)
	if err != nil {
		return err
	}
	forwarder := schedule.NewForwarder(delays, timers, sqsqueue.New(sqs.NewFromConfig(settings), queues.fifo, ""))
	settings = s.role("executions")
	ends := sfncallback.NewForwarder(sfn.NewFromConfig(settings), sqsqueue.New(sqs.NewFromConfig(settings), queues.fifo, ""), s.config.Logger)

	ctx, cancel := context.WithCancel(context.Background())
	s.stopPolling = cancel
	for source, function := range map[string]function{
		Queue:           consumer,
		DelayQueue:      inProcess(sqsqueue.EachHandler(s.config.Logger, forwarder.Forward)),
		ExecutionsQueue: inProcess(sqsqueue.EachHandler(s.config.Logger, ends.Forward)),
	} {
		s.polling.Go(func() {
			mapping := awslocal.EventSource{
				Queue: source, Timeout: s.config.FunctionTimeout, Concurrency: concurrency[source], ReportBatchItemFailures: true, Resume: true,
				OnFailure: func(err error) { s.config.Logger.Error("invocation failed", "error", err) },
			}
			if err := s.cloud.Poll(ctx, mapping, function); err != nil {
				s.fail(fmt.Errorf("the function behind %s has stopped: %w", source, err))
			}
		})
	}
	return nil
}

// tokenTask returns the function TokenTask. Each invocation waits until the stack has started, because an execution in
// the data folder may invoke the function before the queue exists.
func (s *Stack) tokenTask() awslocal.Invoker {
	return lambda.NewHandler(func(ctx context.Context, task sqsqueue.Task) error {
		select {
		case <-s.started:
			queue := sqsqueue.New(sqs.NewFromConfig(s.role("tokentask")), s.QueueURL(), "")
			return sqsqueue.TaskHandler(s.machines, queue)(ctx, task)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// arn returns the ARN of a local resource.
func arn(service, name string) string {
	return "arn:aws:" + service + ":" + awslocal.Region + ":" + awslocal.Account + ":" + name
}

// schedulerRole is the role that Scheduler uses to send to the delay queue.
const schedulerRole = "settle-scheduler"

// consumerInProcess returns the consumer, the function that applies events. It runs in this process.
func (s *Stack) consumerInProcess(queues queueURLs) (function, error) {
	settings := s.role("consumer")
	client, states := sqs.NewFromConfig(settings), sfn.NewFromConfig(settings)
	_, timers, err := s.timers(settings, queues)
	if err != nil {
		return nil, err
	}
	workflows, err := sfncallback.NewWorkflows(states, s.workflows())
	if err != nil {
		return nil, err
	}
	store := dynamostore.NewIndexed(dynamodb.NewFromConfig(settings), Table)
	loop, err := durable.New(s.machines, durable.Ports{
		Store: store, Limiter: limits.New(store, s.config.Now), Queue: sqsqueue.New(client, queues.fifo, queues.deadLetter),
		Timers: timers, Tokens: sfncallback.New(states), Executions: workflows,
		Acknowledger: sqsqueue.NewAcknowledger(client, s.QueueURL()),
	}, durable.Config{
		Now: s.config.Now, Logger: s.config.Logger, Emit: eventbridgebus.New(eventbridge.NewFromConfig(settings), EventBus).Emit, Observer: durable.Observer{Committed: s.config.Committed},
	})
	if err != nil {
		return nil, err
	}
	return s.onClock(inProcess(sqsqueue.Handler(loop))), nil
}

// consumerProcesses returns the consumer as a function that runs in processes of Config.Consumer. The processes read
// their settings from environment variables, as on AWS.
func (s *Stack) consumerProcesses(queueURLs) (function, error) {
	if s.aws == nil {
		return nil, errors.New("the consumer's processes need an AWS endpoint that listens: set Config.AWSAddr")
	}
	var workflows []string
	for name, machine := range s.workflows() {
		workflows = append(workflows, name+"="+machine)
	}
	slices.Sort(workflows)
	bootstrap, err := awslocal.NewBootstrap(awslocal.BootstrapConfig{
		Path: s.config.Consumer, FunctionName: "settle-consumer", Timeout: s.config.FunctionTimeout, Logs: s.config.ConsumerLogs,
		Env: append([]string{
			"AWS_ENDPOINT_URL=" + s.AWSURL(),
			"SETTLE_TABLE=" + Table,
			"SETTLE_TABLE_INDEX=on",
			"SETTLE_QUEUE_URL=" + s.urlOf(Queue),
			"SETTLE_DEAD_LETTER_QUEUE_URL=" + s.urlOf(DeadLetterQueue),
			"SETTLE_DELAY_QUEUE_URL=" + s.urlOf(DelayQueue),
			"SETTLE_DELAY_QUEUE_ARN=" + arn("sqs", DelayQueue),
			"SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN=" + arn("sqs", DelayDeadLetterQueue),
			"SETTLE_SCHEDULER_ROLE_ARN=" + s.RoleARN(schedulerRole),
			"SETTLE_EVENT_BUS=" + EventBus,
			"SETTLE_WORKFLOWS=" + strings.Join(workflows, ","),
			"SETTLE_LOG_PAYLOADS=on", // Without this setting, simulated services log only that they were called.
		}, s.config.ConsumerEnv(s.HTTPURL())...),
	})
	if err != nil {
		return nil, fmt.Errorf("running the consumer: %w", err)
	}
	s.consumer = bootstrap
	return bootstrap.Start, nil
}

// workflows returns the ARNs of the workflows that the machines start, by name. For each workflow, the user creates a
// state machine with the same name.
func (s *Stack) workflows() map[string]string {
	arns := map[string]string{}
	for _, workflow := range s.machines.Workflows() {
		arns[workflow] = arn("states", "stateMachine:"+workflow)
	}
	return arns
}
