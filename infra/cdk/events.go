package cdk

import (
	"embed"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/jsii-runtime-go"
)

// definitions has copies of infra/workflows. A module cannot embed files of another module. This module does not
// require the runtime's module, so its users need not require it either.
//
//go:embed examples/*.asl.json
var definitions embed.FS

// Examples are the names of the workflows in infra/workflows.
var Examples = []string{"enrich", "job", "job-relaunch", "pipeline", "upload-sales", "upload-warehouse"}

// addWorkflows adds the workflows of infra/workflows, in the partition of the stack. The files name
// the partition aws, so that they also run locally and pass validators. The queue's URL is part of
// the workflows' input. The workflows' role only allows sending to the queue.
func (s *Settle) addWorkflows() {
	if s.props.WithoutExamples {
		return
	}
	role := s.role("WorkflowsRole", "Settle's workflows: send to the FIFO queue.",
		servicePrincipal("states.amazonaws.com", arn("states", "stateMachine:*")), allow(actions("sqs:SendMessage"), s.Queue.QueueArn()))
	s.grantKey(role, queueKey)
	for _, name := range Examples {
		definition, err := definitions.ReadFile("examples/" + name + ".asl.json")
		if err != nil {
			panic(err)
		}
		deployed := strings.ReplaceAll(string(definition), `"arn:aws:`, `"arn:`+*awscdk.Aws_PARTITION()+`:`)
		s.Workflows[name] = awsstepfunctions.NewStateMachine(s.Scope, jsii.String(pascal(name)+"Workflow"), &awsstepfunctions.StateMachineProps{
			DefinitionBody: awsstepfunctions.DefinitionBody_FromString(&deployed), Role: role,
			StateMachineType: awsstepfunctions.StateMachineType_STANDARD,
		})
	}
}

// addEventBus sets the bus for the events that charts emit.
func (s *Settle) addEventBus() {
	switch {
	case s.props.WithoutEventBus:
	case s.props.EventBus != nil:
		s.EventBus = s.props.EventBus
	default:
		s.EventBus = awsevents.EventBus_FromEventBusName(s.Scope, jsii.String("EventBus"), jsii.String("default"))
	}
}

// setEventBus sets the variable of the bus. For a bus in another account or Region, the variable holds its ARN. Given a
// name, PutEvents would look for the bus in the caller's account and Region, and would accept and drop the events.
func (s *Settle) setEventBus(env map[string]*string) {
	if s.EventBus == nil {
		return
	}
	bus, stack := s.EventBus.Env(), awscdk.Stack_Of(s.Scope)
	env["SETTLE_EVENT_BUS"] = s.EventBus.EventBusArn()
	if *bus.Account == *stack.Account() && *bus.Region == *stack.Region() {
		env["SETTLE_EVENT_BUS"] = s.EventBus.EventBusName()
	}
}

// addExecutionEvents adds a rule for the executions that charts start. When such an execution ends, the rule sends an
// event to ExecutionsQueue. The rule matches only the state machines in Props.Workflows, because another stack in the
// account uses the same prefix of execution names. Without workflows, the rule is disabled. Undeliverable events go to
// ExecutionsDeadLetterQueue, a standard queue, because EventBridge does not accept a FIFO dead-letter queue.
func (s *Settle) addExecutionEvents() {
	detail := map[string]any{
		"name":   []any{map[string]any{"prefix": executionPrefix}},
		"status": []string{"SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"},
	}
	state := "DISABLED"
	if len(s.props.Workflows) > 0 {
		state = "ENABLED"
		detail["stateMachineArn"], _ = s.started()
	}
	rule := awsevents.NewCfnRule(s.Scope, jsii.String("ExecutionsRule"), &awsevents.CfnRuleProps{
		Description: jsii.String("Settle: ends of executions started by charts."), State: &state,
		EventPattern: map[string]any{
			"source": []string{"aws.states"}, "detail-type": []string{"Step Functions Execution Status Change"}, "detail": detail,
		},
		Targets: []any{map[string]any{
			"id": "queue", "arn": s.ExecutionsQueue.QueueArn(), "deadLetterConfig": map[string]any{"arn": s.ExecutionsDeadLetterQueue.QueueArn()},
		}},
	})
	letSend(rule, s.ExecutionsQueue)
	letSend(rule, s.ExecutionsDeadLetterQueue)
}

// letSend allows only this rule to send to the queue.
func letSend(rule awsevents.CfnRule, queue awssqs.Queue) {
	queue.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid:        jsii.String("EventBridgeSends"),
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("events.amazonaws.com"), nil)},
		Actions:    actions("sqs:SendMessage"), Resources: &[]*string{queue.QueueArn()},
		Conditions: &map[string]any{"ArnEquals": map[string]any{"aws:SourceArn": rule.AttrArn()}},
	}))
}

const (
	// EventBridge's maximum age of an event and maximum number of retries for a target.
	uploadEventAge      = 24 * time.Hour
	uploadEventAttempts = 185
	// Lambda's maximum age of an event and maximum number of retries for an asynchronous invocation.
	uploadInvokeAge     = 6 * time.Hour
	uploadInvokeRetries = 2
)

// addUploadEvents sends the "Object Created" events of Props.UploadBuckets to the function objects. Events that
// EventBridge or Lambda cannot deliver go to ObjectsDeadLetterQueue.
func (s *Settle) addUploadEvents() {
	if !s.hasUploads() {
		return
	}
	function, deadLetters := s.Functions[Objects], s.ObjectsDeadLetterQueue.QueueArn()
	function.Node().DefaultChild().(awslambda.CfnFunction).SetDeadLetterConfig(&awslambda.CfnFunction_DeadLetterConfigProperty{TargetArn: deadLetters})
	awslambda.NewCfnEventInvokeConfig(s.Scope, jsii.String("ObjectsRetries"), &awslambda.CfnEventInvokeConfigProps{
		FunctionName: function.FunctionName(), Qualifier: jsii.String("$LATEST"),
		MaximumEventAgeInSeconds: jsii.Number(uploadInvokeAge / time.Second), MaximumRetryAttempts: jsii.Number(uploadInvokeRetries),
	})
	rule := awsevents.NewCfnRule(s.Scope, jsii.String("UploadsRule"), &awsevents.CfnRuleProps{
		Description: jsii.String("Settle: uploads for the machine upload."), State: jsii.String("ENABLED"),
		EventPattern: map[string]any{
			"source": []string{"aws.s3"}, "detail-type": []string{"Object Created"},
			"detail": map[string]any{"bucket": map[string]any{"name": s.props.UploadBuckets}},
		},
		Targets: []any{map[string]any{
			"id": "function", "arn": function.FunctionArn(), "deadLetterConfig": map[string]any{"arn": deadLetters},
			"retryPolicy": map[string]any{"maximumEventAgeInSeconds": int(uploadEventAge / time.Second), "maximumRetryAttempts": uploadEventAttempts},
		}},
	})
	awslambda.NewCfnPermission(s.Scope, jsii.String("UploadsInvokeObjects"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunction"), FunctionName: function.FunctionArn(), Principal: jsii.String("events.amazonaws.com"), SourceArn: rule.AttrArn(),
	})
	letSend(rule, s.ObjectsDeadLetterQueue)
}
