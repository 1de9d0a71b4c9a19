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
