package cdk

import (
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/jsii-runtime-go"
)

// statements are what a function may do: its calls, on its resources.
func (s *Settle) statements(function string) []awsiam.PolicyStatement {
	switch function {
	case Consumer:
		return slices.Concat([]awsiam.PolicyStatement{
			// It hides what it will try again, and sends from instance to instance; Lambda does the rest by this role, and it
			// acknowledges early itself.
			allow(actions("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility", "sqs:SendMessage"), s.Queue.QueueArn()),
			allow(actions("sqs:SendMessage"), s.DeadLetterQueue.QueueArn(), s.DelayQueue.QueueArn()),
			// It claims an alias on condition that the instance has not changed: a transaction, whose items IAM authorizes as PutItem
			// and ConditionCheckItem (Amazon DynamoDB Developer Guide, "Using IAM with DynamoDB transactions").
			allow(actions("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem"), s.Table.TableArn()),
		}, s.scheduling("scheduler:CreateSchedule", "scheduler:DeleteSchedule"), s.answering(), s.starting(), s.describing())
	case Gateway:
		return []awsiam.PolicyStatement{
			allow(actions("sqs:SendMessage"), s.Queue.QueueArn()),
			allow(actions("dynamodb:GetItem"), s.Table.TableArn()),
			// A callback is noted with its alias, and a client's event ID is reserved. Instances it cannot write.
			allowIf(actions("dynamodb:UpdateItem"), "ForAllValues:StringLike", "dynamodb:LeadingKeys", "alias/*", s.Table.TableArn()),
			allowIf(actions("dynamodb:UpdateItem"), "ForAllValues:StringLike", "dynamodb:LeadingKeys", "idempotency/*", s.Table.TableArn()),
		}
	case Delay:
		return append([]awsiam.PolicyStatement{
			allow(receive, s.DelayQueue.QueueArn()),
			// What is not due yet goes to EventBridge Scheduler, or round once more.
			allow(actions("sqs:SendMessage"), s.Queue.QueueArn(), s.DelayQueue.QueueArn()),
		}, s.scheduling("scheduler:CreateSchedule")...)
	case Executions:
		return append([]awsiam.PolicyStatement{
			allow(receive, s.ExecutionsQueue.QueueArn()),
			allow(actions("sqs:SendMessage"), s.Queue.QueueArn()),
		}, s.describing()...)
	case TokenTask:
		return []awsiam.PolicyStatement{allow(actions("sqs:SendMessage"), s.Queue.QueueArn())}
	case Objects:
		return []awsiam.PolicyStatement{
			// What is no upload it parks. What it fails on, Lambda puts into its own dead-letter queue, by this role.
			allow(actions("sqs:SendMessage"), s.Queue.QueueArn(), s.DeadLetterQueue.QueueArn(), s.ObjectsDeadLetterQueue.QueueArn()),
		}
	default:
		panic("cdk: no permissions are known for the function " + function)
	}
}

// receive is what Lambda does to a queue by the role of the function behind it.
var receive = actions("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")

// scheduling allows the calls on the schedules of timers, which send to the delay queue by a role of their own.
func (s *Settle) scheduling(calls ...string) []awsiam.PolicyStatement {
	return []awsiam.PolicyStatement{
		allow(actions(calls...), arn("scheduler", "schedule/"+*s.ScheduleGroup.ScheduleGroupName()+"/*")),
		allowIf(actions("iam:PassRole"), "StringEquals", "iam:PassedToService", "scheduler.amazonaws.com", s.SchedulerRole.RoleArn()),
	}
}

// answering allows to answer the tasks that wait for instances, and to look up how one ended.
func (s *Settle) answering() []awsiam.PolicyStatement {
	var machines, executions []*string
	for _, name := range slices.Sorted(maps.Keys(s.Workflows)) {
		machines = append(machines, s.Workflows[name].StateMachineArn())
		executions = append(executions, s.executionsOf(s.Workflows[name], "*"))
	}
	for _, machine := range s.props.WaitingWorkflows {
		machines = append(machines, machine.StateMachineArn())
		executions = append(executions, s.executionsOf(machine, "*"))
	}
	if len(machines) == 0 {
		return nil
	}
	return []awsiam.PolicyStatement{
		allow(actions("states:SendTaskSuccess", "states:SendTaskFailure", "states:SendTaskHeartbeat"), machines...),
		allow(actions("states:GetExecutionHistory"), executions...),
	}
}

