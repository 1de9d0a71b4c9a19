package cdk_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
)

// property is a promise of infra/template.yaml. The function `check` panics if the template does not keep the promise,
// as CDK's assertions do. Texts and references have the form of Fn::Sub, such as ${Queue.Arn}. Roles have the
// additional property Permissions: a list of actions, each with its resource and its conditions.
type property struct {
	name  string
	check func(subject)
}

// subject is a template to check: infra/template.yaml, or the template with the lanes of withLanes.
type subject struct {
	assertions.Template
	laned bool
}

// lanes returns the expected lanes of the template besides the main lane.
func (s subject) lanes() []expectedLane {
	if !s.laned {
		return nil
	}
	return []expectedLane{
		{"LaneBulk", "bulk", object{"ScalingConfig": object{"MaximumConcurrency": 10}}},
		{"LanePriority1", "priority-1", object{
			"ScalingConfig":           object{"MaximumConcurrency": "${AWS::NoValue}"},
			"ProvisionedPollerConfig": object{"MinimumPollers": 2, "MaximumPollers": 20},
		}},
	}
}

// expectedLane is a lane of a template: the prefix of its resources, its name, and the scaling of its mapping.
type expectedLane struct {
	id, name string
	scaling  object
}

// queueIDs returns the logical IDs of the FIFO queues for events.
func (s subject) queueIDs() []string {
	ids := []string{"Queue"}
	for _, lane := range s.lanes() {
		ids = append(ids, lane.id+"Queue")
	}
	return ids
}

// The lanes of a template with lanes, as arguments of `make template`.
const (
	someLanes     = "main:40 bulk:10 priority-1:2-20"
	someLaneRules = "job=main:2|bulk,signup/vip.*=priority-1"
	laneList      = "bulk=${LaneBulkQueue.Arn},priority-1=${LanePriority1Queue.Arn}"
	// someBatches is the sum of the maximum numbers of batches: 40, 10, and ten for each of 20 pollers.
	someBatches = 250
)

var properties = []property{
	{"the FIFO queue and the queues of the lanes have high throughput; every queue is encrypted, keeps messages for 14 days, outlives an outage, a new name and the stack, and has a dead-letter queue of the same type, which only the lanes share", queues},
	{"queues deny requests without TLS, and only roles and the queue's own rule can send to a queue", queuePolicies},
	{"every queue invokes its function, which reports failed items, with limited concurrency or pollers", mappings},
	{"the table has the keys, the index, the TTL and the backups that the runtime needs, a stream on request, and survives the stack", table},
	{"functions run on arm64 and provided.al2023, from the bucket, with exactly the environment variables that they read", functions},
	{"secrets are generated", secrets},
	{"every log group has a retention", logGroups},
	{"roles have exactly the permissions that they need, and only their services can assume them, for this account's resources", roles},
	{"the HTTP API requires IAM, except on routes that authenticate the caller", routes},
	{"open routes have a limit of requests, and logs contain no path", stage},
	{"the outputs are the ones that the command line and the scripts read", outputs},
	{"ends of executions and uploads to the named buckets go to their targets, and undelivered ones to a dead-letter queue", rules},
	{"workflows equal infra/workflows in the partition of the stack, and run with their role", workflows},
	{"alarms cover every metric that an operator needs", alarms},
	{"the dashboard shows every metric and alarm", dashboard},
}

// broken returns the properties that a template does not have, with the reports of CDK's assertions. It returns "" if
// the template has all properties.
func broken(template object, laned bool) string {
	kernel.Lock()
	defer kernel.Unlock()
	var said strings.Builder
	try := func(name string, check func()) {
		defer func() {
			if problem := recover(); problem != nil {
				fmt.Fprintf(&said, "%s: %v\n", name, problem)
			}
		}()
		check()
	}
	try("no resources wait for each other", func() { assertions.Template_FromJSON(&template, nil) })
	read := readable(template).(object)
	try("every role has only policies that allow", func() { addPermissions(template, read) })
	t := subject{assertions.Template_FromJSON(&read, nil), laned}
	for _, property := range properties {
		try(property.name, func() { property.check(t) })
	}
	return said.String()
}

// only checks that the template has exactly these resources of the type. Each resource must have
// the properties listed for it and the common properties.
func only(t subject, kind string, resources map[string]object, common object) {
	expected := object{}
	for id, properties := range resources {
		all := maps.Clone(common)
		maps.Copy(all, properties)
		expected[id] = object{"Type": "AWS::" + kind, "Properties": all}
	}
	has(t, expected)
	t.ResourceCountIs(jsii.String("AWS::"+kind), jsii.Number(len(resources)))
}

