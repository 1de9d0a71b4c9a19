package properties_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/settle-run/settle/infra/cdk/internal/template"
)

// mistake is a mistake in the template.
type mistake struct {
	name string
	make func(*editor)
	// caughtBy maps the checks that catch the mistake to parts of their reports. Every other check must not catch it,
	// except cfn-lint, which runs only if it is listed.
	caughtBy map[string]string
}

var mistakes = []mistake{
	{"the throughput limit applies to the whole queue", func(e *editor) { e.set("perQueue", "Queue", "FifoThroughputLimit") },
		map[string]string{byProperties: "high throughput", byGuard: "fifo_queues_have_high_throughput"}},
	{"the dead-letter queue is not a FIFO queue", func(e *editor) {
		for _, property := range []string{"FifoQueue", "DeduplicationScope", "FifoThroughputLimit"} {
			e.drop("DeadLetterQueue", property)
		}
		e.set(map[string]any{"Fn::Sub": "${AWS::StackName}-dlq"}, "DeadLetterQueue", "QueueName")
	}, map[string]string{byProperties: "dead-letter queue of the same type"}},
	{"parked events are kept for four days", func(e *editor) { e.drop("DeadLetterQueue", "MessageRetentionPeriod") },
		map[string]string{byProperties: "retention of DeadLetterQueue", byGuard: "queues_keep_messages_for_14_days"}},
	{"any queue may use the dead-letter queue", func(e *editor) { e.drop("DeadLetterQueue", "RedriveAllowPolicy") },
		map[string]string{byProperties: "redrivePermission of DeadLetterQueue", byGuard: "queues_have_or_are_dead_letter_queues"}},
	{"a message is redelivered while it is processed", func(e *editor) { e.set(60, "Queue", "VisibilityTimeout") },
		map[string]string{byProperties: "Queue: expected a visibility time-out of at least 270 s"}},
	{"a consumer retries a send after the deduplication window", func(e *editor) { e.set(360, "Queue", "VisibilityTimeout") },
		map[string]string{byProperties: "Queue: expected a visibility time-out of less than 300 s"}},
	{"timers are given up after half an hour", func(e *editor) { e.set(10, "DelayQueue", "RedrivePolicy", "maxReceiveCount") },
		map[string]string{byProperties: "DelayQueue: expected retries during the whole retention"}},
	{"a timer that keeps failing rings no alarm", func(e *editor) { e.set(1210, "DelayQueue", "VisibilityTimeout") },
		map[string]string{byProperties: "DelayQueue: expected to retry a message within 300 s"}},
	{"one bad message fails its batch", func(e *editor) { e.drop("ConsumerMapping", "FunctionResponseTypes") },
		map[string]string{byProperties: "FunctionResponseTypes of ConsumerMapping", byGuard: "mappings_report_failures"}},
	{"the consumer's concurrency is unlimited", func(e *editor) { e.drop("ConsumerMapping", "ScalingConfig") },
		map[string]string{byProperties: "expected a MaximumConcurrency", byGuard: "mappings_report_failures"}},
	{"Lambda stops recursive invocations after 16", func(e *editor) { e.drop("Consumer", "RecursiveLoop") },
		map[string]string{byProperties: "recursive loop detection of Consumer", byGuard: "functions_allow_recursion"}},
	{"timers go to the consumer", func(e *editor) { e.set(reference("Consumer"), "DelayMapping", "FunctionName") },
		map[string]string{byProperties: "${DelayQueue.Arn} to ${Delay}, which is missing"}},
	{"a queue is not encrypted", func(e *editor) { e.set(false, "DelayQueue", "SqsManagedSseEnabled") },
		map[string]string{byProperties: "DelayQueue: expected encryption", byGuard: "queues_are_encrypted"}},
	{"a queue accepts requests without TLS", func(e *editor) { e.remove("QueuePolicy") },
		map[string]string{byProperties: "Queue: expected a policy that denies"}},
	{"any rule may send to the queue of executions", func(e *editor) { e.drop("ExecutionsQueuePolicy", "PolicyDocument", "Statement", 1, "Condition") },
		map[string]string{byProperties: "senders to ExecutionsQueue", byGuard: "queue_policies_allow_services_only"}},
	{"the table has no backups", func(e *editor) { e.drop("Table", "PointInTimeRecoverySpecification") },
		map[string]string{byProperties: "point-in-time recovery", byGuard: "tables_are_kept"}},
	{"the table is deleted with the stack", func(e *editor) { e.resource("Table")["DeletionPolicy"] = "Delete" },
		map[string]string{byProperties: "deletion policy", byGuard: "tables_are_kept"}},
	{"items expire by another attribute", func(e *editor) { e.set("expires", "Table", "TimeToLiveSpecification", "AttributeName") },
		map[string]string{byProperties: "TTL"}},
	{"the index projects too few attributes to filter by", func(e *editor) {
		e.set([]any{"state"}, "Table", "GlobalSecondaryIndexes", 0, "Projection", "NonKeyAttributes")
	}, map[string]string{byProperties: "index"}},
	{"a function lacks a variable", func(e *editor) { e.drop("Consumer", "Environment", "Variables", "SETTLE_DELAY_QUEUE_ARN") },
		map[string]string{byProperties: "SETTLE_DELAY_QUEUE_ARN, which is missing"}},
	{"the template contains a secret", func(e *editor) {
		e.set("0123456789abcdef", "Consumer", "Environment", "Variables", "SETTLE_SIGNUP_CODE_KEY")
	},
		map[string]string{byProperties: "expected a reference to a secret", byGuard: "secrets_are_references"}},
	{"the gateway may write instances", func(e *editor) { e.drop("GatewayRole", "Policies", 0, "PolicyDocument", "Statement", 2, "Condition") },
		map[string]string{byProperties: "permissions of GatewayRole"}},
	{"the consumer may use any queue", func(e *editor) {
		e.set("*", "ConsumerRole", "Policies", 0, "PolicyDocument", "Statement", 1, "Resource")
	},
		map[string]string{byProperties: "permissions of ConsumerRole", byGuard: "roles_are_narrow"}},
	{"the consumer may do anything to the table", func(e *editor) {
		e.set([]any{"dynamodb:*"}, "ConsumerRole", "Policies", 0, "PolicyDocument", "Statement", 2, "Action")
	}, map[string]string{byProperties: "expected no dynamodb:*", byGuard: "roles_are_narrow"}},
	{"a role has a managed policy", func(e *editor) {
		e.set([]any{"arn:aws:iam::aws:policy/service-role/AWSLambdaSQSQueueExecutionRole"}, "DelayRole", "ManagedPolicyArns")
	}, map[string]string{byProperties: "expected no managed policy", byGuard: "roles_are_narrow"}},
	{"the consumer may pass the role to any service", func(e *editor) { e.drop("ConsumerRole", "Policies", 0, "PolicyDocument", "Statement", 4, "Condition") },
		map[string]string{byProperties: "and only to scheduler.amazonaws.com", byGuard: "roles_are_narrow"}},
	{"schedules of another account may use the role", func(e *editor) {
		e.drop("SchedulerRole", "AssumeRolePolicyDocument", "Statement", 0, "Condition")
	}, map[string]string{byProperties: "principal of SchedulerRole"}},
	{"another service may assume a function's role", func(e *editor) {
		e.set("ec2.amazonaws.com", "DelayRole", "AssumeRolePolicyDocument", "Statement", 0, "Principal", "Service")
	}, map[string]string{byProperties: "principal of DelayRole"}},
	{"every caller may send events", func(e *editor) { e.set("NONE", "PostEventRoute", "AuthorizationType") },
		map[string]string{byProperties: "the HTTP API requires IAM", byGuard: "routes_require_iam"}},
	{"addresses contain the name of a stage", func(e *editor) { e.set("prod", "HttpApiStage", "StageName") },
		map[string]string{byProperties: "name of the stage"}},
	{"routes are changed and not deployed", func(e *editor) { e.set(false, "HttpApiStage", "AutoDeploy") },
		map[string]string{byProperties: "AutoDeploy of the stage"}},
	{"each event is an invocation of its own", func(e *editor) { e.set(1, "ConsumerMapping", "BatchSize") },
		map[string]string{byProperties: "batch size of ConsumerMapping"}},
	{"the output of the queue is the dead-letter queue", func(e *editor) { e.output("QueueUrl")["Value"] = reference("DeadLetterQueue") },
		map[string]string{byProperties: "output QueueUrl"}},
	{"open routes have the same limit as authorized ones", func(e *editor) { e.drop("HttpApiStage", "RouteSettings") },
		map[string]string{byProperties: "to accept at most 100"}},
	{"the limits of routes are created before the routes", func(e *editor) { delete(e.resource("HttpApiStage"), "DependsOn") },
		map[string]string{byProperties: "expected a dependency on PostGitHubRoute"}},
	{"any API may invoke the gateway", func(e *editor) { e.drop("HttpApiInvokesGateway", "SourceArn") },
		map[string]string{byProperties: "API that invokes the gateway", byGuard: "permissions_name_their_source"}},
	{"the keys of callbacks are logged", func(e *editor) {
		e.set("$context.routeKey $context.path", "HttpApiStage", "AccessLogSettings", "Format")
	},
		map[string]string{byProperties: "because a path may contain a key"}},
	{"logs never expire", func(e *editor) { e.drop("ConsumerLogs", "RetentionInDays") },
		map[string]string{byProperties: "ConsumerLogs: expected a retention", byGuard: "log_groups_have_a_retention"}},
	{"aborted executions send no event", func(e *editor) {
		e.set([]any{"SUCCEEDED", "FAILED", "TIMED_OUT"}, "ExecutionsRule", "EventPattern", "detail", "status")
	}, map[string]string{byProperties: "pattern"}},
	{"an undeliverable end of an execution is lost", func(e *editor) { e.drop("ExecutionsRule", "Targets", 0, "DeadLetterConfig") },
		map[string]string{byProperties: "dead-letter queue for ends of executions", byGuard: "event_targets_have_dead_letter_queues"}},
	{"the rule may not send an end of an execution to the dead-letter queue", func(e *editor) {
		e.set("sqs:ReceiveMessage", "ExecutionsDeadLetterQueuePolicy", "PolicyDocument", "Statement", 1, "Action")
	}, map[string]string{byProperties: "senders to ExecutionsDeadLetterQueue"}},
	{"a timer that Scheduler cannot deliver is lost", func(e *editor) {
		e.drop("Consumer", "Environment", "Variables", "SETTLE_DELAY_DEAD_LETTER_QUEUE_ARN")
	}, map[string]string{byProperties: "expected a standard queue for undeliverable timers"}},
	{"Scheduler may not send undeliverable timers to the dead-letter queue", func(e *editor) {
		e.set(map[string]any{"Fn::GetAtt": []any{"DelayQueue", "Arn"}}, "SchedulerRole", "Policies", 0, "PolicyDocument", "Statement", 0, "Resource")
	}, map[string]string{byProperties: "expected the role of schedules to have permission to send"}},
	{"executions of unrelated workflows send events", func(e *editor) { e.set("ENABLED", "ExecutionsRule", "State") },
		map[string]string{byProperties: "state: expected DISABLED"}},
	{"uploads to all buckets send events", func(e *editor) { e.drop("UploadsRule", "EventPattern", "detail") },
		map[string]string{byProperties: "uploads to the named buckets"}},
	{"uploads send events although no bucket is named", func(e *editor) { e.set("ENABLED", "UploadsRule", "State") },
		map[string]string{byProperties: "state: expected map[Fn::If:[HasUploadBuckets"}},
	{"an upload that Lambda rejects is lost", func(e *editor) { e.drop("UploadsRule", "Targets", 0, "DeadLetterConfig") },
		map[string]string{byProperties: "dead-letter queue for undelivered uploads", byGuard: "event_targets_have_dead_letter_queues"}},
	{"an upload that the function fails on is lost", func(e *editor) { e.drop("Objects", "DeadLetterConfig") },
		map[string]string{byProperties: "dead-letter queue for failed uploads"}},
	{"any rule may invoke the function for uploads", func(e *editor) { e.drop("UploadsInvokeObjects", "SourceArn") },
		map[string]string{byProperties: "rule that invokes objects", byGuard: "permissions_name_their_source"}},
	{"the rule may not send undeliverable uploads to the dead-letter queue", func(e *editor) {
		e.set("sqs:ReceiveMessage", "ObjectsDeadLetterQueuePolicy", "PolicyDocument", "Statement", 1, "Action")
	}, map[string]string{byProperties: "senders to ObjectsDeadLetterQueue"}},
	{"a queue uses the uploads' dead-letter queue as its own", func(e *editor) {
		e.set("allowAll", "ObjectsDeadLetterQueue", "RedriveAllowPolicy", "redrivePermission")
	}, map[string]string{byProperties: "redrivePermission of ObjectsDeadLetterQueue", byGuard: "queues_have_or_are_dead_letter_queues"}},
	{"a workflow has a transition to a missing state", func(e *editor) {
		e.replace(`"Next": "PickedUp?"`, `"Next": "PickedUpp?"`, "JobWorkflow", "DefinitionString")
	},
		map[string]string{byProperties: "expected the text of infra/workflows/job.asl.json", byASLValidator: "PickedUpp?"}},
	{"a workflow waits forever", func(e *editor) { e.replace(`"TimeoutSeconds": 604800,`, ``, "PipelineWorkflow", "DefinitionString") },
		map[string]string{byProperties: "state Pipeline: expected a time-out, and to send the task token"}},
	{"dead letters ring no alarm", func(e *editor) { e.remove("DeadLettersAlarm") },
		map[string]string{byProperties: "DeadLettersAlarm, which is missing"}},
	{"a stuck group rings no alarm", func(e *editor) { e.remove("RetriedAlarm") },
		map[string]string{byProperties: "RetriedAlarm, which is missing"}},
	{"a single failed delivery rings", func(e *editor) { e.set(1, "RetriedAlarm", "DatapointsToAlarm") },
		map[string]string{byProperties: "above 0 in 3 of 4"}},
	{"an alarm stops between two retries", func(e *editor) { e.set(1, "UnsettledAlarm", "EvaluationPeriods") },
		map[string]string{byProperties: "above 900 in 1 of 14"}},
	{"an unreadable item rings only at the second delivery", func(e *editor) { e.set(1, "UnreadableAlarm", "Threshold") },
		map[string]string{byProperties: "UnreadableAlarm: expected"}},
	{"one line of level ERROR rings no alarm", func(e *editor) { e.set(2, "FaultsAlarm", "DatapointsToAlarm") },
		map[string]string{byProperties: "FaultsAlarm: expected"}},
	{"the alarm for tasks never rings", func(e *editor) {
		e.set("LessThanThreshold", "TokenDeadlineAlarm", "ComparisonOperator")
	}, map[string]string{byProperties: "comparison of TokenDeadlineAlarm"}},
	{"the alarm for the index watches the table's throttles", func(e *editor) {
		e.set([]any{map[string]any{"Name": "TableName", "Value": reference("Table")}}, "IndexWriteThrottlesAlarm", "Dimensions")
	}, map[string]string{byProperties: "IndexWriteThrottlesAlarm: expected"}},
	{"a function runs on another architecture than it is built for", func(e *editor) { e.drop("Gateway", "Architectures") },
		map[string]string{byProperties: "architecture of Gateway", byGuard: "functions_are_lean"}},
	{"an output names a missing resource", func(e *editor) {
		e.output("QueueUrl")["Value"] = reference("Queu")
	}, map[string]string{byProperties: "output QueueUrl", byLint: "Queu"}},
	{"a property has another name", func(e *editor) {
		e.resource("HttpApi")["Properties"].(map[string]any)["Nam"] = "settle"
	}, map[string]string{byLint: "'Nam' was unexpected"}},
	{"two resources wait for each other", func(e *editor) { e.resource("HttpApi")["DependsOn"] = "Gateway" },
		map[string]string{byLint: "Circular Dependencies"}},
}

