package properties

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/settle-run/settle/infra/cdk/internal/examples"
	"github.com/settle-run/settle/infra/cdk/internal/template"
)

func spaced(values ...any) string { return strings.TrimSuffix(fmt.Sprintln(values...), "\n") }

func routes(r *reader) {
	var got []string
	for _, id := range r.ofType("AWS::ApiGatewayV2::Route") {
		got = append(got, r.text(id, "RouteKey")+" "+r.text(id, "AuthorizationType"))
		r.want("API of "+id, "${HttpApi}", r.text(id, "ApiId"))
		r.want("target of "+id, "integrations/${HttpApiIntegration}", r.text(id, "Target"))
	}
	r.same("routes", []string{
		"POST /instances/{machine}/{id}/events AWS_IAM", "GET /instances/{machine}/{id} AWS_IAM", "GET /aliases/{alias+} AWS_IAM",
		"GET /machines AWS_IAM", "GET /healthz AWS_IAM",
		"POST /webhooks/github NONE", "POST /webhooks/{provider}/{id}/{until}/{key} NONE",
	}, got)
	r.want("function behind the API", "${Gateway.Arn}", r.text("HttpApiIntegration", "IntegrationUri"))
	r.want("payload format", "2.0", r.text("HttpApiIntegration", "PayloadFormatVersion"))
	r.same("permissions to invoke", []string{"HttpApiInvokesGateway", "UploadsInvokeObjects"}, r.ofType("AWS::Lambda::Permission"))
	r.want("principal that invokes the gateway", "apigateway.amazonaws.com", r.text("HttpApiInvokesGateway", "Principal"))
	r.want("function that the API invokes", "${Gateway.Arn}", r.text("HttpApiInvokesGateway", "FunctionName"))
	r.want("API that invokes the gateway", arn+"execute-api"+here+"${HttpApi}/*", r.text("HttpApiInvokesGateway", "SourceArn"))
	// Any other stage name would become part of every address, including those for webhooks and callbacks.
	r.want("name of the stage", "$default", r.text("HttpApiStage", "StageName"))
	r.want("AutoDeploy of the stage", true, r.get("HttpApiStage", "AutoDeploy"))
	format := r.text("HttpApiStage", "AccessLogSettings", "Format")
	if !strings.Contains(format, "routeKey") || strings.Contains(format, "$context.path") || strings.Contains(format, "resourcePath") {
		r.wrong("the access log: expected the route instead of the path, because a path may contain a key, got %s", format)
	}
	if r.number("HttpApiStage", "DefaultRouteSettings", "ThrottlingRateLimit") <= 0 {
		r.wrong("HttpApiStage: expected a limit of requests a second")
	}
	for id, open := range map[string]string{"PostGitHubRoute": "POST /webhooks/github", "PostCallbackRoute": "POST /webhooks/{provider}/{id}/{until}/{key}"} {
		if limit := r.number("HttpApiStage", "RouteSettings", open, "ThrottlingRateLimit"); limit <= 0 || limit > 100 {
			r.wrong("HttpApiStage: expected the open route %s to accept at most 100 requests a second, got %v", open, limit)
		}
		if after, _ := r.resources["HttpApiStage"].DependsOn.([]any); !slices.Contains(after, any(id)) {
			r.wrong("HttpApiStage: expected a dependency on %s, which its settings refer to", id)
		}
	}
}

// outputs checks the outputs that the command line, make destroy and docs/deploy.md read.
func outputs(r *reader) {
	expected := map[string]string{
		"Url": "${HttpApi.ApiEndpoint}", "QueueUrl": "${Queue}", "DeadLetterQueueUrl": "${DeadLetterQueue}", "TableName": "${Table}",
		"DashboardName": "${Dashboard}", "TokenTaskArn": "${Tokentask.Arn}",
	}
	got, _ := r.template["Outputs"].(map[string]any)
	r.same("outputs", slices.Collect(maps.Keys(expected)), slices.Collect(maps.Keys(got)))
	for name, value := range expected {
		output, _ := got[name].(map[string]any)
		text, err := template.Text(output["Value"])
		if err != nil {
			text = err.Error()
		}
		r.want("output "+name, value, text)
	}
}

