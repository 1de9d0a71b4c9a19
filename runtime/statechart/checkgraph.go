package statechart

import (
	"cmp"
	"slices"
)

// ownEvents returns the event types that the chart's actions raise, and the types that they send to the chart itself.
func (c *compiler) ownEvents() (raised, sent map[string]bool) {
	raised, sent = map[string]bool{}, map[string]bool{}
	collect := func(actions []Action[erased]) {
		for _, action := range actions {
			if action.raises != "" {
				raised[action.raises] = true
			}
			if action.sends != "" {
				sent[action.sends] = true
			}
		}
	}
	for i := range c.chart.nodes {
		n := &c.chart.nodes[i]
		collect(n.entry)
		collect(n.def.DefaultEntry)
		collect(n.def.Exit)
		for k := range n.transitions {
			collect(n.transitions[k].actions)
		}
		for k := range n.always {
			collect(n.always[k].actions)
		}
	}
	return raised, sent
}

// madeEvents returns ExecutionError and the types of the done and error events of states, services and children.
func (c *compiler) madeEvents() map[string]bool {
	made := map[string]bool{ExecutionError: true}
	for i := range c.chart.nodes {
		n := &c.chart.nodes[i]
		if i > 0 && (n.kind == compound || n.kind == parallel) && c.completes(n) {
			made[doneStatePrefix+n.path] = true
		}
		for _, invoke := range n.invokes {
			made[doneInvokePrefix+invoke.id] = true
			made[errorInvokePrefix+invoke.id] = true
		}
		c.madeByChildren(n, made)
	}
	return made
}

// completes reports whether isInFinalState can ever hold for a state.
func (c *compiler) completes(n *node) bool {
	completes := n.kind == final || n.kind == parallel
	for _, i := range n.children {
		switch child := &c.chart.nodes[i]; n.kind {
		case compound:
			completes = completes || child.kind == final
		case parallel:
			completes = completes && (child.kind == history || c.completes(child))
		}
	}
	return completes
}

func (c *compiler) checkGraph() {
	reachable := c.reachable()
	for i := range c.chart.nodes {
		n := &c.chart.nodes[i]
		if i > 0 && !reachable[i] && reachable[n.parent] && !c.chart.foreign {
			c.find(n, "is unreachable", "add a transition to it, or remove it")
		}
		if n.kind == history && c.ownDefault(i) {
			c.find(n, "is its own default", "set Target to a state that is not history")
		}
	}
	if c.chart.foreign {
		return
	}
	for i := range c.chart.nodes {
		c.checkRests(&c.chart.nodes[i])
	}
	c.checkAlwaysCycles()
	for i := range c.chart.nodes {
		c.checkShadowed(&c.chart.nodes[i])
		c.warnOfDeadEnd(&c.chart.nodes[i])
	}
	c.warnOfUnhandled()
}

// reachable reports, by state index, whether some sequence of transitions enters the state. It assumes that every guard
// can hold.
func (c *compiler) reachable() []bool {
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

// ownDefault reports whether a history state is its own default, directly or through other history states.
func (c *compiler) ownDefault(h int) bool {
	seen, pending := newStateSet(len(c.chart.nodes)), []int{h}
	for len(pending) > 0 {
		at := pending[0]
		pending = pending[1:]
		for _, i := range c.chart.nodes[at].initial {
			if i == h {
				return true
			}
			if c.chart.nodes[i].kind == history && !seen.has(i) {
				seen.add(i)
				pending = append(pending, i)
			}
		}
	}
	return false
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