// has checks that the template contains these parts of resources, by logical ID.
func has(t subject, resources object) { t.TemplateMatches(object{"Resources": resources}) }

// exactly returns a matcher of this value without additional keys or elements.
func exactly(value any) assertions.Matcher { return assertions.Match_Exact(value) }

func absent() assertions.Matcher { return assertions.Match_Absent() }

func like(pattern string) assertions.Matcher { return assertions.Match_StringLikeRegexp(&pattern) }

type list = []any

const (
	arn  = "arn:${AWS::Partition}:"
	here = ":${AWS::Region}:${AWS::AccountId}:"

	consumerTimeout, forwarderTimeout = 45, 30 // seconds
	// A queue hides a received message for six function timeouts, and so retries it at least once in each period of the
	// alarm on Retried. The age of the oldest message cannot replace this alarm, because the metric excludes messages
	// that were received several times (SQS Developer Guide, "Available CloudWatch metrics for Amazon SQS").
	hiddenFor    = 6
	alarmPeriod  = 300
	_            = uint(alarmPeriod - hiddenFor*forwarderTimeout)
	_            = uint(alarmPeriod - hiddenFor*consumerTimeout)
	receivesMost = 1000 // SQS Developer Guide, "Configure a dead-letter queue using the Amazon SQS console"
	// If a consumer dies after sending a message, the retry sends it again within this interval. SQS then recognises
	// the duplicate (SQS Developer Guide, "Using the Amazon SQS message deduplication ID").
	deduplicationInterval = 300
	_                     = uint(deduplicationInterval - hiddenFor*consumerTimeout - 1)
)

func queues(t subject) {
	expected := map[string]object{"ObjectsDeadLetterQueue": {"FifoQueue": absent(), "RedriveAllowPolicy": object{"redrivePermission": "denyAll"}}}
	for _, q := range []struct {
		prefix, name string
		timeout      int
	}{
		{"", ".fifo", consumerTimeout}, {"Delay", "-delay", forwarderTimeout}, {"Executions", "-executions", forwarderTimeout},
	} {
		queue, deadLetter, name := q.prefix+"Queue", q.prefix+"DeadLetterQueue", "${AWS::StackName}"+q.name
		expected[queue] = object{
			"QueueName": name, "VisibilityTimeout": hiddenFor * q.timeout,
			"RedrivePolicy": object{"deadLetterTargetArn": "${" + deadLetter + ".Arn}", "maxReceiveCount": receivesMost},
		}
		expected[deadLetter] = object{"RedriveAllowPolicy": object{"redrivePermission": "byQueue", "sourceQueueArns": list{arn + "sqs" + here + name}}}
		for _, id := range []string{queue, deadLetter} {
			expected[id]["FifoQueue"] = absent() // EventBridge and its Scheduler accept only standard queues.
			if q.prefix == "" {
				expected[id]["FifoQueue"], expected[id]["ContentBasedDeduplication"] = true, absent() // Two events with the same content are not duplicates.
				expected[id]["DeduplicationScope"], expected[id]["FifoThroughputLimit"] = "messageGroup", "perMessageGroupId"
			}
		}
	}
	sources := list{arn + "sqs" + here + "${AWS::StackName}.fifo"}
	for _, lane := range t.lanes() {
		queue := maps.Clone(expected["Queue"])
		queue["QueueName"] = "${AWS::StackName}-" + lane.name + ".fifo"
		expected[lane.id+"Queue"] = queue
		sources = append(sources, arn+"sqs"+here+"${AWS::StackName}-"+lane.name+".fifo")
	}
	expected["DeadLetterQueue"]["RedriveAllowPolicy"] = object{"redrivePermission": "byQueue", "sourceQueueArns": exactly(sources)}
	only(t, "SQS::Queue", expected, object{"MessageRetentionPeriod": 14 * 24 * 60 * 60, "SqsManagedSseEnabled": true})
	kept := object{}
	for _, id := range append(slices.Collect(maps.Keys(expected)), "ScheduleGroup") {
		kept[id] = object{"DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"}
	}
	has(t, kept)
}

