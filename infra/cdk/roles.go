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

// statements returns the permissions of a function.
func (s *Settle) statements(function string) []awsiam.PolicyStatement {
	switch function {
	case Consumer:
		return slices.Concat([]awsiam.PolicyStatement{
			allow(consume, s.Queue.QueueArn()),
			allow(actions("sqs:SendMessage"), s.DeadLetterQueue.QueueArn(), s.DelayQueue.QueueArn()),
			// The consumer claims an alias in a transaction, on the condition that the instance has not changed. IAM
			// authorizes the items of a transaction as PutItem and ConditionCheckItem (Amazon DynamoDB Developer Guide,
			// "Using IAM with DynamoDB transactions").
			allow(actions("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:ConditionCheckItem"), s.tableARN),
		}, s.scheduling("scheduler:CreateSchedule", "scheduler:DeleteSchedule"), s.answering(), s.starting(), s.describing(), s.emitting())
	case Gateway:
		return []awsiam.PolicyStatement{
			// To wait for an event, the gateway needs the queue's ARN, under which instances keep their watermark.
			allow(actions("sqs:SendMessage", "sqs:GetQueueAttributes"), s.Queue.QueueArn()),
			allow(actions("dynamodb:GetItem"), s.tableARN),
			// The gateway stores callbacks with their aliases and reserves event IDs. It cannot write instances.
			allowIf(actions("dynamodb:UpdateItem"), "ForAllValues:StringLike", "dynamodb:LeadingKeys", "alias/*", s.tableARN),
			allowIf(actions("dynamodb:UpdateItem"), "ForAllValues:StringLike", "dynamodb:LeadingKeys", "idempotency/*", s.tableARN),
		}
	case Delay:
		return append([]awsiam.PolicyStatement{
			allow(receive, s.DelayQueue.QueueArn()),
			// Timers that are not due go to EventBridge Scheduler or back to the delay queue.
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
			// The function parks the events of files that the machine does not expect. Lambda uses the same role to send failed
			// events to the function's dead-letter queue.
			allow(actions("sqs:SendMessage"), s.Queue.QueueArn(), s.DeadLetterQueue.QueueArn(), s.ObjectsDeadLetterQueue.QueueArn()),
		}
	default:
		panic("cdk: unknown function " + function)
	}
}

// receive lists the calls that Lambda makes on a queue with the role of the queue's function.
var receive = actions("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")

// consume lists the calls on a FIFO queue of events that the consumer's role allows. The consumer delays retries, sends
// from instance to instance and acknowledges early. Lambda uses the same role to poll the queue.
var consume = actions("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility", "sqs:SendMessage")

// scheduling returns the permissions for calls on the schedules of timers. A schedule sends to the delay queue with
// SchedulerRole, which the creator of the schedule passes to EventBridge Scheduler.
func (s *Settle) scheduling(calls ...string) []awsiam.PolicyStatement {
	return []awsiam.PolicyStatement{
		allow(actions(calls...), arn("scheduler", "schedule/"+*s.ScheduleGroup.ScheduleGroupName()+"/*")),
		allowIf(actions("iam:PassRole"), "StringEquals", "iam:PassedToService", "scheduler.amazonaws.com", s.SchedulerRole.RoleArn()),
	}
}

// answering returns the permissions to answer waiting tasks and to look up how a task ended.
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
	return append(allowAny(actions("states:SendTaskSuccess", "states:SendTaskFailure", "states:SendTaskHeartbeat"), machines),
		allowAny(actions("states:GetExecutionHistory"), executions)...)
}

// started returns the ARNs of the workflows that charts start, and the ARN patterns of their executions. Both lists are
// in the order of the workflows' names.
func (s *Settle) started() (machines, executions []*string) {
	for _, name := range slices.Sorted(maps.Keys(s.props.Workflows)) {
		machines = append(machines, s.props.Workflows[name].StateMachineArn())
		executions = append(executions, s.executionsOf(s.props.Workflows[name], executionPrefix+"*"))
	}
	return machines, executions
}

