package statechart_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// everything returns a chart that uses everything a snapshot can hold.
func everything(tb testing.TB) *statechart.Chart[trace] {
	tb.Helper()
	chart, err := statechart.Compile(traced(Def{Initial: "p", States: []S{
		{ID: "p", Type: statechart.Parallel, Tags: []string{"busy"}, On: []On{{Event: "OUT", Target: "out"}, {Event: "END", Target: "end"}}, States: []S{
			{ID: "deep", Type: statechart.DeepHistory},
			{ID: "r1", Initial: "a", After: []After{{Delay: time.Hour}, {ID: "soon", Delay: time.Minute}}, States: []S{
				{ID: "flat", Type: statechart.ShallowHistory},
				{ID: "a", On: []On{{Event: "GO", Target: "b.y"}}},
				{ID: "b", Initial: "x", States: []S{{ID: "x"}, {ID: "y"}}}}},
			{ID: "r2", Initial: "c", States: []S{{ID: "c", On: []On{{Event: "CALL", Target: "d"}}},
				{ID: "d", Invoke: []Invoke{service("", []On{{Target: "c"}}, []On{{Target: "c"}})}}}},
		}},
		{ID: "out", On: []On{{Event: "DEEP", Target: "p.deep"}, {Event: "FLAT", Target: "p.r1.flat"}}},
		{ID: "end", Type: statechart.Final, Output: output("bye")},
	}}))
	if err != nil {
		tb.Fatal(err)
	}
	return chart
}

// full returns a snapshot of the chart from `everything`. The snapshot has history and timers. With the event CALL, it
// also has a service.
func full(tb testing.TB, chart *statechart.Chart[trace], events ...string) statechart.Snapshot[trace] {
	tb.Helper()
	step, err := chart.Start(statechart.Start{Instance: "c/1", At: epoch})
	if err != nil {
		tb.Fatal(err)
	}
	for _, typ := range append([]string{"GO", "OUT", "DEEP"}, events...) {
		if step, err = chart.Step(step.Next, Event{Type: typ, At: epoch}); err != nil {
			tb.Fatal(err)
		}
	}
	return step.Next
}

func TestSnapshotHasXStatesForm(t *testing.T) {
	t.Parallel()
	chart := everything(t)
	snapshot := full(t, chart, "CALL")
	snapshot.Context.Log, snapshot.Services[0].Attempt = nil, 2
	const want = `{"machine":"c","version":1,"status":"active","value":{"p":{"r1":{"b":"y"},"r2":"d"}},"context":{"log":null,"n":0},` +
		`"tags":["busy","settled"],"historyValue":{"p.deep":["p.r1.b.y","p.r2.c"],"p.r1.flat":["p.r1.b"]},` +
		`"timers":{"4.0":{"state":"p.r1","after":"1h0m0s","at":"2026-01-02T04:04:05Z"},"4.1":{"state":"p.r1","after":"soon","at":"2026-01-02T03:05:05Z"}},` +
		`"services":{"5.0":{"id":"p.r2.d","state":"p.r2.d","service":"call","attempt":2}},"steps":5}`
	equal(t, "snapshot", text(t, snapshot), want)
	restored, err := chart.Restore([]byte(want))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "restored", text(t, restored), want)
	equal(t, "timers", text(t, restored.Timers), text(t, snapshot.Timers))
	equal(t, "services", text(t, restored.Services), text(t, snapshot.Services))
}

func TestDoneSnapshotRestores(t *testing.T) {
	t.Parallel()
	chart := everything(t)
	written := text(t, full(t, chart, "END"))
	restored, err := chart.Restore([]byte(written))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "restored", text(t, restored), written)
	equal(t, "status", restored.Status, statechart.Done)
	equal(t, "output", string(restored.Output), `"bye"`)
}

