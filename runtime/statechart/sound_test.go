package statechart_test

import (
	"context"
	"slices"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestSoundChartsPass(t *testing.T) {
	t.Parallel()
	leave := []On{{Target: "#wait"}}
	done := func(id string) S { return S{ID: id, Type: statechart.Final} }
	for name, change := range map[string]func(d *Def, wait, next *S){
		"sound": nil,
		"nesting": func(d *Def, wait, _ *S) {
			*wait, d.States, d.Initial = nested(statechart.NestingDepthMax), d.States[:1], "x"
		},
		"forbidden": func(_ *Def, _, next *S) { next.On = []On{{Event: "GO"}} },
		"wildcards": func(d *Def, wait, _ *S) {
			wait.On = append(wait.On, On{Event: "GO.*"}, On{Event: "*"})
			d.On = []On{{Event: "*"}}
		},
		"settled with a guarded always": func(_ *Def, _, next *S) { next.Always = []On{{Guard: no, Target: "wait"}} },
		"moved on by an event that it raises": func(d *Def, _, next *S) {
			*next = S{ID: "next", Entry: Do{raise("R")}, On: []On{{Event: "R", Target: "wait"}}}
			d.Payloads["R"] = statechart.Internal()
		},
		"moved on by a wildcard for an event that it raises": func(d *Def, _, next *S) {
			*next = S{ID: "next", Entry: Do{raise("R.x")}, On: []On{{Event: "R.*", Target: "wait"}}}
			d.Payloads["R.x"] = statechart.Internal()
		},
		"moved on by the parent": func(_ *Def, _, next *S) {
			*next = S{ID: "next", Initial: "a", Always: leave, States: []S{{ID: "a"}}}
		},
		"moved on by another region": func(_ *Def, _, next *S) {
			*next = S{ID: "next", Type: statechart.Parallel, States: []S{
				{ID: "r1", Initial: "a", States: []S{{ID: "a", Invoke: []Invoke{service("", []On{{Target: "f"}}, leave)}}, done("f")}},
				{ID: "r2", Initial: "a", States: []S{{ID: "a", On: []On{{Event: "done.state.next.r1", Target: "f"}}}, done("f")}},
				{ID: "r3", Initial: "a", States: []S{{ID: "a", On: []On{{Event: "done.invoke.next.r1.a", Target: "f"}}}, done("f")}},
			}, OnDone: leave}
		},
		"ends of services handled above": func(_ *Def, _, next *S) {
			*next = S{ID: "next", Initial: "a", On: []On{{Event: "done.invoke.*", Target: "wait"}, {Event: "error.invoke.x", Target: "wait"}},
				States: []S{{ID: "a", Invoke: []Invoke{service("x", nil, nil)}}}}
		},
		"one ID in states that are never active together": func(d *Def, wait, next *S) {
			*next = S{ID: "next", Invoke: []Invoke{service("x", leave, []On{{Target: "again"}})}}
			d.States = append(d.States, S{ID: "again", Invoke: []Invoke{service("x", leave, leave)}})
		},
		"a timer that limits the parent's service": func(_ *Def, _, next *S) {
			*next = S{ID: "next", Initial: "a", Invoke: []Invoke{service("", leave, leave)}, States: []S{{ID: "a", After: []After{{Delay: 1, Target: "#wait"}}}}}
		},
		"a child that leaves before its parent's always leads in a circle": func(d *Def, _, next *S) {
			*next = S{ID: "next", Initial: "a", Always: []On{{Target: "back"}}, States: []S{{ID: "a", Always: leave}}}
			d.States = append(d.States, S{ID: "back", Always: []On{{Target: "next"}}})
		},
		"always by way of a guard": func(d *Def, _, next *S) {
			*next = S{ID: "next", Always: []On{{Guard: no, Target: "wait"}, {Target: "back"}}}
			d.States = append(d.States, S{ID: "back", Always: []On{{Target: "next"}}})
		},
		"always into and out of regions": func(d *Def, _, next *S) {
			*next = S{ID: "next", Type: statechart.Parallel, Always: []On{{Target: "back"}}, States: []S{{ID: "r1", Always: leave}, {ID: "r2"}}}
			d.States = append(d.States, S{ID: "back", Always: []On{{Target: "next.r2"}}})
		},
		"a cycle in a region that an earlier region may leave": func(_ *Def, _, next *S) {
			cycle := []S{{ID: "a", Always: []On{{Target: "b"}}}, {ID: "b", Always: []On{{Target: "a"}}}}
			*next = S{ID: "next", Type: statechart.Parallel, States: []S{{ID: "r1", Tags: settled, Always: []On{{Guard: yes, Target: "#wait"}}}, {ID: "r2", Initial: "a", States: cycle}}}
		},
		"an always in a region that leaves no state": func(_ *Def, _, next *S) {
			*next = S{ID: "next", Type: statechart.Parallel, Always: leave, States: []S{{ID: "r1"}, {ID: "r2", Initial: "a", States: []S{{ID: "a", Always: []On{{Target: "a", Actions: Do{add(1)}}}}}}}}
		},
		"history as default of history": func(_ *Def, wait, next *S) {
			*next = S{ID: "next", Initial: "p", States: []S{
				{ID: "h", Type: statechart.ShallowHistory, Target: "p.h"},
				{ID: "p", Initial: "a", States: append(slices.Clone(children), S{ID: "h", Type: statechart.DeepHistory, Target: "b"})}}}
			wait.On[0].Target = "next.h"
		},
		"many regions, parallel without transitions": func(_ *Def, _, next *S) {
			*next = S{ID: "next", Type: statechart.Parallel, States: []S{{ID: "h", Type: statechart.DeepHistory}, {ID: "x", Tags: settled}, {ID: "y", Tags: settled}}, On: []On{{Event: "GO", Target: ".h"}}}
		},
	} {
		if _, err := statechart.Compile(flawed(change)); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if statechart.Must(flawed(change)) == nil {
			t.Errorf("%s: Must returned nothing", name)
		}
	}
}

func TestServiceWithAnotherResultTypeCompilesWithItsAction(t *testing.T) {
	t.Parallel()
	type result struct{ ID string }
	fetch := statechart.ServiceFunc("fetch", func(context.Context, trace, statechart.Call) (result, error) { return result{}, nil })
	def := flawed(func(_ *Def, _, next *S) {
		next.Tags, next.Invoke = nil, []Invoke{{Service: fetch, OnDone: []On{{Target: "wait", Actions: Do{statechart.Assign("keep", func(*trace, result) {})}}}, OnError: []On{{Target: "wait"}}}}
	})
	if _, err := statechart.Compile(def); err != nil {
		t.Error(err)
	}
}
