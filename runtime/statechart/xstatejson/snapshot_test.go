package xstatejson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/xstatejson"
)

// recalling is a machine with history, timers, a service and regions.
const recalling = `{"id":"m","version":"1","context":{"n":7},"initial":"on","states":{
	"on":{"initial":"x","after":{"1000":"off","2.5":{"guard":"never","target":"off"}},"on":{"STOP":"off"},"states":{
		"x":{"on":{"NEXT":"y"}},"y":{"initial":"deep","states":{"deep":{"on":{"NEXT":"last"}},"last":{}}},
		"shallow":{"type":"history","target":"x"},"all":{"type":"history","history":"deep","target":"x"}}},
	"off":{"type":"parallel","after":{"500":"end"},"on":{"BACK":"on.all","HALF":"on.shallow"},"states":{"p":{},"q":{"initial":"z","states":{"z":{"on":{"NEXT":"w"}},"w":{}}}}},
	"end":{"type":"final"}}}`

// persistedBy asks a version of XState to restore a snapshot, apply events, and persist the result.
func persistedBy(t *testing.T, ask func(any) json.RawMessage, version string, snapshot json.RawMessage, events ...string) json.RawMessage {
	t.Helper()
	got := ask(map[string]any{"xstate": version, "config": json.RawMessage(recalling), "persisted": snapshot, "events": append([]string{}, events...), "now": epoch.UnixMilli()})
	if strings.HasPrefix(string(got), `{"error"`) {
		t.Fatalf("%s after %v: %s", version, events, got)
	}
	return got
}

// begun reads a config, compiles it as XState runs it, and starts it.
func begun(tb testing.TB, config string, impl xstatejson.Implementations[counter]) (*statechart.Chart[counter], statechart.Step[counter]) {
	tb.Helper()
	def, err := xstatejson.Read([]byte(config), impl)
	if err != nil {
		tb.Fatal(err)
	}
	chart, err := xstatejson.Foreign(def)
	if err != nil {
		tb.Fatal(err)
	}
	step, err := chart.Start(statechart.Start{At: epoch})
	if err != nil {
		tb.Fatal(err)
	}
	return chart, step
}

// TestSnapshotsMoveBetweenEngines moves an instance between this engine and both versions of XState after every event.
func TestSnapshotsMoveBetweenEngines(t *testing.T) {
	t.Parallel()
	startXState(t) // skips the test if XState is not installed
	in, out := startNode(t, "testdata/snapshots.cjs")
	ask := func(request any) json.RawMessage {
		if _, err := fmt.Fprintln(in, text(request)); err != nil {
			t.Fatal(err)
		}
		line, err := out.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	chart, started := begun(t, recalling, implementations())
	for _, version := range []string{"xstate", "xstate-6"} {
		ours, theirs := started.Next, persistedBy(t, ask, version, nil)
		for _, event := range []string{"NEXT", "STOP", "NEXT", "BACK", "NEXT", "STOP", "HALF", "STOP"} {
			moved, err := xstatejson.ReadSnapshot(chart, theirs, epoch)
			if err != nil {
				t.Fatalf("%s before %s: %v\n%s", version, event, err, theirs)
			}
			same(t, version+" before "+event, moved, ours)
			back, err := xstatejson.WriteSnapshot(chart, moved)
			if err != nil {
				t.Fatal(err)
			}
			theirs = persistedBy(t, ask, version, back, event)
			step, err := chart.Step(ours, statechart.Event{Type: event, Payload: json.RawMessage(`{}`), At: epoch})
			if err != nil {
				t.Fatal(err)
			}
			ours = step.Next
		}
	}
}

// same compares the state, the history, the context and the deadlines of two snapshots.
func same(t *testing.T, when string, a, b statechart.Snapshot[counter]) {
	t.Helper()
	show := func(s statechart.Snapshot[counter]) string {
		var form struct {
			Value, Context, HistoryValue json.RawMessage
			Status                       string
		}
		if err := json.Unmarshal([]byte(text(s)), &form); err != nil {
			t.Fatal(err)
		}
		timers := map[string]time.Time{}
		for _, timer := range s.Timers {
			timers[timer.State+" "+timer.After] = timer.At
		}
		return text([]any{form, timers})
	}
	if got, want := show(a), show(b); got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", when, got, want)
	}
}

