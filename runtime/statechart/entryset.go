package statechart

// entering is one state that a transition enters.
type entering struct {
	state uint16
	// history is the history state whose default content runs with the entry, 0 if none does.
	history uint16
	// byDefault says that the state's own initial transition is taken.
	byDefault bool
}

// plan works out ahead what the transitions of a valid chart do: domain and entry set, unless they
// depend on what history states will have recorded.
func (c *chart) plan() {
	set := newEntrySet(c)
	plan := func(t *transition) {
		t.domain = c.getTransitionDomain(t, nil)
		set.compute(t.targets, t.domain, nil)
		if !set.usesHistory {
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
	c.initial = transition{targets: []int{0}, reenter: true, place: "start"}
	plan(&c.initial)
}

// getTransitionDomain returns the state within which a transition acts: the source, if the
// transition is internal, else the least common ancestor of source and targets, which may be
// a <parallel> as in XState; -1 if the root itself is re-entered.
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

// getEffectiveTargetStates replaces history states by what they recorded, or else by their
// default.
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

// entrySet works out which states a transition enters (SCXML's computeEntrySet). The sets of the
// transitions of one microstep lie below their domains, which do not overlap, so each can be worked
// out alone.
type entrySet struct {
	chart *chart
	// history is what the history states recorded, domain that of the transition: it enters only
	// states below.
	history []record
	domain  int

	statesToEnter stateSet
	// statesForDefaultEntry are those of the entry set whose initial transition is taken.
	statesForDefaultEntry stateSet
	// defaultHistoryContent holds, by the index of a parent, the history state whose default is
	// taken.
	defaultHistoryContent map[int]int
	// usesHistory says that the set depends on what a history state recorded.
	usesHistory bool
}

func newEntrySet(chart *chart) *entrySet {
	return &entrySet{
		chart: chart, defaultHistoryContent: map[int]int{},
		statesToEnter: newStateSet(len(chart.nodes)), statesForDefaultEntry: newStateSet(len(chart.nodes)),
	}
}

// compute collects in statesToEnter what a transition enters.
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

// addStateToEnter adds a state. History states only stand for others; and what is not below
// the domain was not left: the source of an internal transition to itself, or the states
// between a history state's parent and the part of it that a transition from within leaves.
// SCXML and XState would run the entry actions of the latter without the exit actions.
func (e *entrySet) addStateToEnter(state int) {
	if !e.chart.nodes[state].isHistory() && e.chart.isDescendant(state, e.domain) {
		e.statesToEnter.add(state)
	}
}

// addDescendantStatesToEnter adds what entering a state entails below it: what a history
// state stands for, a compound state's default child, all regions of a parallel state.
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

// addAncestorStatesToEnter adds the proper ancestors of a state below the given one; of
// parallel ancestors, also the regions that nothing else enters. A state has none below itself.
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

// addMissingRegions adds the regions of a parallel state of which no descendant is in the
// entry set.
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
