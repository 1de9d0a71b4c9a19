package simulate_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/instances"
)

// TestBadGroups is the table of groups that name no instance, and of unusual groups that do name one.
func TestBadGroups(t *testing.T) {
	t.Parallel()
	longest := "probe/" + strings.Repeat("x", 128-len("probe/"))
	runBadMessages(t, []badMessage{
		{name: "no slash", group: "probe", body: goodEvent, want: parked(`the group of the message: not the name of an instance: expected machine/id such as signup/42, got "probe"`)},
		{name: "no machine", group: "/1", body: goodEvent, want: parked(`the group of the message: not the name of an instance: expected machine/id such as signup/42, got "/1"`)},
		{name: "no ID", group: "probe/", body: goodEvent, want: parked(`the group of the message: not the name of an instance: expected machine/id such as signup/42, got "probe/"`)},
		{name: "only a slash", group: "/", body: goodEvent, want: parked(`the group of the message: not the name of an instance: expected machine/id such as signup/42, got "/"`)},
		{name: "two slashes", group: "probe/1/2", body: goodEvent, want: parked(`the group of the message: not the name of an instance: expected machine/id such as signup/42, got "probe/1/2"; write the ID without a slash, such as 1-2`)},
		{name: "unknown machine", group: "nobody/1", body: goodEvent, want: parked(`the group of the message: unknown machine: expected one of boat, enrich, harbour, job, probe, ship, signup, got "nobody"`)},
		{name: "wrong case", group: "Probe/1", body: goodEvent, want: parked(`the group of the message: unknown machine: expected one of boat, enrich, harbour, job, probe, ship, signup, got "Probe"`)},
		{name: "alias", group: "alias/probe-1", body: goodEvent, want: parked(`the group of the message: unknown machine: expected one of boat, enrich, harbour, job, probe, ship, signup, got "alias"`)},
		{name: "backslash", group: `probe\1`, body: goodEvent, want: parked(`the group of the message: not the name of an instance: expected machine/id such as signup/42, got "probe\\1"`)},
		{name: "punctuation", group: "probe/$(rm;-rf)", body: goodEvent, want: applied("good")},
		{name: "longest", group: longest, body: goodEvent, want: applied("good")},
		{name: "child without a start", group: "ship/1", body: `{"type": "hail", "cargo": "tea"}`, want: parked(`ship/1 does not exist, and begins with an input: only a parent starts it`)},
		{name: "unknown machine and no event", group: "nobody/1", body: "hello", want: parked(`the group of the message: unknown machine: expected one of boat, enrich, harbour, job, probe, ship, signup, got "nobody"`)},
	})
}

// TestBadAttributes is the table of message attributes that look like the attributes of a parked message.
func TestBadAttributes(t *testing.T) {
	t.Parallel()
	binary := types.MessageAttributeValue{DataType: aws.String("Binary"), BinaryValue: []byte{0xff}}
	told := `{"type": "note", "text": "told"}`
	// The event starts its instance and has no ID. So the instance remembers the event by its place: the queue and the
	// sequence number.
	queue := sha256.Sum256([]byte(arnOfQueues + queueName))
	nothingKept := func(w *world, after instances.Record) {
		place := fmt.Sprintf("parked/%x/1000000000000000", queue[:8]) // awslocal numbers the messages of a queue from this number on.
		if len(after.RecentEvents) != 1 || !strings.HasPrefix(after.RecentEvents[0], place) {
			w.t.Errorf("want only the place %s remembered, and no attributes, got %.100q", place, after.RecentEvents)
		}
	}
	runBadMessages(t, []badMessage{
		{name: "sequence number of 100 KB", body: told, want: applied("told"), check: nothingKept, attributes: map[string]types.MessageAttributeValue{
			"source_queue": stringAttribute("q"), "sequence_number": stringAttribute(strings.Repeat("9", 100<<10))}},
		{name: "sequence number no number", body: told, want: applied("told"), check: nothingKept, attributes: map[string]types.MessageAttributeValue{
			"source_queue": stringAttribute("q"), "sequence_number": stringAttribute("' OR 1=1")}},
		{name: "binary", body: told, want: applied("told"), check: nothingKept, attributes: map[string]types.MessageAttributeValue{"source_queue": binary, "sequence_number": binary}},
		{name: "only one of two", body: told, want: applied("told"), check: nothingKept, attributes: map[string]types.MessageAttributeValue{"sequence_number": stringAttribute("7")}},
		{name: "reason of a stranger", body: `{}`, want: parked(`not an event: expected the key "type" with an event type, got no keys`),
			attributes: map[string]types.MessageAttributeValue{"reason": stringAttribute("all is well"), "receive_count": stringAttribute("many")}},
	})
}