func executionEvents(r *reader) {
	r.want("pattern", "map[detail:map[name:[map[prefix:settle-]] status:[SUCCEEDED FAILED TIMED_OUT ABORTED]] "+
		"detail-type:[Step Functions Execution Status Change] source:[aws.states]]", r.get("ExecutionsRule", "EventPattern"))
	// This repository's machines start no workflows, and executions of another stack are not for this one.
	r.want("state", "DISABLED", r.get("ExecutionsRule", "State"))
	r.want("target", "${ExecutionsQueue.Arn}", r.text("ExecutionsRule", "Targets", 0, "Arn"))
	r.want("dead-letter queue for ends of executions", "${ExecutionsDeadLetterQueue.Arn}", r.text("ExecutionsRule", "Targets", 0, "DeadLetterConfig", "Arn"))
	if r.get("ExecutionsDeadLetterQueue", "FifoQueue") != nil {
		r.wrong("ExecutionsDeadLetterQueue: expected a standard queue, because EventBridge does not accept a FIFO dead-letter queue")
	}
	r.ruleSends("ExecutionsRule", "ExecutionsQueue")
	r.ruleSends("ExecutionsRule", "ExecutionsDeadLetterQueue")
}

// sentTo are the queues that EventBridge sends to, by rule.
var sentTo = map[string][]string{"ExecutionsRule": {"ExecutionsQueue", "ExecutionsDeadLetterQueue"}, "UploadsRule": {"ObjectsDeadLetterQueue"}}

// ruleSends checks that only the rule may send to the queue.
func (r *reader) ruleSends(rule, queue string) {
	r.want("senders to "+queue, "map[Action:sqs:SendMessage Condition:map[ArnEquals:map[aws:SourceArn:map[Fn::GetAtt:["+rule+" Arn]]]] Effect:Allow "+
		"Principal:map[Service:events.amazonaws.com] Resource:map[Fn::GetAtt:["+queue+" Arn]] Sid:EventBridgeSends]",
		r.get(queue+"Policy", "PolicyDocument", "Statement", 1))
}

func queuePolicies(r *reader) {
	r.same("rules", slices.Collect(maps.Keys(sentTo)), r.ofType("AWS::Events::Rule"))
	for _, id := range r.ofType("AWS::SQS::QueuePolicy") {
		statements, _ := r.get(id, "PolicyDocument", "Statement").([]any)
		expected := 1 // denies requests without TLS
		if slices.Contains(slices.Concat(slices.Collect(maps.Values(sentTo))...), strings.TrimSuffix(id, "Policy")) {
			expected = 2
		}
		if len(statements) != expected {
			r.wrong("%s: expected %d statements, got %d", id, expected, len(statements))
		}
	}
}

// scheduleDeadLetters checks the dead-letter queue of schedules. It must be a standard queue, because Scheduler accepts
// no other, and the schedules' role must be allowed to send to it.
func scheduleDeadLetters(r *reader) {
	queue := referred(r.text("Consumer", "Environment", "Variables", "SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN"))
	if r.resources[queue].Type != "AWS::SQS::Queue" || r.get(queue, "FifoQueue") != nil {
		r.wrong("Consumer: expected a standard queue for undeliverable timers, got %q", queue)
	}
	statements, err := template.Statements(r.resources, referred(r.text("Consumer", "Environment", "Variables", "SETTLE_SCHEDULER_ROLE_ARN")))
	if err != nil {
		r.wrong("%v", err)
	}
	if !slices.ContainsFunc(statements, func(s template.Statement) bool {
		return slices.Contains(s.Actions, "sqs:SendMessage") && slices.Contains(s.Resources, "${"+queue+".Arn}")
	}) {
		r.wrong("expected the role of schedules to have permission to send to %q", queue)
	}
}

