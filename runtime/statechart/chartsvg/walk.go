package chartsvg

import (
	"slices"

	"github.com/settle-run/settle/runtime/internal/outline"
	"github.com/settle-run/settle/runtime/statechart"
)

// Paths finds the transitions that instances have taken. It is safe for concurrent use.
type Paths struct{ graph *graph }

// NewPaths returns the Paths of a chart.
func NewPaths(chart *statechart.Outline) *Paths { return &Paths{newGraph(chart)} }

// Taken is a transition that an instance has taken. Its fields are the data attributes of the drawing.
type Taken struct {
	From, To, Event string
	// Guard is the guard's name, or empty.
	Guard string
}

// Of returns the transitions of a step. The history of an instance has one step for each event, with the states before
// and after it. So Of looks for the shortest way between them: a transition on the event, and then transitions on events
// from within the chart. If several transitions fit, it returns the first. Transitions without a target are left out.
func (p *Paths) Of(step Step) []Taken {
	var taken []Taken
	_, ways := p.graph.walk(step)
	for _, h := range ways {
		taken = append(taken, Taken{h.edge.from.path, h.edge.to.path, h.on.trigger.Event, h.on.guard})
	}
	return taken
}

// hop is an edge on a way, and the transition of this edge that was taken.
type hop struct {
	edge *edge
	on   *transition
}

// walk returns the states before and after a step, and the hops between them.
func (g *graph) walk(step Step) (visited []*node, ways []hop) {
	lookUp := func(paths []string) (nodes []*node) {
		for _, n := range g.nodes {
			if n.state != nil && slices.Contains(paths, n.path) { // Another version of the chart may have had other states.
				nodes = append(nodes, n)
			}
		}
		return nodes
	}
	from, to := lookUp(step.From), lookUp(step.To)
	for _, n := range from {
		way := g.way(n, to, step.Event)
		if way == nil && !slices.Contains(to, n) { // a reaction to a change in another region
			way = g.way(n, to, "")
		}
		for _, h := range way {
			if !slices.Contains(ways, h) {
				ways = append(ways, h)
			}
		}
	}
	return append(from, to...), ways
}

// way returns the shortest way from an active state to one of the states after the event. Only the first hop is a
// transition on the event. way returns nil if it finds no way.
func (g *graph) way(from *node, to []*node, event string) []hop {
	type visit struct {
		hop
		before int
	}
	var queue []visit
	seen := map[*edge]bool{}
	add := func(at *node, before int, match func(outline.Trigger) bool) {
		for n := at; n != nil; n = n.parent { // Inner states come first.
			for _, e := range g.edges {
				source := e.from
				if source.kind == anyState {
					source = g.root
				}
				leaves := source == n || before >= 0 && n == at && source.within(n) && !e.to.within(source)
				on := slices.IndexFunc(e.transitions, func(t transition) bool { return match(t.trigger) })
				if leaves && on >= 0 && !seen[e] {
					seen[e] = true
					queue = append(queue, visit{hop{e, &e.transitions[on]}, before})
				}
			}
		}
	}
	add(from, -1, func(t outline.Trigger) bool { return t.Matches(event) })
	for k := 0; k < len(queue); k++ {
		target := queue[k].edge.to
		switch target.kind {
		case history:
			target = target.parent
		case restart:
			target = g.root
		}
		if slices.ContainsFunc(to, func(n *node) bool { return n.within(target) }) {
			var way []hop
			for ; k >= 0; k = queue[k].before {
				way = append(way, queue[k].hop)
			}
			slices.Reverse(way)
			return way
		}
		add(target, k, func(t outline.Trigger) bool {
			return t.Kind == outline.Eventless || t.Kind == outline.StateDone || slices.Contains(g.internal, t.Event)
		})
	}
	return nil
}