func TestEverySeededMistakeIsCaught(t *testing.T) {
	t.Parallel()
	original := committed(t)
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			e := &editor{t: t, template: original.Clone()}
			m.make(e)
			if len(m.caughtBy) == 0 {
				t.Fatal("expected at least one check in caughtBy")
			}
			for name, check := range checks {
				want, catches := m.caughtBy[name]
				if name == byLint && !catches {
					continue // cfn-lint takes seconds
				}
				said := check(t, e.template)
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
	template template.Template
}

func reference(id string) map[string]any { return map[string]any{"Ref": id} }

func (e *editor) resource(id string) map[string]any {
	e.t.Helper()
	resource, ok := e.template["Resources"].(map[string]any)[id].(map[string]any)
	if !ok {
		e.t.Fatalf("the template has no resource %s", id)
	}
	return resource
}

func (e *editor) output(name string) map[string]any {
	e.t.Helper()
	output, ok := e.template["Outputs"].(map[string]any)[name].(map[string]any)
	if !ok {
		e.t.Fatalf("the template has no output %s", name)
	}
	return output
}

func (e *editor) remove(id string) {
	e.t.Helper()
	e.resource(id)
	delete(e.template["Resources"].(map[string]any), id)
}

// holder returns the mapping that contains the last key of the path.
func (e *editor) holder(id string, path []any) map[string]any {
	e.t.Helper()
	value := e.resource(id)["Properties"]
	for _, step := range path[:len(path)-1] {
		switch step := step.(type) {
		case string:
			mapping, _ := value.(map[string]any)
			value = mapping[step]
		case int:
			list, _ := value.([]any)
			if step < len(list) {
				value = list[step]
			}
		}
	}
	mapping, ok := value.(map[string]any)
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
	for _, m := range mistakes {
		list.WriteString("| " + m.name + " | " + strings.Join(slices.Sorted(maps.Keys(m.caughtBy)), ", ") + " |\n")
	}
	text, err := os.ReadFile("../../../README.md")
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
	for _, m := range mistakes {
		if slices.Contains(names, m.name) {
			t.Errorf("expected unique names, got %q twice", m.name)
		}
		names = append(names, m.name)
	}
}
