package simulate_test

import (
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type item = map[string]types.AttributeValue

func textValue(s string) types.AttributeValue   { return &types.AttributeValueMemberS{Value: s} }
func numberValue(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }
func mapValue(m item) types.AttributeValue      { return &types.AttributeValueMemberM{Value: m} }
func listValue(values ...types.AttributeValue) types.AttributeValue {
	return &types.AttributeValueMemberL{Value: values}
}

// item reads the stored item of an instance.
func (w *world) item(instance string) item {
	w.t.Helper()
	output, err := dynamodb.NewFromConfig(w.aws(w.cloud.HTTPClient(), true)).GetItem(w.t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(table), Key: item{"instance": textValue(instance)}, ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return output.Item
}

// putItem writes an item directly to the table, bypassing the runtime.
func (w *world) putItem(stored item) {
	w.t.Helper()
	_, err := dynamodb.NewFromConfig(w.aws(w.cloud.HTTPClient(), true)).PutItem(w.t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: stored})
	if err != nil {
		w.t.Fatal(err)
	}
}

// badItem is one row of a table of items that a person or another version of the runtime wrote.
type badItem struct {
	name string
	// `before` lists the events that probe/1 receives after a first note and before the change.
	before []string
	// spoil changes the item.
	spoil func(item)
	// text is the exact error in the log. Empty means that the item is still valid.
	text string
	// gone is an attribute that the next event removes.
	gone string
}

// hour is how long an item stays spoilt before run repairs it.
const hour = time.Hour

// run spoils the item, sends one event to its instance and one to another, and repairs the item after an hour. Until
// then nothing may change, and no event may get lost.
func (row badItem) run(w *world, log *lines) {
	w.t.Helper()
	for _, event := range append([]string{firstEvent}, row.before...) {
		w.sendRaw(raw{group: probe1, body: event})
		time.Sleep(time.Second)
	}
	whole := w.item(probe1)
	spoilt := maps.Clone(whole)
	row.spoil(spoilt)
	w.putItem(spoilt)
	w.sendRaw(raw{group: probe1, body: goodEvent}, raw{group: probe2, body: goodEvent})
	time.Sleep(hour)
	if got := w.notes(probe2); got != "good" {
		w.t.Errorf("want the other group to continue, its instance noted %q", got)
	}
	if messages := w.parked(); len(messages) != 0 {
		w.t.Errorf("want nothing parked, got %s", *messages[0].MessageAttributes["reason"].StringValue)
	}
	errors := log.of(w.t, probe1, slog.LevelError)
	if row.text == "" {
		if got := w.notes(probe1); got != "first, good" || len(errors) > 0 {
			w.t.Errorf("want the item to be harmless, got %q and the errors %+v", got, errors)
		}
		if row.gone != "" && w.item(probe1)[row.gone] != nil {
			w.t.Errorf("want the event to remove the attribute %s, as docs/bad-input.md says", row.gone)
		}
		return
	}
	if got := w.item(probe1); !reflect.DeepEqual(got, spoilt) {
		w.t.Errorf("want the item untouched:\ngot  %v\nwant %v", got, spoilt)
	}
	if got := w.unacknowledged(); got != 1 {
		w.t.Errorf("want the event of the instance to wait, got %d messages", got)
	}
	if len(errors) < 10 {
		w.t.Fatalf("want an error for each retry of the event, got %d", len(errors))
	}
	if got := errors[0]; got.Error != row.text || got.Msg != "stored item is unreadable, nothing was changed" {
		w.t.Errorf("the error of the log:\ngot  %s: %s\nwant %s", got.Msg, got.Error, row.text)
	}
	if got := log.of(w.t, probe1, slog.LevelWarn); len(got) > 0 {
		w.t.Errorf("want each try logged once, got %d warnings too: %+v", len(got), got[0])
	}
	w.putItem(whole)
	time.Sleep(10 * time.Minute)
	if got := w.notes(probe1); got != "first, good" || w.unacknowledged() != 0 {
		w.t.Errorf("want the event applied after the item is repaired, got %q", got)
	}
}

func set(attribute string, value types.AttributeValue) func(item) {
	return func(i item) { i[attribute] = value }
}

func drop(attribute string) func(item) {
	return func(i item) { delete(i, attribute) }
}

// inside returns a function that changes a map attribute of an item.
func inside(attribute string, change func(item)) func(item) {
	return func(i item) {
		fields := maps.Clone(i[attribute].(*types.AttributeValueMemberM).Value)
		change(fields)
		i[attribute] = mapValue(fields)
	}
}

// TestBadItems is the table of items that this version cannot read, and of items that only look invalid.
func TestBadItems(t *testing.T) {
	t.Parallel()
	armed, deferring := []string{`{"type": "arm"}`}, []string{`{"type": "busy"}`, `{"type": "later", "text": "late"}`}
	timer := func(key string, value types.AttributeValue) func(item) {
		return inside("timers", func(timers item) {
			for id := range timers {
				fields := maps.Clone(timers[id].(*types.AttributeValueMemberM).Value)
				fields[key] = value
				timers[id] = mapValue(fields)
			}
		})
	}
	only := func(attributes ...string) func(item) {
		return func(i item) {
			kept := item{"instance": i["instance"]}
			for _, name := range attributes {
				kept[name] = i[name]
			}
			clear(i)
			maps.Copy(i, kept)
		}
	}
	aliasOf := func(i item) {
		only("created_at")(i)
		i["alias_of"] = textValue(probe2)
	}
	for _, row := range []badItem{
		{name: "newer version", spoil: set("chart_version", numberValue("3")), text: "hydrating probe/1: unreadable snapshot of machine probe: stored by a newer version: expected at most version 2, the newest that this process hosts, got 3; deploy version 3 again"},
		{name: "older version", spoil: set("chart_version", numberValue("1")), text: "hydrating probe/1: unreadable snapshot of machine probe: expected version 2, or a version that one of them migrates from, got version 1; add the migration, or host version 1 too"},
		{name: "version a text", spoil: set("chart_version", textValue("2")), text: `hydrating probe/1: unreadable snapshot: expected a whole number of 64 bits under "version", got a string; repair it, or restore it from a backup`},
		{name: "version with a fraction", spoil: set("chart_version", numberValue("2.5")), text: `hydrating probe/1: unreadable snapshot: expected a whole number of 64 bits under "version", got a number with a fraction or an exponent; repair it, or restore it from a backup`},
		{name: "no version", spoil: drop("chart_version"), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: the snapshot: expected the attribute "chart_version" beside "machine", got none`},
		{name: "another machine", spoil: set("machine", textValue("signup")), text: `hydrating probe/1: unreadable snapshot of chart probe: expected version 2 of machine "probe", got version 2 of "signup"; repair it, or restore it from a backup`},
		{name: "no machine", spoil: drop("machine"), text: `hydrating probe/1: unreadable snapshot of chart probe: expected version 2 of machine "probe", got version 2 of ""; repair it, or restore it from a backup`},
		{name: "unknown status", spoil: set("status", textValue("paused")), text: `hydrating probe/1: unreadable snapshot of chart probe: expected the status "active", "done" or "stopped", got "paused"; repair it, or restore it from a backup`},
		{name: "status of an instance that is done", spoil: set("status", textValue("done")), text: `hydrating probe/1: unreadable snapshot of chart probe: the instance is done, but its state idle is not final in this version; raise Version, and add a MoveState to a final state, or host version 2 too`},
		{name: "no status", spoil: drop("status"), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: the snapshot: key "status": expected a string (S), number (N), boolean (BOOL), null (NULL), list (L) or map (M), got nothing`},
		{name: "state that is gone", spoil: set("value", textValue("vanished")), text: `hydrating probe/1: unreadable snapshot of chart probe: this version has no state "vanished"; raise Version, and add RenameState("vanished", ...) or MoveState("vanished", ...), or host version 2 too`},
		{name: "two states", spoil: set("value", mapValue(item{"idle": mapValue(item{}), "armed": mapValue(item{})})), text: `hydrating probe/1: unreadable snapshot of chart probe: the chart itself: expected 1 active children, got 2; raise Version, and add a Rewrite of State, or host version 2 too`},
		{name: "value a number", spoil: set("value", numberValue("1")), text: `hydrating probe/1: unreadable snapshot of chart probe: the value of the chart itself: expected a string or an object, got a number; repair it, or restore it from a backup`},
		{name: "no value", spoil: drop("value"), text: `hydrating probe/1: unreadable snapshot of chart probe: the value of the chart itself: expected a string or an object, got nothing; repair it, or restore it from a backup`},
		{name: "context a text", spoil: set("context", textValue("{}")), text: `hydrating probe/1: unreadable snapshot of chart probe: context: expected an object, got a string; raise Version, and add a MigrateContext, or host version 2 too`},
		{name: "field of the context of another kind", spoil: inside("context", set("notes", textValue("first"))), text: `hydrating probe/1: unreadable snapshot of chart probe: context: expected an array under "notes", got a string; raise Version, and add a MigrateContext, or host version 2 too`},
		{name: "context a set", spoil: inside("context", set("notes", &types.AttributeValueMemberSS{Value: []string{"first"}})), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: the snapshot: key "context": key "notes": expected a string (S), number (N), boolean (BOOL), null (NULL), list (L) or map (M), got a set of strings (SS)`},
		{name: "no context", spoil: drop("context"), text: `hydrating probe/1: unreadable snapshot of chart probe: context: expected an object, got nothing; repair it, or restore it from a backup`},
		{name: "no steps", spoil: drop("steps"), text: `hydrating probe/1: unreadable snapshot of chart probe: expected a count of steps from 1, got 0; repair it, or restore it from a backup`},
		{name: "no revision", spoil: drop("revision"), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "revision": expected a revision of at least 1, got 0`},
		{name: "revision 0", spoil: set("revision", numberValue("0")), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "revision": expected a revision of at least 1, got 0`},
		{name: "negative revision", spoil: set("revision", numberValue("-1")), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "revision": expected a revision of at least 1, got -1`},
		{name: "revision a text", spoil: set("revision", textValue("1")), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "revision": expected a number (N), got a string (S)`},
		{name: "revision of 30 digits", spoil: set("revision", numberValue(strings.Repeat("9", 30))), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "revision": expected a whole number of 64 bits, got 999999999999999999999999999999`},
		{name: "watermark a text", spoil: set("watermark", textValue("7")), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "watermark": expected an object, got a string`},
		{name: "watermark no number", spoil: set("watermark", mapValue(item{"q": textValue("the last message, I think")})), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "watermark": queue q: expected a sequence number of 1 to 39 digits, got "the last message, I think"`},
		{name: "watermark of 40 digits", spoil: set("watermark", mapValue(item{"q": textValue(strings.Repeat("9", 40))})), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "watermark": queue q: expected a sequence number of 1 to 39 digits, got "9999999999999999999999999999999999999999"`},
		{name: "watermark a number", spoil: set("watermark", mapValue(item{"q": numberValue("7")})), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "watermark": expected a string under "*", got a number`},
		{name: "created at no time", spoil: set("created_at", textValue("yesterday")), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "created_at": expected a time such as 2026-01-02T15:04:05.000Z, got "yesterday"`},
		{name: "no created at", spoil: drop("created_at"), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "created_at": expected a time such as 2026-01-02T15:04:05.000Z, got none`},
		{name: "history a text", spoil: set("history", textValue("first")), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "history": expected an array, got a string`},
		{name: "history entry with a wrong time", spoil: set("history", listValue(mapValue(item{"at": textValue("now"), "event": textValue("note")}))), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "history": expected a time such as 2026-01-02T15:04:05Z under "[0].at", got another string`},
		{name: "recent events a map", spoil: set("recent_events", mapValue(item{})), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "recent_events": expected an array, got an object`},
		{name: "tokens with a number for a value", spoil: set("tokens", listValue(mapValue(item{"value": numberValue("481516")}))), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "tokens": expected a string under "[0].value", got a number`},
		{name: "outbox a map", spoil: set("outbox", mapValue(item{"id": textValue("1.0")})), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "outbox": expected an array, got an object`},
		{name: "unknown effect", spoil: set("outbox", listValue(mapValue(item{"ID": textValue("1.0"), "Kind": textValue("teleport")}))), text: `performing effect 1.0 of probe/1: unreadable item, nothing was changed: this version of the runtime knows no effect of kind "teleport"; deploy the version that stored it`},
		{name: "timer that the state does not have", before: armed, spoil: timer("after", textValue("1h")), text: `hydrating probe/1: unreadable snapshot of chart probe: timer 3.0 belongs to "armed" after "1h", which is not a timer of that state in this version; raise Version, and add RenameTimer("armed", "1h", ...) or DropTimer("armed", "1h"), or host version 2 too`},
		{name: "timer at no time", before: armed, spoil: timer("at", textValue("tomorrow")), text: `hydrating probe/1: unreadable snapshot of chart probe: expected a time such as 2026-01-02T15:04:05Z under "timers.*.at", got another string; repair it, or restore it from a backup`},
		{name: "timers a list", before: armed, spoil: set("timers", listValue(numberValue("1"))), text: `hydrating probe/1: unreadable snapshot of chart probe: expected an object under "timers", got an array; repair it, or restore it from a backup`},
		{name: "timer with an ID of its own", before: armed, spoil: inside("timers", func(i item) { i["soon"] = mapValue(item{}) }), text: `hydrating probe/1: unreadable snapshot of chart probe: expected an ID that one of 3 steps derived, such as 1.0, got "soon"; repair it, or restore it from a backup`},
		{name: "deferred events a map", before: deferring, spoil: set("deferred", mapValue(item{})), text: `hydrating probe/1: unreadable snapshot of chart probe: expected an array under "deferred", got an object; repair it, or restore it from a backup`},
		{name: "deferred event without a type", before: deferring, spoil: set("deferred", listValue(mapValue(item{"event": mapValue(item{"kind": textValue("vanish")})}))), text: `hydrating probe/1: unreadable snapshot of chart probe: deferred event 0: unexpected end of JSON input; repair it, or restore it from a backup`},
		{name: "nothing but the key", spoil: only(), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "revision": expected a revision of at least 1, got 0`},
		{name: "nothing but key and revision", spoil: only("revision"), text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "created_at": expected a time such as 2026-01-02T15:04:05.000Z, got none`},
		{name: "alias in place of an instance", spoil: aliasOf, text: `hydrating probe/1: decoding probe/1 in table settle: unreadable item, nothing was changed: repair it, or restore it from a backup: attribute "revision": expected a revision of at least 1, got 0`},
		{name: "unknown attribute", spoil: set("owner", textValue("ada")), gone: "owner"},
		{name: "unknown key in the snapshot", spoil: set("snapshot", mapValue(item{"colour": textValue("red")}))},
		{name: "unknown field of the context", spoil: inside("context", set("colour", textValue("red"))), text: `hydrating probe/1: unreadable snapshot of chart probe: context: unknown key "colour"; deploy the build that stores this key, or raise Version and drop the key with MigrateContext`},
		{name: "state that does not fit the value", spoil: set("state", listValue(textValue("armed")))},
		{name: "number of many digits", spoil: inside("context", set("kept", numberValue("12345678901234567890123456789012345678")))},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inProbeWorld(t, func(w *world, log *lines) { row.run(w, log) })
		})
	}
}
