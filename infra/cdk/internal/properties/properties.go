// Package properties checks a template for the promises of infra/template.yaml, property by property. It reads only the
// template, not the construct.
package properties

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/cdk/internal/template"
)

// Property is a promise of the template.
type Property struct {
	// Name states the promise.
	Name  string
	check func(*reader)
}

// All are the properties, in the order of their checks.
var All = []Property{
	{"the queue is a FIFO queue with high throughput", highThroughput},
	{"every queue has a dead-letter queue of the same type, which serves only that queue and keeps messages for 14 days", deadLetters},
	{"a queue's visibility time-out is at least six function time-outs, and the FIFO queue's is shorter than the deduplication interval", visibility},
	{"a queue survives an outage: it retries a message for its whole retention, or as often as SQS can", endurance},
	{"every queue invokes its function, which reports failed items, with limited concurrency", mappings},
	{"queues are encrypted, and deny requests without TLS", encryption},
	{"the table has the keys, the index, the TTL, the stream and the backups that the runtime needs, and survives the stack", table},
	{"functions run on arm64 and provided.al2023, from the bucket", functions},
	{"functions have exactly the environment variables that they read", environment},
	{"secrets are references", secrets},
	{"every function has its own log group with a retention", logs},
	{"roles have exactly the permissions that they need", roles},
	{"only their services can assume the roles, for this account's resources", trust},
	{"only one role can be passed, and only to EventBridge Scheduler", passRole},
	{"the HTTP API requires IAM, except on routes that authenticate the caller", routes},
	{"the outputs are the ones that the command line and the scripts read", outputs},
	{"ends of executions go to their queue, and undelivered ones to a dead-letter queue", executionEvents},
	{"uploads to the named buckets go to their function, and undelivered ones to a dead-letter queue", uploadEvents},
	{"only roles and the queue's own rule can send to a queue", queuePolicies},
	{"undeliverable timers of EventBridge Scheduler go to a dead-letter queue", scheduleDeadLetters},
	{"workflows equal infra/workflows, wait with a task token for a limited time, and can send to the queue", workflowsAreOurs},
	{"alarms cover every metric that an operator needs", alarms},
	{"the dashboard shows every metric and alarm", dashboard},
}

// Check returns the problems of a template, by the names of the properties. The map is empty if there are none.
func Check(t template.Template) map[string][]string {
	problems := map[string][]string{}
	for _, property := range All {
		r := &reader{resources: t.Resources(), template: t}
		property.check(r)
		if len(r.problems) > 0 {
			problems[property.Name] = r.problems
		}
	}
	return problems
}

// reader reads a template and collects problems.
type reader struct {
	template  template.Template
	resources map[string]template.Resource
	problems  []string
}

func (r *reader) wrong(format string, arguments ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, arguments...))
}

// want reports a problem if got is not the expected value.
func (r *reader) want(where string, expected, got any) {
	if fmt.Sprint(expected) != fmt.Sprint(got) {
		r.wrong("%s: expected %v, got %v", where, expected, got)
	}
}

