package simulate_test

import (
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
)

// end is the expected result of a bad message.
type end struct {
	// kind is parked, ignored (counted and in the history), skipped (counted) or applied.
	kind string
	// text is the exact text of the result. It is the reason of a parked message, the event in the history for an
	// ignored message, or the chart's note, if any, for an applied message.
	text string
	// receives is the receive count of a parked message; 0 means 1.
	receives int
}

func parked(reason string) end             { return end{kind: "parked", text: reason} }
func parkedAfter(n int, reason string) end { return end{kind: "parked", text: reason, receives: n} }
func ignored(event string) end             { return end{kind: "ignored", text: event} }
func skipped() end                         { return end{kind: "skipped"} }
func applied(note string) end              { return end{kind: "applied", text: note} }
func stringAttribute(s string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &s}
}

// badMessage is one row of a table.
type badMessage struct {
	name string
	// group is the message's group; empty means probe/1.
	group string
	// body is the message's body. The test replaces CREATED with the instance's creation time, which identifies the
	// instance in the loop's own events.
	body       string
	attributes map[string]types.MessageAttributeValue
	// `before` lists the events that probe/1 receives after a first note and before the message. `none` is set if
	// probe/1 receives nothing before the message, not even the first note, and does not exist yet.
	before []string
	none   bool
	// ended is set if the good event of the same group is ignored, because the instance is done.
	ended bool
	// warned is set if the log has a WARN line.
	warned bool
	// check checks the instance after the message; nil means no check.
	check func(w *world, after instances.Record)
	want  end
}

// For each row, runBadMessages sends one batch: the bad message, a good message of the same group, and a good message
// of another group. It checks the results of all three.
func runBadMessages(t *testing.T, rows []badMessage) {
	t.Helper()
	names := map[string]bool{}
	for _, row := range rows {
		if names[row.name] {
			t.Errorf("two rows have the name %q", row.name)
		}
		names[row.name] = true
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inProbeWorld(t, func(w *world, log *lines) { row.run(w, log) })
		})
	}
}

// ofBytes returns an event of the given size.
func ofBytes(bytes int, head, tail string) string {
	return head + strings.Repeat("x", bytes-len(head)-len(tail)) + tail
}

func (row badMessage) run(w *world, log *lines) {
	w.t.Helper()
	before := instances.Record{}
	if !row.none {
		for _, event := range append([]string{firstEvent}, row.before...) {
			w.sendRaw(raw{group: probe1, body: event})
			time.Sleep(time.Second)
		}
		before = w.record(probe1)
	}
	bad := raw{group: row.group, attributes: row.attributes, body: strings.ReplaceAll(row.body, "CREATED", strconv.FormatInt(before.CreatedAt.UnixMilli(), 10))}
	if bad.group == "" {
		bad.group = probe1
	}
	sent := w.sendRaw(bad, raw{group: probe1, body: goodEvent}, raw{group: probe2, body: goodEvent})
	time.Sleep(time.Hour)
	if got := w.unacknowledged(); got != 0 {
		w.t.Errorf("want all messages handled after an hour, got %d left", got)
	}
	if got := w.notes(probe2); got != "good" {
		w.t.Errorf("want the other group to continue, its instance noted %q", got)
	}
	after := w.record(probe1)
	row.checkGroup(w)
	if row.check != nil {
		row.check(w, after)
	}
	if row.want.kind == "parked" {
		row.checkParked(w, log, bad, sent[0], after)
		return
	}
	if messages := w.parked(); len(messages) != 0 {
		w.t.Errorf("want nothing parked, got %s: %s", *messages[0].Body, *messages[0].MessageAttributes["reason"].StringValue)
	}
	if lines := log.of(w.t, bad.group, slog.LevelError, slog.LevelWarn); (len(lines) != 0) != row.warned {
		w.t.Errorf("want no line above INFO unless it is a warning, got %+v", lines)
	}
	counts := map[string][2]int64{"ignored": {1, 0}, "skipped": {0, 1}}[row.want.kind]
	if got := [2]int64{after.Ignored - before.Ignored, after.Skipped - before.Skipped}; !row.ended && got != counts {
		w.t.Errorf("want %v ignored and skipped, got %v", counts, got)
	}
	if row.want.kind == "ignored" {
		row.checkIgnored(w, after)
	}
}

