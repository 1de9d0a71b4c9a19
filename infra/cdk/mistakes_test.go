package cdk_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// mistake is a mistake in a template.
type mistake struct {
	name string
	make func(*editor)
	// caughtBy maps each check that catches the mistake to a part of its report. No other check may
	// catch the mistake, except cfn-lint, which runs only if it is listed.
	caughtBy map[string]string
}

// mistakes are mistakes in infra/template.yaml.
var mistakes = []mistake{
	{"the throughput limit applies to the whole queue", func(e *editor) { e.set("perQueue", "Queue", "FifoThroughputLimit") },
		map[string]string{byProperties: "Queue/Properties/FifoThroughputLimit", byGuard: "fifo_queues_have_high_throughput"}},
	{"the dead-letter queue is not a FIFO queue", func(e *editor) {
		for _, property := range []string{"FifoQueue", "DeduplicationScope", "FifoThroughputLimit"} {
			e.drop("DeadLetterQueue", property)
		}
		e.set(object{"Fn::Sub": "${AWS::StackName}-dlq"}, "DeadLetterQueue", "QueueName")
	}, map[string]string{byProperties: "DeadLetterQueue/Properties/FifoQueue"}},
	{"parked events are kept for four days", func(e *editor) { e.drop("DeadLetterQueue", "MessageRetentionPeriod") },
		map[string]string{byProperties: "DeadLetterQueue/Properties/MessageRetentionPeriod", byGuard: "queues_keep_messages_for_14_days"}},
	{"any queue may use the dead-letter queue", func(e *editor) { e.drop("DeadLetterQueue", "RedriveAllowPolicy") },
		map[string]string{byProperties: "DeadLetterQueue/Properties/RedriveAllowPolicy", byGuard: "queues_have_or_are_dead_letter_queues"}},
	{"SQS redelivers a message while a consumer still processes it", func(e *editor) { e.set(60, "Queue", "VisibilityTimeout") },
		map[string]string{byProperties: "Expected 270 but received 60 at /Resources/Queue/Properties/VisibilityTimeout"}},
	{"a consumer retries a send after the deduplication window", func(e *editor) { e.set(360, "Queue", "VisibilityTimeout") },
		map[string]string{byProperties: "Expected 270 but received 360 at /Resources/Queue/Properties/VisibilityTimeout"}},
	{"timers are given up after half an hour", func(e *editor) { e.set(10, "DelayQueue", "RedrivePolicy", "maxReceiveCount") },
		map[string]string{byProperties: "Expected 1000 but received 10 at /Resources/DelayQueue/Properties/RedrivePolicy/maxReceiveCount"}},
	{"a timer that keeps failing rings no alarm", func(e *editor) { e.set(1210, "DelayQueue", "VisibilityTimeout") },
		map[string]string{byProperties: "Expected 180 but received 1210 at /Resources/DelayQueue/Properties/VisibilityTimeout"}},
	{"one bad message fails its batch", func(e *editor) { e.drop("ConsumerMapping", "FunctionResponseTypes") },
		map[string]string{byProperties: "ConsumerMapping/Properties/FunctionResponseTypes", byGuard: "mappings_report_failures"}},
	{"the consumer's concurrency is unlimited", func(e *editor) { e.drop("ConsumerMapping", "ScalingConfig") },
		map[string]string{byProperties: "ConsumerMapping/Properties/ScalingConfig", byGuard: "mappings_report_failures"}},
	{"pollers keep the maximum concurrency", func(e *editor) {
		e.set(reference("ConsumerConcurrency"), "ConsumerMapping", "ScalingConfig", "MaximumConcurrency")
	}, map[string]string{byProperties: "ConsumerMapping/Properties/ScalingConfig/MaximumConcurrency"}},
	{"the parameters accept pollers and a maximum concurrency", func(e *editor) { delete(e.template, "Rules") },
		map[string]string{byProperties: "/Rules"}},
	{"Lambda stops recursive invocations after 16", func(e *editor) { e.drop("Consumer", "RecursiveLoop") },
		map[string]string{byProperties: "Consumer/Properties/RecursiveLoop", byGuard: "functions_allow_recursion"}},
	{"timers go to the consumer", func(e *editor) { e.set(reference("Consumer"), "DelayMapping", "FunctionName") },
		map[string]string{byProperties: "DelayMapping/Properties/FunctionName"}},
	{"a queue is not encrypted", func(e *editor) { e.set(false, "DelayQueue", "SqsManagedSseEnabled") },
		map[string]string{byProperties: "DelayQueue/Properties/SqsManagedSseEnabled", byGuard: "queues_are_encrypted"}},
	{"a queue accepts requests without TLS", func(e *editor) { e.remove("QueuePolicy") },
		map[string]string{byProperties: "/Resources/QueuePolicy"}},
	{"any rule may send to the queue of executions", func(e *editor) { e.drop("ExecutionsQueuePolicy", "PolicyDocument", "Statement", 1, "Condition") },
		map[string]string{byProperties: "ExecutionsQueuePolicy/Properties/PolicyDocument/Statement", byGuard: "queue_policies_allow_services_only"}},
	{"a new name of the stack deletes the queued events", func(e *editor) { delete(e.resource("Queue"), "UpdateReplacePolicy") },
		map[string]string{byProperties: "/Resources/Queue/UpdateReplacePolicy", byGuard: "queues_and_schedules_are_kept"}},
	{"the timers are deleted with the stack", func(e *editor) { e.resource("ScheduleGroup")["DeletionPolicy"] = "Delete" },
		map[string]string{byProperties: "/Resources/ScheduleGroup/DeletionPolicy", byGuard: "queues_and_schedules_are_kept"}},
	{"the workflows run in one partition only", func(e *editor) {
		e.replace("arn:${AWS::Partition}:states", "arn:aws:states", "EnrichWorkflow", "DefinitionString", "Fn::Sub")
	}, map[string]string{byProperties: "EnrichWorkflow/Properties/DefinitionString"}},
	{"the table has no backups", func(e *editor) { e.drop("Table", "PointInTimeRecoverySpecification") },
		map[string]string{byProperties: "Table/Properties/PointInTimeRecoverySpecification", byGuard: "tables_are_kept"}},
	{"the table is deleted with the stack", func(e *editor) { e.resource("Table")["DeletionPolicy"] = "Delete" },
		map[string]string{byProperties: "Table/DeletionPolicy", byGuard: "tables_are_kept"}},
	{"items expire by another attribute", func(e *editor) { e.set("expires", "Table", "TimeToLiveSpecification", "AttributeName") },
		map[string]string{byProperties: "Table/Properties/TimeToLiveSpecification"}},
	{"the index projects too few attributes to filter by", func(e *editor) {
		e.set([]any{"state"}, "Table", "GlobalSecondaryIndexes", 0, "Projection", "NonKeyAttributes")
	}, map[string]string{byProperties: "Table/Properties/GlobalSecondaryIndexes"}},
	{"a function lacks a variable", func(e *editor) { e.drop("Consumer", "Environment", "Variables", "SETTLE_DELAY_QUEUE_ARN") },
		map[string]string{byProperties: "Consumer/Properties/Environment/Variables/SETTLE_DELAY_QUEUE_ARN"}},
	{"the template contains a secret", func(e *editor) {
		e.set("0123456789abcdef", "Consumer", "Environment", "Variables", "SETTLE_SIGNUP_CODE_KEY")
	},
		map[string]string{byProperties: "Variables/SETTLE_SIGNUP_CODE_KEY", byGuard: "secrets_are_references"}},
	{"the template contains a previous secret", func(e *editor) {
		e.set("0123456789abcdef", "Gateway", "Environment", "Variables", "SETTLE_ENRICH_CALLBACK_KEY_PREVIOUS")
	},
		map[string]string{byProperties: "Variables/SETTLE_ENRICH_CALLBACK_KEY_PREVIOUS", byGuard: "secrets_are_references"}},
	{"only the gateway rotates the callback key", func(e *editor) {
		e.drop("Consumer", "Environment", "Variables", "SETTLE_ENRICH_CALLBACK_KEY_PREVIOUS")
	},
		map[string]string{byProperties: "Consumer/Properties/Environment/Variables/SETTLE_ENRICH_CALLBACK_KEY_PREVIOUS"}},
	{"the gateway may write instances", func(e *editor) { e.drop("GatewayRole", "Policies", 0, "PolicyDocument", "Statement", 2, "Condition") },
		map[string]string{byProperties: "GatewayRole/Properties/Permissions"}},
	{"the consumer may use any queue", func(e *editor) {
		e.set("*", "ConsumerRole", "Policies", 0, "PolicyDocument", "Statement", 1, "Resource")
	},
		map[string]string{byProperties: "ConsumerRole/Properties/Permissions", byGuard: "roles_are_narrow"}},
	{"the consumer may do anything to the table", func(e *editor) {
		e.set([]any{"dynamodb:*"}, "ConsumerRole", "Policies", 0, "PolicyDocument", "Statement", 2, "Action")
	}, map[string]string{byProperties: "ConsumerRole/Properties/Permissions", byGuard: "roles_are_narrow"}},
	{"a role has a managed policy", func(e *editor) {
		e.set([]any{"arn:aws:iam::aws:policy/service-role/AWSLambdaSQSQueueExecutionRole"}, "DelayRole", "ManagedPolicyArns")
	}, map[string]string{byProperties: "expected no managed policy", byGuard: "roles_are_narrow"}},
	{"the consumer may pass the role to any service", func(e *editor) { e.drop("ConsumerRole", "Policies", 0, "PolicyDocument", "Statement", 4, "Condition") },
		map[string]string{byProperties: "ConsumerRole/Properties/Permissions", byGuard: "roles_are_narrow"}},
	{"schedules of another account may use the role", func(e *editor) {
		e.drop("SchedulerRole", "AssumeRolePolicyDocument", "Statement", 0, "Condition")
	}, map[string]string{byProperties: "SchedulerRole/Properties/AssumeRolePolicyDocument/Statement"}},
	{"another service may assume a function's role", func(e *editor) {
		e.set("ec2.amazonaws.com", "DelayRole", "AssumeRolePolicyDocument", "Statement", 0, "Principal", "Service")
	}, map[string]string{byProperties: "DelayRole/Properties/AssumeRolePolicyDocument/Statement"}},
	{"every caller may send events", func(e *editor) { e.set("NONE", "PostEventRoute", "AuthorizationType") },
		map[string]string{byProperties: "PostEventRoute/Properties/AuthorizationType", byGuard: "routes_require_iam"}},
	{"addresses contain the name of a stage", func(e *editor) { e.set("prod", "HttpApiStage", "StageName") },
		map[string]string{byProperties: "HttpApiStage/Properties/StageName"}},
	{"changed routes are not deployed", func(e *editor) { e.set(false, "HttpApiStage", "AutoDeploy") },
		map[string]string{byProperties: "HttpApiStage/Properties/AutoDeploy"}},
	{"each event causes a separate invocation", func(e *editor) { e.set(1, "ConsumerMapping", "BatchSize") },
		map[string]string{byProperties: "ConsumerMapping/Properties/BatchSize"}},
	{"the output of the queue is the dead-letter queue", func(e *editor) { e.output("QueueUrl")["Value"] = reference("DeadLetterQueue") },
		map[string]string{byProperties: "/Outputs/QueueUrl/Value"}},
	{"open routes have the same limit as authorized ones", func(e *editor) { e.drop("HttpApiStage", "RouteSettings") },
		map[string]string{byProperties: "HttpApiStage/Properties/RouteSettings"}},
	{"the limits of routes are created before the routes", func(e *editor) { delete(e.resource("HttpApiStage"), "Metadata") },
		map[string]string{byProperties: "HttpApiStage/Metadata"}},
	{"any API may invoke the gateway", func(e *editor) { e.drop("HttpApiInvokesGateway", "SourceArn") },
		map[string]string{byProperties: "HttpApiInvokesGateway/Properties/SourceArn", byGuard: "permissions_name_their_source"}},
	{"the keys of callbacks are logged", func(e *editor) {
		e.set("$context.routeKey $context.path", "HttpApiStage", "AccessLogSettings", "Format")
	},
		map[string]string{byProperties: "HttpApiStage/Properties/AccessLogSettings/Format"}},
	{"logs never expire", func(e *editor) { e.drop("ConsumerLogs", "RetentionInDays") },
		map[string]string{byProperties: "\tConsumerLogs", byGuard: "log_groups_have_a_retention"}},
	{"aborted executions send no event", func(e *editor) {
		e.set([]any{"SUCCEEDED", "FAILED", "TIMED_OUT"}, "ExecutionsRule", "EventPattern", "detail", "status")
	}, map[string]string{byProperties: "ExecutionsRule/Properties/EventPattern/detail/status"}},
	{"an undeliverable end of an execution is lost", func(e *editor) { e.drop("ExecutionsRule", "Targets", 0, "DeadLetterConfig") },
		map[string]string{byProperties: "ExecutionsRule/Properties/Targets/0/DeadLetterConfig", byGuard: "event_targets_have_dead_letter_queues"}},
	{"the rule may not send an end of an execution to the dead-letter queue", func(e *editor) {
		e.set("sqs:ReceiveMessage", "ExecutionsDeadLetterQueuePolicy", "PolicyDocument", "Statement", 1, "Action")
	}, map[string]string{byProperties: "ExecutionsDeadLetterQueuePolicy/Properties/PolicyDocument/Statement/1/Action"}},
	{"a timer that Scheduler cannot deliver is lost", func(e *editor) {
		e.drop("Consumer", "Environment", "Variables", "SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN")
	}, map[string]string{byProperties: "Consumer/Properties/Environment/Variables/SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN"}},
	{"Scheduler may not send undeliverable timers to the dead-letter queue", func(e *editor) {
		e.set(object{"Fn::GetAtt": []any{"DelayQueue", "Arn"}}, "SchedulerRole", "Policies", 0, "PolicyDocument", "Statement", 0, "Resource")
	}, map[string]string{byProperties: "SchedulerRole/Properties/Permissions"}},
	{"executions of workflows that are not in `Props.Workflows` send events", func(e *editor) { e.set("ENABLED", "ExecutionsRule", "State") },
		map[string]string{byProperties: "Expected DISABLED but received ENABLED at /Resources/ExecutionsRule/Properties/State"}},
	{"uploads to all buckets send events", func(e *editor) { e.drop("UploadsRule", "EventPattern", "detail") },
		map[string]string{byProperties: "UploadsRule/Properties/EventPattern"}},
	{"uploads send events although no bucket is named", func(e *editor) { e.set("ENABLED", "UploadsRule", "State") },
		map[string]string{byProperties: "UploadsRule/Properties/State"}},
	{"an upload that Lambda rejects is lost", func(e *editor) { e.drop("UploadsRule", "Targets", 0, "DeadLetterConfig") },
		map[string]string{byProperties: "UploadsRule/Properties/Targets/0/DeadLetterConfig", byGuard: "event_targets_have_dead_letter_queues"}},
	{"an upload is lost if the function fails on it", func(e *editor) { e.drop("Objects", "DeadLetterConfig") },
		map[string]string{byProperties: "Objects/Properties/DeadLetterConfig"}},
	{"any rule may invoke the function for uploads", func(e *editor) { e.drop("UploadsInvokeObjects", "SourceArn") },
		map[string]string{byProperties: "UploadsInvokeObjects/Properties/SourceArn", byGuard: "permissions_name_their_source"}},
	{"the rule may not send undeliverable uploads to the dead-letter queue", func(e *editor) {
		e.set("sqs:ReceiveMessage", "ObjectsDeadLetterQueuePolicy", "PolicyDocument", "Statement", 1, "Action")
	}, map[string]string{byProperties: "ObjectsDeadLetterQueuePolicy/Properties/PolicyDocument/Statement/1/Action"}},
	{"a queue uses the uploads' dead-letter queue as its own", func(e *editor) {
		e.set("allowAll", "ObjectsDeadLetterQueue", "RedriveAllowPolicy", "redrivePermission")
	}, map[string]string{byProperties: "ObjectsDeadLetterQueue/Properties/RedriveAllowPolicy/redrivePermission", byGuard: "queues_have_or_are_dead_letter_queues"}},
	{"a workflow has a transition to a missing state", func(e *editor) {
		e.replace(`"Next": "PickedUp?"`, `"Next": "PickedUpp?"`, "JobWorkflow", "DefinitionString", "Fn::Sub")
	},
		map[string]string{byProperties: "JobWorkflow/Properties/DefinitionString", byASLValidator: "PickedUpp?"}},
	{"a workflow waits forever", func(e *editor) {
		e.replace(`"TimeoutSeconds": 604800,`, ``, "PipelineWorkflow", "DefinitionString", "Fn::Sub")
	},
		map[string]string{byProperties: "PipelineWorkflow/Properties/DefinitionString"}},
	{"dead letters ring no alarm", func(e *editor) { e.remove("DeadLettersAlarm") },
		map[string]string{byProperties: "/Resources/DeadLettersAlarm"}},
	{"a stuck group rings no alarm", func(e *editor) { e.remove("RetriedAlarm") },
		map[string]string{byProperties: "/Resources/RetriedAlarm"}},
	{"a loop of events rings no alarm", func(e *editor) { e.remove("EventsAlarm") },
		map[string]string{byProperties: "/Resources/EventsAlarm"}},
	{"the parameter does not set the threshold of events", func(e *editor) { e.set(30_000, "EventsAlarm", "Threshold") },
		map[string]string{byProperties: "EventsAlarm/Properties/Threshold"}},
	{"a gateway without the webhook has its open route", func(e *editor) { delete(e.resource("PostGitHubRoute"), "Condition") },
		map[string]string{byProperties: "PostGitHubRoute/Condition"}},
	{"the consumer's concurrency is always reserved", func(e *editor) { e.set(50, "Consumer", "ReservedConcurrentExecutions") },
		map[string]string{byProperties: "Consumer/Properties/ReservedConcurrentExecutions"}},
	{"a single failed delivery rings an alarm", func(e *editor) { e.set(1, "RetriedAlarm", "DatapointsToAlarm") },
		map[string]string{byProperties: "RetriedAlarm/Properties/DatapointsToAlarm"}},
	{"an alarm stops between two retries", func(e *editor) { e.set(1, "UnsettledAlarm", "EvaluationPeriods") },
		map[string]string{byProperties: "UnsettledAlarm/Properties/EvaluationPeriods"}},
	{"an unreadable item rings an alarm only at the second delivery", func(e *editor) { e.set(1, "UnreadableAlarm", "Threshold") },
		map[string]string{byProperties: "UnreadableAlarm/Properties/Threshold"}},
	{"a single log line of level ERROR rings no alarm", func(e *editor) { e.set(2, "FaultsAlarm", "DatapointsToAlarm") },
		map[string]string{byProperties: "FaultsAlarm/Properties/DatapointsToAlarm"}},
	{"the alarm for tasks never rings", func(e *editor) {
		e.set("LessThanThreshold", "TokenDeadlineAlarm", "ComparisonOperator")
	}, map[string]string{byProperties: "TokenDeadlineAlarm/Properties/ComparisonOperator"}},
	{"the alarm for the index watches the table's throttles", func(e *editor) {
		e.set([]any{object{"Name": "TableName", "Value": reference("Table")}}, "IndexWriteThrottlesAlarm", "Dimensions")
	}, map[string]string{byProperties: "IndexWriteThrottlesAlarm/Properties/Dimensions"}},
	{"a function runs on another architecture than it is built for", func(e *editor) { e.drop("Gateway", "Architectures") },
		map[string]string{byProperties: "Gateway/Properties/Architectures", byGuard: "functions_are_lean"}},
	{"an output names a missing resource", func(e *editor) {
		e.output("QueueUrl")["Value"] = reference("Queu")
	}, map[string]string{byProperties: "/Outputs/QueueUrl/Value", byLint: "Queu"}},
	{"a property has another name", func(e *editor) {
		e.resource("HttpApi")["Properties"].(object)["Nam"] = "settle"
	}, map[string]string{byLint: "'Nam' was unexpected"}},
	{"two resources depend on each other", func(e *editor) { e.resource("HttpApi")["DependsOn"] = "Gateway" },
		map[string]string{byProperties: "dependency cycle", byLint: "Circular Dependencies"}},
}