// starting returns the permission to start the charts' workflows.
func (s *Settle) starting() []awsiam.PolicyStatement {
	machines, _ := s.started()
	return allowAny(actions("states:StartExecution"), machines)
}

// describing returns the permission to describe the executions that charts have started.
func (s *Settle) describing() []awsiam.PolicyStatement {
	_, executions := s.started()
	return allowAny(actions("states:DescribeExecution"), executions)
}

// emitting returns the permission to publish the events that charts emit. Without an event bus, it returns nil.
func (s *Settle) emitting() []awsiam.PolicyStatement {
	if s.EventBus == nil {
		return nil
	}
	return []awsiam.PolicyStatement{allow(actions("events:PutEvents"), s.EventBus.EventBusArn())}
}

// executionPrefix is the prefix of the names of executions that charts start. It equals instances.ExecutionPrefix.
// Importing that package would add the dependencies of the runtime's tests to this module.
const executionPrefix = "settle-"

// executionsOf returns the ARN of a state machine's execution with the given name, which may be a pattern.
func (s *Settle) executionsOf(machine awsstepfunctions.IStateMachine, name string) *string {
	if own, ok := machine.(awsstepfunctions.StateMachine); ok {
		return arn("states", "execution:"+*own.StateMachineName()+":"+name)
	}
	parts := awscdk.Stack_Of(s.Scope).SplitArn(machine.StateMachineArn(), awscdk.ArnFormat_COLON_RESOURCE_NAME)
	return arn("states", "execution:"+*parts.ResourceName+":"+name)
}

// functionRole adds the role of a function, with permission to write to the function's log group.
func (s *Settle) functionRole(function string, logs awslogs.LogGroup) awsiam.Role {
	role := s.role(pascal(function)+"Role", "Settle's function "+function+".", awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		append(slices.Concat(s.statements(function), s.usingLanes(function)), allow(actions("logs:CreateLogStream", "logs:PutLogEvents"), logs.LogGroupArn()))...)
	key := queueKey
	if function == Consumer || function == Gateway { // These functions use the table.
		key = tableKey
	}
	s.grantKey(role, key)
	return role
}

// role adds a role with exactly the permissions of the statements. The grants of CDK's constructs would allow more.
func (s *Settle) role(id, description string, assumedBy awsiam.IPrincipal, statements ...awsiam.PolicyStatement) awsiam.Role {
	return awsiam.NewRole(s.Scope, &id, &awsiam.RoleProps{
		Description: &description, AssumedBy: assumedBy,
		InlinePolicies: &map[string]awsiam.PolicyDocument{
			"calls": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &statements}),
		},
	})
}

// servicePrincipal returns a service that may act only for the given resource of this account.
func servicePrincipal(service string, source *string) awsiam.IPrincipal {
	return awsiam.NewServicePrincipal(&service, &awsiam.ServicePrincipalOpts{Conditions: &map[string]any{
		"StringEquals": map[string]any{"aws:SourceAccount": *awscdk.Aws_ACCOUNT_ID()},
		"ArnLike":      map[string]any{"aws:SourceArn": *source},
	}})
}

func allow(actions *[]*string, resources ...*string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{Actions: actions, Resources: &resources})
}

// allowAny returns a statement that allows the actions on the resources, or no statement if the list of resources is
// empty.
func allowAny(actions *[]*string, resources []*string) []awsiam.PolicyStatement {
	if len(resources) == 0 {
		return nil
	}
	return []awsiam.PolicyStatement{allow(actions, resources...)}
}

func allowIf(actions *[]*string, operator, key, value string, resources ...*string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Actions: actions, Resources: &resources, Conditions: &map[string]any{operator: map[string]any{key: value}},
	})
}

func actions(names ...string) *[]*string { return jsii.Strings(names...) }
