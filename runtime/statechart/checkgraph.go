package statechart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ownEvents returns the event types that the chart's actions raise, and those that they send to the chart itself.
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

// reachable returns, by index, the states that some sequence of transitions enters, assuming that every guard can hold.
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

// checkAlwaysCycles finds endless cycles of unguarded eventless transitions.
func (c *compiler) checkAlwaysCycles() {
	seenFrom := make([]int, len(c.chart.nodes)) // the search that first came to a state, counted from 1
	for i := range c.chart.nodes {
		var trail []int
		at, ok := i, true
		for ok && seenFrom[at] == 0 {
			seenFrom[at] = i + 1
			trail = append(trail, at)
			at, ok = c.alwaysNext(at)
		}
		if !ok || seenFrom[at] != i+1 {
			continue
		}
		cycle := trail[slices.Index(trail, at):]
		first := slices.Min(cycle)
		if leaf := c.defaultLeaf(at); len(cycle) == 1 && leaf.settled {
			continue // The chart may rest there, or checkRests has found that it cannot.
		}
		var names []string
		for _, k := range append(cycle, at) {
			names = append(names, c.name(&c.chart.nodes[k]))
		}
		c.find(&c.chart.nodes[first], "is part of a cycle of unguarded Always transitions: "+strings.Join(names, " -> "), "guard one of the transitions")
	}
}

// alwaysNext returns the state that unguarded eventless transitions are certain to enter after state i. It searches
// like selectEventlessTransitions: from the default atomic descendant upwards. It reports false if the next state
// depends on regions or guards.
func (c *compiler) alwaysNext(i int) (int, bool) {
	leaf := c.defaultLeaf(i)
	if leaf.kind != atomic {
		return 0, false
	}
	for at := leaf.index; at >= 0 && c.chart.nodes[at].kind != parallel; at = c.chart.nodes[at].parent {
		for _, t := range c.chart.nodes[at].always {
			switch {
			case unguarded(t) && len(t.targets) == 0:
				return leaf.index, true
			case unguarded(t) && len(t.targets) == 1:
				return t.targets[0], true
			case len(t.targets) > 0:
				return 0, false
			}
		}
	}
	return 0, false
}

// defaultLeaf follows the initial states of compound states, starting with state i.
func (c *compiler) defaultLeaf(i int) *node {
	leaf := &c.chart.nodes[i]
	for leaf.kind == compound {
		leaf = &c.chart.nodes[leaf.initial[0]]
	}
	return leaf
}

// checkRests finds settled states that the chart cannot rest in, because an eventless transition always follows that
// changes something. The first unguarded transition ends the search of selectEventlessTransitions.
func (c *compiler) checkRests(n *node) {
	if n.kind != atomic || !n.settled {
		return
	}
	for i := n.index; i >= 0; i = c.chart.nodes[i].parent {
		at := &c.chart.nodes[i]
		for k := range at.always {
			if c.mayRest(n, &at.always[k]) {
				return
			}
			if unguarded(at.always[k]) {
				c.find(n, fmt.Sprintf("is settled, but %s has an unguarded Always transition", c.name(at)), "remove the tag, or guard the transition")
				return
			}
		}
	}
}

// mayRest reports whether an eventless transition may change nothing while a settled state is active: see complete. If
// that depends on regions, or on which states a history state has recorded, it reports true.
func (c *compiler) mayRest(n *node, t *transition) bool {
	alters := func(actions []Action[erased]) bool { // After a raised event, eventless transitions are selected again.
		return slices.ContainsFunc(actions, func(a Action[erased]) bool { return a.mayAlter() || a.raises != "" })
	}
	if alters(t.actions) {
		return false
	}
	if len(t.targets) != 1 {
		return true
	}
	leaf := c.defaultLeaf(t.targets[0])
	if leaf.kind == parallel {
		return true
	}
	if leaf != n && leaf.kind != history {
		return false
	}
	domain := c.chart.getTransitionDomain(t, nil)
	for i := n.index; i > domain; i = c.chart.nodes[i].parent {
		left := &c.chart.nodes[i]
		if left.remembers || len(left.def.Children) > 0 || alters(left.def.Exit) || alters(left.entry) {
			return false
		}
	}
	return true
}

func unguarded(t transition) bool { return t.guard.test == nil }

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
