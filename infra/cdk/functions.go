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
	// forwarderBatch is how many messages a forwarder takes at once: it sends them on with one call.
	forwarderBatch = 10
	// forwarderConcurrency is how many batches of a standard queue are forwarded at once.
	forwarderConcurrency = 10
)

// environment is the environment of a function: what functions/internal/boot reads and the function uses. It panics if
// Props.Environment has a variable that is ours: a function with the queue of another Settle, say, would go on for long.
func (s *Settle) environment(function string) map[string]*string {
	env := map[string]*string{"SETTLE_SERVICE": s.name, "SETTLE_QUEUE_URL": s.Queue.QueueUrl()}
	switch function {
	case Consumer:
		env["SETTLE_TABLE"] = s.Table.TableName()
		env["SETTLE_TABLE_INDEX"] = jsii.String("on")
		if s.props.WithoutIndex {
			env["SETTLE_TABLE_INDEX"] = jsii.String("off")
		}
		env["SETTLE_DEAD_LETTER_QUEUE_URL"] = s.DeadLetterQueue.QueueUrl()
		s.setTimers(env)
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
		env["SETTLE_TABLE"] = s.Table.TableName()
		setSecret(env, "SETTLE_GITHUB_WEBHOOK_SECRET", s.secrets.GitHubWebhook)
		s.setCallbacks(env)
	case Delay:
		s.setTimers(env)
	case Objects:
		env["SETTLE_DEAD_LETTER_QUEUE_URL"] = s.DeadLetterQueue.QueueUrl()
	}
	for _, name := range slices.Sorted(maps.Keys(s.props.Environment)) {
		if _, taken := env[name]; taken {
			panic(fmt.Sprintf("cdk: expected no %s in Props.Environment, which the construct sets for the function %s: leave it out, "+
				"and set the field of Props that it follows from, if there is one", name, function))
		}
		env[name] = jsii.String(s.props.Environment[name])
	}
	return env
}

// setTimers tells which queue and which schedules bring timers.
func (s *Settle) setTimers(env map[string]*string) {
	env["SETTLE_DELAY_QUEUE_URL"] = s.DelayQueue.QueueUrl()
	env["SETTLE_DELAY_QUEUE_ARN"] = s.DelayQueue.QueueArn()
	env["SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN"] = s.DelayDeadLetterQueue.QueueArn()
	env["SETTLE_SCHEDULER_ROLE_ARN"] = s.SchedulerRole.RoleArn()
	env["SETTLE_SCHEDULE_GROUP"] = s.ScheduleGroup.ScheduleGroupName()
}

// setCallbacks tells enrich under which addresses its third party calls back: both variables, or none.
func (s *Settle) setCallbacks(env map[string]*string) {
	if s.secrets.EnrichCallbackKey == nil {
		return
	}
	env["SETTLE_ENRICH_CALLBACK_BASE"] = s.URL
	if s.props.CallbackBase != "" {
		env["SETTLE_ENRICH_CALLBACK_BASE"] = &s.props.CallbackBase
	}
	setSecret(env, "SETTLE_ENRICH_CALLBACK_KEY", s.secrets.EnrichCallbackKey)
}

// setSecret sets a variable to what a secret is referred to by, if there is the secret.
func setSecret(env map[string]*string, name string, value awscdk.SecretValue) {
	if value != nil {
		env[name] = value.UnsafeUnwrap()
	}
}

func (s *Settle) addFunctions() {
	for _, name := range s.functions() {
		s.addFunction(name)
	}
	s.feed(Consumer, s.Queue, s.props.ConsumerBatch, s.props.ConsumerConcurrency)
	s.feed(Delay, s.DelayQueue, forwarderBatch, forwarderConcurrency)
	s.feed(Executions, s.ExecutionsQueue, forwarderBatch, forwarderConcurrency)
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
		// A timer that a timer's transition arms, and a send that answers a send, go round through these functions. Lambda would
		// take the 16th for a fault and invoke nothing, without a line of log (AWS Lambda Developer Guide, "Recursive loop detection").
		RecursiveLoop: awslambda.RecursiveLoop_ALLOW,
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

// feed puts a function behind a queue.
func (s *Settle) feed(function string, queue awssqs.Queue, batch, concurrency int) {
	awslambda.NewEventSourceMapping(s.Scope, jsii.String(pascal(function)+"Mapping"), &awslambda.EventSourceMappingProps{
		Target: s.Functions[function], EventSourceArn: queue.QueueArn(), BatchSize: jsii.Number(batch),
		ReportBatchItemFailures: jsii.Bool(true), MaxConcurrency: jsii.Number(concurrency),
	})
}