// checkGroup checks that the group continues after the bad message, in order.
func (row badMessage) checkGroup(w *world) {
	w.t.Helper()
	want := []string{"first", "good"}
	if row.none {
		want = want[1:]
	}
	if row.ended {
		want = want[:1]
	}
	if row.want.kind == "applied" && row.group != "" {
		if got := w.notes(row.group); got != row.want.text {
			w.t.Errorf("want %s to note %q, got %q", row.group, row.want.text, got)
		}
	} else if row.want.kind == "applied" && row.want.text != "" {
		want = []string{"first", row.want.text, "good"}
	}
	if got := w.notes(probe1); got != strings.Join(want, ", ") {
		w.t.Errorf("want the group to continue and %s to note %q, got %q", probe1, strings.Join(want, ", "), got)
	}
}

// checkParked checks the dead letter, the log line, and the instance.
func (row badMessage) checkParked(w *world, log *lines, bad raw, sequenceNumber string, after instances.Record) {
	w.t.Helper()
	w.wantParked(bad, sequenceNumber, row.want.text, max(row.want.receives, 1))
	want := []logged{{Level: "ERROR", Msg: "event parked", Instance: bad.group, Reason: row.want.text}}
	if got := log.of(w.t, bad.group, slog.LevelError); !reflect.DeepEqual(got, want) {
		w.t.Errorf("the log's errors:\ngot  %+v\nwant %+v", got, want)
	}
	switch {
	case bad.group != probe1:
		return
	case row.none:
		if after.Error != nil {
			w.t.Errorf("want no trace of the message on the later instance, got %+v", after.Error)
		}
	case after.Error == nil || after.Error.Message != row.want.text:
		w.t.Errorf("want the instance to show the reason, got %+v", after.Error)
	}
}

func (row badMessage) checkIgnored(w *world, after instances.Record) {
	w.t.Helper()
	for _, transition := range after.History {
		if transition.Event == row.want.text && transition.Ignored {
			return
		}
	}
	w.t.Errorf("want %s marked as ignored in the history, got %+v", row.want.text, after.History)
}

const deep = 100_000

// TestBadBodies is the table of messages whose body is not an event.
func TestBadBodies(t *testing.T) {
	t.Parallel()
	const noObject = "not an event: expected a JSON object such as {\"type\": \"VERIFY\"}, got "
	runBadMessages(t, []badMessage{
		{name: "white space", body: " \t\r\n ", want: parked(noObject + `5 bytes that begin with " \t\r\n "`)},
		{name: "no JSON", body: "hello", want: parked(noObject + `5 bytes that begin with "h"`)},
		{name: "XML", body: "<event/>", want: parked(noObject + `8 bytes that begin with "<"`)},
		{name: "form", body: "type=note&text=bad", want: parked(noObject + `18 bytes that begin with "t"`)},
		{name: "array", body: `[{"type": "note"}]`, want: parked(noObject + `18 bytes that begin with "["`)},
		{name: "string", body: `"note"`, want: parked(noObject + `6 bytes that begin with "\""`)},
		{name: "number", body: `42`, want: parked(noObject + `2 bytes that begin with "4"`)},
		{name: "null", body: `null`, want: parked(noObject + `4 bytes that begin with "n"`)},
		{name: "true", body: `true`, want: parked(noObject + `4 bytes that begin with "t"`)},
		{name: "byte order mark", body: "\ufeff" + `{"type": "note"}`, want: parked(noObject + `19 bytes that begin with "\ufeff{"`)},
		{name: "two objects", body: `{"type": "note"} {"type": "note"}`, want: parked(`not an event: invalid character '{' after top-level value, got 33 bytes`)},
		{name: "truncated", body: `{"type": "note", "text": "ba`, want: parked(`not an event: unexpected end of JSON input, got 28 bytes`)},
		{name: "single quotes", body: `{'type': 'note'}`, want: parked(`not an event: invalid character '\'' looking for beginning of object key string, got 16 bytes`)},
		{name: "trailing comma", body: `{"type": "note",}`, want: parked(`not an event: invalid character '}' looking for beginning of object key string, got 17 bytes`)},
		{name: "NaN", body: `{"type": "measure", "ratio": NaN}`, want: parked(`not an event: invalid character 'N' looking for beginning of value, got 33 bytes`)},
		{name: "nested too deep", body: `{"type": "note", "more": ` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `}`, want: parked(`not an event: expected at most 10,000 levels of nested objects and arrays, got more`)},
		{name: "duplicate type", body: `{"type": "vanish", "type": "note", "text": "last"}`, want: applied("last")},
		{name: "duplicate type, the last unknown", body: `{"type": "note", "type": "vanish"}`, want: parked(`undeclared event type: chart probe has no event "vanish"; it declares arm, busy, crash, disarm, doubt, fail, finish, free, grow, keep, later, measure, note`)},
		{name: "lone surrogate", body: `{"type": "note", "text": "\ud800"}`, want: applied("\ufffd")},
	})
}

