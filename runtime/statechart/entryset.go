package statechart

// entering is a state that a transition enters.
type entering struct {
	state uint16
	// history is the child history state whose DefaultEntry actions run on entry, or 0.
	history uint16
	// byDefault is set if the state's own initial transition is taken.
	byDefault bool
}

// plannedStatesMax is the maximum size of an entry set that plan keeps. Larger ones are computed in each step, so that
// the size of a compiled chart stays proportional to its transitions.
const plannedStatesMax = 256

// plan precomputes the domain and entry set of each transition, unless they depend on recorded history or the entry set
// exceeds plannedStatesMax.
func (c *chart) plan() {
	set := newEntrySet(c)
	plan := func(t *transition) {
		t.domain = c.getTransitionDomain(t, nil)
		set.compute(t.targets, t.domain, nil)
		if !set.usesHistory && set.statesToEnter.count() <= plannedStatesMax {
			t.entry, t.planned = set.appendTo(nil), true
			t.program = c.program(t)
		}
	}
	for i := range c.nodes {
		n := &c.nodes[i]
		for k := range n.transitions {
			plan(&n.transitions[k])
		}
		for k := range n.always {
			plan(&n.always[k])
		}
	}
	c.initial = transition{targets: []int{0}, reenter: true, place: "start", index: -1}
	plan(&c.initial)
}

// getTransitionDomain returns the domain of a transition. The domain of an internal transition is its source. For any
// other transition, it is the least common ancestor of source and targets, which may be a <parallel>, as in XState. It
// is -1 if the root itself is re-entered.
func (c *chart) getTransitionDomain(t *transition, history []record) int {
	targets := c.getEffectiveTargetStates(t.targets, history, nil)
	if !t.reenter {
		internal := true
		for _, target := range targets {
			internal = internal && (target == t.source || c.isDescendant(target, t.source))
		}
		if internal {
			return t.source
		}
	}
	return c.findLCCA(t.source, targets)
}

// findLCCA returns the nearest proper ancestor of the source that contains all targets.
func (c *chart) findLCCA(source int, targets []int) int {
	ancestor := c.nodes[source].parent
	for ancestor >= 0 {
		common := true
		for _, target := range targets {
			common = common && c.isDescendant(target, ancestor)
		}
		if common {
			return ancestor
		}
		ancestor = c.nodes[ancestor].parent
	}
	return -1
}

// getEffectiveTargetStates replaces history states by their records, or else by their defaults.
func (c *chart) getEffectiveTargetStates(targets []int, history []record, into []int) []int {
	for _, target := range targets {
		n := &c.nodes[target]
		if !n.isHistory() {
			into = append(into, target)
		} else if recorded := n.recorded(history); recorded != nil {
			for _, i := range recorded {
				into = append(into, int(i))
			}
		} else {
			into = c.getEffectiveTargetStates(n.initial, history, into)
		}
	}
	return into
}

// entrySet computes the states that a transition enters (SCXML's computeEntrySet). The domains of a microstep's
// transitions do not overlap, so each set is computed separately.
type entrySet struct {
	chart *chart
	// history holds the records of the history states. domain is the transition's domain: only states below it are
	// entered.
	history []record
	domain  int

	statesToEnter stateSet
	// statesForDefaultEntry holds the states whose initial transition is taken.
	statesForDefaultEntry stateSet
	// defaultHistoryContent maps a parent's index to the history state whose default is taken.
	defaultHistoryContent map[int]int
	// usesHistory is set if the entry set depends on recorded history.
	usesHistory bool
}

func newEntrySet(chart *chart) *entrySet {
	return &entrySet{
		chart: chart, defaultHistoryContent: map[int]int{},
		statesToEnter: newStateSet(len(chart.nodes)), statesForDefaultEntry: newStateSet(len(chart.nodes)),
	}
}

// compute fills statesToEnter.
func (e *entrySet) compute(targets []int, domain int, history []record) {
	e.domain, e.history, e.usesHistory = domain, history, false
	e.statesToEnter.clear()
	e.statesForDefaultEntry.clear()
	clear(e.defaultHistoryContent)
	if len(targets) == 0 {
		return
	}
	for _, target := range targets {
		e.addStateToEnter(target)
		e.addDescendantStatesToEnter(target)
	}
	for _, target := range e.chart.getEffectiveTargetStates(targets, history, nil) {
		e.addAncestorStatesToEnter(target, domain)
	}
	if domain >= 0 && e.chart.nodes[domain].kind == parallel {
		e.addMissingRegions(domain)
	}
}

// appendTo appends the set in document order.
func (e *entrySet) appendTo(entry []entering) []entering {
	for i := e.statesToEnter.next(0); i >= 0; i = e.statesToEnter.next(i + 1) {
		entry = append(entry, entering{
			state: uint16(i), history: uint16(e.defaultHistoryContent[i]), byDefault: e.statesForDefaultEntry.has(i),
		})
	}
	return entry
}

// addStateToEnter adds a state to the set, with two exceptions. It skips history states, which only stand for other
// states. It skips states outside the domain, because the transition does not exit them. SCXML and XState would run the
// entry actions of such states without their exit actions. One example is the source of an internal transition to
// itself. Another is a transition to a history state from within the history state's parent: the states from the
// parent down to the domain stay active.
func (e *entrySet) addStateToEnter(state int) {
	if !e.chart.nodes[state].isHistory() && e.chart.isDescendant(state, e.domain) {
		e.statesToEnter.add(state)
	}
}

// addDescendantStatesToEnter adds the descendants entered with a state: the states that a history state stands for, the
// default child of a compound state, and all regions of a parallel state.
func (e *entrySet) addDescendantStatesToEnter(state int) {
	n := &e.chart.nodes[state]
	switch n.kind {
	case history:
		e.usesHistory = true
		if n.recorded(e.history) == nil && len(n.def.DefaultEntry) > 0 {
			e.defaultHistoryContent[n.parent] = n.index
		}
		targets := e.chart.getEffectiveTargetStates([]int{state}, e.history, nil)
		for _, target := range targets {
			e.addStateToEnter(target)
			e.addDescendantStatesToEnter(target)
		}
		for _, target := range targets {
			e.addAncestorStatesToEnter(target, n.parent)
		}
	case compound:
		e.statesForDefaultEntry.add(state)
		for _, target := range n.initial {
			e.addStateToEnter(target)
			e.addDescendantStatesToEnter(target)
		}
		for _, target := range n.initial {
			e.addAncestorStatesToEnter(target, state)
		}
	case parallel:
		e.addMissingRegions(state)
	}
}

// addAncestorStatesToEnter adds the ancestors of `state` up to, but not including, the ancestor `below`. For each
// parallel state among them, it also adds the missing regions. If `state` equals `below`, it adds nothing.
func (e *entrySet) addAncestorStatesToEnter(state, below int) {
	if state == below {
		return
	}
	for i := e.chart.nodes[state].parent; i >= 0 && i != below; i = e.chart.nodes[i].parent {
		e.addStateToEnter(i)
		if e.chart.nodes[i].kind == parallel {
			e.addMissingRegions(i)
		}
	}
}

// addMissingRegions adds the regions of a parallel state that have no descendant in the entry set.
func (e *entrySet) addMissingRegions(state int) {
	for _, child := range e.chart.nodes[state].children {
		n := &e.chart.nodes[child]
		if n.isHistory() || e.statesToEnter.anyIn(child+1, n.last) {
			continue
		}
		e.addStateToEnter(child)
		e.addDescendantStatesToEnter(child)
	}
}
