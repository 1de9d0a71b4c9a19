package statechart

import (
	"encoding/json"
	"fmt"
)

// enterStates enters the entry set in document order.
func (x *interpreter[C]) enterStates(enabled []*transition[C]) error {
	x.computeEntrySet(enabled)
	for i := x.statesToEnter.next(0); i >= 0; i = x.statesToEnter.next(i + 1) {
		n := &x.chart.nodes[i]
		x.configuration.add(i)
		x.statesToInvoke.add(i)
		if err := x.run(n.def.Entry, i); err != nil {
			return err
		}
		if err := x.runDefaultEntry(n); err != nil {
			return err
		}
		if err := x.startTimers(n); err != nil {
			return err
		}
		if n.kind == final {
			if err := x.enterFinal(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// runDefaultEntry runs the actions of the initial transition of a state and of the default
// transition of its history state, if these were what led below it.
func (x *interpreter[C]) runDefaultEntry(n *node[C]) error {
	if x.statesForDefaultEntry.has(n.index) {
		if err := x.run(n.def.DefaultEntry, n.index); err != nil {
			return err
		}
	}
	if h, ok := x.defaultHistoryContent[n.index]; ok {
		return x.run(x.chart.nodes[h].def.DefaultEntry, h)
	}
	return nil
}

// enterFinal raises the done events that a final state brings about, or ends the chart.
func (x *interpreter[C]) enterFinal(n *node[C]) error {
	output, err := x.finalOutput(n)
	if err != nil {
		return err
	}
	parent := &x.chart.nodes[n.parent]
	if parent.index == 0 && parent.kind == compound {
		return x.done(output)
	}
	completed := n.parent
	if parent.kind == compound {
		x.raise(Event{Type: doneStatePrefix + parent.path, Payload: output})
		completed = parent.parent
	}
	for completed >= 0 && x.chart.nodes[completed].kind == parallel && x.chart.isInFinalState(completed, x.configuration) {
		if completed == 0 {
			return x.done(nil)
		}
		x.raise(Event{Type: doneStatePrefix + x.chart.nodes[completed].path})
		completed = x.chart.nodes[completed].parent
	}
	return nil
}

func (x *interpreter[C]) finalOutput(n *node[C]) (json.RawMessage, error) {
	if n.def.Output == nil {
		return nil, nil
	}
	x.running = code{"output", "", n.path}
	output, err := json.Marshal(n.def.Output(x.context, x.event))
	if err != nil {
		return nil, x.executionError(x.fail(err))
	}
	return output, nil
}

// done ends the chart with the given output, unless the chart makes its own.
func (x *interpreter[C]) done(output json.RawMessage) error {
	if x.chart.output != nil {
		x.running = code{"output", "", ""}
		made, err := json.Marshal(x.chart.output(x.context, x.event))
		if err != nil {
			return x.fail(fmt.Errorf("encoding the chart's output: %w", err))
		}
		output = made
	}
	x.status, x.output = Done, output
	return nil
}

// isInFinalState reports whether a compound state's active child is final, or whether all
// regions of a parallel state are in a final state.
func (c *Chart[C]) isInFinalState(state int, configuration stateSet) bool {
	n := &c.nodes[state]
	switch n.kind {
	case compound:
		for _, child := range n.children {
			if c.nodes[child].kind == final && configuration.has(child) {
				return true
			}
		}
		return false
	case parallel:
		for _, child := range n.children {
			if c.nodes[child].kind != history && !c.isInFinalState(child, configuration) {
				return false
			}
		}
		return true
	case final:
		return configuration.has(state)
	default:
		return false
	}
}

// computeEntrySet collects in statesToEnter the states that the transitions enter.
func (x *interpreter[C]) computeEntrySet(enabled []*transition[C]) {
	x.statesToEnter.clear()
	x.statesForDefaultEntry.clear()
	clear(x.defaultHistoryContent)
	for k, t := range enabled {
		if len(t.targets) == 0 {
			continue
		}
		x.domain = x.domains[k]
		for _, target := range t.targets {
			x.addStateToEnter(target)
			x.addDescendantStatesToEnter(target)
		}
		for _, target := range x.getEffectiveTargetStates(t.targets, nil) {
			x.addAncestorStatesToEnter(target, x.domain)
		}
		if x.domain >= 0 && x.chart.nodes[x.domain].kind == parallel {
			x.addMissingRegions(x.domain)
		}
	}
}

// addStateToEnter adds a state. History states only stand for others; and what is not below
// the domain was not left: the source of an internal transition to itself, or the states
// between a history state's parent and the part of it that a transition from within leaves.
// SCXML and XState would run the entry actions of the latter without the exit actions.
func (x *interpreter[C]) addStateToEnter(state int) {
	if x.chart.nodes[state].kind != history && x.chart.isDescendant(state, x.domain) {
		x.statesToEnter.add(state)
	}
}

// addDescendantStatesToEnter adds what entering a state entails below it: what a history
// state stands for, a compound state's default child, all regions of a parallel state.
func (x *interpreter[C]) addDescendantStatesToEnter(state int) {
	n := &x.chart.nodes[state]
	switch n.kind {
	case history:
		x.noteDefaultHistory(n)
		targets := x.getEffectiveTargetStates([]int{state}, nil)
		for _, target := range targets {
			x.addStateToEnter(target)
			x.addDescendantStatesToEnter(target)
		}
		for _, target := range targets {
			x.addAncestorStatesToEnter(target, n.parent)
		}
	case compound:
		x.statesForDefaultEntry.add(state)
		for _, target := range n.initial {
			x.addStateToEnter(target)
			x.addDescendantStatesToEnter(target)
		}
		for _, target := range n.initial {
			x.addAncestorStatesToEnter(target, state)
		}
	case parallel:
		x.addMissingRegions(state)
	}
}

// noteDefaultHistory notes that the default of a history state is taken, unless it recorded
// something.
func (x *interpreter[C]) noteDefaultHistory(n *node[C]) {
	if _, recorded := x.history[n.index]; recorded || len(n.def.DefaultEntry) == 0 {
		return
	}
	if x.defaultHistoryContent == nil {
		x.defaultHistoryContent = map[int]int{}
	}
	x.defaultHistoryContent[n.parent] = n.index
}

// addAncestorStatesToEnter adds the proper ancestors of a state below the given one; of
// parallel ancestors, also the regions that nothing else enters. A state has none below itself.
func (x *interpreter[C]) addAncestorStatesToEnter(state, below int) {
	if state == below {
		return
	}
	for i := x.chart.nodes[state].parent; i >= 0 && i != below; i = x.chart.nodes[i].parent {
		x.addStateToEnter(i)
		if x.chart.nodes[i].kind == parallel {
			x.addMissingRegions(i)
		}
	}
}

// addMissingRegions adds the regions of a parallel state of which no descendant is in the
// entry set.
func (x *interpreter[C]) addMissingRegions(state int) {
	for _, child := range x.chart.nodes[state].children {
		n := &x.chart.nodes[child]
		if n.kind == history || x.statesToEnter.anyIn(child+1, n.last) {
			continue
		}
		x.addStateToEnter(child)
		x.addDescendantStatesToEnter(child)
	}
}