// TestBadTypes is the table of objects with a wrong type or ID.
func TestBadTypes(t *testing.T) {
	t.Parallel()
	runBadMessages(t, []badMessage{
		{name: "missing", body: `{"kind": "note", "text": "bad"}`, want: parked(`not an event: expected the key "type" with an event type, got the keys "kind", "text"`)},
		{name: "no keys", body: `{}`, want: parked(`not an event: expected the key "type" with an event type, got no keys`)},
		{name: "empty", body: `{"type": ""}`, want: parked(`not an event: expected the key "type" with an event type, got an empty string`)},
		{name: "number", body: `{"type": 7}`, want: parked(`not an event: expected a string under the key "type", got a number`)},
		{name: "null", body: `{"type": null}`, want: parked(`not an event: expected the key "type" with an event type, got null`)},
		{name: "object", body: `{"type": {"name": "note"}}`, want: parked(`not an event: expected a string under the key "type", got an object`)},
		{name: "wrong case of the key", body: `{"Type": "note", "text": "bad"}`, want: parked(`not an event: expected the key "type" with an event type, got the keys "Type", "text"`)},
		{name: "lookalike beside the key", body: `{"type": "note", "text": "told", "Type": "settle.wait"}`, want: applied("told")},
		{name: "too long", body: `{"type": "` + strings.Repeat("n", 257) + `"}`, want: parked(`not an event: expected at most 256 bytes under the key "type", got 257`)},
		{name: "space behind", body: `{"type": "note "}`, want: parked(`undeclared event type: chart probe has no event "note "; it declares arm, busy, crash, disarm, doubt, fail, finish, free, grow, keep, later, measure, note`)},
		{name: "wrong case", body: `{"type": "NOTE"}`, want: parked(`undeclared event type: chart probe has no event "NOTE"; it declares arm, busy, crash, disarm, doubt, fail, finish, free, grow, keep, later, measure, note`)},
		{name: "Cyrillic lookalike", body: `{"type": "nоte"}`, want: parked(`undeclared event type: chart probe has no event "n\u043ete"; it declares arm, busy, crash, disarm, doubt, fail, finish, free, grow, keep, later, measure, note`)},
		{name: "control characters", body: `{"type": "no\u0000te\n"}`, want: parked(`undeclared event type: chart probe has no event "no\x00te\n"; it declares arm, busy, crash, disarm, doubt, fail, finish, free, grow, keep, later, measure, note`)},
		{name: "unknown", body: `{"type": "vanish"}`, want: parked(`undeclared event type: chart probe has no event "vanish"; it declares arm, busy, crash, disarm, doubt, fail, finish, free, grow, keep, later, measure, note`)},
		{name: "wildcard", body: `{"type": "*"}`, want: parked(`undeclared event type: chart probe has no event "*"; it declares arm, busy, crash, disarm, doubt, fail, finish, free, grow, keep, later, measure, note`)},
		{name: "internal", body: `{"type": "private"}`, want: parked(`undeclared event type: chart probe has no event "private"; it declares arm, busy, crash, disarm, doubt, fail, finish, free, grow, keep, later, measure, note`)},
		{name: "end of a service", body: `{"type": "done.invoke.print"}`, want: parked(`undeclared event type: chart probe has no event "done.invoke.print"; it declares arm, busy, crash, disarm, doubt, fail, finish, free, grow, keep, later, measure, note`)},
		{name: "error of the platform", body: `{"type": "error.execution"}`, want: parked(`undeclared event type: chart probe has no event "error.execution"; it declares arm, busy, crash, disarm, doubt, fail, finish, free, grow, keep, later, measure, note`)},
		{name: "XState's own", body: `{"type": "xstate.init"}`, want: parked(`undeclared event type: chart probe has no event "xstate.init"; it declares arm, busy, crash, disarm, doubt, fail, finish, free, grow, keep, later, measure, note`)},
		{name: "timer of a state", body: `{"type": "after.24h0m0s"}`, want: parked(`undeclared event type: chart probe has no event "after.24h0m0s"; it declares arm, busy, crash, disarm, doubt, fail, finish, free, grow, keep, later, measure, note`)},
		{name: "reserved and unknown", body: `{"type": "settle.please"}`, want: parked(`undeclared event type: chart probe has no event "settle.please"; it declares arm, busy, crash, disarm, doubt, fail, finish, free, grow, keep, later, measure, note`)},
		{name: "$id a number", body: `{"type": "note", "$id": 7}`, want: parked(`not an event: expected a string under the key "$id", got a number`)},
		{name: "$id an object", body: `{"type": "note", "$id": {}}`, want: parked(`not an event: expected a string under the key "$id", got an object`)},
		{name: "$id too long", body: `{"type": "note", "$id": "` + strings.Repeat("7", 257) + `"}`, want: parked(`not an event: expected at most 256 bytes under the key "$id", got 257`)},
		{name: "$id empty", body: `{"type": "note", "$id": "", "text": "no ID"}`, want: applied("no ID")},
		{name: "$id null", body: `{"type": "note", "$id": null, "text": "no ID"}`, want: applied("no ID")},
		{name: "unknown key with $", body: `{"type": "note", "$text": "bad", "text": "harmless"}`, want: applied("harmless")},
		{name: "unknown key without", body: `{"type": "note", "more": {"than": "asked"}, "text": "newer than the chart"}`, want: applied("newer than the chart")},
	})
}

