package statechart

import (
	"fmt"
	"slices"
	"strings"
)

// reset prepares the interpreter for a step. The Stepper has already copied the snapshot into x.snapshot.
func (x *interpreter) reset(onMicrostep func(Microstep)) {
	if x.snapshot.configuration.many != nil {
		x.snapshot.configuration = x.snapshot.configuration.clone()
	}
	x.changed, x.parked = false, 0
	x.ended, x.moved, x.historyOwned, x.resolved = false, false, false, false
	x.effects, x.position, x.microsteps = nil, 0, 0
	x.internalQueue, x.statesToInvoke = x.internalQueue[:0], x.statesToInvoke[:0]
	x.onMicrostep, x.tracing = onMicrostep, nil
}

// writable returns the snapshot for changes to fields other than the configuration and the step count.
func (x *interpreter) writable() *bareSnapshot {
	x.changed = true
	return &x.snapshot
}

func (x *interpreter) start() error {
	x.enabled = append(x.enabled[:0], enabledTransition{&x.chart.initial, -1})
	if err := x.microstep(); err != nil {
		return err
	}
	if err := x.complete(); err != nil {
		return err
	}
	if err := x.accepted(0); err != nil {
		return err
	}
	if err := x.stalled(); err != nil {
		return err
	}
	x.snapshot.Steps++
	return nil
}

// stepEvent applies the event. The result `handled` has the same meaning as Step.Handled.
func (x *interpreter) stepEvent() (handled bool, err error) {
	x.ownContext()
	var awaited, stale bool
	if x.event.Invocation != "" || x.event.Type == TimerEvent {
		awaited, stale, err = x.consume(x.event)
	}
	if err == nil && !stale {
		err = x.macrostep()
	}
	if err == nil {
		err = x.accepted(0)
	}
	if err == nil && len(x.snapshot.Deferred) > 0 {
		x.replay()
	}
	handled = x.moved || awaited
	if err == nil && handled {
		if err = x.stalled(); err == nil {
			x.snapshot.Steps++
		}
	}
	return handled, err
}

// stop ends the instance from outside.
func (x *interpreter) stop() error {
	x.ownContext()
	x.ended, x.writable().Status = true, Stopped
	if err := x.exitInterpreter(); err != nil {
		return err
	}
	x.completeAnswers()
	x.snapshot.Steps++
	return nil
}

// can reports whether the event would have an effect: see Chart.Can.
func (x *interpreter) can() (can bool, err error) {
	x.ownContext()
	if _, stale, err := x.consume(x.event); stale || err != nil {
		return false, err
	}
	if err := x.selectTransitions(); err != nil {
		return false, err
	}
	if x.chart.defers && x.defers(x.enabled) {
		err := x.keepEvent()
		return err == nil, err
	}
	for k := range x.enabled {
		can = can || len(x.enabled[k].targets) > 0 || len(x.enabled[k].actions) > 0
	}
	return can, nil
}

// retype gives the current event another type and payload.
func (x *interpreter) retype(typ string, payload any) {
	x.own = *x.event
	x.own.Type, x.own.Payload = typ, payload
	x.event = &x.own
}

// ownContext replaces the context by a copy that may be changed. It may panic.
func (x *interpreter) ownContext() {
	if x.chart.contexts.own != nil {
		x.runs(cloneCode, "", 0)
		x.chart.contexts.own(x.context)
	}
}

// consume removes the timer, invocation or child whose end the event reports. The result `awaited` is set if the
// snapshot waits for that end, and `stale` is set if it does not. Both are false for any other event. Both are set for
// an event of SendAfter that this version cannot decode: consume parks it. An error fails the step.
func (x *interpreter) consume(event *Event) (awaited, stale bool, err error) {
	switch {
	case event.Type == TimerEvent:
		k := slices.IndexFunc(x.snapshot.Timers, func(t Timer) bool { return t.ID == event.Timer })
		if k < 0 {
			return false, true, nil
		}
		timer := x.snapshot.Timers[k]
		x.writable().Timers = slices.Delete(slices.Clone(x.snapshot.Timers), k, k+1)
		if timer.Event != nil {
			sent, err := x.chart.sent(timer.Event)
			x.retype(sent.Type, sent.Payload)
			if x.own.raw = string(timer.Event); err != nil {
				x.park(Deferred{Event: timer.Event}, fmt.Errorf("chart %s: the delayed event %q cannot be decoded: %w", x.chart.id, sent.Type, err))
			}
			return true, err != nil, nil
		}
		x.retype(x.chart.nodes[timer.state].timers[timer.index].event, event.Payload)
		return true, false, nil
	case event.Invocation != "":
		k := slices.IndexFunc(x.snapshot.Services, func(i Invocation) bool { return i.Key == event.Invocation })
		if k < 0 {
			ended := x.removeChild(event.Invocation)
			return ended, !ended, nil
		}
		err = x.decodeResult(x.snapshot.Services[k])
		x.writable().Services = slices.Delete(slices.Clone(x.snapshot.Services), k, k+1)
		return true, false, err
	default:
		return false, false, nil
	}
}

// accepted asks the host whether it can perform the effects from the given index on.
func (x *interpreter) accepted(from int) error {
	x.completeAnswers()
	if x.accept == nil || len(x.effects) <= from {
		return nil
	}
	return x.accept(x.effects[from:])
}

// stalled returns an error if the configuration is unsettled and nothing can move it.
func (x *interpreter) stalled() error {
	if x.ended || x.chart.foreign || len(x.snapshot.Services) > 0 || x.chart.settled(&x.snapshot.configuration) {
		return nil
	}
	return fmt.Errorf("%w: chart %s would be in %s after event %q, which is not settled, with no service running and no always enabled",
		ErrStalled, x.chart.id, strings.Join(x.chart.state(&x.snapshot.configuration), ", "), x.event.Type)
}

// panicked returns the error of a panic in the chart's code.
func (x *interpreter) panicked(r any) *StepError {
	return x.fail(Panicked(r))
}

// otherChart returns the error for a snapshot of another chart.
func (c *chart) otherChart() error {
	return fmt.Errorf("%w: expected a snapshot made or restored by this compiled chart, %s, got one of another chart", ErrUnreadable, c.id)
}
