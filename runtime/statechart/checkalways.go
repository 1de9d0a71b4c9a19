package statechart

import (
	"fmt"
	"slices"
	"strings"
)

// checkAlwaysCycles finds endless cycles of unguarded eventless transitions.
func (c *compiler) checkAlwaysCycles() {
	found := false
	seenFrom := make([]int, len(c.chart.nodes)) // by state, the number of the first search that reached it, counted from 1
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
			continue // If the chart cannot rest there, checkRests has already found that.
		}
		var names []string
		for _, k := range append(cycle, at) {
			names = append(names, c.name(&c.chart.nodes[k]))
		}
		c.find(&c.chart.nodes[first], "is part of a cycle of unguarded Always transitions: "+strings.Join(names, " -> "), "guard one of the transitions")
		found = true
	}
	if !found && slices.ContainsFunc(c.chart.nodes, func(n node) bool { return n.kind == parallel }) {
		c.checkRegionsRest()
	}
}

// alwaysNext returns the state that the chart is certain to enter after state i, by an unguarded eventless transition.
// It searches like selectEventlessTransitions: from the default atomic descendant upwards. It reports false if the next
// state depends on regions or guards.
func (c *compiler) alwaysNext(i int) (int, bool) {
	leaf := c.defaultLeaf(i)
	if leaf.kind != atomic {
		return 0, false
	}
	for at := leaf.index; at >= 0 && c.chart.nodes[at].kind != parallel; at = c.chart.nodes[at].parent {
		for _, t := range c.chart.nodes[at].always {
			switch {
			case unguarded(t) && len(t.targets) == 0:
				return leaf.index, c.staysInRegion(&t)
			case unguarded(t) && len(t.targets) == 1:
				return t.targets[0], c.staysInRegion(&t)
			case len(t.targets) > 0:
				return 0, false
			}
		}
	}
	return 0, false
}

// staysInRegion reports whether a transition, once enabled, keeps the chart within each region that contains its
// source. It reports false for a transition that leaves no state, because that transition preempts no other one. It
// also reports false if an eventless transition of an earlier region leaves that region, because it can preempt t.
func (c *compiler) staysInRegion(t *transition) bool {
	nodes := c.chart.nodes
	within := func(t *transition, region int) bool {
		outside := func(target int) bool { return !c.chart.isDescendant(target, region) }
		domain := c.chart.getTransitionDomain(t, nil)
		return !slices.ContainsFunc(t.targets, outside) && (domain == region || c.chart.isDescendant(domain, region))
	}
	for region := t.source; region > 0; region = nodes[region].parent {
		p := nodes[region].parent
		if nodes[p].kind != parallel {
			continue
		}
		if len(t.targets) == 0 || c.chart.getTransitionDomain(t, nil) == t.source && nodes[t.source].kind == atomic || !within(t, region) {
			return false
		}
		for i := p + 1; i < region; i++ { // the states of the earlier regions
			for k := range nodes[i].always {
				if !within(&nodes[i].always[k], c.chart.childAbove(i, p)) {
					return false
				}
			}
		}
	}
	return true
}

// checkRegionsRest finds transitions that enter several regions and are certain to lead to an endless macrostep. It
// stops after the first one. It skips transitions within a region, because the other regions may be in any state.
func (c *compiler) checkRegionsRest() {
	set, transitions := newEntrySet(c.chart), []*transition{{targets: []int{0}, reenter: true}}
	for i := range c.chart.nodes {
		n := &c.chart.nodes[i]
		for k := range n.transitions {
			transitions = append(transitions, &n.transitions[k])
		}
		for k := range n.always {
			transitions = append(transitions, &n.always[k])
		}
	}
	for _, t := range transitions {
		if leaves := c.endless(t, set); leaves != nil {
			c.find(&c.chart.nodes[t.targets[0]], "never rests once entered: unguarded Always transitions of its regions follow each other without end, for instance in "+strings.Join(leaves, " and "), "guard one of the transitions")
			return
		}
	}
}