func uploadEvents(r *reader) {
	r.want("pattern", "map[detail:map[bucket:map[name:map[Fn::If:[HasUploadBuckets map[Ref:UploadBuckets] [-]]]]] detail-type:[Object Created] source:[aws.s3]]",
		r.get("UploadsRule", "EventPattern"))
	r.want("state", "map[Fn::If:[HasUploadBuckets ENABLED DISABLED]]", r.get("UploadsRule", "State"))
	conditions, _ := r.template["Conditions"].(map[string]any)
	r.want("condition", "map[Fn::Not:[map[Fn::Equals:[map[Fn::Join:[ map[Ref:UploadBuckets]]] ]]]]", conditions["HasUploadBuckets"])
	parameters, _ := r.template["Parameters"].(map[string]any)
	parameter, _ := parameters["UploadBuckets"].(map[string]any)
	r.want("parameter", "CommaDelimitedList with ", fmt.Sprint(parameter["Type"], " with ", parameter["Default"]))

	r.want("target", "${Objects.Arn}", r.text("UploadsRule", "Targets", 0, "Arn"))
	r.want("EventBridge's retries of an upload", "map[MaximumEventAgeInSeconds:86400 MaximumRetryAttempts:185]", r.get("UploadsRule", "Targets", 0, "RetryPolicy"))
	r.want("dead-letter queue for undelivered uploads", "${ObjectsDeadLetterQueue.Arn}", r.text("UploadsRule", "Targets", 0, "DeadLetterConfig", "Arn"))
	r.ruleSends("UploadsRule", "ObjectsDeadLetterQueue")
	r.want("principal that invokes objects", "events.amazonaws.com", r.text("UploadsInvokeObjects", "Principal"))
	r.want("function that the rule invokes", "${Objects.Arn}", r.text("UploadsInvokeObjects", "FunctionName"))
	r.want("rule that invokes objects", "${UploadsRule.Arn}", r.text("UploadsInvokeObjects", "SourceArn"))

	r.want("dead-letter queue for failed uploads", "${ObjectsDeadLetterQueue.Arn}", r.text("Objects", "DeadLetterConfig", "TargetArn"))
	r.want("function of the retry settings", "${Objects} $LATEST", spaced(r.text("ObjectsRetries", "FunctionName"), r.get("ObjectsRetries", "Qualifier")))
	r.want("retries of the function", "2 for 21600 s", fmt.Sprint(r.get("ObjectsRetries", "MaximumRetryAttempts"), " for ", r.get("ObjectsRetries", "MaximumEventAgeInSeconds"), " s"))
	r.want("redrivePermission of ObjectsDeadLetterQueue", "denyAll", r.get("ObjectsDeadLetterQueue", "RedriveAllowPolicy", "redrivePermission"))
	r.want("retention of ObjectsDeadLetterQueue", fortnight, r.number("ObjectsDeadLetterQueue", "MessageRetentionPeriod"))
}

// workflowNames maps logical IDs to workflows of infra/workflows.
var workflowNames = map[string]string{
	"EnrichWorkflow": "enrich", "JobWorkflow": "job", "JobRelaunchWorkflow": "job-relaunch", "PipelineWorkflow": "pipeline",
	"UploadSalesWorkflow": "upload-sales", "UploadWarehouseWorkflow": "upload-warehouse",
}

func workflowsAreOurs(r *reader) {
	r.same("workflows", slices.Collect(maps.Keys(workflowNames)), r.ofType("AWS::StepFunctions::StateMachine"))
	for id, name := range workflowNames {
		definition, err := examples.Definition(name)
		if err != nil {
			r.wrong("%v", err)
		}
		got, _ := r.get(id, "DefinitionString").(string)
		if got != definition {
			r.wrong("%s: expected the text of infra/workflows/%s.asl.json", id, name)
		}
		r.want("type of "+id, "STANDARD", r.get(id, "StateMachineType"))
		r.want("role of "+id, "${WorkflowsRole.Arn}", r.text(id, "RoleArn"))
		r.taskTokens(id, got)
	}
}

// taskTokens checks the states that wait with a task token. Each must have a time-out and must send to an instance with
// a deduplication ID.
func (r *reader) taskTokens(id, definition string) {
	var parsed struct {
		States map[string]struct {
			Resource       string
			TimeoutSeconds float64
			Parameters     map[string]any
		}
	}
	if err := json.Unmarshal([]byte(definition), &parsed); err != nil {
		r.wrong("%s: %v", id, err)
	}
	waiting := 0
	for name, state := range parsed.States {
		if !strings.HasSuffix(state.Resource, ".waitForTaskToken") {
			continue
		}
		waiting++
		body, _ := state.Parameters["MessageBody"].(map[string]any)
		task, _ := body["$task"].(map[string]any)
		if state.Resource != "arn:aws:states:::sqs:sendMessage.waitForTaskToken" || state.TimeoutSeconds <= 0 ||
			task["token.$"] != "$$.Task.Token" || state.Parameters["MessageGroupId.$"] == nil || state.Parameters["MessageDeduplicationId.$"] == nil {
			r.wrong("%s, state %s: expected a time-out, and to send the task token to an instance", id, name)
		}
	}
	if waiting == 0 {
		r.wrong("%s: expected a state that waits with a task token", id)
	}
}

