package statechart_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/settle-run/settle/runtime/statechart"
)

// generator draws charts that compile. For each state ID, the event to.ID leads from anywhere to that state.
type generator struct {
	t *rapid.T
	// `all` holds the IDs of the states, which are unique within the chart.
	all       []string
	parallels []*S
}

func (g *generator) in(n int, label string) int { return rapid.IntRange(0, n-1).Draw(g.t, label) }
func (g *generator) one(of int, label string) bool {
	return g.in(of, label) == 0
}

// drawChart draws the shape of a chart, and then transitions between any states.
func drawChart(t *rapid.T) Def {
	g := &generator{t: t}
	def := Def{ID: "c", Version: 1, Payloads: statechart.Payloads{}}
	root := S{States: g.children(0)}
	if root.Type = g.plainOrParallel("root"); root.Type == statechart.Parallel {
		root.States = regionsOf(root.States)
		def.Parallel = true
	}
	g.setInitial(&root)
	def.States, def.Initial = root.States, root.Initial
	g.connect(def.States)
	for _, id := range g.all {
		def.On = append(def.On, On{Event: "to." + id, Target: "#" + id})
		def.Payloads["to."+id] = statechart.NoPayload()
	}
	for _, event := range []string{"a", "b", "b.c"} {
		def.Payloads[event] = statechart.NoPayload()
	}
	return def
}

func (g *generator) plainOrParallel(label string) statechart.Type {
	if g.one(3, label+" is parallel") {
		return statechart.Parallel
	}
	return statechart.Plain
}

func (g *generator) children(depth int) []S {
	var states []S
	for range 2 + g.in(2, "children") {
		id := fmt.Sprintf("s%d", len(g.all))
		g.all = append(g.all, id)
		s := S{ID: id, Entry: logs("+" + id), Exit: logs("-" + id)}
		switch kind := g.in(10, "kind"); {
		case depth < 3 && kind < 4:
			s.States = g.children(depth + 1)
			if s.Type = g.plainOrParallel(id); s.Type == statechart.Parallel {
				s.States = regionsOf(s.States)
			}
			g.setInitial(&s)
		case depth > 0 && kind == 4:
			s.Type = statechart.Final
			s.Output = func(c trace, _ Event) any { return c.N }
		case len(states) > 0 && kind == 5:
			s = S{ID: id, Type: statechart.ShallowHistory}
			if g.one(2, "deep") {
				s.Type = statechart.DeepHistory
			}
			if g.one(2, "default") {
				s.Target = states[0].ID
			}
		case kind == 6:
			s.Invoke = []Invoke{service(id, nil, nil)}
		default:
			s.Tags = settled
		}
		states = append(states, s)
	}
	return states
}

// regionsOf returns the regions of a parallel state. If the last child is a history state, an atomic state replaces it.
func regionsOf(states []S) []S {
	last := &states[len(states)-1]
	if isHistory(*last) {
		*last = S{ID: last.ID, Entry: logs("+" + last.ID), Exit: logs("-" + last.ID), Tags: settled}
	}
	return states
}

func (g *generator) setInitial(s *S) {
	if s.Type == statechart.Plain {
		s.Initial = s.States[0].ID
		last := s.States[len(s.States)-1]
		if isHistory(last) && last.Target != "" && g.one(2, "initial history") {
			s.Initial = last.ID
		}
	}
}

// connect adds transitions, timers and services to the states.
func (g *generator) connect(states []S) {
	for i := range states {
		s := &states[i]
		g.connect(s.States)
		if s.Type == statechart.Parallel {
			g.parallels = append(g.parallels, s)
		}
		if s.Type != statechart.Plain && s.Type != statechart.Parallel {
			continue
		}
		events := []string{"a", "b", "b.*", "*", "b.c"}
		if len(s.Invoke) > 0 {
			events = events[2:4] // outside events cannot reach a state with services
		}
		for range g.in(4, "transitions") {
			if t := g.transition(events); !shadowed(s.On, t) {
				s.On = append(s.On, t)
			}
		}
		if len(s.Invoke) == 0 && g.one(4, "defers") {
			s.Defer = g.deferring(s)
		}
		if len(s.Invoke) > 0 {
			s.Invoke[0].OnDone = []On{g.transition([]string{""})}
			s.Invoke[0].OnError = []On{{Target: g.target()}}
		}
		if g.one(3, "always") {
			bounded := below(g.in(6, "bound"))
			s.Always = append(s.Always, On{Target: g.target(), Guard: bounded, Actions: Do{add(1)}})
		}
		if g.one(3, "timer") {
			s.After = append(s.After, After{Delay: time.Duration(1+g.in(3, "delay")) * time.Minute, Target: g.target()})
		}
		for _, child := range s.States {
			if s.Type == statechart.Plain && child.Type == statechart.Final && s.OnDone == nil {
				s.OnDone = []On{g.transition([]string{""})}
			}
		}
		for k := range s.On {
			if t := &s.On[k]; t.Event == "*" && len(s.OnDone)+len(s.Invoke) > 0 && t.Guard.Name == "" {
				t.Guard = below(8) // Without a guard, the wildcard would shadow the done events.
			}
		}
	}
}

// shadowed reports whether an earlier transition without a guard handles all events of a transition.
func shadowed(earlier []On, t On) bool {
	return slices.ContainsFunc(earlier, func(first On) bool {
		prefix, partial := strings.CutSuffix(first.Event, ".*")
		covers := first.Event == "*" || first.Event == t.Event || partial && (t.Event == prefix || strings.HasPrefix(t.Event, prefix+"."))
		return covers && first.Guard.Name == ""
	})
}

// deferring draws the Defer of a state. It excludes events that the state handles without a guard.
func (g *generator) deferring(s *S) []string {
	descriptor := []string{"a", "b", "b.c", "b.*"}[g.in(4, "deferred")]
	for _, t := range s.On {
		if t.Guard.Name == "" && (t.Event == "*" || t.Event[0] == descriptor[0]) {
			return nil
		}
	}
	return []string{descriptor}
}

func (g *generator) transition(events []string) On {
	t := On{Event: events[g.in(len(events), "event")], Target: g.target(), Reenter: g.one(3, "reenter")}
	if g.one(3, "guarded") {
		t.Guard = statechart.Or(below(g.in(9, "bound")), statechart.In[trace]("s0"), no)
	}
	if g.one(3, "counts") {
		t.Actions = Do{add(1)}
	}
	if g.one(4, "raises") {
		t.Guard, t.Actions = below(8), Do{add(1), raise("a")}
	}
	return t
}

// target draws any state, no state, or one state in each of two regions.
func (g *generator) target() string {
	switch {
	case g.one(8, "targetless"):
		return ""
	case len(g.parallels) > 0 && g.one(4, "two targets"):
		p := g.parallels[g.in(len(g.parallels), "parallel")]
		return "#" + g.below(p.States[0]) + " #" + g.below(p.States[len(p.States)-1])
	default:
		return "#" + g.all[g.in(len(g.all), "target")]
	}
}

// below draws the given state or one of its descendants. It draws no history state.
func (g *generator) below(s S) string {
	if len(s.States) == 0 || g.one(2, "here") {
		return s.ID
	}
	child := s.States[g.in(len(s.States), "child")]
	if isHistory(child) {
		child = s.States[0]
	}
	return g.below(child)
}

func isHistory(s S) bool {
	return s.Type == statechart.ShallowHistory || s.Type == statechart.DeepHistory
}
