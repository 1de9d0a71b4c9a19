package statechart

import (
	"errors"
	"fmt"
	"slices"
)

// interpreter runs one macrostep. Its functions are those of SCXML, appendix D, under their
// names.
type interpreter struct {
	chart *chart
	// context is changed in place. The Stepper keeps what it was.
	context held
	// snapshot is a copy of all the rest, which the Stepper takes back if the step succeeds. The configuration and the
	// count of steps are changed directly, the rest through writable. What it refers to is never changed, but replaced.
	snapshot bareSnapshot
	// changed says that writable was called.
	changed bool
	// event is the event being handled; entry actions and eventless transitions see the one
	// that led to them.
	event *Event
	// own is the memory of an event that the chart made itself.
	own Event
	// ended says that the snapshot is not active any more.
	ended bool
	// moved reports whether a transition was taken, be it an eventless one whose guard looked
	// at an event that enables nothing itself, or the event was deferred.
	moved bool
	// returned says that the chart's code has returned, so that there is no panic.
	returned bool
	// historyOwned says that the snapshot's history can be changed, resolved that an effect answers
	// those who wait.
	historyOwned, resolved bool
	internalQueue          []Event
	effects                []Effect
	// parked counts the effects of the kind ParkEvent among them.
	parked int
	// accept is Stepper.Accept.
	accept func([]Effect) error
	// fits asks Stepper.Fits, nil if that is not set.
	fits interface{ fitsNow() error }
	// position numbers the IDs that this step derives.
	position int64
	// microsteps counts those of the event that is taken, be it one that was deferred.
	microsteps int

	// enabled are the transitions of the microstep, in the document order of their domains, which
	// do not overlap.
	enabled []enabledTransition
	// statesToInvoke are the states with services or children that were entered in this macrostep
	// and not left again, ascending.
	statesToInvoke []int
	// entrySet and entry are for transitions whose entry set depends on history.
	entrySet *entrySet
	entry    []entering
	// running is the user code that runs, for errors.
	running code
	// onMicrostep is told of every microstep, if it is set; tracing is the one under way.
	onMicrostep func(Microstep)
	tracing     *Microstep
}

// enabledTransition is a transition that a microstep takes.
type enabledTransition struct {
	*transition
	// domain is the state within which it acts, as history stood when it was selected.
	domain int
}

// macrostep takes the transitions that the event enables, then eventless transitions and
// internal events until none is left (SCXML's mainEventLoop between two external events).
func (x *interpreter) macrostep() error {
	leaf := x.snapshot.configuration.only()
	if leaf < 0 || x.onMicrostep != nil || x.chart.defers || x.event.Type == "" {
		if err := x.selectTransitions(); err != nil {
			return err
		}
		if x.chart.defers && x.defers(x.enabled) {
			return x.deferEvent()
		}
		if err := x.microstep(); err != nil {
			return err
		}
	} else if err := x.macrostepOf(leaf); err != nil { // Nothing conflicts with the one transition.
		return err
	}
	if x.chart.hasAlways || x.ended || len(x.internalQueue)+len(x.statesToInvoke) > 0 {
		return x.complete()
	}
	return nil
}

// macrostepOf takes the transition that the event enables where only one leaf is active.
func (x *interpreter) macrostepOf(leaf int) error {
	t, err := x.firstEnabled(leaf, x.event.Type)
	if t == nil || err != nil {
		return err
	}
	if p := t.program; p != nil {
		x.moved = true
		err := x.runProgrammed(p.actions)
		x.snapshot.configuration.few[0] = p.to
		return err
	}
	x.enabled = append(x.enabled[:0], enabledTransition{t, x.getTransitionDomain(t)})
	return x.microstep()
}

// complete runs what follows a microstep within its macrostep, and starts the services of the
// states that were entered and not left again.
func (x *interpreter) complete() error {
	for ; !x.ended; x.microsteps++ {
		if x.microsteps == MicrostepsMax {
			return fmt.Errorf("%w: chart %s took %d microsteps on event %q (MicrostepsMax); check its always and raise", ErrEndless, x.chart.id, x.microsteps, x.event.Type)
		}
		if err := x.selectEventlessTransitions(); err != nil {
			return err
		}
		if len(x.enabled) == 0 {
			if len(x.internalQueue) == 0 {
				break
			}
			x.own = x.internalQueue[0]
			x.event = &x.own
			x.internalQueue = slices.Delete(x.internalQueue, 0, 1)
			if err := x.selectTransitions(); err != nil {
				return err
			}
			if failure, ok := x.failure(*x.event); ok && len(x.enabled) == 0 {
				return failure
			}
		}
		if err := x.microstep(); err != nil {
			return err
		}
	}
	if x.ended {
		return x.exitInterpreter()
	}
	for _, i := range x.statesToInvoke {
		x.invoke(&x.chart.nodes[i])
	}
	return x.invokeChildren()
}

