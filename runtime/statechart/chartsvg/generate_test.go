package chartsvg

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/settle-run/settle/runtime/internal/outline"
	"github.com/settle-run/settle/runtime/statechart"
)

// generator draws random outlines. They need not compile: the layout accepts every outline.
type generator struct {
	*rand.Rand
	paths          []string
	breadth, depth int
}

func randomChart(seed uint64, breadth int) *outline.Chart {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), breadth: breadth}
	g.depth = 1 + g.IntN(3)
	chart := &outline.Chart{Version: 1, Root: outline.State{ID: "chart"}}
	g.fill(&chart.Root, "", 0)
	g.connect(&chart.Root)
	if g.one(3) {
		g.addEndings(&chart.Root)
	}
	return chart
}

// addEndings adds up to 15 states to the root. Only transitions of the root lead to them, as in a comb.
func (g *generator) addEndings(root *outline.State) {
	for i := range 1 + g.IntN(15) {
		end := outline.State{ID: fmt.Sprintf("ending%d", i)}
		if g.one(3) {
			end.Type, end.Tags = int(statechart.Final), []string{failedTag, "a tag"}
		}
		if g.one(5) {
			end.ID += "_with_a_name_that_is_wider_than_most_names"
		}
		for k := range 1 + g.IntN(3) {
			t := g.transition(fmt.Sprintf("END_%d_%d", i, k))
			t.Targets = []string{end.ID}
			root.On = append(root.On, t)
		}
		root.States = append(root.States, end)
	}
}

// denseChart returns a chart without nested states, with random transitions.
func denseChart(states, transitions int) *outline.Chart {
	r := rand.New(rand.NewPCG(1, 2))
	chart := &outline.Chart{Root: outline.State{ID: "chart", Initial: "s0"}}
	for i := range states {
		s := outline.State{ID: fmt.Sprintf("s%d", i)}
		for k := range transitions {
			s.On = append(s.On, outline.Transition{Event: fmt.Sprintf("EVENT_%d", k), Targets: []string{fmt.Sprintf("s%d", r.IntN(states))}})
		}
		chart.Root.States = append(chart.Root.States, s)
	}
	return chart
}

func (g *generator) one(of int) bool { return g.IntN(of) == 0 }

func (g *generator) fill(s *outline.State, path string, depth int) {
	if g.one(4) {
		s.Type = int(statechart.Parallel)
	}
	for i := range 1 + g.IntN(g.breadth) {
		child := outline.State{ID: fmt.Sprintf("s%d", i)}
		if g.one(5) {
			child.ID += "_with_a_long_name"
		}
		at := join(path, child.ID)
		g.paths = append(g.paths, at)
		switch {
		case depth < g.depth && g.one(3):
			g.fill(&child, at, depth+1)
		case g.one(5):
			child.Type = int(statechart.Final)
			child.Tags = []string{failedTag}
		case i > 0 && g.one(8):
			child.Type = int(statechart.DeepHistory)
		case g.one(4):
			child.Invoke = []outline.Invoke{{Service: "service " + child.ID}}
		}
		s.States = append(s.States, child)
	}
	if s.Type == int(statechart.Plain) {
		s.Initial = s.States[0].ID
		if first := &s.States[0]; len(first.States) > 0 && g.one(3) {
			s.Initial += "." + first.States[len(first.States)-1].ID
		}
	}
}

func (g *generator) connect(s *outline.State) {
	for i := range s.States {
		g.connect(&s.States[i])
	}
	switch statechart.Type(s.Type) {
	case statechart.Final:
		return
	case statechart.DeepHistory, statechart.ShallowHistory:
		if g.one(2) {
			s.Targets = []string{g.path()}
		}
		return
	}
	for k := range g.IntN(4) {
		s.On = append(s.On, g.transition(fmt.Sprintf("EVENT_%d", k)))
	}
	if g.one(4) {
		s.Always = append(s.Always, g.transition(""))
	}
	if g.one(4) {
		s.After = append(s.After, outline.After{Delay: time.Minute, Transition: g.transition("")})
	}
	for i := range s.Invoke {
		s.Invoke[i].OnDone = []outline.Transition{g.transition("")}
		s.Invoke[i].OnError = []outline.Transition{g.transition("")}
	}
	if len(s.States) > 0 && g.one(3) {
		s.OnDone = []outline.Transition{g.transition("")}
	}
}

func (g *generator) path() string { return g.paths[g.IntN(len(g.paths))] }

func (g *generator) transition(event string) outline.Transition {
	t := outline.Transition{Event: event, Targets: []string{g.path()}}
	switch {
	case g.one(8):
		t.Targets = nil
	case g.one(10):
		t.Targets = append(t.Targets, g.path())
	case g.one(20):
		t.Targets = []string{""}
	}
	if g.one(3) {
		t.Guard = &outline.Guard{Name: "guardWithName"}
	}
	if g.one(3) {
		t.Actions = []outline.Action{{Name: "act"}}
	}
	return t
}