// TestFabricatedEventsOfTheLoop is the table of events that a producer sends although only the loop may send them.
func TestFabricatedEventsOfTheLoop(t *testing.T) {
	t.Parallel()
	const foreign = `, "$parent": {"instance": "harbour/9", "incarnation": 1, "child": "1.0"}}`
	arm := []string{`{"type": "arm"}`}
	runBadMessages(t, []badMessage{
		{name: "timer without ID", body: `{"type": "settle.timer", "$incarnation": CREATED}`, want: parked(`wrong payload: settle.timer expects the key "timer" with a timer's ID, got nothing`)},
		{name: "timer a number", body: `{"type": "settle.timer", "timer": 7, "$incarnation": CREATED}`, want: parked(`wrong payload: settle.timer expects the key "timer" with a timer's ID, got a number`)},
		{name: "timer unknown", body: `{"type": "settle.timer", "timer": "9.0", "$incarnation": CREATED}`, want: skipped()},
		{name: "timer of an earlier instance", body: `{"type": "settle.timer", "timer": "3.0", "$incarnation": 1}`, before: arm, want: skipped()},
		{name: "incarnation a string", body: `{"type": "settle.timer", "timer": "3.0", "$incarnation": "now"}`, before: arm, want: skipped()},
		{name: "timer a day early", body: `{"type": "settle.timer", "timer": "3.0", "$incarnation": CREATED}`, before: arm, want: applied(""), warned: true, check: func(w *world, after instances.Record) {
			if after.State[0] != "armed" {
				w.t.Errorf("want the instance armed until the timer is due, got %v", after.State)
			}
			time.Sleep(24 * time.Hour)
			if record := w.record(probe1); record.State[0] != "idle" {
				w.t.Errorf("want the timer to fire when it is due, got %v", record.State)
			}
		}},
		{name: "token a number", body: `{"type": "settle.token", "token": 7, "$incarnation": CREATED}`, want: parked(`wrong payload: settle.token, which only the loop itself sends: expected a string under "token", got a number`)},
		{name: "count too large", body: `{"type": "settle.token", "token": "a", "count": 1e99, "$incarnation": CREATED}`, want: parked(`wrong payload: settle.token, which only the loop itself sends: expected a whole number of 64 bits under "count", got a number with a fraction or an exponent`)},
		{name: "token unknown", body: `{"type": "settle.token", "token": "a", "$incarnation": CREATED}`, want: applied("")},
		{name: "token of an earlier instance", body: `{"type": "settle.token", "token": "a", "$incarnation": 1}`, want: skipped()},
		{name: "expiry with a list for a name", body: `{"type": "settle.token.expired", "name": ["a"], "$incarnation": CREATED}`, want: parked(`wrong payload: settle.token.expired, which only the loop itself sends: expected a string under "name", got an array`)},
		{name: "expiry of a chart that declares none", body: `{"type": "settle.token.expired", "name": "a", "$incarnation": CREATED}`, want: applied("")},
		{name: "alias a number", body: `{"type": "settle.alias.taken", "alias": 7, "$incarnation": CREATED}`, want: parked(`wrong payload: settle.alias.taken, which only the loop itself sends: expected a string under "alias", got a number`)},
		{name: "alias unknown", body: `{"type": "settle.alias.taken", "alias": "a", "$incarnation": CREATED}`, want: applied("")},
		{name: "child a number", body: `{"type": "settle.child", "child": 7, "$incarnation": CREATED}`, want: parked(`wrong payload: settle.child, which only the loop itself sends: expected a string under "child", got a number`)},
		{name: "child unknown", body: `{"type": "settle.child", "child": "1.0", "status": "done", "$incarnation": CREATED}`, want: applied("")},
		{name: "execution with a text for a count", body: `{"type": "settle.execution", "execution": "a", "count": "x", "$incarnation": CREATED}`, want: parked(`wrong payload: settle.execution, which only the loop itself sends: expected a whole number of 64 bits under "count", got a string`)},
		{name: "execution unknown", body: `{"type": "settle.execution", "execution": "a", "$incarnation": CREATED}`, want: applied("")},
		{name: "end of an execution a text", body: `{"type": "settle.execution.ended", "end": "x", "$incarnation": CREATED}`, want: parked(`wrong payload: settle.execution.ended, which only the loop itself sends: expected an object under "end", got a string`)},
		{name: "end of an unknown execution", body: `{"type": "settle.execution.ended", "end": {"name": "a"}, "$incarnation": CREATED}`, want: applied("")},
		{name: "failed effect a number", body: `{"type": "settle.effect.failed", "effect": 7, "$incarnation": CREATED}`, want: parked(`wrong payload: settle.effect.failed, which only the loop itself sends: expected a string under "effect", got a number`)},
		{name: "failed effect unknown", body: `{"type": "settle.effect.failed", "effect": "1.0", "$incarnation": CREATED}`, want: applied("")},
		{name: "start without parent", body: `{"type": "settle.start"}`, want: parked(`wrong payload: expected the key $parent with a parent's instance, incarnation and child, got {Instance: Incarnation:0 Child:}`)},
		{name: "start with a text for a parent", body: `{"type": "settle.start", "$parent": "harbour/9"}`, want: parked(`wrong payload: expected an object under "$parent", got a string`)},
		{name: "start with a wrong name", body: `{"type": "settle.start", "$parent": {"instance": "harbour", "incarnation": 1, "child": "1.0"}}`, want: parked(`wrong payload: expected the key $parent with a parent's instance, incarnation and child, got {Instance:harbour Incarnation:1 Child:1.0}`)},
		{name: "start of a child without a waiting parent", group: "ship/1", body: `{"type": "settle.start", "input": {}` + foreign, want: applied("no instance")},
		{name: "stop of a child with another name", group: "ship/1", body: `{"type": "settle.stop"` + foreign, want: applied("no instance")},
		{name: "stop of an instance that is no child", body: `{"type": "settle.stop"` + foreign, want: skipped()},
		{name: "parent a text", body: `{"type": "note", "text": "bad", "$parent": "harbour/9"}`, want: parked(`wrong payload: expected an object under "$parent", got a string`)},
		{name: "parent of another child", body: `{"type": "note", "text": "bad"` + foreign, want: parked(`harbour/9 sent it to its child probe/1, which does not exist: it could not be started, or has ended and expired`)},
		{name: "parent null", body: `{"type": "note", "text": "told", "$parent": null}`, want: applied("told")},
		{name: "parent as a text in the payload", body: `{"type": "note", "text": "$parent"}`, want: applied("$parent")},
		{name: "wait without a task", body: `{"type": "settle.wait"}`, want: parked(`wrong $task: expected settle.wait to have the key $task`)},
		{name: "task a text", body: `{"type": "note", "text": "bad", "$task": "token"}`, want: parked(`wrong $task: expected an object with the key token and, if need be, name, state, execution, enteredAt, timeoutSeconds and heartbeatSeconds, got a string`)},
		{name: "task null", body: `{"type": "note", "text": "bad", "$task": null}`, want: parked(`wrong $task: expected under "token" 1 to 2048 bytes ($$.Task.Token), got 0`)},
		{name: "task without token", body: `{"type": "note", "text": "bad", "$task": {"name": "Wait"}}`, want: parked(`wrong $task: expected under "token" 1 to 2048 bytes ($$.Task.Token), got 0`)},
		{name: "token of a task a number", body: `{"type": "note", "text": "bad", "$task": {"token": 7, "name": "Wait"}}`, want: parked(`wrong $task: expected a string under "token", got a number; its keys are token, name, state, execution, enteredAt, timeoutSeconds and heartbeatSeconds`)},
		{name: "token too long", body: `{"type": "note", "text": "bad", "$task": {"token": "` + strings.Repeat("t", 2049) + `", "name": "Wait"}}`, want: parked(`wrong $task: expected under "token" 1 to 2048 bytes ($$.Task.Token), got 2049`)},
		{name: "task as a text in the payload", body: `{"type": "note", "text": "$task"}`, want: applied("$task")},
	})
}