// exitInterpreter runs the exit actions of a chart that is done or stopped, innermost first. The
// configuration stays, so that the snapshot shows where the chart ended.
func (x *interpreter) exitInterpreter() error {
	active := x.chart.active(&x.snapshot.configuration)
	if x.onMicrostep != nil {
		x.tracing = &Microstep{Event: x.event.Type}
	}
	for _, i := range slices.Backward(active) {
		if err := x.run(x.chart.nodes[i].def.Exit, i); err != nil {
			return err
		}
	}
	if x.tracing != nil && len(x.tracing.Actions) > 0 {
		x.endMicrostep()
	}
	for _, event := range x.internalQueue {
		if failure, ok := x.failure(event); ok {
			return failure // SCXML would drop it, with all that is left in the queue.
		}
	}
	x.dropTimers(func(Timer) bool { return true })
	ended := x.writable()
	ended.Timers, ended.Services = nil, nil
	return x.stopChildren(func(ChildRef) bool { return true })
}

// failure returns what failed, if that is what the event tells and it must not be lost, as it
// may be in SCXML.
func (x *interpreter) failure(event Event) (*StepError, bool) {
	failure, ok := event.Payload.(StepError)
	return &failure, ok && event.Type == ExecutionError && !x.chart.foreign
}

// executionError raises the event by which a chart handles what failed in its code. The error is
// returned if the chart has no transition for the event.
func (x *interpreter) executionError(failure *StepError) error {
	if !x.chart.handlesErrors && !x.chart.foreign || errors.Is(failure, ErrLimit) {
		return failure
	}
	x.raise(Event{Type: ExecutionError, Payload: *failure})
	return nil
}

// selectEventlessTransitions makes enabled the optimal enabled set of eventless transitions.
func (x *interpreter) selectEventlessTransitions() error {
	x.enabled = x.enabled[:0]
	if !x.chart.hasAlways {
		return nil
	}
	return x.selectWhere("")
}

// selectTransitions makes enabled the optimal enabled set of transitions for the current event.
func (x *interpreter) selectTransitions() error {
	x.enabled = x.enabled[:0]
	if x.event.Type == "" {
		return nil
	}
	return x.selectWhere(x.event.Type)
}

// selectWhere finds, for each active atomic state in document order, the first transition in
// it or in its nearest ancestor whose descriptor matches the event type, "" for none, and whose
// guard holds.
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

// isEnabled reports whether a transition is enabled already, by a leaf below the same source.
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

// removeConflictingTransitions keeps, of transitions that would leave a common state, the one
// whose source is deeper, else the first in document order.
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

// conflict reports whether the exit sets of two transitions intersect. An exit set is what is
// active below a domain, so it does if one domain is the other's ancestor and something is active
// below the inner one.
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

// lastActiveBelow returns the last leaf of the configuration below a state, -1 if there is none.
// Every state is below -1.
func (x *interpreter) lastActiveBelow(state int) int {
	last := len(x.chart.nodes) - 1
	if state >= 0 {
		last = x.chart.nodes[state].last
	}
	return x.snapshot.configuration.lastWithin(state+1, last)
}

// microstep leaves the states that the enabled transitions leave, runs their actions, and enters
// the states that they enter.
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

// exitStates leaves the exit set, in reverse document order, after recording the history that lies
// in it. The domains do not overlap, so what lies in the last one comes first.
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

// recordHistory records what the history states in the exit set of a transition stand for from
// now on: the active children of their parent or, deep, the active atomic states below it.
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
		x.ownHistory()[ordinal] = recorded
	}
}

// ownHistory returns the history so that it can be changed.
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

// getTransitionDomain returns the state within which a transition acts. It is known ahead unless
// history decides.
func (x *interpreter) getTransitionDomain(t *transition) int {
	if t.planned {
		return t.domain
	}
	return x.chart.getTransitionDomain(t, x.snapshot.history)
}

// raise puts an event at the end of the internal queue.
func (x *interpreter) raise(event Event) {
	event.At = x.event.At
	x.internalQueue = append(x.internalQueue, event)
}

// run runs actions in order, up to one that fails.
func (x *interpreter) run(actions []Action[held], state int) error {
	if len(actions) == 0 {
		return nil
	}
	x.running.kind, x.running.state, x.running.actions = actionCode, state, actions
	for i := range actions {
		a := &actions[i]
		x.running.at = i
		if x.tracing != nil {
			x.tracing.Actions = append(x.tracing.Actions, a.Name)
		}
		if err := a.perform(x); err != nil {
			return x.executionError(x.fail(err))
		}
	}
	return nil
}