func TestEverySeededMistakeIsCaught(t *testing.T) {
	t.Parallel()
	areCaught(t, mistakes, false)
	areCaught(t, laneMistakes, true)
}

func areCaught(t *testing.T, mistakes []mistake, laned bool) {
	t.Helper()
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			e := &editor{t: t, template: templates[laned](t)}
			m.make(e)
			if len(m.caughtBy) == 0 {
				t.Fatal("expected at least one check in caughtBy")
			}
			for name, check := range checks {
				want, catches := m.caughtBy[name]
				if name == byLint && !catches {
					continue // cfn-lint takes seconds
				}
				said := check(t, e.template, laned)
				if catches && !strings.Contains(said, want) {
					t.Errorf("%s: expected a report with %q, got\n%s", name, want, said)
				}
				if !catches && said != "" {
					t.Errorf("%s: expected no report, got\n%s", name, said)
				}
			}
		})
	}
}

func TestTwentyMistakesAreCaughtWithoutPython(t *testing.T) {
	t.Parallel()
	count := 0
	for _, m := range mistakes {
		if _, lint := m.caughtBy[byLint]; !lint {
			count++
		}
	}
	if count < 20 {
		t.Errorf("expected at least 20 mistakes caught without cfn-lint, got %d", count)
	}
}

