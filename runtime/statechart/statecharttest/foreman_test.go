package statecharttest_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

type (
	site struct {
		Name  string   `json:"name"`
		Notes []string `json:"notes,omitempty"`
	}
	purchase struct {
		Item string `json:"item"`
	}
)

// foreman returns a chart with invoked and spawned children that emits, logs and defers.
func foreman(input statechart.Payload) *statechart.Chart[site] {
	type (
		state = statechart.State[site]
		on    = statechart.Transition[site]
		do    = []statechart.Action[site]
		child = statechart.Child[site]
	)
	settled := []string{statechart.Settled}
	buy := statechart.Assign("buy", func(s *site, p purchase) { s.Notes = append(s.Notes, p.Item) })
	hours := statechart.Assign("hours", func(s *site, output json.RawMessage) { s.Notes = append(s.Notes, string(output)) })
	blame := statechart.Assign("blame", func(s *site, e statechart.ChildError) { s.Notes = append(s.Notes, e.Machine+": "+e.Message) })
	bought := statechart.Emit("bought", func(s site, _ statechart.Event) any { return map[string]int{"items": len(s.Notes)} })
	note := statechart.Log(func(_ site, e statechart.Event) string { return "took " + e.Type })
	nothing := func(site, statechart.Event) any { return nil }
	return statechart.Must(statechart.Definition[site]{
		ID: "foreman", Version: 1, Initial: "working", Input: input,
		Context: func(s statechart.Start) site {
			name, _ := s.Input.(string)
			return site{Name: name}
		},
		Payloads: statechart.Payloads{"order": statechart.PayloadOf[purchase](), "hire": statechart.NoPayload(), "tell": statechart.NoPayload(), "fire": statechart.NoPayload(), "close": statechart.NoPayload()},
		States: []state{
			{ID: "working", Tags: settled, Defer: []string{"order"},
				Children: []child{{ID: "shift", Machine: "shift", Input: func(s site, _ statechart.Event) any { return s.Name },
					OnDone: []on{{Target: "resting", Actions: do{hours}}}, OnError: []on{{Target: "resting", Actions: do{blame}}}}},
				On: []on{
					{Event: "hire", Actions: do{statechart.Spawn[site]("worker", "worker", nil)}},
					{Event: "tell", Actions: do{statechart.SendToChild("worker", "dig", nothing)}},
					{Event: "fire", Actions: do{statechart.StopChild[site]("worker")}},
				}},
			{ID: "resting", Tags: settled, On: []on{{Event: "order", Actions: do{buy, bought, note}}, {Event: "error.child.worker", Actions: do{blame}}}},
			{ID: "closed", Type: statechart.Final},
		},
		On: []on{{Event: "close", Target: ".closed"}},
	})
}

func TestScriptsShowChildrenAndDeferredEvents(t *testing.T) {
	t.Parallel()
	statecharttest.RunScripts(t, "testdata/foreman", func(*statecharttest.Setup) *statechart.Chart[site] {
		return foreman(statechart.Payload{})
	})
}

func TestPlayerEndsChildrenAndPassesInput(t *testing.T) {
	t.Parallel()
	p := statecharttest.Play(t, foreman(statechart.PayloadOf[string]()), statecharttest.Config{Input: "north"})
	if got := string(p.Effects()[0].Input); got != `"north"` {
		t.Errorf("the child starts with %s", got)
	}
	p.Send("order", purchase{"tea"})
	p.ChildDone("shift", 8)
	if notes := p.Snapshot().Context.Notes; p.State() != "resting" || len(notes) != 2 || notes[0] != "8" || notes[1] != "tea" {
		t.Errorf("in %s with %q", p.State(), notes)
	}
	p = statecharttest.Play(t, foreman(statechart.PayloadOf[string]()), statecharttest.Config{Input: "south"})
	p.ChildFailed("shift", errors.New("rain"))
	if notes := p.Snapshot().Context.Notes; p.State() != "resting" || len(notes) != 1 || notes[0] != "shift: rain" {
		t.Errorf("in %s with %q", p.State(), notes)
	}
	got := failure(t, func(t statecharttest.TB) {
		statecharttest.Play(t, foreman(statechart.PayloadOf[string]()), statecharttest.Config{Input: "west"}).ChildDone("nobody", nil)
	})
	if want := `ending child nobody of foreman/1: expected the ID of a running child, got "nobody" (running: 1)`; got != want {
		t.Errorf("expected %s, got %s", want, got)
	}
}
