package conformance_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// eventBridgeBehaviours lists the behaviours of event buses with SQS as the target.
var eventBridgeBehaviours = []behaviour{
	{name: "rule_to_queue", test: ruleToQueue, connection: true, promise: "A rule sends each matching event of its bus to its queues, with version, id, detail-type, source, account, time, region, resources and detail. A FIFO queue needs a MessageGroupId. (User Guide: Event structure; API Reference: Target)"},
	{name: "pattern_operators", test: patternOperators, promise: "Patterns match by values, prefix, suffix, equals-ignore-case, wildcard, anything-but, numeric, cidr, exists and $or. PutRule rejects other patterns with InvalidEventPatternException. (User Guide: Comparison operators for use in event patterns)"},
	{name: "put_events", test: putEvents, promise: "PutEvents accepts 1 to 10 entries of at most 1 MB together. An entry without Source, with a Detail that is not a JSON object, or with a source of AWS fails alone, with its code. (API Reference: PutEvents, PutEventsResultEntry)"},
	{name: "no_such_bus", test: noSuchBus, promise: "PutEvents accepts an event for a bus that does not exist, and drops it. (Issue 186 of aws/aws-sdk; no document mentions it)"},
	{name: "rules", test: rules, promise: "PutRule replaces a rule and keeps its targets. A disabled rule matches nothing. A rule with targets cannot be deleted, nor the default bus. (API Reference: PutRule, DisableRule, DeleteRule, DeleteEventBus)"},
}

// bus creates a bus.
func (w *world) bus(t *testing.T) string {
	t.Helper()
	name := w.name()
	_, err := w.events.CreateEventBus(t.Context(), &eventbridge.CreateEventBusInput{Name: &name})
	must(t, "CreateEventBus", err)
	return name
}

// rule creates a rule that sends events to the targets.
func (w *world) rule(t *testing.T, bus, name, pattern string, targets ...types.Target) {
	t.Helper()
	_, err := w.events.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: &name, EventBusName: &bus, EventPattern: &pattern})
	must(t, "PutRule", err)
	_, err = w.events.PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: &name, EventBusName: &bus, Targets: targets})
	must(t, "PutTargets", err)
}

// published returns an entry of PutEvents.
func published(bus, detailType, detail string) types.PutEventsRequestEntry {
	return types.PutEventsRequestEntry{EventBusName: &bus, Source: aws.String("settle.order"), DetailType: &detailType, Detail: &detail}
}

// putEvents publishes events and returns the error code of each event, or "" if the event was accepted.
func (w *world) putEvents(t *testing.T, entries ...types.PutEventsRequestEntry) (codes []string) {
	t.Helper()
	out, err := w.events.PutEvents(t.Context(), &eventbridge.PutEventsInput{Entries: entries})
	must(t, "PutEvents", err)
	failed := 0
	for _, entry := range out.Entries {
		if entry.ErrorCode != nil {
			failed++
		} else if aws.ToString(entry.EventId) == "" {
			t.Error("got neither an EventId nor an ErrorCode")
		}
		codes = append(codes, aws.ToString(entry.ErrorCode))
	}
	want(t, "FailedEntryCount", failed, int(out.FailedEntryCount))
	return codes
}

// received receives and deletes all events in the queue. It returns their detail types, sorted.
func (q queue) received() (detailTypes []string) {
	q.t.Helper()
	for {
		messages := q.receive()
		if len(messages) == 0 {
			slices.Sort(detailTypes)
			return detailTypes
		}
		for _, message := range messages {
			var event struct {
				DetailType string `json:"detail-type"`
			}
			must(q.t, "reading an event", json.Unmarshal([]byte(*message.Body), &event))
			detailTypes = append(detailTypes, event.DetailType)
		}
		q.delete(messages...)
	}
}

