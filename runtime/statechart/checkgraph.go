package statechart

import (
	"cmp"
	"slices"
	"strings"
)

// raisedEvents returns the event types that the chart's own actions raise.
func (c *compiler[C]) raisedEvents() map[string]bool {
	raised := map[string]bool{}
	collect := func(actions []Action[C]) {
		for _, action := range actions {
			if action.raises != "" {
				raised[action.raises] = true
			}
		}
	}
	for i := range c.chart.nodes {
		n := &c.chart.nodes[i]
		collect(n.def.Entry)
		collect(n.def.Exit)
		for k := range n.transitions {
			collect(n.transitions[k].actions)
		}
		for k := range n.always {
			collect(n.always[k].actions)
		}
	}
	return raised
}

// reachable returns, by index, the states that some sequence of transitions may enter,
// guards taken as open.
func (c *compiler[C]) reachable() []bool {
	nodes := c.chart.nodes
	seen := make([]bool, len(nodes))
	var enter func(i int)
	enter = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		n := &nodes[i]
		if n.kind == parallel {
			for _, child := range n.children {
				if nodes[child].kind != history {
					enter(child)
				}
			}
		}
		for _, child := range n.initial {
			enter(child)
		}
		if n.parent >= 0 {
			enter(n.parent)
		}
		for k := range n.transitions {
			for _, target := range n.transitions[k].targets {
				enter(target)
			}
		}
		for k := range n.always {
			for _, target := range n.always[k].targets {
				enter(target)
			}
		}
	}
	enter(0)
	return seen
}

// checkAlwaysCycles finds cycles of unguarded eventless transitions, which never end.
func (c *compiler[C]) checkAlwaysCycles() {
	reported := make([]bool, len(c.chart.nodes))
	for i := range c.chart.nodes {
		var trail []int
		at, ok := i, true
		for ok && !slices.Contains(trail, at) {
			trail = append(trail, at)
			at, ok = c.alwaysNext(at)
		}
		if !ok {
			continue
		}
		cycle := trail[slices.Index(trail, at):]
		first := slices.Min(cycle)
		if reported[first] {
			continue
		}
		reported[first] = true
		var names []string
		for _, k := range cycle {
			names = append(names, c.name(&c.chart.nodes[k]))
		}
		c.find(&c.chart.nodes[first], "is part of a cycle of unguarded always: "+strings.Join(names, " -> "), "guard one of the transitions")
	}
}

// alwaysNext returns the state that is certain to follow the entry of the given one, by its
// own unguarded always or, in a compound state, by that of its default child.
func (c *compiler[C]) alwaysNext(i int) (int, bool) {
	n := &c.chart.nodes[i]
	for n.kind == compound && !slices.ContainsFunc(n.always, unguarded[C]) {
		n = &c.chart.nodes[n.initial[0]]
	}
	k := slices.IndexFunc(n.always, unguarded[C])
	if k < 0 || slices.ContainsFunc(n.always[:k], func(t transition[C]) bool { return len(t.targets) > 0 }) {
		return 0, false
	}
	if len(n.always[k].targets) == 0 {
		return i, true
	}
	return n.always[k].targets[0], true
}

func unguarded[C any](t transition[C]) bool { return t.guard.test == nil }

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