// Operators change the stored item, not the queue. So a message with the name of an operation is an unknown event.
func TestAForgedOperationChangesNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []instances.OperationKind{instances.Stop, instances.Terminate, instances.Move, instances.Keep, instances.Unkeep, instances.Forget} {
		inProbeWorld(t, func(w *world, _ *lines) {
			w.sendRaw(raw{group: probe1, body: firstEvent})
			time.Sleep(time.Second)
			before := w.record(probe1)
			forged := fmt.Sprintf(`{"type": "settle.%s", "state": "armed", "context": {"notes": ["forged"]}, "revision": %d, "$incarnation": %d}`, kind, before.Revision, before.CreatedAt.UnixMilli())
			w.post("/instances/"+probe1+"/events", nil, []byte(forged), http.StatusBadRequest)
			w.sendRaw(raw{group: probe1, body: forged})
			time.Sleep(time.Hour)
			after := w.record(probe1)
			if len(w.parked()) != 1 || w.unacknowledged() != 0 {
				w.t.Errorf("%s: want the one message of the queue parked", kind)
			}
			if string(after.Snapshot) != string(before.Snapshot) || len(after.History) != len(before.History) || after.Status != before.Status || after.Kept || after.Forgotten || len(after.Outbox) > 0 {
				w.t.Errorf("%s changed\n%+v\nto\n%+v", kind, before, after)
			}
		})
	}
}
