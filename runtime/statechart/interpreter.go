package statechart

import (
	"errors"
	"fmt"
	"slices"
)

// interpreter runs one macrostep. Its functions have the names of SCXML, appendix D.
type interpreter struct {
	chart *chart
	// context is changed in place. The Stepper keeps the previous value.
	context erased
	// snapshot starts as a copy of the snapshot before the step, without the context. The Stepper writes it back if the
	// step succeeds. The configuration and the step count are changed directly. All other fields are changed through the
	// method writable. Slices and maps are replaced, never changed in place.
	snapshot bareSnapshot
	// changed is set if the method writable was called.
	changed bool
	// event is the current event. Entry actions and eventless transitions see the event that led to them.
	event *Event
	// `own` stores an event that the chart generated. The field event then points to it.
	own Event
	// ended is set once the snapshot is no longer active.
	ended bool
	// moved reports whether a transition was taken or the event was deferred. An eventless transition counts, even if
	// the event itself enabled nothing.
	moved bool
	// returned is set once the chart's code has returned without a panic.
	returned bool
	// historyOwned is set if the snapshot's history may be changed in place. `resolved` is set if an effect answers
	// waiting callers.
	historyOwned, resolved bool
	internalQueue          []Event
	effects                []Effect
	// parked counts the ParkEvent effects in effects.
	parked int
	// accept is Stepper.Accept.
	accept func([]Effect) error
	// fits calls Stepper.Fits. It is nil if Stepper.Fits is nil.
	fits interface{ fitsNow() error }
	// position numbers the IDs derived in this step.
	position int64
	// microsteps counts the microsteps of the current event.
	microsteps int
	// altered is set if the current microstep has run code that may change the context, has started or stopped a child or
	// a service, or has recorded history. leavesBefore holds the configuration before the microstep.
	altered      bool
	leavesBefore []uint16

	// enabled holds the transitions of the microstep, in document order of their domains, which do not overlap.
	enabled []enabledTransition
	// statesToInvoke holds the states whose services or children are still to be started, in ascending order. This
	// macrostep has entered these states and not left them again.
	statesToInvoke []int
	// computeEntrySet reuses the memory of entrySet and entry.
	entrySet *entrySet
	entry    []entering
	// running is the chart's code that currently runs, for errors.
	running code
	// onMicrostep, if set, receives every microstep. `tracing` is the current microstep.
	onMicrostep func(Microstep)
	tracing     *Microstep
}

// enabledTransition is a transition that a microstep takes.
type enabledTransition struct {
	*transition
	// domain is the transition's domain, computed when it was selected.
	domain int
}

// macrostep takes the transitions that the event enables, then eventless transitions and internal events until none is
// left (SCXML's mainEventLoop between two external events).
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
	} else if err := x.macrostepOf(leaf); err != nil { // A single transition has no conflicts.
		return err
	}
	if x.chart.hasAlways || x.ended || len(x.internalQueue)+len(x.statesToInvoke) > 0 {
		return x.complete()
	}
	return nil
}

// macrostepOf takes the transition that the event enables. Call it only if `leaf` is the only active leaf.
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

// complete finishes a macrostep after its first microstep, and starts the services of the states that were entered and
// not left again.
//
// After an eventless microstep that changed nothing, the next one would be the same. As in XState, no eventless
// transition is then selected until the next internal event. SCXML would repeat the microstep for ever.
func (x *interpreter) complete() error {
	unchanged := false
	for ; !x.ended; x.microsteps++ {
		if x.microsteps == MicrostepsMax {
			return fmt.Errorf("%w: chart %s took %d microsteps on event %q (MicrostepsMax); check its always and raise", ErrEndless, x.chart.id, x.microsteps, x.event.Type)
		}
		if unchanged {
			x.enabled = x.enabled[:0]
		} else if err := x.selectEventlessTransitions(); err != nil {
			return err
		}
		eventless := len(x.enabled) > 0
		if eventless {
			x.altered, x.leavesBefore = false, append(x.leavesBefore[:0], x.snapshot.configuration.leaves()...)
		} else {
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
		unchanged = eventless && !x.altered && slices.Equal(x.leavesBefore, x.snapshot.configuration.leaves())
	}
	if x.ended {
		return x.exitInterpreter()
	}
	for _, i := range x.statesToInvoke {
		x.invoke(&x.chart.nodes[i])
	}
	return x.invokeChildren()
}

// exitInterpreter runs the exit actions of a done or stopped chart, innermost first. It keeps the configuration, so
// that the snapshot shows where the chart ended.
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
			return failure // SCXML would drop this error with the rest of the queue.
		}
	}
	x.dropTimers(func(Timer) bool { return true })
	ended := x.writable()
	ended.Timers, ended.Services = nil, nil
	return x.stopChildren(func(ChildRef) bool { return true })
}

// failure returns the error that an ExecutionError event reports. If no transition takes the event, SCXML drops the
// error. Here the error fails the step, unless the chart is foreign.
func (x *interpreter) failure(event Event) (*StepError, bool) {
	failure, ok := event.Payload.(StepError)
	return &failure, ok && event.Type == ExecutionError && !x.chart.foreign
}

// executionError raises ExecutionError for a failure of the chart's code. It returns the failure instead if a limit was
// exceeded, or if no transition handles ExecutionError and the chart is not foreign.
func (x *interpreter) executionError(failure *StepError) error {
	if !x.chart.handlesErrors && !x.chart.foreign || errors.Is(failure, ErrLimit) {
		return failure
	}
	x.raise(Event{Type: ExecutionError, Payload: *failure})
	return nil
}

func (x *interpreter) raise(event Event) {
	event.At = x.event.At
	x.internalQueue = append(x.internalQueue, event)
}

// run runs actions in order and stops at the first error.
func (x *interpreter) run(actions []Action[erased], state int) error {
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