func ruleToQueue(t *testing.T, w *world) {
	bus := w.bus(t)
	standard := w.queue(t, w.name(), nil)
	fifo := w.queue(t, w.name()+".fifo", map[string]string{string(sqstypes.QueueAttributeNameFifoQueue): "true", string(sqstypes.QueueAttributeNameContentBasedDeduplication): "true"})
	other := w.queue(t, w.name(), nil)
	pattern := `{"source": ["settle.order"], "detail": {"payload": {"items": [{"numeric": [">", 1]}]}}}`
	w.rule(t, bus, "to-queues", pattern, types.Target{Id: aws.String("a"), Arn: standard.arn()},
		types.Target{Id: aws.String("b"), Arn: fifo.arn(), SqsParameters: &types.SqsParameters{MessageGroupId: aws.String("g")}})
	w.rule(t, "default", w.name(), pattern, types.Target{Id: aws.String("a"), Arn: other.arn()})
	_, err := w.events.PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: aws.String("to-queues"), EventBusName: &bus, Targets: []types.Target{{Id: aws.String("c"), Arn: fifo.arn()}}})
	wantCode(t, "a FIFO queue without a group", err, "ValidationException")

	ofBus, err := w.events.DescribeEventBus(t.Context(), &eventbridge.DescribeEventBusInput{Name: &bus})
	must(t, "DescribeEventBus", err)
	want(t, "codes", []string{"", ""}, w.putEvents(t, published(*ofBus.Arn, "two", `{"payload": {"items": 2}}`), published(bus, "one", `{"payload": {"items": 1}}`)))
	message := standard.receive()
	want(t, "number of messages", 1, len(message))
	var event map[string]any
	must(t, "reading the event", json.Unmarshal([]byte(*message[0].Body), &event))
	for _, name := range []string{"id", "time", "account", "region"} {
		if text, _ := event[name].(string); text == "" {
			t.Errorf("%s: got %v, want a text", name, event[name])
		}
		delete(event, name)
	}
	want(t, "event", map[string]any{
		"version": "0", "source": "settle.order", "detail-type": "two", "resources": []any{}, "detail": map[string]any{"payload": map[string]any{"items": 2.0}},
	}, event)
	want(t, "events of the FIFO queue", []string{"two"}, fifo.received())
	want(t, "events of another bus", []string(nil), other.received())
}

func patternOperators(t *testing.T, w *world) {
	event := `{"id": "1", "account": "1", "source": "settle.order", "time": "2026-01-01T00:00:00Z", "region": "us-east-1", "resources": ["r-1"],
		"detail-type": "order.placed", "detail": {"state": "Paid", "items": 5, "ip": "10.0.0.7", "note": null}}`
	for pattern, matches := range map[string]bool{
		`{"detail-type": ["order.placed"]}`:                                              true,
		`{"source": [{"prefix": "settle."}], "detail-type": [{"suffix": ".sent"}]}`:      false,
		`{"detail": {"state": [{"equals-ignore-case": "PAID"}]}}`:                        true,
		`{"detail-type": [{"wildcard": "order.*"}]}`:                                     true,
		`{"detail": {"state": [{"anything-but": ["Paid", "Sent"]}]}}`:                    false,
		`{"detail": {"items": [{"numeric": [">", 1, "<=", 5]}]}}`:                        true,
		`{"detail": {"ip": [{"cidr": "10.0.0.0/24"}]}}`:                                  true,
		`{"detail": {"gone": [{"exists": false}], "note": [null]}}`:                      true,
		`{"resources": ["r-1"], "$or": [{"source": ["x"]}, {"detail": {"items": [5]}}]}`: true,
	} {
		out, err := w.events.TestEventPattern(t.Context(), &eventbridge.TestEventPatternInput{EventPattern: &pattern, Event: &event})
		must(t, pattern, err)
		want(t, pattern, matches, out.Result)
	}
	for _, pattern := range []string{`{}`, `{"source": "x"}`, `{"source": [{"like": "x"}]}`, `{"source": [{"numeric": ["~", 1]}]}`} {
		_, err := w.events.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: aws.String(w.name()), EventPattern: &pattern})
		wantCode(t, pattern, err, "InvalidEventPatternException")
	}
}

func putEvents(t *testing.T, w *world) {
	bus, queue := w.bus(t), w.queue(t, w.name(), nil)
	w.rule(t, bus, "all", `{"source": [{"prefix": ""}]}`, types.Target{Id: aws.String("a"), Arn: queue.arn()})
	withoutSource, ofAWS := published(bus, "no source", `{}`), published(bus, "of AWS", `{}`)
	withoutSource.Source, ofAWS.Source = nil, aws.String("aws.ec2")
	got := w.putEvents(t, published(bus, "first", `{}`), withoutSource, published(bus, "broken", `{`), ofAWS, published(bus, "list", `[]`), published(bus, "last", `{}`))
	want(t, "codes", []string{"", "InvalidArgument", "MalformedDetail", "NotAuthorizedForSourceException", "MalformedDetail", ""}, got)
	want(t, "events", []string{"first", "last"}, queue.received())

	const bytesMax = 1 << 20
	fixed := len("settle.order") + len("large") + len(`{"x":""}`)
	large := func(bytes int) types.PutEventsRequestEntry {
		return published(bus, "large", fmt.Sprintf(`{"x":"%s"}`, strings.Repeat("x", bytes-fixed)))
	}
	want(t, "codes at the limit", []string{"", ""}, w.putEvents(t, large(bytesMax/2), large(bytesMax/2)))
	for what, entries := range map[string][]types.PutEventsRequestEntry{
		"too large together": {large(bytesMax / 2), large(bytesMax/2 + 1)}, "eleven entries": slices.Repeat([]types.PutEventsRequestEntry{published(bus, "x", `{}`)}, 11),
	} {
		_, err := w.events.PutEvents(t.Context(), &eventbridge.PutEventsInput{Entries: entries})
		wantCode(t, what, err, "ValidationException")
	}
}