// TestBadPayloads is the table of declared events with a wrong payload, and of events that the chart fails on.
func TestBadPayloads(t *testing.T) {
	t.Parallel()
	runBadMessages(t, []badMessage{
		{name: "text a number", body: `{"type": "note", "text": 7}`, want: parked(`wrong payload: event "note" of chart probe: expected a string under "text", got a number`)},
		{name: "list a string", body: `{"type": "measure", "labels": "a"}`, want: parked(`wrong payload: event "measure" of chart probe: expected an array under "labels", got a string`)},
		{name: "object a list", body: `{"type": "measure", "detail": []}`, want: parked(`wrong payload: event "measure" of chart probe: expected an object under "detail", got an array`)},
		{name: "nested field", body: `{"type": "measure", "detail": {"deep": "yes"}}`, want: parked(`wrong payload: event "measure" of chart probe: expected a boolean under "detail.deep", got a string`)},
		{name: "element of a list", body: `{"type": "measure", "labels": ["a", 7]}`, want: parked(`wrong payload: event "measure" of chart probe: expected a string under "labels[1]", got a number`)},
		{name: "null for an object", body: `{"type": "measure", "detail": null, "amount": 3}`, want: applied("amount 3")},
		{name: "fraction for an integer", body: `{"type": "measure", "amount": 1.5}`, want: parked(`wrong payload: event "measure" of chart probe: expected a whole number of 32 bits under "amount", got a number with a fraction or an exponent`)},
		{name: "overflow of an integer", body: `{"type": "measure", "amount": 2147483648}`, want: parked(`wrong payload: event "measure" of chart probe: expected a whole number of 32 bits under "amount", got a number out of range`)},
		{name: "overflow of a float", body: `{"type": "measure", "ratio": 1e400}`, want: parked(`wrong payload: event "measure" of chart probe: expected a number of 64 bits under "ratio", got a number out of range`)},
		{name: "no time", body: `{"type": "measure", "at": "yesterday"}`, want: parked(`wrong payload: event "measure" of chart probe: expected a time such as 2026-01-02T15:04:05Z under "at", got another string`)},
		{name: "refused by Validate", body: `{"type": "measure", "amount": -1}`, want: parked(`wrong payload: event "measure" of chart probe: expected an amount of at least 0, got -1`)},
		{name: "number of 40 digits", body: `{"type": "keep", "value": ` + strings.Repeat("1234567890", 4) + `}`, want: parked(`committing probe/1 at revision 2 in table settle: the record cannot be stored: context.kept: DynamoDB holds numbers of at most 38 digits between 1e-130 and 1e126, got 1234567890123456789012345678901234567890: keep it as a string`)},
		{name: "huge number", body: `{"type": "keep", "value": 1e400}`, want: parked(`committing probe/1 at revision 2 in table settle: the record cannot be stored: context.kept: DynamoDB holds numbers of at most 38 digits between 1e-130 and 1e126, got 1e400: keep it as a string`)},
		{name: "nested deeper than an item", body: `{"type": "keep", "value": ` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, want: parked(`committing probe/1 at revision 2 in table settle: the record cannot be stored: context.kept[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]: expected at most 32 nested lists and maps, got more: flatten it`)},
		{name: "larger than an item", body: ofBytes(producer.EventBytesMax, `{"type": "keep", "value": "`, `"}`), want: parked(`storing probe/1: the item would have 1040488 bytes, the limit is 262144: keep less in the context`)},
		{name: "larger than an item, but kept in part", body: ofBytes(producer.EventBytesMax, `{"type": "note", "text": "a part", "more": "`, `"}`), want: applied("a part")},
		{name: "snapshot grows too large", body: `{"type": "grow"}`, want: parked(`storing probe/1: the item would have 307333 bytes, the limit is 262144: keep less in the context`)},
		{name: "action fails", body: `{"type": "fail"}`, want: parkedAfter(3, `chart probe, state "idle", event "fail": action fail: the printer is out of paper; fix the chart, then send the event again`)},
		{name: "action panics", body: `{"type": "crash"}`, want: parkedAfter(3, `chart probe, state "idle", event "crash": action crash: panic: a value of the type string; fix the chart, then send the event again`)},
		{name: "guard panics", body: `{"type": "doubt"}`, want: parkedAfter(3, `chart probe, state "idle", event "doubt": guard doubt: panic: a value of the type string; fix the chart, then send the event again`)},
		{name: "begins no instance", body: `{"type": "arm"}`, none: true, want: parked(`probe/1 does not exist, and an event of type "arm" does not start one: expected crash or fail or grow or keep or measure or note first`)},
		{name: "bad first event", body: `{"type": "crash"}`, none: true, want: parkedAfter(3, `chart probe, state "idle", event "crash": action crash: panic: a value of the type string; fix the chart, then send the event again`)},
		{name: "first event too large", body: `{"type": "grow"}`, none: true, want: parked(`storing probe/1: the item would have 307328 bytes, the limit is 262144: keep less in the context`)},
		{name: "not in this state", body: `{"type": "disarm"}`, want: ignored("disarm")},
		{name: "instance is done", body: `{"type": "arm"}`, before: []string{`{"type": "finish"}`}, ended: true, want: ignored("arm")},
	})
}
