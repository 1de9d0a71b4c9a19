package statechart

import "slices"

// selectEventlessTransitions sets x.enabled to SCXML's optimal set of enabled eventless transitions.
func (x *interpreter) selectEventlessTransitions() error {
	x.enabled = x.enabled[:0]
	if !x.chart.hasAlways {
		return nil
	}
	return x.selectWhere("")
}

// selectTransitions sets x.enabled to SCXML's optimal set of enabled transitions for the current event.
func (x *interpreter) selectTransitions() error {
	x.enabled = x.enabled[:0]
	if x.event.Type == "" {
		return nil
	}
	return x.selectWhere(x.event.Type)
}

// selectWhere selects a transition for each active atomic state in document order. It takes the first transition that
// matches the event type and whose guard holds. It searches the state first, then its ancestors from the inside out.
// The type "" selects eventless transitions.
func (x *interpreter) selectWhere(typ string) error {
	for _, leaf := range x.snapshot.configuration.leaves() {
		t, err := x.firstEnabled(int(leaf), typ)
		if err != nil {
			return err
		}
		if t != nil && (len(x.enabled) == 0 || !x.isEnabled(t)) {
			x.enabled = append(x.enabled, enabledTransition{t, x.getTransitionDomain(t)})
		}
	}
	if len(x.enabled) > 1 {
		x.removeConflictingTransitions()
	}
	return nil
}

// isEnabled reports whether selectWhere has already enabled the transition for another leaf below the same source.
func (x *interpreter) isEnabled(t *transition) bool {
	for k := range x.enabled {
		if x.enabled[k].transition == t {
			return true
		}
	}
	return false
}

func (x *interpreter) firstEnabled(state int, typ string) (*transition, error) {
	for i := state; i >= 0; i = x.chart.nodes[i].parent {
		transitions, compare := x.chart.nodes[i].candidates(typ)
		for _, t := range transitions {
			if compare && !matches(t.event, typ) {
				continue
			}
			if t.guard.test == nil {
				return t, nil
			}
			x.runs(guardCode, t.guard.Name, i)
			holds, err := t.guard.test(x)
			if err != nil {
				if err := x.executionError(x.fail(err)); err != nil {
					return nil, err
				}
				continue
			}
			if holds {
				return t, nil
			}
		}
	}
	return nil, nil
}

// removeConflictingTransitions resolves conflicts: if two enabled transitions would exit the same state, it keeps the
// transition with the deeper source, or else the one that comes first in document order.
func (x *interpreter) removeConflictingTransitions() {
	kept := x.enabled[:0]
	for _, t1 := range x.enabled {
		preempted := false
		for _, t2 := range kept {
			preempted = preempted || x.conflict(t1, t2) && !x.chart.isDescendant(t1.source, t2.source)
		}
		if preempted {
			continue
		}
		kept = slices.DeleteFunc(kept, func(t2 enabledTransition) bool { return x.conflict(t1, t2) })
		kept = append(kept, t1)
	}
	x.enabled = kept
}

// conflict reports whether the exit sets of two transitions intersect. An exit set consists of the active states below
// the domain. The sets intersect if the domains are equal or one contains the other, and a state below the inner domain
// is active.
func (x *interpreter) conflict(t1, t2 enabledTransition) bool {
	if len(t1.targets) == 0 || len(t2.targets) == 0 {
		return false
	}
	outer, inner := t1.domain, t2.domain
	if outer > inner {
		outer, inner = inner, outer
	}
	return (outer == inner || x.chart.isDescendant(inner, outer)) && x.lastActiveBelow(inner) >= 0
}

// lastActiveBelow returns the last leaf of the configuration below a state, or -1. Every state is below -1.
func (x *interpreter) lastActiveBelow(state int) int {
	last := len(x.chart.nodes) - 1
	if state >= 0 {
		last = x.chart.nodes[state].last
	}
	return x.snapshot.configuration.lastWithin(state+1, last)
}
