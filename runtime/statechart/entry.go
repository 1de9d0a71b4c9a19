package statechart

import (
	"encoding/json"
	"fmt"
)

// enterStates enters the entry set in document order.
func (x *interpreter) enterStates() error {
	for k := range x.enabled {
		t := &x.enabled[k]
		entry := t.entry
		if !t.planned {
			entry = x.computeEntrySet(t)
		}
		for _, e := range entry {
			if err := x.enterState(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// computeEntrySet returns the states that a transition enters. Call it only for a transition whose entry set plan has
// not precomputed.
func (x *interpreter) computeEntrySet(t *enabledTransition) []entering {
	if x.entrySet == nil {
		x.entrySet = newEntrySet(x.chart)
	}
	x.entrySet.compute(t.targets, t.domain, x.snapshot.history)
	x.entry = x.entrySet.appendTo(x.entry[:0])
	return x.entry
}

func (x *interpreter) enterState(e entering) error {
	n := &x.chart.nodes[e.state]
	x.snapshot.configuration.enter(n.index, n.parent)
	if x.tracing != nil {
		x.tracing.Entered = append(x.tracing.Entered, n.path)
	}
	if len(n.invokes)+len(n.def.Children) > 0 {
		x.altered = true
		x.willInvoke(n)
	}
	if err := x.run(n.entry, n.index); err != nil {
		return err
	}
	if e.byDefault {
		if err := x.run(n.def.DefaultEntry, n.index); err != nil {
			return err
		}
	}
	if e.history > 0 {
		if err := x.run(x.chart.nodes[e.history].def.DefaultEntry, int(e.history)); err != nil {
			return err
		}
	}
	if len(n.timers) > 0 {
		if err := x.startTimers(n); err != nil {
			return err
		}
	}
	if n.kind == final {
		return x.enterFinal(n)
	}
	return nil
}

// enterFinal raises the done events of a final state, or ends the chart.
func (x *interpreter) enterFinal(n *node) error {
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
		x.raise(Event{Type: parent.doneEvent, Payload: output})
		completed = parent.parent
	}
	for completed >= 0 && x.chart.nodes[completed].kind == parallel && x.chart.isInFinalState(completed, &x.snapshot.configuration) {
		if completed == 0 {
			return x.done(nil)
		}
		x.raise(Event{Type: x.chart.nodes[completed].doneEvent})
		completed = x.chart.nodes[completed].parent
	}
	return nil
}

func (x *interpreter) finalOutput(n *node) (json.RawMessage, error) {
	if n.def.Output == nil {
		return nil, nil
	}
	x.runs(outputCode, "", n.index)
	output, err := json.Marshal(n.def.Output(x.context, *x.event))
	if err != nil {
		return nil, x.executionError(x.fail(err))
	}
	return output, nil
}

// done ends the chart. `output` becomes the chart's output, unless the definition sets Output.
func (x *interpreter) done(output json.RawMessage) error {
	if x.chart.output != nil {
		x.runs(outputCode, "", 0)
		made, err := json.Marshal(x.chart.output(x.context, *x.event))
		if err != nil {
			return x.fail(fmt.Errorf("encoding the chart's output: %w", err))
		}
		output = made
	}
	ended := x.writable()
	ended.Status, ended.Output, x.ended = Done, output, true
	return nil
}

// isInFinalState reports whether the active child of a compound state is final, or whether all regions of a parallel
// state are in a final state.
func (c *chart) isInFinalState(state int, configuration *configuration) bool {
	n := &c.nodes[state]
	switch n.kind {
	case compound:
		leaf := configuration.lastWithin(state+1, n.last)
		return leaf >= 0 && c.nodes[leaf].kind == final && c.nodes[leaf].parent == state
	case parallel:
		for _, child := range n.children {
			if c.nodes[child].kind != history && !c.isInFinalState(child, configuration) {
				return false
			}
		}
		return true
	case final:
		return c.isActive(state, configuration)
	default:
		return false
	}
}
