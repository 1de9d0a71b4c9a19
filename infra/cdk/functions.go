package cdk

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"
)

const (
	// forwarderBatch is the batch size of a forwarder, a function that only forwards the messages of a queue.
	forwarderBatch = 10
	// forwarderConcurrency is the maximum number of batches that are forwarded at once from a standard queue.
	forwarderConcurrency = 10
)

// environment returns the environment of a function: the variables that runtime/host reads and the
// function uses. It panics if Props.Environment contains one of these variables. Otherwise a
// function could use another stack's queue unnoticed.
func (s *Settle) environment(function string) map[string]*string {
	env := map[string]*string{"SETTLE_SERVICE": s.name, "SETTLE_QUEUE_URL": s.Queue.QueueUrl()}
	s.setLanes(env)
	switch function {
	case Consumer:
		env["SETTLE_TABLE"] = s.tableName
		env["SETTLE_TABLE_INDEX"] = jsii.String("on")
		if s.props.WithoutIndex {
			env["SETTLE_TABLE_INDEX"] = jsii.String("off")
		}
		env["SETTLE_DEAD_LETTER_QUEUE_URL"] = s.DeadLetterQueue.QueueUrl()
		s.setTimers(env)
		s.setEventBus(env)
		setSecret(env, "SETTLE_SIGNUP_CODE_KEY", s.secrets.SignupCodeKey)
		s.setCallbacks(env)
		var workflows []string
		for _, name := range slices.Sorted(maps.Keys(s.props.Workflows)) {
			workflows = append(workflows, name+"="+*s.props.Workflows[name].StateMachineArn())
		}
		if len(workflows) > 0 {
			env["SETTLE_WORKFLOWS"] = jsii.String(strings.Join(workflows, ","))
		}
	case Gateway:
		env["SETTLE_TABLE"] = s.tableName
		setSecret(env, "SETTLE_GITHUB_WEBHOOK_SECRET", s.secrets.GitHubWebhook)
		setSecret(env, "SETTLE_GITHUB_WEBHOOK_SECRET_PREVIOUS", s.secrets.GitHubWebhookPrevious)
		s.setCallbacks(env)
		if base := s.props.basePath(); base != "" {
			env["SETTLE_BASE_PATH"] = &base
		}
	case Delay:
		s.setTimers(env)
	case Objects:
		env["SETTLE_DEAD_LETTER_QUEUE_URL"] = s.DeadLetterQueue.QueueUrl()
	}
	for _, name := range slices.Sorted(maps.Keys(s.props.Environment)) {
		if _, taken := env[name]; taken {
			panic(fmt.Sprintf("cdk: expected no %s in Props.Environment, because the construct sets it for the function %s: remove it, "+
				"and set the corresponding field of Props, if there is one", name, function))
		}
		env[name] = jsii.String(s.props.Environment[name])
	}
	return env
}

// setTimers sets the variables of the delay queue and the schedules.
func (s *Settle) setTimers(env map[string]*string) {
	env["SETTLE_DELAY_QUEUE_URL"] = s.DelayQueue.QueueUrl()
	env["SETTLE_DELAY_QUEUE_ARN"] = s.DelayQueue.QueueArn()
	env["SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN"] = s.DelayDeadLetterQueue.QueueArn()
	env["SETTLE_SCHEDULER_ROLE_ARN"] = s.SchedulerRole.RoleArn()
	env["SETTLE_SCHEDULE_GROUP"] = s.ScheduleGroup.ScheduleGroupName()
}

// setCallbacks sets the variables of enrich's callback addresses, unless the stack has no key for them.
func (s *Settle) setCallbacks(env map[string]*string) {
	if s.secrets.EnrichCallbackKey == nil {
		return
	}
	env["SETTLE_ENRICH_CALLBACK_BASE"] = s.URL
	if s.props.CallbackBase != "" {
		env["SETTLE_ENRICH_CALLBACK_BASE"] = &s.props.CallbackBase
	}
	setSecret(env, "SETTLE_ENRICH_CALLBACK_KEY", s.secrets.EnrichCallbackKey)
	setSecret(env, "SETTLE_ENRICH_CALLBACK_KEY_PREVIOUS", s.secrets.EnrichCallbackKeyPrevious)
}