// ofType returns the logical IDs of the resources of a type, sorted.
func (r *reader) ofType(name string) []string {
	var ids []string
	for id, resource := range r.resources {
		if resource.Type == name {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// get returns a property of a resource, nil if it does not exist. A number in the path is an index.
func (r *reader) get(id string, path ...any) any {
	var value any = r.resources[id].Properties
	for _, step := range path {
		switch step := step.(type) {
		case string:
			mapping, _ := value.(map[string]any)
			value = mapping[step]
		case int:
			list, _ := value.([]any)
			if step >= len(list) {
				return nil
			}
			value = list[step]
		}
	}
	return value
}

// text returns a property in the form of Fn::Sub, "" if it does not exist or is not text.
func (r *reader) text(id string, path ...any) string {
	text, err := template.Text(r.get(id, path...))
	if err != nil {
		return ""
	}
	return text
}

func (r *reader) number(id string, path ...any) float64 {
	number, _ := r.get(id, path...).(float64)
	return number
}

// referred returns the logical ID of a reference such as ${Queue.Arn}.
func referred(reference string) string {
	id, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(reference, "${"), "}"), ".")
	return id
}

// same reports missing and unexpected elements of a set.
func (r *reader) same(where string, expected, got []string) {
	for _, text := range expected {
		if !slices.Contains(got, text) {
			r.wrong("%s: expected %s, which is missing", where, text)
		}
	}
	for _, text := range got {
		if !slices.Contains(expected, text) {
			r.wrong("%s: expected no %s", where, text)
		}
	}
}

const (
	// fortnight is the longest retention of SQS, in seconds.
	fortnight float64 = 14 * 24 * 60 * 60
	// deduplicationInterval is how long a FIFO queue remembers a deduplication ID, in seconds (SQS Developer Guide, "Using the
	// Amazon SQS message deduplication ID").
	deduplicationInterval float64 = 5 * 60
	// receivesMost is the highest maxReceiveCount (SQS Developer Guide, "Configure a dead-letter queue using the Amazon SQS console").
	receivesMost float64 = 1000
)

func highThroughput(r *reader) {
	r.want("FifoQueue of Queue", true, r.get("Queue", "FifoQueue"))
	r.want("DeduplicationScope of Queue", "messageGroup", r.get("Queue", "DeduplicationScope"))
	r.want("FifoThroughputLimit of Queue", "perMessageGroupId", r.get("Queue", "FifoThroughputLimit"))
	if r.get("Queue", "ContentBasedDeduplication") == true {
		r.wrong("Queue: expected no deduplication by content: two equal events are two events")
	}
	if receives := r.number("Queue", "RedrivePolicy", "maxReceiveCount"); receives < 1000 {
		r.wrong("Queue: expected maxReceiveCount of 1000, because the runtime decides when to park, got %v", receives)
	}
}

// queueOf maps functions to their queues, deadLettersOf queues to their dead-letter queues.
var (
	queueOf       = map[string]string{"Consumer": "Queue", "Delay": "DelayQueue", "Executions": "ExecutionsQueue"}
	deadLettersOf = map[string]string{"Queue": "DeadLetterQueue", "DelayQueue": "DelayDeadLetterQueue", "ExecutionsQueue": "ExecutionsDeadLetterQueue"}
)

func deadLetters(r *reader) {
	expected := slices.Concat(slices.Collect(maps.Keys(deadLettersOf)), slices.Collect(maps.Values(deadLettersOf)), []string{"ObjectsDeadLetterQueue"})
	r.same("queues", expected, r.ofType("AWS::SQS::Queue"))
	for queue, deadLetter := range deadLettersOf {
		r.want("dead-letter queue of "+queue, "${"+deadLetter+".Arn}", r.text(queue, "RedrivePolicy", "deadLetterTargetArn"))
		r.want("FifoQueue of "+deadLetter, r.get(queue, "FifoQueue"), r.get(deadLetter, "FifoQueue"))
		r.want("retention of "+queue, fortnight, r.number(queue, "MessageRetentionPeriod"))
		r.want("retention of "+deadLetter, fortnight, r.number(deadLetter, "MessageRetentionPeriod"))
		r.want("redrivePermission of "+deadLetter, "byQueue", r.get(deadLetter, "RedriveAllowPolicy", "redrivePermission"))
		r.want("source of "+deadLetter, "arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:"+r.text(queue, "QueueName"),
			r.text(deadLetter, "RedriveAllowPolicy", "sourceQueueArns", 0))
	}
}

func visibility(r *reader) {
	for function, queue := range queueOf {
		timeout, hidden := r.number(function, "Timeout"), r.number(queue, "VisibilityTimeout")
		if timeout <= 0 || hidden < 6*timeout {
			r.wrong("%s: expected a visibility time-out of at least %v s, got %v", queue, 6*timeout, hidden)
		}
	}
	if hidden := r.number("Queue", "VisibilityTimeout"); hidden >= deduplicationInterval {
		r.wrong("Queue: expected a visibility time-out of less than %v s, got %v: SQS must recognise a message that a consumer sent before it died and sends again",
			deduplicationInterval, hidden)
	}
}

// endurance checks that a queue does not drop a message during an outage. It must retry the message for its whole
// retention, or as often as SQS allows. Until then the alarm on Retried must ring, so a retry must fall into each of
// its periods. The age of the oldest message is no substitute, because the metric excludes messages that were received
// several times (SQS Developer Guide, "Available CloudWatch metrics for Amazon SQS").
func endurance(r *reader) {
	for queue := range deadLettersOf {
		receives, hidden := r.number(queue, "RedrivePolicy", "maxReceiveCount"), r.number(queue, "VisibilityTimeout")
		if receives*hidden < r.number(queue, "MessageRetentionPeriod") && receives != receivesMost {
			r.wrong("%s: expected retries during the whole retention, or %v times, got %v times every %v s: an outage of %v would move its messages to the dead-letter queue",
				queue, receivesMost, receives, hidden, time.Duration(receives*hidden)*time.Second)
		}
		if period := r.number("RetriedAlarm", "Period"); hidden > period {
			r.wrong("%s: expected to retry a message within %v s, a period of the alarm on Retried, got %v", queue, period, hidden)
		}
	}
}

func mappings(r *reader) {
	var got []string
	for _, id := range r.ofType("AWS::Lambda::EventSourceMapping") {
		got = append(got, r.text(id, "EventSourceArn")+" to "+r.text(id, "FunctionName"))
		r.want("FunctionResponseTypes of "+id, []any{"ReportBatchItemFailures"}, r.get(id, "FunctionResponseTypes"))
		if r.get(id, "ScalingConfig", "MaximumConcurrency") == nil {
			r.wrong("%s: expected a MaximumConcurrency", id)
		}
		r.want("batch size of "+id, 10, r.number(id, "BatchSize"))
		if r.get(id, "FilterCriteria") != nil || r.get(id, "Enabled") == false {
			r.wrong("%s: expected an enabled mapping without a filter", id)
		}
	}
	var expected []string
	for function, queue := range queueOf {
		expected = append(expected, "${"+queue+".Arn} to ${"+function+"}")
	}
	r.same("mappings", expected, got)
}

func encryption(r *reader) {
	guarded := map[string]bool{}
	for _, id := range r.ofType("AWS::SQS::QueuePolicy") {
		statement, _ := r.get(id, "PolicyDocument", "Statement", 0).(map[string]any)
		condition := fmt.Sprint(statement["Condition"])
		resource, _ := template.Text(statement["Resource"])
		if statement["Effect"] == "Deny" && statement["Action"] == "sqs:*" && condition == "map[Bool:map[aws:SecureTransport:false]]" &&
			fmt.Sprint(statement["Principal"]) == "map[AWS:*]" && referred(r.text(id, "Queues", 0)) == referred(resource) {
			guarded[referred(resource)] = true
		}
	}
	for _, id := range r.ofType("AWS::SQS::Queue") {
		if r.get(id, "SqsManagedSseEnabled") != true && r.text(id, "KmsMasterKeyId") == "" {
			r.wrong("%s: expected encryption", id)
		}
		if !guarded[id] {
			r.wrong("%s: expected a policy that denies requests without TLS", id)
		}
	}
}

func table(r *reader) {
	r.want("keys", "[map[AttributeName:instance KeyType:HASH]]", r.get("Table", "KeySchema"))
	r.want("index", "[map[IndexName:by_state KeySchema:[map[AttributeName:index_shard KeyType:HASH] map[AttributeName:index_key KeyType:RANGE]] "+
		"Projection:map[NonKeyAttributes:[state status tags] ProjectionType:INCLUDE]]]", r.get("Table", "GlobalSecondaryIndexes"))
	r.want("TTL", "map[AttributeName:expire_at Enabled:true]", r.get("Table", "TimeToLiveSpecification"))
	r.want("stream", "NEW_AND_OLD_IMAGES", r.get("Table", "StreamSpecification", "StreamViewType"))
	r.want("point-in-time recovery", true, r.get("Table", "PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled"))
	r.want("billing", "PAY_PER_REQUEST", r.get("Table", "BillingMode"))
	r.want("deletion protection", true, r.get("Table", "DeletionProtectionEnabled"))
	r.want("deletion policy", "Retain", r.resources["Table"].DeletionPolicy)
	r.want("replacement policy", "Retain", r.resources["Table"].UpdateReplacePolicy)
}
