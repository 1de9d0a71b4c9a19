package statecharttest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// foreman returns a chart that emits, logs and defers, and that has invoked and spawned children.
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

func TestScriptsPassTheInput(t *testing.T) {
	t.Parallel()
	statecharttest.RunScripts(t, "testdata/input", func(*statecharttest.Setup) *statechart.Chart[site] {
		return foreman(statechart.PayloadOf[string]())
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

// inspection returns a chart that finishes only if its child ends.
func inspection() *statechart.Chart[site] {
	type on = statechart.Transition[site]
	passed := statechart.When("passed", func(_ site, output json.RawMessage) bool { return string(output) == "true" })
	return statechart.Must(statechart.Definition[site]{
		ID: "inspection", Version: 1, Initial: "inspecting",
		States: []statechart.State[site]{
			{ID: "inspecting", Tags: []string{statechart.Settled}, Children: []statechart.Child[site]{{ID: "visit", Machine: "visit",
				OnDone: []on{{Target: "approved", Guard: passed}, {Target: "rejected"}}, OnError: []on{{Target: "postponed"}}}}},
			{ID: "approved", Type: statechart.Final}, {ID: "rejected", Type: statechart.Final}, {ID: "postponed", Type: statechart.Final},
		},
	})
}

func TestPathsContinueWithTheOutcomesOfChildren(t *testing.T) {
	t.Parallel()
	var coverage statecharttest.Coverage
	config := statecharttest.PathConfig[site]{Start: statecharttest.Config{Coverage: &coverage}}
	if paths, err := statecharttest.FinalPaths(inspection(), config); len(paths) != 0 || !errors.Is(err, statecharttest.ErrUnreached) {
		t.Errorf("without outcomes: expected no path to a final state, got %q, %v", brief(paths), err)
	}
	config.ChildOutcomes = func(child statechart.ChildRef) []statecharttest.Outcome {
		if child.Machine != "visit" {
			t.Errorf("expected a child of the machine visit, got %+v", child)
		}
		return []statecharttest.Outcome{{Name: "passed", Result: true}, {}, {Err: errors.New("rain")}}
	}
	paths, err := statecharttest.FinalPaths(inspection(), config)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"inspecting, done.child.visit, passed approved", "inspecting, done.child.visit rejected", "inspecting, error.child.visit postponed"}
	if diff := cmp.Diff(want, brief(paths)); diff != "" {
		t.Errorf("final paths (-want +got):\n%s", diff)
	}
	statecharttest.RunPaths(t, inspection(), config, nil)
	coverage.Require(t)
	config.ChildOutcomes = func(statechart.ChildRef) []statecharttest.Outcome {
		return []statecharttest.Outcome{{Result: func() {}}}
	}
	if _, err := statecharttest.ShortestPaths(inspection(), config); err == nil || !strings.Contains(err.Error(), "ending child visit, see PathConfig.ChildOutcomes") {
		t.Errorf("an output that is not JSON: got %v", err)
	}
}