// TestSnapshotsOfXStateAreRead reads snapshots with every form, and unreadable ones.
func TestSnapshotsOfXStateAreRead(t *testing.T) {
	t.Parallel()
	impl := withServices()
	def, err := xstatejson.Read([]byte(`{"id":"my m","version":2,"initial":"a","states":{
		"a":{"after":{"1000":"b","brief":"b","0":{"guard":"never"}},"invoke":[{"src":"greet"},{"src":"greet","id":"g"}],"on":{"E":"b"}},"b":{"after":{"30":"a"}},"end":{"type":"final"},"in progress":{}},"output":{"r":1}}`), impl)
	if err != nil {
		t.Fatal(err)
	}
	chart, err := xstatejson.Foreign(def)
	if err != nil {
		t.Fatal(err)
	}
	const head = `{"status":"active","context":{"n":1},"historyValue":{},"value":"a","machine":{"id":"my m","version":"2"},"version":"2",`
	for _, c := range []struct{ name, persisted, want string }{
		{"XState 5", `{"status":"active","value":"b","context":{"n":1},"historyValue":{},"children":{}}`, `"timers":{"1.0":{"state":"b","after":"30ms","at":"2026-01-02T03:04:05.03Z"}}`},
		{"children", head + `"timers":{},"children":{"0.my m.a":{"src":"greet","snapshot":{"status":"active"}},"g":{"src":"greet","snapshot":{"status":"done"}}}}`, `"services":{"1.0":{"id":"a","state":"a","service":"greet","attempt":0}}`},
		{"timers", head + `"children":{},"timers":{
			"y":{"id":"y","delay":20,"event":{"type":"xstate.after","delay":"brief","stateId":"my m.a"},"target":"self","startedAt":1767323045000},
			"x":{"id":"x","delay":1000,"event":{"type":"xstate.after","delay":1000,"stateId":"my m.a"},"target":"self","startedAt":1767323045500},
			"r":{"id":"r","delay":10,"event":{"type":"E","n":1},"target":"self"}}}`,
			`"timers":{"1.0":{"state":"","after":"E","at":"2026-01-02T03:04:05.01Z","event":{"type":"E","n":1},"send":"r"},"1.1":{"state":"a","after":"brief","at":"2026-01-02T03:04:05.02Z"},"1.2":{"state":"a","after":"1s","at":"2026-01-02T03:04:06.5Z"}}`},
		{"done", `{"status":"done","value":"end","context":{"n":1},"output":{"r":2}}`, `"output":{"r":2}`},
		{"a key with a space", `{"status":"active","value":"in progress","context":{"n":1}}`, `"value":"in_progress"`},
		{"no JSON", `{`, `expected more JSON`},
		{"no object", `[]`, `expected an object, got an array`},
		{"no value", `{"status":"active","Value":"a","context":{}}`, `expected the keys value and context of a persisted snapshot`},
		{"wrong key", `{"status":1,"value":"a","context":{}}`, `expected a persisted snapshot: json: cannot unmarshal number`},
		{"failed", `{"status":"error","value":"b","context":{}}`, `status: expected active, done or stopped, got "error"`},
		{"other machine", `{"status":"active","value":"b","context":{},"machine":{"id":"x"},"version":"1"}`, "machine.id: expected a snapshot of \"my-m\", got one of \"x\"\n  version: expected the chart's version \"2\", got \"1\""},
		{"computed delay", `{"status":"active","value":"a","context":{}}`, `timers: expected a constant delay in the state "a", got the computed delay "brief": use a snapshot of XState 6`},
		{"own ID", `{"status":"done","value":"end","context":{},"historyValue":{"h":[]}}`, `historyValue: expected the ID that XState derives for a state, such as my-m.a, got "h": remove the key id of the state`},
		{"spawned", head + `"timers":{},"children":{"x":{}}}`, `children.x: expected a service of an active state; spawned actors and child instances cannot be read`},
		{"timer of an actor", head + `"timers":{"t":{"event":{"type":"E"},"target":"x"}}}`, `timers.t: expected a delayed event of the machine to itself, got {"type":"E"} to "x"`},
		{"other state", `{"status":"active","value":"c","context":{}}`, `c`},
	} {
		got, err := xstatejson.ReadSnapshot(chart, []byte(c.persisted), epoch)
		found := text(got)
		if err != nil {
			var unread *xstatejson.Error
			var unreadable *statechart.UnreadableError
			if !errors.As(err, &unread) && !errors.As(err, &unreadable) {
				t.Errorf("%s: failed with %#v", c.name, err)
			}
			found = err.Error()
		}
		if !strings.Contains(found, c.want) {
			t.Errorf("%s: got %s\nwant %s", c.name, found, c.want)
		}
	}
}

// TestSnapshotsAreWritten writes snapshots with every form.
func TestSnapshotsAreWritten(t *testing.T) {
	t.Parallel()
	chart, step := begun(t, `{"id":"m","initial":"a","states":{
		"a":{"entry":[{"type":"xstate.raise","event":{"type":"E","n":1},"delay":10,"id":"r"},{"type":"xstate.raise","event":{"type":"F"},"delay":5}],"after":{"brief":"b","1000":"b"},"on":{"E":"b"}},
		"b":{"invoke":{"src":"greet"}}}}`, withServices())
	written, err := xstatejson.WriteSnapshot(chart, step.Next)
	if err != nil {
		t.Fatal(err)
	}
	read, err := xstatejson.ReadSnapshot(chart, written, epoch.Add(time.Hour))
	if err != nil {
		t.Fatalf("%v\n%s", err, written)
	}
	same(t, "read again", read, step.Next)
	const want = `"r":{"id":"r","delay":0,"type":"@xstate.raise","event":{"n":1,"type":"E"},"target":"self","startedAt":1767323045010}`
	if !strings.Contains(string(written), want) {
		t.Errorf("got %s\nwant %s", written, want)
	}
	if step, err = chart.Step(step.Next, statechart.Event{Type: "E", Payload: json.RawMessage(`{}`), At: epoch}); err != nil {
		t.Fatal(err)
	}
	if _, err := xstatejson.WriteSnapshot(chart, step.Next); err == nil || !strings.Contains(err.Error(), "expected no running services, children and deferred events, got 1") {
		t.Errorf("got %v", err)
	}
}