// starting allows to start the workflows that charts start.
func (s *Settle) starting() []awsiam.PolicyStatement {
	var machines []*string
	for _, name := range slices.Sorted(maps.Keys(s.props.Workflows)) {
		machines = append(machines, s.props.Workflows[name].StateMachineArn())
	}
	if len(machines) == 0 {
		return nil
	}
	return []awsiam.PolicyStatement{allow(actions("states:StartExecution"), machines...)}
}

// describing allows to look after the executions that charts have started.
func (s *Settle) describing() []awsiam.PolicyStatement {
	var executions []*string
	for _, name := range slices.Sorted(maps.Keys(s.props.Workflows)) {
		executions = append(executions, s.executionsOf(s.props.Workflows[name], executionPrefix+"*"))
	}
	if len(executions) == 0 {
		return nil
	}
	return []awsiam.PolicyStatement{allow(actions("states:DescribeExecution"), executions...)}
}

// executionPrefix begins the names of the executions that charts start: durable.ExecutionPrefix, whose package would bring
// the dependencies of the runtime's tests into this module.
const executionPrefix = "settle-"

// executionsOf returns the ARN of the executions of a state machine that have the name.
func (s *Settle) executionsOf(machine awsstepfunctions.IStateMachine, name string) *string {
	if own, ok := machine.(awsstepfunctions.StateMachine); ok {
		return arn("states", "execution:"+*own.StateMachineName()+":"+name)
	}
	parts := awscdk.Stack_Of(s.Scope).SplitArn(machine.StateMachineArn(), awscdk.ArnFormat_COLON_RESOURCE_NAME)
	return arn("states", "execution:"+*parts.ResourceName+":"+name)
}

// functionRole adds the role of a function, which may write to its own log group.
func (s *Settle) functionRole(function string, logs awslogs.LogGroup) awsiam.Role {
	role := s.role(pascal(function)+"Role", "Settle's function "+function+".", awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		append(s.statements(function), allow(actions("logs:CreateLogStream", "logs:PutLogEvents"), logs.LogGroupArn()))...)
	key := queueKey
	if function == Consumer || function == Gateway { // they use the table
		key = tableKey
	}
	s.grantKey(role, key)
	return role
}

// role adds a role that may do what the statements say and nothing else: the grants of CDK's own constructs give more
// than is called.
func (s *Settle) role(id, description string, assumedBy awsiam.IPrincipal, statements ...awsiam.PolicyStatement) awsiam.Role {
	return awsiam.NewRole(s.Scope, &id, &awsiam.RoleProps{
		Description: &description, AssumedBy: assumedBy,
		InlinePolicies: &map[string]awsiam.PolicyDocument{
			"calls": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &statements}),
		},
	})
}

// servicePrincipal is a service that acts for the resource of this account, and for no other's.
func servicePrincipal(service string, source *string) awsiam.IPrincipal {
	return awsiam.NewServicePrincipal(&service, &awsiam.ServicePrincipalOpts{Conditions: &map[string]any{
		"StringEquals": map[string]any{"aws:SourceAccount": *awscdk.Aws_ACCOUNT_ID()},
		"ArnLike":      map[string]any{"aws:SourceArn": *source},
	}})
}

func allow(actions *[]*string, resources ...*string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{Actions: actions, Resources: &resources})
}

func allowIf(actions *[]*string, operator, key, value string, resources ...*string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Actions: actions, Resources: &resources, Conditions: &map[string]any{operator: map[string]any{key: value}},
	})
}

func actions(names ...string) *[]*string { return jsii.Strings(names...) }