func TestRestoredTimersKeepTheirOrderAndUseUTC(t *testing.T) {
	t.Parallel()
	chart := compile(t, traced(timed(12)))
	step, _ := chart.Start(statechart.Start{At: epoch})
	step, err := chart.Step(step.Next, Event{Type: "GO", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	written := strings.ReplaceAll(text(t, step.Next), "03:04:05Z", "05:04:05+02:00")
	restored, err := chart.Restore([]byte(written))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "timers", text(t, restored.Timers), text(t, step.Next.Timers))
}

func TestZeroSnapshotDoesNotMarshal(t *testing.T) {
	t.Parallel()
	_, err := statechart.Snapshot[trace]{}.MarshalJSON()
	equal(t, "error", err.Error(), "marshalling a snapshot: expected one made by a chart, got a zero Snapshot")
	chart := once(t, func(*any) {})
	step, _ := chart.Start(statechart.Start{})
	step.Next.Context = func() {}
	_, err = step.Next.MarshalJSON()
	equal(t, "error", err.Error(), "marshalling the context of chart c: json: unsupported type: func()")
}

func TestRestoreRejectsDamage(t *testing.T) {
	t.Parallel()
	chart := everything(t)
	intact := text(t, full(t, chart, "CALL"))
	for _, c := range []struct{ old, new, message string }{
		{`{"machine"`, `["machine"`, `invalid character ':' after array element`},
		{`"machine":"c"`, `"machine":"d"`, `expected version 1 of machine "c", got version 1 of "d"`},
		{`"version":1`, `"version":2`, `expected version 1 of machine "c", got version 2 of "c"; add a migration or host that version too`},
		{`"status":"active"`, `"status":"error"`, `expected the status "active", "done" or "stopped", got "error"`},
		{`"status":"active"`, `"status":"done"`, `the status "done" does not fit the state p.r1.b.y, p.r2.d, its timers, services and children`},
		{`"steps":5`, `"steps":0`, `expected a count of steps from 1, got 0`},
		{`"steps":5`, `"steps":9223372036854775807`, `expected a count of steps from 1, got 9223372036854775807`},
		{`"steps":5`, `"steps":4`, `expected an ID that one of 4 steps derived, such as 1.0, got "5.0"`},
		{`"n":0`, `"n":"0"`, `context: expected a whole number of 64 bits under "n", got a string; raise Version, and add a MigrateContext, or host version 1 too`},
		{`"context"`, `"contents"`, `context: expected an object, got nothing`},
		{`"value"`, `"values"`, `the value of the chart itself: expected a string or an object, got nothing`},
		{`{"b":"y"}`, `7`, `the value of state "p.r1": expected a string or an object, got a number`},
		{`{"b":"y"}`, `{"b":"z"}`, `this version has no state "p.r1.b.z"; raise Version, and add RenameState("p.r1.b.z", ...) or MoveState("p.r1.b.z", ...), or host version 1 too`},
		{`{"b":"y"}`, `"flat"`, `this version has no state "p.r1.flat"; raise Version, and add RenameState("p.r1.flat", ...) or MoveState("p.r1.flat", ...), or host version 1 too`},
		{`{"b":"y"}`, `"b.y"`, `this version has no state "p.r1.b.y"; raise Version, and add RenameState("p.r1.b.y", ...) or MoveState("p.r1.b.y", ...), or host version 1 too`},
		{`{"b":"y"}`, `""`, `this version has no state "p.r1."; raise Version, and add RenameState("p.r1.", ...) or MoveState("p.r1.", ...), or host version 1 too`},
		{`{"b":"y"}`, `{"b":"y","a":{}}`, `state "p.r1": expected 1 active children, got 2; raise Version, and add MoveState("p.r1", "p.r1.a"), or host version 1 too`},
		{`{"b":"y"}`, `{}`, `state "p.r1": expected 1 active children, got 0; raise Version, and add MoveState("p.r1", "p.r1.a"), or host version 1 too`},
		{`{"b":"y"}`, `{"a":"x"}`, `state "p.r1.a": expected 0 active children, got 1; raise Version, and add MoveState("p.r1.a.x", "p.r1.a"), or host version 1 too`},
		{`,"r2":"d"`, ``, `state "p": expected 2 active children, got 1; raise Version, and add a Rewrite of State, or host version 1 too`},
		{`{"p":{"r1":{"b":"y"},"r2":"d"}}`, `""`, `this version has no state ""; raise Version, and add RenameState("", ...) or MoveState("", ...), or host version 1 too`},
		{`{"p":{"r1":{"b":"y"},"r2":"d"}}`, `"end"`, `the instance is active, but its state end is final in this version; raise Version, and add a MoveState to a state that is not final, or host version 1 too`},
		{`{"p":{"r1":{"b":"y"},"r2":"d"}}`, `"out"`, `timer 4.0 belongs to the state "p.r1", which is not active`},
		{`"r2":"d"`, `"r2":"c"`, `service "p.r2.d" belongs to the state "p.r2.d", which is not active`},
		{`"p.deep":`, `"p.high":`, `this version has no history state "p.high"; raise Version, and add RenameState("p.high", ...) or ForgetHistory("p.high"), or host version 1 too`},
		{`"p.deep":`, `"p.r1":`, `this version has no history state "p.r1"; raise Version, and add RenameState("p.r1", ...) or ForgetHistory("p.r1"), or host version 1 too`},
		{`["p.r1.b"]`, `["p.r1.z"]`, `history "p.r1.flat" records "p.r1.z", which is not a state below the history state's parent in this version; raise Version, and add a change of the recorded states or ForgetHistory("p.r1.flat"), or host version 1 too`},
		{`["p.r1.b"]`, `["p.r2"]`, `history "p.r1.flat" records "p.r2", which is not a state below the history state's parent in this version; raise Version, and add a change of the recorded states or ForgetHistory("p.r1.flat"), or host version 1 too`},
		{`["p.r1.b"]`, `["p.r1.flat"]`, `history "p.r1.flat" records "p.r1.flat", which is not a state below the history state's parent in this version; raise Version, and add a change of the recorded states or ForgetHistory("p.r1.flat"), or host version 1 too`},
		{`["p.r1.b"]`, `["p.r1.b.y"]`, `history "p.r1.flat" records ["p.r1.b.y"], which is not a valid record in this version; raise Version, and add a change of the recorded states or ForgetHistory("p.r1.flat"), or host version 1 too`},
		{`["p.r1.b"]`, `["p.r1.a","p.r1.b"]`, `history "p.r1.flat" records ["p.r1.a" "p.r1.b"], which is not a valid record in this version; raise Version, and add a change of the recorded states or ForgetHistory("p.r1.flat"), or host version 1 too`},
		{`["p.r1.b"]`, `[]`, `history "p.r1.flat" records [], which is not a valid record in this version; raise Version, and add a change of the recorded states or ForgetHistory("p.r1.flat"), or host version 1 too`},
		{`["p.r1.b.y","p.r2.c"]`, `["p.r1.b","p.r2.c"]`, `history "p.deep" records ["p.r1.b" "p.r2.c"], which is not a valid record in this version; raise Version, and add a change of the recorded states or ForgetHistory("p.deep"), or host version 1 too`},
		{`["p.r1.b.y","p.r2.c"]`, `["p.r1.b.y"]`, `history "p.deep" records ["p.r1.b.y"], which is not a valid record in this version; raise Version, and add a change of the recorded states or ForgetHistory("p.deep"), or host version 1 too`},
		{`["p.r1.b.y","p.r2.c"]`, `["p.r1.b.x","p.r1.b.y","p.r2.c"]`, `history "p.deep" records ["p.r1.b.x" "p.r1.b.y" "p.r2.c"], which is not a valid record in this version; raise Version, and add a change of the recorded states or ForgetHistory("p.deep"), or host version 1 too`},
		{`"after":"soon"`, `"after":"later"`, `timer 4.1 belongs to "p.r1" after "later", which is not a timer of that state in this version; raise Version, and add RenameTimer("p.r1", "later", ...) or DropTimer("p.r1", "later"), or host version 1 too`},
		{`"after":"soon"`, `"after":"1h0m0s"`, `state "p.r1" has its timer "1h0m0s" twice`},
		{`"state":"p.r1","after":"soon"`, `"state":"p.r9","after":"soon"`, `timer 4.1 belongs to the state "p.r9", which is not active`},
		{`"4.1"`, `"4.01"`, `expected an ID that one of 5 steps derived, such as 1.0, got "4.01"`},
		{`"4.1"`, `"four"`, `expected an ID that one of 5 steps derived, such as 1.0, got "four"`},
		{`"4.1"`, `"4.-1"`, `expected an ID that one of 5 steps derived, such as 1.0, got "4.-1"`},
		{`"5.0"`, `"6.0"`, `expected an ID that one of 5 steps derived, such as 1.0, got "6.0"`},
		{`"id":"p.r2.d"`, `"id":"other"`, `the stored service "call" has the ID "other", which no service of state "p.r2.d" has in this version; raise Version, and add RenameService("p.r2.d", "other", "p.r2.d") before any change to "other" if the service has another ID now, or host version 1 too`},
		{`"services":{`, `"services":{"3.0":{"id":"p.r2.d","state":"p.r2.d","service":"call"},`, `state "p.r2.d" has its service "p.r2.d" twice`},
		{`"at":"2026-01-02T04:04:05Z"`, `"at":"9999-12-31T23:00:00-01:00"`, `timer 4.0: expected a deadline in the years 0 to 9999, got 10000-01-01 00:00:00 +0000 UTC`},
		{`"services":{"5.0":{`, `"ends":{"5.0":{`, `the state p.r1.b.y, p.r2.d is not settled in this version, and no service is running to move it on; raise Version, and add a MoveState to a settled state, or host version 1 too`},
		{`"at":"2026-01-02T04:04:05Z"`, `"at":"today"`, `expected a time such as 2026-01-02T15:04:05Z under "timers.*.at", got another string`},
	} {
		if !strings.Contains(intact, c.old) {
			t.Fatalf("the snapshot has no %s: %s", c.old, intact)
		}
		_, err := chart.Restore([]byte(strings.Replace(intact, c.old, c.new, 1)))
		want := "unreadable snapshot of chart c: " + c.message
		if !strings.Contains(c.message, "; ") {
			want += "; repair it, or restore it from a backup"
		}
		if !errors.Is(err, statechart.ErrUnreadable) || err.Error() != want {
			t.Errorf("%s for %s: got %v\nwant %s", c.new, c.old, err, want)
		}
	}
}

func TestStepRejectsTheSnapshotOfAnotherChart(t *testing.T) {
	t.Parallel()
	snapshot := full(t, everything(t), "CALL")
	step, err := everything(t).Step(snapshot, Event{Type: "OUT", At: epoch})
	if !errors.Is(err, statechart.ErrUnreadable) || err.Error() != "unreadable snapshot: expected a snapshot made or restored by this compiled chart, c, got one of another chart" {
		t.Errorf("got %v, want ErrUnreadable", err)
	}
	equal(t, "snapshot", text(t, step.Next), text(t, snapshot))
	if _, err := everything(t).Stop(snapshot, epoch); !errors.Is(err, statechart.ErrUnreadable) {
		t.Errorf("stopping: got %v, want ErrUnreadable", err)
	}
}

func FuzzRestore(f *testing.F) {
	chart := everything(f)
	for _, events := range [][]string{nil, {"CALL"}, {"OUT"}, {"END"}, {"OUT", "FLAT", "GO"}} {
		f.Add([]byte(text(f, full(f, chart, events...))))
	}
	f.Add([]byte(`{"machine":"c","version":1,"status":"active","value":"out","context":null,"steps":1}`))
	other := written(f)
	for _, data := range writtenSnapshots(f, other) {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, chart := range []*statechart.Chart[trace]{chart, other} {
			if wrong := agreement(t, chart, data); wrong != "" {
				t.Fatal(wrong)
			}
		}
		snapshot, err := chart.Restore(data)
		if err != nil {
			if !errors.Is(err, statechart.ErrUnreadable) {
				t.Fatalf("got %v, want ErrUnreadable", err)
			}
			return
		}
		written := text(t, snapshot)
		again, err := chart.Restore([]byte(written))
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		if rewritten := text(t, again); rewritten != written {
			t.Fatalf("got %s, want %s", rewritten, written)
		}
		for _, event := range chart.Events() {
			step, err := chart.Step(snapshot, Event{Type: event, At: epoch})
			if err != nil && !errors.Is(err, statechart.ErrStalled) {
				t.Fatalf("%s: %v\n%s", event, err, written)
			}
			if _, err := chart.Restore([]byte(text(t, step.Next))); err != nil && snapshot.Steps < math.MaxInt64-1 {
				t.Fatalf("after %s: %v\n%s", event, err, written)
			}
		}
	})
}
