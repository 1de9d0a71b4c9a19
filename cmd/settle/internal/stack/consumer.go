package stack

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/sfncallback"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// schedulerRole is the role with which Scheduler sends to the delay queue.
const schedulerRole = "settle-scheduler"

// newConsumer returns the function that applies events: the executable of Config.Consumer, or the consumer in this
// process.
func (s *Stack) newConsumer(queues queueURLs) (function, error) {
	var consumer function
	var err error
	if s.config.Consumer == "" {
		consumer, err = s.consumerInProcess(queues)
	} else {
		consumer, err = s.consumerProcesses()
	}
	consumer.concurrency = s.config.Concurrency
	return consumer, err
}

func (s *Stack) consumerInProcess(queues queueURLs) (function, error) {
	settings := s.role("consumer")
	client, states := sqs.NewFromConfig(settings), sfn.NewFromConfig(settings)
	_, timers, err := s.timers(settings, queues)
	if err != nil {
		return function{}, err
	}
	workflows, err := sfncallback.NewWorkflows(states, s.workflows())
	if err != nil {
		return function{}, err
	}
	loop, err := durable.New(s.machines, durable.Ports{
		Store: dynamostore.NewIndexed(dynamodb.NewFromConfig(settings), Table), Queue: sqsqueue.New(client, queues.fifo, queues.deadLetter),
		Timers: timers, Tokens: sfncallback.New(states), Executions: workflows,
		Acknowledger: sqsqueue.NewAcknowledger(client, s.QueueURL()),
	}, durable.Config{Now: s.config.Now, Logger: s.config.Logger, Observer: durable.Observer{Committed: s.config.Committed}})
	if err != nil {
		return function{}, err
	}
	return inProcess(sqsqueue.Handler(loop)), nil
}

// consumerProcesses returns the consumer as processes of its executable. They read their settings from environment
// variables, as on AWS.
func (s *Stack) consumerProcesses() (function, error) {
	if s.aws == nil {
		return function{}, errors.New("the consumer's processes need an AWS endpoint that listens: set Config.AWSAddr")
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
			"SETTLE_WORKFLOWS=" + strings.Join(workflows, ","),
			"SETTLE_LOG_PAYLOADS=on", // Simulated services show nothing without it.
		}, s.config.ConsumerEnv(s.HTTPURL())...),
	})
	if err != nil {
		return function{}, fmt.Errorf("running the consumer: %w", err)
	}
	s.consumer = bootstrap
	return function{start: bootstrap.Start}, nil
}

// workflows returns the ARNs of the workflows that the machines start: state machines of the same names, which the user
// creates.
func (s *Stack) workflows() map[string]string {
	arns := map[string]string{}
	for _, workflow := range s.machines.Workflows() {
		arns[workflow] = arn("states", "stateMachine:"+workflow)
	}
	return arns
}