func queuePolicies(t subject) {
	expected := map[string]object{}
	senders := map[string]string{
		"Queue": "", "DeadLetterQueue": "", "DelayQueue": "", "DelayDeadLetterQueue": "",
		"ExecutionsQueue": "ExecutionsRule", "ExecutionsDeadLetterQueue": "ExecutionsRule", "ObjectsDeadLetterQueue": "UploadsRule",
	}
	for _, id := range t.queueIDs() {
		senders[id] = ""
	}
	for queue, rule := range senders {
		statements := list{object{
			"Effect": "Deny", "Action": "sqs:*", "Principal": object{"AWS": "*"}, "Resource": "${" + queue + ".Arn}",
			"Condition": object{"Bool": object{"aws:SecureTransport": "false"}},
		}}
		if rule != "" {
			statements = append(statements, object{
				"Sid": "EventBridgeSends", "Effect": "Allow", "Action": "sqs:SendMessage", "Principal": object{"Service": "events.amazonaws.com"},
				"Resource": "${" + queue + ".Arn}", "Condition": object{"ArnEquals": object{"aws:SourceArn": "${" + rule + ".Arn}"}},
			})
		}
		expected[queue+"Policy"] = object{"Queues": list{"${" + queue + "}"}, "PolicyDocument": object{"Statement": exactly(statements)}}
	}
	only(t, "SQS::QueuePolicy", expected, object{})
}

func mappings(t subject) {
	mapping := func(queue, function string) object {
		return object{"EventSourceArn": "${" + queue + ".Arn}", "FunctionName": "${" + function + "}"}
	}
	expected := map[string]object{"DelayMapping": mapping("DelayQueue", "Delay"), "ExecutionsMapping": mapping("ExecutionsQueue", "Executions")}
	common := object{
		"FunctionResponseTypes": list{"ReportBatchItemFailures"}, "ScalingConfig": object{"MaximumConcurrency": assertions.Match_AnyValue()},
		"BatchSize": 10, "FilterCriteria": absent(), "Enabled": absent(), "ProvisionedPollerConfig": absent(),
	}
	consumer := mapping("Queue", "Consumer")
	expected["ConsumerMapping"] = consumer
	if t.laned {
		consumer["ScalingConfig"] = object{"MaximumConcurrency": 40}
		for _, lane := range t.lanes() {
			expected[lane.id+"Mapping"] = mapping(lane.id+"Queue", "Consumer")
			maps.Copy(expected[lane.id+"Mapping"], lane.scaling)
		}
		only(t, "Lambda::EventSourceMapping", expected, common)
		// These parameters would apply to the main lane only.
		t.TemplateMatches(object{"Parameters": object{"ConsumerPollers": absent(), "ConsumerConcurrency": absent()}, "Rules": absent()})
		return
	}
	// Lambda refuses a mapping with pollers and a maximum concurrency. The pollers are off by default.
	consumer["ProvisionedPollerConfig"] = object{"Fn::If": list{"HasConsumerPollers",
		object{"MinimumPollers": pollers(0), "MaximumPollers": pollers(1)}, "${AWS::NoValue}"}}
	consumer["ScalingConfig"] = object{"MaximumConcurrency": object{"Fn::If": list{"HasConsumerPollers", "${AWS::NoValue}", "${ConsumerConcurrency}"}}}
	given := object{"Fn::Not": list{object{"Fn::Equals": list{"${ConsumerPollers}", ""}}}}
	t.TemplateMatches(object{
		"Conditions": object{"HasConsumerPollers": given},
		"Parameters": object{"ConsumerPollers": object{"Default": ""}, "ConsumerConcurrency": object{"Default": 50, "MinValue": 2, "MaxValue": 1000}},
		"Rules": object{"PollersReplaceConcurrency": object{"RuleCondition": given,
			"Assertions": list{object{"Assert": object{"Fn::Equals": list{"${ConsumerConcurrency}", "50"}}}}}},
	})
	only(t, "Lambda::EventSourceMapping", expected, common)
}

// pollers returns a part of the parameter ConsumerPollers: the minimum, then the maximum.
func pollers(part int) object {
	return object{"Fn::Select": list{part, object{"Fn::Split": list{"-", "${ConsumerPollers}-"}}}}
}

