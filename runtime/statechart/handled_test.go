package statechart_test

import (
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

// Guards of eventless transitions see the current event even if no transition matches it, as in SCXML's mainEventLoop.
func TestEventMayEnableAnEventlessTransition(t *testing.T) {
	t.Parallel()
	isGo := statechart.When("isGo", func(_ trace, e Event) bool { return e.Type == "GO" })
	r := begin(t, Def{Initial: "a", Payloads: statechart.Payloads{"GO": statechart.NoPayload(), "OTHER": statechart.NoPayload()}, States: []S{
		{ID: "a", Tags: settled, Always: []On{{Target: "b", Guard: isGo}}},
		{ID: "b"},
	}})
	r.send("OTHER").is("a", "+a")
	equal(t, "handled", r.step.Handled, false)
	r.send("GO").is("b", "-a +b")
	equal(t, "handled", r.step.Handled, true)
}

// copies counts its clones.
type copies struct{ N int }

func (c copies) Clone() copies { return copies{c.N + 1} }

func TestUnhandledEventKeepsTheContext(t *testing.T) {
	t.Parallel()
	chart := once(t, func(*copies) {})
	start, err := chart.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	for typ, want := range map[string]int{"OTHER": 0, "GO": 1} {
		step, err := chart.Step(start.Next, Event{Type: typ})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "clones for "+typ, step.Next.Context.N, want)
	}
}
