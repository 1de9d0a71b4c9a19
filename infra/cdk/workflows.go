package cdk

import (
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/jsii-runtime-go"

	"github.com/settle-run/settle/infra/cdk/internal/examples"
)

// Examples are the workflows of infra/workflows, by name.
var Examples = []string{"enrich", "job", "job-relaunch", "pipeline", "upload-sales", "upload-warehouse"}

// addWorkflows adds the workflows of infra/workflows, which need nothing filled in: the queue's address is part of their
// input. All they may do is send to the queue.
func (s *Settle) addWorkflows() {
	if s.props.WithoutExamples {
		return
	}
	role := s.role("WorkflowsRole", "Settle's workflows: send to the FIFO queue.",
		servicePrincipal("states.amazonaws.com", arn("states", "stateMachine:*")), allow(actions("sqs:SendMessage"), s.Queue.QueueArn()))
	s.grantKey(role, queueKey)
	for _, name := range Examples {
		definition, err := examples.Definition(name)
		if err != nil {
			panic(err)
		}
		s.Workflows[name] = awsstepfunctions.NewStateMachine(s.Scope, jsii.String(pascal(name)+"Workflow"), &awsstepfunctions.StateMachineProps{
			DefinitionBody: awsstepfunctions.DefinitionBody_FromString(&definition), Role: role,
			StateMachineType: awsstepfunctions.StateMachineType_STANDARD,
		})
	}
}

// addExecutionEvents has EventBridge tell of the ends of the executions that charts have started: of the state machines in
// Props.Workflows, as another Settle of the account starts its own under names like ours. Where charts start none, the rule is off.
// Ends that it cannot bring to ExecutionsQueue are kept in ExecutionsDeadLetterQueue, which is a standard queue as EventBridge wants it.
func (s *Settle) addExecutionEvents() {
	detail := map[string]any{
		"name":   []any{map[string]any{"prefix": executionPrefix}},
		"status": []string{"SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"},
	}
	state := "DISABLED"
	if len(s.props.Workflows) > 0 {
		var machines []*string
		for _, name := range slices.Sorted(maps.Keys(s.props.Workflows)) {
			machines = append(machines, s.props.Workflows[name].StateMachineArn())
		}
		state, detail["stateMachineArn"] = "ENABLED", machines
	}
	rule := awsevents.NewCfnRule(s.Scope, jsii.String("ExecutionsRule"), &awsevents.CfnRuleProps{
		Description: jsii.String("Settle: the ends of the executions that charts have started."), State: &state,
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

// letSend lets a rule of EventBridge send to a queue, and no other rule.
func letSend(rule awsevents.CfnRule, queue awssqs.Queue) {
	queue.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid:        jsii.String("EventBridgeSends"),
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("events.amazonaws.com"), nil)},
		Actions:    actions("sqs:SendMessage"), Resources: &[]*string{queue.QueueArn()},
		Conditions: &map[string]any{"ArnEquals": map[string]any{"aws:SourceArn": rule.AttrArn()}},
	}))
}
