// Package properties says what infra/template.yaml promises, property by property, and checks a template for it. It reads the
// template alone, whatever has made it.
package properties

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/cdk/internal/template"
)

// Property is something that must be so.
type Property struct {
	// Name says what must be so.
	Name  string
	check func(*reader)
}

// All are the properties, in the order in which they are checked.
var All = []Property{
	{"the queue is a FIFO queue of high throughput", highThroughput},
	{"every queue has a dead-letter queue of its kind, which takes from it alone and keeps what it gets for 14 days", deadLetters},
	{"a queue hides its messages for at least six time-outs of its function, the FIFO queue for less than SQS remembers an ID", visibility},
	{"a queue outlasts an outage: it gives a message up at the end of its retention, or as late as SQS can", endurance},
	{"every queue feeds its function, which reports the items that failed, up to a limit", mappings},
	{"queues are encrypted, and refuse what comes without TLS", encryption},
	{"the table has the keys, the index, the TTL, the stream and the backups that the runtime needs, and is not lost", table},
	{"functions run on arm64 and provided.al2023, from the bucket", functions},
	{"functions have the environment that they read, and no other", environment},
	{"secrets come by reference", secrets},
	{"functions write to a log group of their own, which forgets", logs},
	{"roles may do their calls on their resources, and nothing else", roles},
	{"roles are assumed by their services, for this account's resources", trust},
	{"one role may be passed, to EventBridge Scheduler", passRole},
	{"the HTTP API asks for IAM, but for the routes that check who calls", routes},
	{"the outputs are what the command line and the scripts ask for", outputs},
	{"the ends of executions come to their queue, and what cannot be brought is kept", executionEvents},
	{"uploads to the buckets that are named come to their function, and what cannot be brought is kept", uploadEvents},
	{"only the rule of a queue sends to it, beside roles", queuePolicies},
	{"timers that EventBridge Scheduler cannot bring are kept", scheduleDeadLetters},
	{"workflows are those of infra/workflows, wait with a task token for a limited time, and may send to the queue", workflowsAreOurs},
	{"alarms watch what the operator must know", alarms},
	{"the dashboard shows what is measured", dashboard},
}

// Check returns what is wrong with a template, by the names of the properties. It is empty if nothing is.
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

// reader reads a template and collects what is wrong.
type reader struct {
	template  template.Template
	resources map[string]template.Resource
	problems  []string
}

func (r *reader) wrong(format string, arguments ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, arguments...))
}

// want notes if what is there is not what was expected.
func (r *reader) want(where string, expected, got any) {
	if fmt.Sprint(expected) != fmt.Sprint(got) {
		r.wrong("%s: expected %v, got %v", where, expected, got)
	}
}

// ofType returns the logical IDs of the resources of a type, in order.
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

// get returns a property of a resource, nil if there is none. A number in the path is an index.
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

// text returns a property in the form of Fn::Sub, "" if it is none or no text.
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

// referred returns the logical ID in a reference such as ${Queue.Arn}.
func referred(reference string) string {
	id, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(reference, "${"), "}"), ".")
	return id
}

// same notes what is missing from a set and what is too much in it.
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
	// fortnight is the longest that SQS keeps a message, in seconds.
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
		r.wrong("Queue: expected maxReceiveCount of 1000, as parking is the runtime's decision, got %v", receives)
	}
}

// queueOf are the functions' queues, deadLettersOf the queues' dead-letter queues.
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
			r.wrong("%s: expected to hide messages for %v s or longer, got %v", queue, 6*timeout, hidden)
		}
	}
	if hidden := r.number("Queue", "VisibilityTimeout"); hidden >= deduplicationInterval {
		r.wrong("Queue: expected to hide messages for less than %v s, got %v: SQS must recognise what a consumer sends again that died after sending it",
			deduplicationInterval, hidden)
	}
}

// endurance checks that no queue gives a message up during an outage that the message survives: it is tried until its retention
// is over, or as often as SQS allows. Until then the alarm on Retried must ring, which wants a failure in each of its periods: the age of
// the oldest message leaves out what was received several times (SQS Developer Guide, "Available CloudWatch metrics for Amazon SQS").
func endurance(r *reader) {
	for queue := range deadLettersOf {
		receives, hidden := r.number(queue, "RedrivePolicy", "maxReceiveCount"), r.number(queue, "VisibilityTimeout")
		if receives*hidden < r.number(queue, "MessageRetentionPeriod") && receives != receivesMost {
			r.wrong("%s: expected to be tried for its retention, or %v times, got %v times every %v s: an outage of %v would lose what it holds",
				queue, receivesMost, receives, hidden, time.Duration(receives*hidden)*time.Second)
		}
		if period := r.number("RetriedAlarm", "Period"); hidden > period {
			r.wrong("%s: expected to try a message again within %v s, a period of the alarm on Retried, got %v", queue, period, hidden)
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
		r.want("most messages in a batch of "+id, 10, r.number(id, "BatchSize"))
		if r.get(id, "FilterCriteria") != nil || r.get(id, "Enabled") == false {
			r.wrong("%s: expected to be on and to filter nothing", id)
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
			r.wrong("%s: expected a policy that denies what comes without TLS", id)
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
