package chartsvg

import (
	"slices"
	"strings"
)

// walk returns the states that an instance has visited, and the edges that it has taken. The history of an instance has
// one entry for each event, with the states before and after it. So walk looks for the shortest way between them: an
// edge for the event, and then edges for events from within the chart.
func (d *drawing) walk(path []Step) (visited map[*node]bool, taken map[*edge]bool) {
	visited, taken = map[*node]bool{}, map[*edge]bool{}
	states := map[string]*node{}
	for _, n := range d.nodes {
		if n.state != nil {
			states[n.path] = n
		}
	}
	lookUp := func(paths []string) []*node {
		var nodes []*node
		for _, p := range paths {
			if n := states[p]; n != nil { // Another version of the chart may have had other states.
				nodes = append(nodes, n)
				visited[n] = true
			}
		}
		return nodes
	}
	for _, step := range path {
		from, to := lookUp(step.From), lookUp(step.To)
		for _, n := range from {
			way := d.way(n, to, step.Event)
			if way == nil && !slices.Contains(to, n) { // a reaction to a change in another region
				way = d.way(n, to, "")
			}
			for _, e := range way {
				taken[e], visited[e.to] = true, true
			}
		}
	}
	return visited, taken
}

// way returns the shortest list of edges from an active state to one of the states after the event. Only the first edge
// is for the event. It returns nil if it finds no way.
func (d *drawing) way(from *node, to []*node, event string) []*edge {
	type visit struct {
		edge   *edge
		before int
	}
	var queue []visit
	seen := map[*edge]bool{}
	add := func(at *node, before int, match func(*transition) bool) {
		for n := at; n != nil; n = n.parent { // Inner states come first.
			for _, e := range d.edges {
				source := e.from
				if source.kind == anyState {
					source = d.root
				}
				leaves := source == n || before >= 0 && n == at && source.within(n) && !e.to.within(source)
				if leaves && !seen[e] && slices.ContainsFunc(e.transitions, func(t transition) bool { return match(&t) }) {
					seen[e] = true
					queue = append(queue, visit{e, before})
				}
			}
		}
	}
	add(from, -1, func(t *transition) bool { return matches(t.event, event) })
	for k := 0; k < len(queue); k++ {
		target := queue[k].edge.to
		switch target.kind {
		case history:
			target = target.parent
		case restart:
			target = d.root
		}
		if slices.ContainsFunc(to, func(n *node) bool { return n.within(target) }) {
			var way []*edge
			for ; k >= 0; k = queue[k].before {
				way = append(way, queue[k].edge)
			}
			return way
		}
		add(target, k, func(t *transition) bool {
			return t.event == "" || strings.HasPrefix(t.event, "done.state.") || slices.Contains(d.internal, t.event)
		})
	}
	return nil
}

// matches reports whether an event descriptor matches an event (SCXML 3.12.1).
func matches(descriptor, event string) bool {
	if descriptor == event {
		return true
	}
	prefix, partial := strings.CutSuffix(descriptor, "*")
	return partial && event != "" && !strings.HasPrefix(event, "after ") && strings.HasPrefix(event+".", prefix)
}