// setSecret sets a variable to a reference to the secret, if there is one.
func setSecret(env map[string]*string, name string, value awscdk.SecretValue) {
	if value != nil {
		env[name] = value.UnsafeUnwrap()
	}
}

func (s *Settle) addFunctions() {
	for _, name := range s.functions() {
		s.addFunction(name)
	}
	mapping := s.feed("ConsumerMapping", Consumer, s.Queue, s.props.ConsumerBatch, s.props.ConsumerConcurrency)
	if s.props.ConsumerPollers.on() {
		s.props.ConsumerPollers.provision(mapping)
	}
	s.feedLanes()
	s.feed("DelayMapping", Delay, s.DelayQueue, forwarderBatch, forwarderConcurrency)
	s.feed("ExecutionsMapping", Executions, s.ExecutionsQueue, forwarderBatch, forwarderConcurrency)
}

func (s *Settle) addFunction(name string) {
	logs := awslogs.NewLogGroup(s.Scope, jsii.String(pascal(name)+"Logs"), &awslogs.LogGroupProps{
		Retention: s.props.LogRetention, EncryptionKey: s.props.EncryptionKey, RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
	env := s.environment(name)
	props := &awslambda.FunctionProps{
		Description:  jsii.String("Settle: functions/" + name + "."),
		Architecture: awslambda.Architecture_ARM_64(),
		Runtime:      awslambda.Runtime_PROVIDED_AL2023(),
		Handler:      jsii.String("bootstrap"),
		Code:         s.props.Code(s.Scope, name),
		Role:         s.functionRole(name, logs),
		LogGroup:     logs,
		Environment:  &env,
		MemorySize:   jsii.Number(s.props.MemoryMiB),
		Timeout:      seconds(s.timeout(name)),
	}
	switch name {
	case Consumer, Delay, Executions:
		// A chart can schedule a timer when a timer fires, and start a workflow when a workflow ends. Two instances can
		// answer each other's events. Such a chain passes through these functions in a loop. Lambda would treat the
		// 16th pass as a fault and stop invoking the functions without a log line (AWS Lambda Developer Guide,
		// "Recursive loop detection"). No such chain passes through the other functions twice.
		props.RecursiveLoop = awslambda.RecursiveLoop_ALLOW
	}
	if name == Consumer && s.props.ReserveConsumerConcurrency {
		props.ReservedConcurrentExecutions = jsii.Number(s.consumerBatches())
	}
	if s.props.EncryptionKey != nil {
		props.EnvironmentEncryption = s.props.EncryptionKey
	}
	s.Functions[name] = awslambda.NewFunction(s.Scope, jsii.String(pascal(name)), props)
}

func (s *Settle) timeout(function string) time.Duration {
	if function == Consumer {
		return s.props.ConsumerTimeout
	}
	return forwarderTimeout
}

// feed connects a queue to a function. With a concurrency of 0, the mapping has no maximum concurrency.
func (s *Settle) feed(id, function string, queue awssqs.Queue, batch, concurrency int) awslambda.CfnEventSourceMapping {
	props := &awslambda.EventSourceMappingProps{
		Target: s.Functions[function], EventSourceArn: queue.QueueArn(), BatchSize: jsii.Number(batch), ReportBatchItemFailures: jsii.Bool(true),
	}
	if concurrency > 0 {
		props.MaxConcurrency = jsii.Number(concurrency)
	}
	mapping := awslambda.NewEventSourceMapping(s.Scope, &id, props)
	return mapping.Node().DefaultChild().(awslambda.CfnEventSourceMapping)
}