// endless simulates a transition and the eventless transitions that follow it. It runs no actions. It returns the
// leaves of the configuration after MicrostepsMax microsteps. It returns nil if the chart rests earlier, or if the path
// depends on a guard, a history state, or a region that was already active.
func (c *compiler) endless(t *transition, set *entrySet) (leaves []string) {
	x := interpreter{chart: c.chart}
	toHistory := func(t *transition) bool {
		return slices.ContainsFunc(t.targets, func(target int) bool { return c.chart.nodes[target].isHistory() })
	}
	if len(t.targets) == 0 || toHistory(t) {
		return nil
	}
	domain := c.chart.getTransitionDomain(t, nil)
	var active []int
	for i := domain; i >= 0; i = c.chart.nodes[i].parent {
		if c.chart.nodes[i].kind == parallel {
			return nil
		}
		active = append(active, i)
	}
	for _, i := range slices.Backward(active) {
		x.snapshot.configuration.enter(i, c.chart.nodes[i].parent)
	}
	x.enabled = []enabledTransition{{t, domain}}
	for range MicrostepsMax + 1 {
		before := slices.Clone(x.snapshot.configuration.leaves())
		for _, t := range slices.Backward(x.enabled) {
			for i := x.lastActiveBelow(t.domain); len(t.targets) > 0 && i >= 0; i = x.lastActiveBelow(t.domain) {
				x.snapshot.configuration.exit(i, c.chart.nodes[i].parent)
			}
		}
		for _, t := range x.enabled {
			if set.compute(t.targets, t.domain, nil); set.usesHistory {
				return nil
			}
			for _, entered := range set.appendTo(nil) {
				x.snapshot.configuration.enter(int(entered.state), c.chart.nodes[entered.state].parent)
			}
		}
		if len(x.snapshot.configuration.leaves()) == 1 && x.enabled[0].transition == t {
			return nil // checkAlwaysCycles follows single states.
		}
		unchanged := slices.Equal(before, x.snapshot.configuration.leaves()) && !slices.ContainsFunc(x.enabled, func(t enabledTransition) bool {
			return slices.ContainsFunc(t.actions, func(a Action[erased]) bool { return a.mayAlter() })
		})
		if x.enabled = x.enabled[:0]; unchanged || c.chart.isInFinalState(0, &x.snapshot.configuration) {
			return nil
		}
		for _, leaf := range x.snapshot.configuration.leaves() {
			next, sure := c.firstAlways(int(leaf))
			if !sure || next != nil && toHistory(next) {
				return nil
			}
			if next != nil && !x.isEnabled(next) {
				x.enabled = append(x.enabled, enabledTransition{next, c.chart.getTransitionDomain(next, nil)})
			}
		}
		if x.removeConflictingTransitions(); len(x.enabled) == 0 {
			return nil
		}
	}
	for _, leaf := range x.snapshot.configuration.leaves() {
		leaves = append(leaves, c.name(&c.chart.nodes[leaf]))
	}
	return leaves
}

// firstAlways returns the eventless transition that selectEventlessTransitions finds for a leaf, or nil. It reports
// false if the choice depends on a guard.
func (c *compiler) firstAlways(leaf int) (*transition, bool) {
	for i := leaf; i >= 0; i = c.chart.nodes[i].parent {
		if always := c.chart.nodes[i].always; len(always) > 0 {
			return &always[0], unguarded(always[0])
		}
	}
	return nil, true
}

// defaultLeaf follows the initial states of compound states, starting with state i.
func (c *compiler) defaultLeaf(i int) *node {
	leaf := &c.chart.nodes[i]
	for leaf.kind == compound {
		leaf = &c.chart.nodes[leaf.initial[0]]
	}
	return leaf
}

// checkRests finds settled states that the chart cannot rest in, because an eventless transition that changes something
// always follows. The search ends at the first unguarded transition, as in selectEventlessTransitions.
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

// mayRest reports whether an eventless transition may change nothing while a settled state is active: see the method
// complete. It also reports true if the answer depends on regions or recorded history.
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