func table(t subject) {
	key := func(name, kind string) object { return object{"AttributeName": name, "KeyType": kind} }
	has(t, object{"Table": object{"Condition": "CreatesTable", "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain", "Properties": object{
		"KeySchema": exactly(list{key("instance", "HASH")}),
		"GlobalSecondaryIndexes": exactly(list{object{
			"IndexName": "by_state", "KeySchema": list{key("index_shard", "HASH"), key("index_key", "RANGE")},
			"Projection": object{"ProjectionType": "INCLUDE", "NonKeyAttributes": list{"state", "status", "tags"}},
		}}),
		"TimeToLiveSpecification":          object{"AttributeName": "expire_at", "Enabled": true},
		"StreamSpecification":              object{"Fn::If": list{"HasTableStream", object{"StreamViewType": "NEW_AND_OLD_IMAGES"}, "${AWS::NoValue}"}},
		"PointInTimeRecoverySpecification": object{"PointInTimeRecoveryEnabled": true},
		"BillingMode":                      "PAY_PER_REQUEST", "DeletionProtectionEnabled": true,
	}}})
	t.TemplateMatches(object{
		"Conditions": object{
			"HasTableStream": object{"Fn::Equals": list{"${TableStream}", "on"}},
			"CreatesTable":   object{"Fn::Equals": list{"${ExistingTable}", ""}}, "HasExistingTable": object{"Fn::Not": list{object{"Fn::Equals": list{"${ExistingTable}", ""}}}},
		},
		"Parameters": object{"TableStream": object{"Default": "off", "AllowedValues": list{"off", "on"}}, "ExistingTable": object{"Default": ""}},
	})
}

// workflowNames maps logical IDs to workflows of infra/workflows.
var workflowNames = map[string]string{
	"EnrichWorkflow": "enrich", "JobWorkflow": "job", "JobRelaunchWorkflow": "job-relaunch", "PipelineWorkflow": "pipeline",
	"UploadSalesWorkflow": "upload-sales", "UploadWarehouseWorkflow": "upload-warehouse",
}

const (
	github   = "POST /webhooks/github"
	callback = "POST /webhooks/{provider}/{id}/{until}/{key}"
)

func routes(t subject) {
	route := func(key, authorization string) object {
		return object{"RouteKey": key, "AuthorizationType": authorization}
	}
	only(t, "ApiGatewayV2::Route", map[string]object{
		"PostEventRoute":      route("POST /instances/{machine}/{id}/events", "AWS_IAM"),
		"GetInstanceRoute":    route("GET /instances/{machine}/{id}", "AWS_IAM"),
		"GetAliasRoute":       route("GET /aliases/{alias+}", "AWS_IAM"),
		"PostAliasEventRoute": route("POST /aliases/{alias+}", "AWS_IAM"), "GetOpenAPIRoute": route("GET /openapi.json", "AWS_IAM"),
		"GetMachinesRoute": route("GET /machines", "AWS_IAM"), "GetHealthRoute": route("GET /healthz", "AWS_IAM"),
		"PostGitHubRoute": route(github, "NONE"), "PostCallbackRoute": route(callback, "NONE"),
	}, object{"ApiId": "${HttpApi}", "Target": "integrations/${HttpApiIntegration}"})
	// A deployment of other functions omits the open routes, because its gateway may have no handler for them.
	has(t, object{"PostGitHubRoute": object{"Condition": "HasGitHubWebhook"}, "PostCallbackRoute": object{"Condition": "HasCallbacks"}})
	for _, name := range []string{"GitHubWebhook", "Callbacks"} {
		t.TemplateMatches(object{
			"Conditions": object{"Has" + name: object{"Fn::Equals": list{"${" + name + "}", "on"}}},
			"Parameters": object{name: object{"Default": "on", "AllowedValues": list{"off", "on"}}},
		})
	}
	has(t, object{"HttpApiIntegration": object{"Properties": object{"IntegrationUri": "${Gateway.Arn}", "PayloadFormatVersion": "2.0"}}})
	only(t, "Lambda::Permission", map[string]object{
		"HttpApiInvokesGateway": {"Principal": "apigateway.amazonaws.com", "FunctionName": "${Gateway.Arn}", "SourceArn": arn + "execute-api" + here + "${HttpApi}/*"},
		"UploadsInvokeObjects":  {"Principal": "events.amazonaws.com", "FunctionName": "${Objects.Arn}", "SourceArn": "${UploadsRule.Arn}"},
	}, object{})
}

