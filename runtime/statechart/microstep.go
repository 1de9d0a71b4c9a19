package statechart

// microstep leaves the exit set of the enabled transitions, runs their actions, and enters their entry set.
func (x *interpreter) microstep() error {
	if len(x.enabled) == 0 {
		return nil
	}
	x.moved = true
	if x.onMicrostep != nil {
		x.traceMicrostep()
	} else if p := x.enabled[0].program; p != nil && len(x.enabled) == 1 {
		err := x.runProgrammed(p.actions)
		x.snapshot.configuration.replace(p.from, p.to)
		return err
	} else if x.programmed() {
		return x.runPrograms()
	}
	if err := x.exitStates(); err != nil {
		return err
	}
	for k := range x.enabled {
		if err := x.run(x.enabled[k].actions, x.enabled[k].source); err != nil {
			return err
		}
	}
	if err := x.enterStates(); err != nil {
		return err
	}
	if x.onMicrostep != nil {
		x.endMicrostep()
	}
	return nil
}

// exitStates records history and leaves the exit set in reverse document order. The domains do not overlap, so
// exitStates handles them from last to first.
func (x *interpreter) exitStates() error {
	if len(x.chart.histories) > 0 {
		for k := range x.enabled {
			x.recordHistory(&x.enabled[k])
		}
	}
	for k := len(x.enabled) - 1; k >= 0; k-- {
		t := &x.enabled[k]
		if len(t.targets) == 0 {
			continue
		}
		for i := x.lastActiveBelow(t.domain); i >= 0; i = x.lastActiveBelow(t.domain) {
			if err := x.exitState(&x.chart.nodes[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *interpreter) exitState(n *node) error {
	if x.tracing != nil {
		x.tracing.Exited = append(x.tracing.Exited, n.path)
	}
	if err := x.run(n.def.Exit, n.index); err != nil {
		return err
	}
	if len(n.invokes)+len(n.def.Children) > 0 {
		x.cancelInvoke(n)
		if err := x.cancelChildren(n); err != nil {
			return err
		}
	}
	if len(n.timers) > 0 {
		x.cancelTimers(n)
	}
	x.snapshot.configuration.exit(n.index, n.parent)
	return nil
}

// recordHistory updates the records of history states in the exit set of a transition. Shallow history records the
// active children of its parent, deep history the active atomic descendants.
func (x *interpreter) recordHistory(t *enabledTransition) {
	if len(t.targets) == 0 {
		return
	}
	for ordinal, h := range x.chart.histories {
		parent := &x.chart.nodes[x.chart.nodes[h].parent]
		if !x.chart.isDescendant(parent.index, t.domain) || !x.isActive(parent.index) {
			continue
		}
		var recorded record
		for _, leaf := range x.snapshot.configuration.leaves() {
			i := int(leaf)
			if !x.chart.isDescendant(i, parent.index) {
				continue
			}
			if x.chart.nodes[h].def.Type == ShallowHistory {
				i = x.chart.childAbove(i, parent.index)
			}
			if len(recorded) == 0 || recorded[len(recorded)-1] != uint16(i) {
				recorded = append(recorded, uint16(i))
			}
		}
		x.ownHistory()[ordinal], x.altered = recorded, true
	}
}

// ownHistory returns a history that may be changed in place.
func (x *interpreter) ownHistory() []record {
	if !x.historyOwned {
		owned := make([]record, len(x.chart.histories))
		copy(owned, x.snapshot.history)
		x.writable().history, x.historyOwned = owned, true
	}
	return x.snapshot.history
}

func (x *interpreter) isActive(state int) bool {
	return x.chart.isActive(state, &x.snapshot.configuration)
}

// getTransitionDomain returns the domain of a transition. It uses the domain that plan has precomputed, if any.
func (x *interpreter) getTransitionDomain(t *transition) int {
	if t.planned {
		return t.domain
	}
	return x.chart.getTransitionDomain(t, x.snapshot.history)
}