func noSuchBus(t *testing.T, w *world) {
	missing := w.name()
	want(t, "codes", []string{""}, w.putEvents(t, published(missing, "lost", `{}`)))
	_, err := w.events.DescribeEventBus(t.Context(), &eventbridge.DescribeEventBusInput{Name: &missing})
	wantCode(t, "DescribeEventBus", err, "ResourceNotFoundException")
	_, err = w.events.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: aws.String("r"), EventBusName: &missing, EventPattern: aws.String(`{"source": ["x"]}`)})
	wantCode(t, "PutRule", err, "ResourceNotFoundException")
}

func rules(t *testing.T, w *world) {
	bus, queue := w.bus(t), w.queue(t, w.name(), nil)
	name := aws.String("r")
	w.rule(t, bus, *name, `{"detail-type": ["a"]}`, types.Target{Id: aws.String("a"), Arn: queue.arn()}, types.Target{Id: aws.String("b"), Arn: queue.arn()})
	_, err := w.events.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: name, EventBusName: &bus, EventPattern: aws.String(`{"detail-type": ["b"]}`)})
	must(t, "PutRule", err)
	_, err = w.events.RemoveTargets(t.Context(), &eventbridge.RemoveTargetsInput{Rule: name, EventBusName: &bus, Ids: []string{"b"}})
	must(t, "RemoveTargets", err)
	targets, err := w.events.ListTargetsByRule(t.Context(), &eventbridge.ListTargetsByRuleInput{Rule: name, EventBusName: &bus})
	must(t, "ListTargetsByRule", err)
	want(t, "number of targets", 1, len(targets.Targets))
	w.putEvents(t, published(bus, "a", `{}`), published(bus, "b", `{}`))
	want(t, "events", []string{"b"}, queue.received())

	_, err = w.events.DisableRule(t.Context(), &eventbridge.DisableRuleInput{Name: name, EventBusName: &bus})
	must(t, "DisableRule", err)
	w.putEvents(t, published(bus, "b", `{}`))
	want(t, "events of a disabled rule", []string(nil), queue.received())
	_, err = w.events.EnableRule(t.Context(), &eventbridge.EnableRuleInput{Name: name, EventBusName: &bus})
	must(t, "EnableRule", err)
	listed, err := w.events.ListRules(t.Context(), &eventbridge.ListRulesInput{EventBusName: &bus})
	must(t, "ListRules", err)
	if len(listed.Rules) != 1 || listed.Rules[0].State != types.RuleStateEnabled || *listed.Rules[0].EventPattern != `{"detail-type": ["b"]}` {
		t.Errorf("ListRules: got %+v, want the changed rule", listed.Rules)
	}

	_, err = w.events.DeleteRule(t.Context(), &eventbridge.DeleteRuleInput{Name: name, EventBusName: &bus})
	wantCode(t, "deleting a rule with targets", err, "ValidationException")
	_, err = w.events.RemoveTargets(t.Context(), &eventbridge.RemoveTargetsInput{Rule: name, EventBusName: &bus, Ids: []string{"a"}})
	must(t, "RemoveTargets", err)
	_, err = w.events.DeleteRule(t.Context(), &eventbridge.DeleteRuleInput{Name: name, EventBusName: &bus})
	must(t, "DeleteRule", err)
	_, err = w.events.DescribeRule(t.Context(), &eventbridge.DescribeRuleInput{Name: name, EventBusName: &bus})
	wantCode(t, "DescribeRule", err, "ResourceNotFoundException")
	_, err = w.events.DeleteEventBus(t.Context(), &eventbridge.DeleteEventBusInput{Name: aws.String("default")})
	wantCode(t, "deleting the default bus", err, "ValidationException")
}