func stage(t subject) {
	limit := func(requests int) object { return object{"ThrottlingRateLimit": requests} }
	// API Gateway rejects settings of a missing route.
	limitIf := func(condition string) object { return object{"Fn::If": list{condition, limit(100), "${AWS::NoValue}"}} }
	only(t, "ApiGatewayV2::Stage", map[string]object{"HttpApiStage": {
		"StageName":  "$default", // Any other name would become part of every address, including those for webhooks and callbacks.
		"AutoDeploy": true, "DefaultRouteSettings": limit(2500), "RouteSettings": object{github: limitIf("HasGitHubWebhook"), callback: limitIf("HasCallbacks")},
		// The log must not contain the path, because the path of a callback contains a key.
		"AccessLogSettings": object{"Format": like(`^(?!.*(\$context\.path|resourcePath)).*routeKey`)},
	}}, object{})
	// The route settings of the stage refer to these routes, so the routes must exist first.
	has(t, object{"HttpApiStage": object{"DependsOn": absent(), "Metadata": object{
		"PostGitHubRoute":   object{"Fn::If": list{"HasGitHubWebhook", "${PostGitHubRoute}", "${AWS::NoValue}"}},
		"PostCallbackRoute": object{"Fn::If": list{"HasCallbacks", "${PostCallbackRoute}", "${AWS::NoValue}"}},
	}}})
}

// outputs checks the outputs that the command line, make destroy and docs/deploy.md read.
func outputs(t subject) {
	expected := object{}
	values := map[string]string{
		"Url": "${HttpApi.ApiEndpoint}", "QueueUrl": "${Queue}", "DeadLetterQueueUrl": "${DeadLetterQueue}", "TableName": "${Table}",
		"DashboardName": "${Dashboard}", "TokenTaskArn": "${Tokentask.Arn}",
	}
	if t.laned {
		values["Lanes"], values["LaneRules"] = laneList, someLaneRules
	}
	for name, value := range values {
		expected[name] = assertions.Match_ObjectLike(&object{"Value": value})
	}
	t.TemplateMatches(object{"Outputs": assertions.Match_ObjectEquals(&expected)})
}

func rules(t subject) {
	choice := func(values ...any) object { return object{"Fn::If": append(list{"HasUploadBuckets"}, values...)} }
	target := func(arn, deadLetter string, more object) list {
		maps.Copy(more, object{"Arn": arn, "DeadLetterConfig": object{"Arn": deadLetter}})
		return list{more}
	}
	only(t, "Events::Rule", map[string]object{
		"ExecutionsRule": {
			"EventPattern": exactly(object{
				"source": list{"aws.states"}, "detail-type": list{"Step Functions Execution Status Change"},
				"detail": object{"name": list{object{"prefix": "settle-"}}, "status": list{"SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"}},
			}),
			// This repository's machines start no workflows. An enabled rule would match executions
			// of another stack.
			"State":   "DISABLED",
			"Targets": target("${ExecutionsQueue.Arn}", "${ExecutionsDeadLetterQueue.Arn}", object{}),
		},
		"UploadsRule": {
			"EventPattern": exactly(object{
				"source": list{"aws.s3"}, "detail-type": list{"Object Created"},
				"detail": object{"bucket": object{"name": choice("${UploadBuckets}", list{"-"})}},
			}),
			"State": choice("ENABLED", "DISABLED"),
			"Targets": target("${Objects.Arn}", "${ObjectsDeadLetterQueue.Arn}",
				object{"RetryPolicy": exactly(object{"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185})}),
		},
	}, object{})
	only(t, "Lambda::EventInvokeConfig", map[string]object{
		"ObjectsRetries": {"FunctionName": "${Objects}", "Qualifier": "$LATEST", "MaximumRetryAttempts": 2, "MaximumEventAgeInSeconds": 21600},
	}, object{})
	t.TemplateMatches(object{
		"Conditions": object{"HasUploadBuckets": object{"Fn::Not": list{object{"Fn::Equals": list{object{"Fn::Join": list{"", "${UploadBuckets}"}}, ""}}}}},
		"Parameters": object{"UploadBuckets": object{"Type": "CommaDelimitedList", "Default": ""}},
	})
}

func workflows(t subject) {
	expected := map[string]object{}
	for id, name := range workflowNames {
		definition, err := os.ReadFile("../workflows/" + name + ".asl.json")
		if err != nil {
			panic(err)
		}
		expected[id] = object{"DefinitionString": strings.ReplaceAll(string(definition), `"arn:aws:`, `"`+arn)}
	}
	only(t, "StepFunctions::StateMachine", expected, object{"StateMachineType": "STANDARD", "RoleArn": "${WorkflowsRole.Arn}"})
}