// editor changes a template. A path starts with a logical ID and must exist.
type editor struct {
	t        *testing.T
	template object
}

func reference(id string) object { return object{"Ref": id} }

func (e *editor) resource(id string) object {
	e.t.Helper()
	resource, ok := e.template["Resources"].(object)[id].(object)
	if !ok {
		e.t.Fatalf("the template has no resource %s", id)
	}
	return resource
}

func (e *editor) output(name string) object {
	e.t.Helper()
	output, ok := e.template["Outputs"].(object)[name].(object)
	if !ok {
		e.t.Fatalf("the template has no output %s", name)
	}
	return output
}

func (e *editor) remove(id string) {
	e.t.Helper()
	e.resource(id)
	delete(e.template["Resources"].(object), id)
}

// holder returns the mapping that contains the last key of the path.
func (e *editor) holder(id string, path []any) object {
	e.t.Helper()
	value := at(e.resource(id)["Properties"], path[:len(path)-1]...)
	mapping, ok := value.(object)
	if !ok {
		e.t.Fatalf("%s has nothing at %v", id, path)
	}
	return mapping
}

// set changes a property. It can also add ManagedPolicyArns, which no role has.
func (e *editor) set(value any, id string, path ...any) {
	e.t.Helper()
	holder, key := e.holder(id, path), path[len(path)-1].(string)
	if _, ok := holder[key]; !ok && key != "ManagedPolicyArns" {
		e.t.Fatalf("%s has no %v", id, path)
	}
	holder[key] = value
}

