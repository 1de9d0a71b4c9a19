// Package cdk provides Settle as a construct of the AWS Cloud Development Kit: queues, table, functions, HTTP API,
// workflows, roles, alarms and a dashboard, for any stack.
//
//	cdk.NewSettle(stack, "Settle", cdk.Props{Code: cdk.CodeFromFolder(".bin/functions/arm64")})
//
// infra/template.yaml is generated from the same construct, for deployments without CDK. The package is a separate
// module, so that importing Settle's runtime does not add dependencies on CDK and Node.
package cdk

import (
	"cmp"
	"slices"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsscheduler"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Settle has the resources that NewSettle adds, for grants and references.
type Settle struct {
	// Scope is the parent construct of all resources.
	Scope constructs.Construct
	// Queue receives the events. A sender needs sqs:SendMessage and sets the instance as message group ID.
	Queue awssqs.Queue
	// Lanes are the queues of Props.Lanes by name. A sender to Queue should have the same permission on all of them.
	Lanes map[string]awssqs.Queue
	// DeadLetterQueue contains the parked events of all lanes.
	DeadLetterQueue           awssqs.Queue
	DelayQueue                awssqs.Queue
	DelayDeadLetterQueue      awssqs.Queue
	ExecutionsQueue           awssqs.Queue
	ExecutionsDeadLetterQueue awssqs.Queue
	// ObjectsDeadLetterQueue contains uploads that could not be forwarded. Nil without Props.UploadBuckets.
	ObjectsDeadLetterQueue awssqs.Queue
	// Table contains the instances. It has a stream if Props.TableStream is set. Nil if Props.ExistingTable names the
	// table.
	Table awsdynamodb.Table
	// EventBus receives the events that charts emit. Nil with Props.WithoutEventBus.
	EventBus      awsevents.IEventBus
	ScheduleGroup awsscheduler.ScheduleGroup
	SchedulerRole awsiam.Role
	// Functions are the functions by name.
	Functions map[string]awslambda.Function
	// Workflows are the state machines of infra/workflows by name. Empty with Props.WithoutExamples.
	Workflows map[string]awsstepfunctions.StateMachine
	HTTPAPI   awsapigatewayv2.CfnApi
	// URL is the address of the HTTP API.
	URL       *string
	Alarms    []awscloudwatch.Alarm
	Dashboard awscloudwatch.Dashboard

	props Props
	name  *string
	// tableName and tableARN identify the table in use: Table, or an existing one.
	tableName, tableARN *string
	roles               map[string]awsiam.Role
	secrets             Secrets
}

// visibilityTimeouts is the ratio of a queue's visibility timeout to its function's timeout, as AWS recommends
// (Lambda Developer Guide, "Creating and configuring an Amazon SQS event source mapping"). Lambda needs the time beyond
// one function timeout to retry a throttled invocation.
const visibilityTimeouts = 6

// throttledMax is the maximum by which a visibility timeout exceeds its function's timeout. The consumer itself extends
// the visibility of a slow batch, so even a long consumer timeout needs no more time (docs/adr/0047-leases.md).
const throttledMax = (visibilityTimeouts - 1) * consumerTimeoutDefault

// consumerTimeoutDefault keeps the FIFO queue's visibility timeout, 270 s, below SQS's deduplication interval, 300 s
// (SQS Developer Guide, "Using the Amazon SQS message deduplication ID"). If a consumer dies after sending a message,
// the next consumer then sends it again within the interval, and SQS drops the duplicate.
const consumerTimeoutDefault = 45 * time.Second

// consumerConcurrencyDefault is the default of Props.ConsumerConcurrency and of Lane.Concurrency.
const consumerConcurrencyDefault = 50

// forwarderTimeout is the timeout of functions that only forward messages.
const forwarderTimeout = 30 * time.Second

// NewSettle adds Settle to a scope. Like other constructs, it panics if the props are invalid.
func NewSettle(scope constructs.Construct, id string, props Props) *Settle {
	props = props.withDefaults()
	if err := props.validate(); err != nil {
		panic(err)
	}
	s := &Settle{
		Scope: constructs.NewConstruct(scope, &id), props: props,
		Lanes: map[string]awssqs.Queue{}, Functions: map[string]awslambda.Function{}, roles: map[string]awsiam.Role{}, Workflows: map[string]awsstepfunctions.StateMachine{},
	}
	s.name = cmp.Or(props.Name, awscdk.Stack_Of(s.Scope).StackName())
	if err := cmp.Or(checkName(s.name), s.checkLaneQueues()); err != nil {
		panic(err)
	}
	s.addKeyPolicy()
	s.addQueues()
	s.addTable()
	s.addScheduler()
	s.addEventBus()
	s.addSecrets()
	s.addWorkflows()
	s.addAPI()
	s.addFunctions()
	s.addRoutes()
	s.addExecutionEvents()
	s.addUploadEvents()
	s.addAlarms()
	s.addDashboard()
	return s
}

// AddOutputs adds the outputs of infra/template.yaml to the stack, and the outputs Lanes and LaneRules if the stack has
// lanes. The command line, `make destroy` and docs/deploy.md
// read them by these names. Call it at most once per stack.
func (s *Settle) AddOutputs() {
	type output struct {
		id, description string
		value           *string
	}
	outputs := []output{
		{"Url", "The address of the HTTP API.", s.URL},
		{"QueueUrl", "The FIFO queue for events.", s.Queue.QueueUrl()},
		{"DeadLetterQueueUrl", "The dead-letter queue with the parked events.", s.DeadLetterQueue.QueueUrl()},
		{"TableName", "The table with the instances.", s.tableName},
		{"DashboardName", "The dashboard.", s.Dashboard.DashboardName()},
		{"TokenTaskArn", "The function that Step Functions tasks invoke to wait for an instance.", s.Functions[TokenTask].FunctionArn()},
	}
	if len(s.props.Lanes) > 0 {
		outputs = append(outputs, output{"Lanes", "The lanes besides the main lane: the value of SETTLE_LANES.", s.laneList()})
	}
	if s.props.LaneRules != nil {
		outputs = append(outputs, output{"LaneRules", "The lanes of new instances: the value of SETTLE_LANE_RULES.", s.props.LaneRules})
	}
	for _, output := range outputs {
		awscdk.NewCfnOutput(awscdk.Stack_Of(s.Scope), &output.id, &awscdk.CfnOutputProps{Value: output.value, Description: &output.description})
	}
}

// hasUploads reports whether the stack contains the function objects.
func (s *Settle) hasUploads() bool { return len(s.props.UploadBuckets) > 0 }

// functions returns the names of the stack's functions.
func (s *Settle) functions() []string {
	if s.hasUploads() {
		return Functions
	}
	return slices.DeleteFunc(slices.Clone(Functions), func(name string) bool { return name == Objects })
}

// arn returns the ARN of a resource in the stack's account and Region.
func arn(service, resource string) *string {
	return jsii.String("arn:" + *awscdk.Aws_PARTITION() + ":" + service + ":" + *awscdk.Aws_REGION() + ":" + *awscdk.Aws_ACCOUNT_ID() + ":" + resource)
}

func seconds(d time.Duration) awscdk.Duration {
	return awscdk.Duration_Seconds(jsii.Number(d / time.Second))
}
