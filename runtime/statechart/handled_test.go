package statechart_test

import (
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

// An event without a transition of its own is still the one that guards of eventless transitions
// see, as in SCXML's mainEventLoop.
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