func (e *editor) drop(id string, path ...any) {
	e.t.Helper()
	holder, key := e.holder(id, path), path[len(path)-1].(string)
	if _, ok := holder[key]; !ok {
		e.t.Fatalf("%s has no %v", id, path)
	}
	delete(holder, key)
}

func (e *editor) replace(from, to, id string, path ...any) {
	e.t.Helper()
	holder, key := e.holder(id, path), path[len(path)-1].(string)
	text, _ := holder[key].(string)
	if !strings.Contains(text, from) {
		e.t.Fatalf("%s has no %s", id, from)
	}
	holder[key] = strings.Replace(text, from, to, 1)
}

// infra/README.md must end with the list of mistakes, under the heading "Seeded mistakes".
func TestReadmeListsEveryMistake(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	list.WriteString("| mistake | caught by |\n|---|---|\n")
	for _, m := range slices.Concat(mistakes, laneMistakes) {
		list.WriteString("| " + m.name + " | " + strings.Join(slices.Sorted(maps.Keys(m.caughtBy)), ", ") + " |\n")
	}
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, listed, _ := strings.Cut(string(text), "\n## Seeded mistakes\n"); !strings.HasSuffix(listed, "\n\n"+list.String()) {
		t.Errorf("expected infra/README.md to end with the list\n%s", list.String())
	}
}

func TestMistakeNamesAreUnique(t *testing.T) {
	t.Parallel()
	var names []string
	for _, m := range slices.Concat(mistakes, laneMistakes) {
		if slices.Contains(names, m.name) {
			t.Errorf("expected unique names, got %q twice", m.name)
		}
		names = append(names, m.name)
	}
}
