package cdk

import (
	"cmp"
	"slices"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsscheduler"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Settle is what NewSettle has made, to grant and to refer to.
type Settle struct {
	// Scope is the construct that all the rest is in.
	Scope constructs.Construct
	// Queue takes the events. Whoever sends to it needs sqs:SendMessage, and names the instance as the message group.
	Queue awssqs.Queue
	// DeadLetterQueue has what was parked.
	DeadLetterQueue           awssqs.Queue
	DelayQueue                awssqs.Queue
	DelayDeadLetterQueue      awssqs.Queue
	ExecutionsQueue           awssqs.Queue
	ExecutionsDeadLetterQueue awssqs.Queue
	// ObjectsDeadLetterQueue has the uploads that could not be brought to the queue; nil without Props.UploadBuckets.
	ObjectsDeadLetterQueue awssqs.Queue
	// Table has the instances. Its stream carries the old and the new item.
	Table         awsdynamodb.Table
	ScheduleGroup awsscheduler.ScheduleGroup
	SchedulerRole awsiam.Role
	// Functions are the functions by name.
	Functions map[string]awslambda.Function
	// Workflows are the state machines of infra/workflows by name; none with Props.WithoutExamples.
	Workflows map[string]awsstepfunctions.StateMachine
	HTTPAPI   awsapigatewayv2.CfnApi
	// URL is the address of the HTTP API.
	URL       *string
	Alarms    []awscloudwatch.Alarm
	Dashboard awscloudwatch.Dashboard

	props   Props
	name    *string
	roles   map[string]awsiam.Role
	secrets Secrets
}

// visibilityTimeouts is how many of its function's time-outs a queue hides a message for, as AWS advises
// (Lambda Developer Guide, "Creating and configuring an Amazon SQS event source mapping").
const visibilityTimeouts = 6

// consumerTimeoutDefault keeps the visibility time-out of the FIFO queue, 270 s, below the 300 s for which SQS remembers a
// deduplication ID (SQS Developer Guide, "Using the Amazon SQS message deduplication ID"): SQS recognises what a consumer sends again
// that died after sending it.
const consumerTimeoutDefault = 45 * time.Second

// forwarderTimeout is the time-out of the functions that only forward messages.
const forwarderTimeout = 30 * time.Second

// NewSettle adds Settle to a scope. It panics if the props are not valid, as constructs do.
func NewSettle(scope constructs.Construct, id string, props Props) *Settle {
	props = props.withDefaults()
	if err := props.validate(); err != nil {
		panic(err)
	}
	s := &Settle{
		Scope: constructs.NewConstruct(scope, &id), props: props,
		Functions: map[string]awslambda.Function{}, roles: map[string]awsiam.Role{}, Workflows: map[string]awsstepfunctions.StateMachine{},
	}
	s.name = cmp.Or(props.Name, awscdk.Stack_Of(s.Scope).StackName())
	if err := checkName(s.name); err != nil {
		panic(err)
	}
	s.addKeyPolicy()
	s.addQueues()
	s.addTable()
	s.addScheduler()
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

// AddOutputs adds the outputs of infra/template.yaml to the stack: the command line, `make destroy` and docs/deploy.md ask for them by
// these names. A stack has them once.
func (s *Settle) AddOutputs() {
	for _, output := range []struct {
		id, description string
		value           *string
	}{
		{"Url", "The address of the HTTP API.", s.URL},
		{"QueueUrl", "The FIFO queue, which takes events.", s.Queue.QueueUrl()},
		{"DeadLetterQueueUrl", "The queue of what was parked.", s.DeadLetterQueue.QueueUrl()},
		{"TableName", "The table of the instances.", s.Table.TableName()},
		{"DashboardName", "The dashboard.", s.Dashboard.DashboardName()},
		{"TokenTaskArn", "The function for tasks that wait for an instance without sending to the queue.", s.Functions[TokenTask].FunctionArn()},
	} {
		awscdk.NewCfnOutput(awscdk.Stack_Of(s.Scope), &output.id, &awscdk.CfnOutputProps{Value: output.value, Description: &output.description})
	}
}

// hasUploads reports whether there is the function objects.
func (s *Settle) hasUploads() bool { return len(s.props.UploadBuckets) > 0 }

// functions are the names of the functions that there are.
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