// watched describes the alarms: metric, statistic, dimensions, threshold, datapoints and periods.
var watched = func() map[string]string {
	const own, above, once = " Service=${AWS::StackName}", " above ", " above 0 in 1 of 1"
	alarms := map[string]string{
		"UnsettledAlarm":           "Settle UnsettledAge Maximum" + own + above + "900 in 1 of 14", // longer than an hour
		"TokenDeadlineAlarm":       "Settle TokenDeadline SampleCount" + own + above + "0 in 1 of 14",
		"OutboxAlarm":              "Settle OutboxAge Maximum" + own + above + "300 in 1 of 3",
		"UnreadableAlarm":          "Settle Unreadable Sum" + own + above + "0 in 1 of 3",
		"FaultsAlarm":              "Settle Faults Sum" + own + above + "0 in 1 of 3",
		"RetriedAlarm":             "Settle Retried Sum" + own + above + "0 in 3 of 4",
		"TableReadThrottlesAlarm":  "AWS/DynamoDB ReadThrottleEvents Sum TableName=${Table}" + once,
		"TableWriteThrottlesAlarm": "AWS/DynamoDB WriteThrottleEvents Sum TableName=${Table}" + once,
		"IndexReadThrottlesAlarm":  "AWS/DynamoDB ReadThrottleEvents Sum GlobalSecondaryIndexName=by_state TableName=${Table}" + once,
		"IndexWriteThrottlesAlarm": "AWS/DynamoDB WriteThrottleEvents Sum GlobalSecondaryIndexName=by_state TableName=${Table}" + once,
		"SchedulesDroppedAlarm":    "AWS/Scheduler InvocationDroppedCount Sum ScheduleGroup=${AWS::StackName}" + once,
		"GatewayFailsAlarm":        "AWS/ApiGateway 5xx Sum ApiId=${HttpApi}" + once,
		"ObjectsDeadLettersAlarm":  "AWS/SQS ApproximateNumberOfMessagesVisible Maximum QueueName=${ObjectsDeadLetterQueue.QueueName}" + once,
	}
	for queue, deadLetter := range deadLettersOf {
		seconds := map[string]string{"Queue": "900", "DelayQueue": "1800", "ExecutionsQueue": "900"}[queue]
		prefix := strings.TrimSuffix(queue, "Queue")
		alarms[prefix+"DeadLettersAlarm"] = "AWS/SQS ApproximateNumberOfMessagesVisible Maximum QueueName=${" + deadLetter + ".QueueName}" + once
		alarms[prefix+"OldestMessageAlarm"] = "AWS/SQS ApproximateAgeOfOldestMessage Maximum QueueName=${" + queue + ".QueueName}" + above + seconds + " in 2 of 2"
	}
	for _, function := range names {
		for _, metric := range []string{"Errors", "Throttles"} {
			alarms[function+metric+"Alarm"] = "AWS/Lambda " + metric + " Sum FunctionName=${" + function + "}" + once
		}
	}
	return alarms
}()

func alarms(r *reader) {
	r.same("alarms", slices.Collect(maps.Keys(watched)), r.ofType("AWS::CloudWatch::Alarm"))
	for id, expected := range watched {
		list, _ := r.get(id, "Dimensions").([]any)
		dimensions := make([]string, len(list))
		for i := range list {
			dimensions[i] = fmt.Sprint(r.get(id, "Dimensions", i, "Name")) + "=" + r.text(id, "Dimensions", i, "Value")
		}
		slices.Sort(dimensions)
		periods, datapoints := r.get(id, "EvaluationPeriods"), r.get(id, "DatapointsToAlarm")
		if datapoints == nil {
			datapoints = periods
		}
		r.want(id, expected, spaced(r.get(id, "Namespace"), r.get(id, "MetricName"), r.get(id, "Statistic"), strings.Join(dimensions, " "),
			"above", r.get(id, "Threshold"), "in", datapoints, "of", periods))
		r.want("comparison of "+id, "GreaterThanThreshold", r.get(id, "ComparisonOperator"))
		r.want("period of "+id, 300, r.get(id, "Period"))
		r.want("missing data of "+id, "notBreaching", r.get(id, "TreatMissingData"))
		for _, action := range []string{"AlarmActions", "OKActions"} {
			r.want(action+" of "+id, "[map[Fn::If:[HasAlarmTopic map[Ref:AlarmTopic] map[Ref:AWS::NoValue]]]]", r.get(id, action))
		}
		if description, _ := r.get(id, "AlarmDescription").(string); len(description) < len("Settle: ")+20 {
			r.wrong("%s: expected a description of the problem, got %q", id, description)
		}
	}
}

func dashboard(r *reader) {
	body := r.text("Dashboard", "DashboardBody")
	for _, metric := range []string{
		"Events", "Commits", "Conflicts", "Retried", "Unreadable", "Parked", "Faults", "UnsettledAge", "OutboxAge", "TokenDeadline",
		"ApproximateAgeOfOldestMessage", "Invocations", "Errors", "Duration",
	} {
		if !strings.Contains(body, `"`+metric+`"`) {
			r.wrong("expected the metric %s", metric)
		}
	}
	for id := range watched {
		if !strings.Contains(body, "${"+id+".Arn}") {
			r.wrong("expected the alarm %s", id)
		}
	}
}
