package statechart_test

import (
	"errors"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestCanPredictsTheStep(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", Payloads: statechart.Payloads{"LATER": statechart.NoPayload(), "NOBODY": statechart.NoPayload()}, States: []S{
		{ID: "p", Initial: "a", On: []On{{Event: "FORBIDDEN", Target: "q"}, {Event: "UP", Target: "q"}}, States: []S{
			{ID: "a", Defer: []string{"LATER"}, After: []After{{Delay: minutes(1), Target: "b"}}, On: []On{
				{Event: "MOVE", Target: "b"}, {Event: "ACT", Actions: Do{add(1)}}, {Event: "FORBIDDEN"},
				{Event: "NEVER", Target: "b", Guard: no}, {Event: "BROKEN", Target: "b", Guard: failingWhen},
			}},
			{ID: "b"},
		}},
		{ID: "q"}, {ID: "end", Type: statechart.Final}}, On: []On{{Event: "END", Target: ".end"}}})
	before := text(t, r.step.Next)
	for event, want := range map[string]bool{"MOVE": true, "ACT": true, "UP": true, "LATER": true, "FORBIDDEN": false, "NEVER": false, "NOBODY": false} {
		can, err := r.chart.Can(r.step.Next, Event{Type: event, At: epoch})
		if can != want || err != nil {
			t.Errorf("can %s: got %t, %v, want %t", event, can, err, want)
		}
	}
	timer := Event{Type: statechart.TimerEvent, Timer: r.timer("p.a").ID, At: epoch}
	if can, err := r.chart.Can(r.step.Next, timer); !can || err != nil {
		t.Errorf("can take its timer: got %t, %v", can, err)
	}
	timer.Timer = "0.0"
	if can, err := r.chart.Can(r.step.Next, timer); can || err != nil {
		t.Errorf("can take a stale timer: got %t, %v", can, err)
	}
	_, err := r.chart.Can(r.step.Next, Event{Type: "BROKEN", At: epoch})
	if !errors.Is(err, errPlanned) {
		t.Errorf("with a failing guard: got the error %v", err)
	}
	if _, err := begin(t, Def{Initial: "a", States: []S{{ID: "a"}}}).chart.Can(r.step.Next, Event{}); !errors.Is(err, statechart.ErrUnreadable) {
		t.Errorf("another chart's snapshot: got the error %v", err)
	}
	equal(t, "the snapshot", text(t, r.step.Next), before)
	r.send("END")
	if can, err := r.chart.Can(r.step.Next, Event{Type: "UP"}); can || err != nil {
		t.Errorf("done instance: can: got %t, %v", can, err)
	}
}

func TestCanReturnsAGuardsPanicAsAnError(t *testing.T) {
	t.Parallel()
	panics := statechart.When("panics", func(trace, Event) bool { panic("planned") })
	r := begin(t, Def{Initial: "a", States: []S{{ID: "a", On: []On{{Event: "GO", Guard: panics}}}}})
	can, err := r.chart.Can(r.step.Next, Event{Type: "GO"})
	equal(t, "can", can, false)
	if want := `chart c, state "a", event "GO": guard panics: panic: a value of the type string`; err == nil || err.Error() != want {
		t.Errorf("got the error %v, want %s", err, want)
	}
}

func TestCanChecksStalenessStatusAndEveryRegion(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", On: []On{{Event: "*", Actions: logs("any")}}, States: []S{
		{ID: "p", Type: statechart.Parallel, States: []S{{ID: "r1", On: []On{{Event: "GO", Actions: logs("one")}}}, {ID: "r2", On: []On{{Event: "GO"}, {Event: "END", Target: "#end"}}}}},
		{ID: "end", Type: statechart.Final},
	}})
	can := func(event Event) bool {
		t.Helper()
		can, err := r.chart.Can(r.step.Next, event)
		if err != nil {
			t.Fatal(err)
		}
		return can
	}
	equal(t, "one of two regions", can(Event{Type: "GO"}), true)
	for _, stale := range []Event{{Type: statechart.TimerEvent, Timer: "0.0"}, {Type: "done.invoke.x", Invocation: "0.0"}} {
		equal(t, "stale "+stale.Type, can(stale), false)
	}
	r.send("END")
	equal(t, "done instance", can(Event{Type: "GO"}), false)
}

func TestCanProtectsTheSnapshotFromItsGuards(t *testing.T) {
	t.Parallel()
	spoils := statechart.When("spoils", func(c trace, _ Event) bool { c.Log[0] = "spoilt"; return true })
	r := begin(t, Def{Initial: "a", States: []S{{ID: "a", On: []On{{Event: "GO", Guard: spoils}}}}})
	before := text(t, r.step.Next)
	if _, err := r.chart.Can(r.step.Next, Event{Type: "GO"}); err != nil {
		t.Fatal(err)
	}
	equal(t, "the snapshot", text(t, r.step.Next), before)
}

func TestCanReportsThatTooManyEventsAreDeferred(t *testing.T) {
	t.Parallel()
	r := begin(t, busyDef())
	for range statechart.DeferredMax {
		r.send("CALL")
	}
	can, err := r.chart.Can(r.step.Next, Event{Type: "CALL"})
	if can || !errors.Is(err, statechart.ErrLimit) {
		t.Errorf("got %t and the error %v, want ErrLimit", can, err)
	}
}
