package statechart_test

import (
	"fmt"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

// TestManyLeaves steps a chart with more active leaves than a configuration stores inline. It steps in place, by value
// and after a restore, with failing steps and replays.
func TestManyLeaves(t *testing.T) {
	t.Parallel()
	var regions []S
	payloads := statechart.Payloads{"GO": statechart.NoPayload(), "FAIL": statechart.NoPayload(), "OUT": statechart.NoPayload(), "BACK": statechart.NoPayload(), "D": statechart.NoPayload(), "IN": statechart.NoPayload()}
	fail := statechart.TryAssign("fail", func(*trace, Event) error { return errPlanned })
	for i := range 12 {
		last := Do{}
		if i == 11 {
			last = Do{fail}
		}
		regions = append(regions, S{ID: fmt.Sprint("r", i), Initial: "a", States: []S{
			{ID: "a", Tags: settled, On: []On{{Event: "GO", Target: "b"}, {Event: "FAIL", Target: "b", Actions: last}, {Event: "D", Target: "b", Actions: last}}},
			{ID: "b", Tags: settled, On: []On{{Event: "GO", Target: "a"}, {Event: "FAIL", Target: "a", Actions: last}, {Event: "D", Target: "a", Actions: last}}}}})
	}
	regions = append(regions, S{ID: "h", Type: statechart.DeepHistory})
	chart := statechart.Must(statechart.Definition[trace]{ID: "c", Version: 1, Initial: "p", Payloads: payloads, States: []S{
		{ID: "p", Type: statechart.Parallel, States: regions, On: []On{{Event: "OUT", Target: "out"}}},
		{ID: "out", Tags: settled, Defer: []string{"D"}, On: []On{{Event: "BACK", Target: "p.h"}}}}})
	txt := func(s statechart.Snapshot[trace]) string { b, _ := s.AppendJSON(nil); return string(b) }
	stepper := chart.Stepper()
	s, _, err := stepper.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	for i, typ := range []string{"GO", "FAIL", "GO", "OUT", "D", "BACK", "GO", "FAIL", "OUT", "D", "D", "BACK", "GO"} {
		before, was := s, txt(s)
		r, err := chart.Restore([]byte(was))
		if err != nil {
			t.Fatal(err)
		}
		a, e1 := chart.Step(before, Event{Type: typ, At: epoch})
		b, e2 := chart.Step(r, Event{Type: typ, At: epoch})
		eff, h, e3 := stepper.Step(&s, &Event{Type: typ, At: epoch})
		if txt(before) != was || txt(a.Next) != txt(b.Next) || txt(s) != txt(a.Next) || fmt.Sprint(e1) != fmt.Sprint(e2) || fmt.Sprint(e1) != fmt.Sprint(e3) || fmt.Sprint(eff) != fmt.Sprint(a.Effects) || h != a.Handled {
			t.Errorf("%d %s:\n%s\n%s\n%s\n%s\n%v %v %v", i, typ, was, txt(before), txt(a.Next), txt(s), e1, e2, e3)
		}
	}
}

//nolint:paralleltest // Other tests' allocations would be counted.
func TestFewLeavesAfterManyAllocateNothing(t *testing.T) {
	var regions []S
	for i := range 8 {
		regions = append(regions, S{ID: fmt.Sprint("r", i)})
	}
	def := Def{Initial: "p", States: []S{
		{ID: "p", Type: statechart.Parallel, States: regions, On: []On{{Event: "GO", Target: "b"}}},
		{ID: "b", On: []On{{Event: "GO", Target: "c"}}}, {ID: "c", On: []On{{Event: "GO", Target: "b"}}}}}
	chart := statechart.Must(statechart.Definition[count]{ID: "c", Version: 1, Initial: "p", Payloads: statechart.Payloads{"GO": statechart.NoPayload()}, States: plain(def.States)})
	stepper, event := chart.Stepper(), Event{Type: "GO"}
	snapshot, _, err := stepper.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	step := func() {
		if _, handled, err := stepper.Step(&snapshot, &event); !handled || err != nil {
			t.Fatalf("handled %v, error %v", handled, err)
		}
	}
	step()
	step()
	if allocations := testing.AllocsPerRun(100, step); allocations != 0 {
		t.Errorf("got %v allocations a step, want none", allocations)
	}
}

// plain converts states over the context `trace` to settled states over the context `count`, without actions.
func plain(states []S) []countState {
	var made []countState
	for _, s := range states {
		c := countState{ID: s.ID, Type: s.Type, States: plain(s.States)}
		if len(s.States) == 0 {
			c.Tags = settled
		}
		for _, on := range s.On {
			c.On = append(c.On, countOn{Event: on.Event, Target: on.Target})
		}
		made = append(made, c)
	}
	return made
}
