package statechart

import (
	"strings"

	"github.com/settle-run/settle/runtime/internal/outline"
)

// Outline is a chart without its functions, for xstatejson and chartsvg.
type Outline = outline.Chart

// Outline returns the structure of the chart. Callers must not modify it.
func (c *Chart[C]) Outline() *Outline {
	o := &outliner{chart: &c.chart, compiler: compiler{chart: &c.chart}}
	chart := &Outline{Root: o.state(c.nodes[0].def), Version: c.version, Events: c.Events(), UsesChildren: c.usesChildren}
	for _, typ := range sortedKeys(c.payloads) {
		if c.payloads[typ].internal {
			chart.Internal = append(chart.Internal, typ)
		}
	}
	if c.definition.Context != nil {
		chart.Context = c.definition.ContextParams
	}
	if c.definition.Output != nil {
		chart.Output = c.definition.OutputParams
	}
	return chart
}

// outliner builds an Outline. It visits the states in document order.
type outliner struct {
	chart *chart
	// compiler resolves targets.
	compiler compiler
	// next is the index of the next state.
	next int
}

func (o *outliner) state(s *State[erased]) outline.State {
	n := &o.chart.nodes[o.next]
	o.next++
	out := outline.State{
		ID: s.ID, Type: int(s.Type), Initial: s.Initial, DefaultEntry: outlineActions(s.DefaultEntry), Tags: s.Tags,
		Entry: outlineActions(s.Entry), Exit: outlineActions(s.Exit), On: o.transitions(n, s.On), Always: o.transitions(n, s.Always),
		Defer: s.Defer, OnDone: o.transitions(n, s.OnDone), Targets: o.targets(n, s.Target), Doc: s.Doc, Meta: s.Meta,
	}
	if s.Output != nil {
		out.Output = s.OutputParams
	}
	for i := range s.After {
		a := &s.After[i]
		t := Transition[erased]{Target: a.Target, Guard: a.Guard, Actions: a.Actions, Reenter: a.Reenter, Doc: a.Doc}
		out.After = append(out.After, outline.After{ID: a.ID, Delay: a.Delay, Transition: o.transition(n, &t)})
	}
	for i := range s.Invoke {
		v := &s.Invoke[i]
		out.Invoke = append(out.Invoke, outline.Invoke{
			ID: v.ID, Service: v.Service.Name, Params: v.Service.Params, Timeout: v.Timeout, Retry: outline.Retry(v.Retry),
			OnDone: o.transitions(n, v.OnDone), OnError: o.transitions(n, v.OnError),
		})
	}
	for i := range s.Children {
		v := &s.Children[i]
		child := outline.Child{ID: v.ID, Machine: v.Machine, OnDone: o.transitions(n, v.OnDone), OnError: o.transitions(n, v.OnError)}
		if v.Input != nil {
			child.Input = v.InputParams
		}
		out.Children = append(out.Children, child)
	}
	for i := range s.States {
		out.States = append(out.States, o.state(&s.States[i]))
	}
	return out
}

func (o *outliner) transitions(n *node, transitions []Transition[erased]) []outline.Transition {
	var out []outline.Transition
	for i := range transitions {
		out = append(out, o.transition(n, &transitions[i]))
	}
	return out
}

func (o *outliner) transition(n *node, t *Transition[erased]) outline.Transition {
	out := outline.Transition{Event: t.Event, Targets: o.targets(n, t.Target), Actions: outlineActions(t.Actions), Reenter: t.Reenter, Doc: t.Doc}
	if t.Guard.test != nil || t.Guard.Name != "" {
		guard := outlineGuard(&t.Guard)
		out.Guard = &guard
	}
	return out
}

// targets resolves the target references in a state to paths. The compiler has already checked them.
func (o *outliner) targets(n *node, references string) []string {
	var paths []string
	for _, reference := range strings.Fields(references) {
		target, _ := o.compiler.target(n, reference)
		paths = append(paths, o.chart.nodes[target].path)
	}
	return paths
}

func outlineActions(actions []Action[erased]) []outline.Action {
	var out []outline.Action
	for i := range actions {
		a := &actions[i]
		out = append(out, outline.Action{Name: a.Name, Params: a.Params, Made: a.made})
	}
	return out
}

func outlineGuard(g *Guard[erased]) outline.Guard {
	out := outline.Guard{Name: g.Name, Params: g.Params, By: g.made, In: g.in}
	for i := range g.of {
		out.Of = append(out.Of, outlineGuard(&g.of[i]))
	}
	return out
}
