package statechart

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Start says what a new instance begins with.
type Start struct {
	// Instance is the name of the instance: "signup/42".
	Instance string
	At       time.Time
}

// Step is the result of a macrostep.
type Step[C any] struct {
	// Next is the snapshot after the macrostep.
	Next Snapshot[C]
	// Effects are what the macrostep asks of the outside, in order.
	// Effects must be performed only after Next is stored.
	Effects []Effect
	// Handled reports whether the event meant anything: false if it enabled no transition, not
	// even an eventless one, if the instance is done, or if a timer or a service's end is stale.
	// Next then equals the snapshot that was stepped.
	Handled bool
}

// Start enters the initial configuration of a new instance.
func (c *Chart[C]) Start(start Start) (Step[C], error) {
	snapshot, effects, err := c.Stepper().Start(start)
	return Step[C]{Next: snapshot, Effects: effects, Handled: err == nil}, err
}

// Step takes one macrostep: it applies the event and goes on until no eventless transition is
// enabled and no internal event is left. The snapshot that is stepped stays as it is. On an
// error nothing has happened, and Next is that snapshot: see StepError, ErrEndless, ErrStalled
// and ErrLimit.
//
// The caller must not step an unsettled snapshot with an event from outside; the ends of its
// services and its timers are what it waits for.
func (c *Chart[C]) Step(snapshot Snapshot[C], event Event) (Step[C], error) {
	effects, handled, err := c.Stepper().Step(&snapshot, event)
	return Step[C]{Next: snapshot, Effects: effects, Handled: handled}, err
}

// Stop ends an instance from outside, as SCXML's exitInterpreter does when an invocation is
// cancelled: exit actions run, the innermost first, timers and services end, and nothing follows.
// Next keeps the configuration and has the status Stopped. An instance that is not active stays as
// it is; on an error nothing has happened.
func (c *Chart[C]) Stop(snapshot Snapshot[C], at time.Time) (Step[C], error) {
	effects, handled, err := c.Stepper().Stop(&snapshot, at)
	return Step[C]{Next: snapshot, Effects: effects, Handled: handled}, err
}

// Stepper steps the snapshots of a chart with memory that it keeps from step to step: steps that
// start no timer and no service, ask for no effect and record no history allocate nothing. What it
// returns shares nothing with that memory. A Stepper is for one goroutine at a time.
type Stepper[C any] struct {
	// OnMicrostep, if set, is told of every microstep as it is over, those included that a later
	// error undoes.
	OnMicrostep func(Microstep)

	x interpreter[C]
}

// Stepper returns a stepper of the chart.
func (c *Chart[C]) Stepper() *Stepper[C] { return &Stepper[C]{x: interpreter[C]{chart: c}} }

// Start is Chart.Start.
func (s *Stepper[C]) Start(start Start) (snapshot Snapshot[C], effects []Effect, err error) {
	x := &s.x
	defer x.recovered(&effects, nil, &err)
	x.begin(&Snapshot[C]{chart: x.chart}, Event{At: start.At}, s.OnMicrostep)
	if x.chart.context != nil {
		x.running = code[C]{what: "context"}
		x.context = x.chart.context(start)
	}
	x.enabled = append(x.enabled[:0], enabledTransition[C]{&x.chart.initial, -1})
	if err := x.microstep(); err != nil {
		return Snapshot[C]{}, nil, err
	}
	if err := x.complete(); err != nil {
		return Snapshot[C]{}, nil, err
	}
	return snapshot, x.effects, x.end(&snapshot)
}

// Step is Chart.Step, except that it changes the snapshot in place. Copies of the snapshot made
// before keep what they had; on an error the snapshot does too.
// Effects must be performed only after the snapshot is stored.
func (s *Stepper[C]) Step(snapshot *Snapshot[C], event Event) (effects []Effect, handled bool, err error) {
	x := &s.x
	if snapshot.chart != x.chart {
		return nil, false, fmt.Errorf("%w: expected one that this chart, %s, has made or restored, got another's", ErrUnreadable, x.chart.id)
	}
	if snapshot.Status != Active {
		return nil, false, nil
	}
	defer x.recovered(&effects, &handled, &err)
	x.begin(snapshot, event, s.OnMicrostep)
	awaited, stale, err := x.take(event)
	if stale || err != nil {
		return nil, false, err
	}
	if err := x.macrostep(); err != nil {
		return nil, false, err
	}
	if !x.moved && !awaited {
		return nil, false, nil
	}
	if err := x.end(snapshot); err != nil {
		return nil, false, err
	}
	return x.effects, true, nil
}

// Stop is Chart.Stop, except that it changes the snapshot in place, as Step does.
func (s *Stepper[C]) Stop(snapshot *Snapshot[C], at time.Time) (effects []Effect, stopped bool, err error) {
	if snapshot.Status != Active {
		return nil, false, nil
	}
	x := &s.x
	defer x.recovered(&effects, &stopped, &err)
	x.begin(snapshot, Event{At: at}, s.OnMicrostep)
	x.status = Stopped
	if err := x.exitInterpreter(); err != nil {
		return nil, false, err
	}
	if err := x.end(snapshot); err != nil {
		return nil, false, err
	}
	return x.effects, true, nil
}

// begin takes over a snapshot. Nothing of it is changed: what the interpreter changes in place, it
// has copied. Cloning the context may panic.
func (x *interpreter[C]) begin(snapshot *Snapshot[C], event Event, onMicrostep func(Microstep)) {
	x.event, x.status, x.output, x.moved = event, Active, nil, false
	x.configuration = snapshot.configuration.clone()
	x.history, x.historyOwned = snapshot.history, false
	x.timers, x.services = slices.Clip(snapshot.Timers), slices.Clip(snapshot.Services)
	x.effects, x.step, x.position = nil, snapshot.Steps+1, 0
	x.internalQueue, x.statesToInvoke = x.internalQueue[:0], x.statesToInvoke[:0]
	x.onMicrostep, x.tracing = onMicrostep, nil
	x.running = code[C]{what: "cloning the context"}
	x.context = x.chart.CloneContext(snapshot.Context)
}

// take removes from the snapshot the timer or the invocation whose end the event is, and
// reports whether there was one to wait for and whether it is stale.
func (x *interpreter[C]) take(event Event) (awaited, stale bool, err error) {
	switch {
	case event.Type == TimerEvent:
		k := slices.IndexFunc(x.timers, func(t Timer) bool { return t.ID == event.Timer })
		if k < 0 {
			return false, true, nil
		}
		timer := x.timers[k]
		x.timers = slices.Delete(slices.Clone(x.timers), k, k+1)
		if timer.Event != nil {
			sent, err := x.chart.sent(timer.Event)
			x.event.Type, x.event.Payload = sent.Type, sent.Payload
			return true, false, err
		}
		x.event.Type = x.chart.nodes[timer.state].timers[timer.index].event
		return true, false, nil
	case event.Invocation != "":
		k := slices.IndexFunc(x.services, func(i Invocation) bool { return i.Key == event.Invocation })
		if k < 0 {
			return false, true, nil
		}
		x.services = slices.Delete(slices.Clone(x.services), k, k+1)
		return true, false, nil
	default:
		return false, false, nil
	}
}

// end writes the snapshot of an interpreter that has come to rest, unless that would be stalled.
func (x *interpreter[C]) end(snapshot *Snapshot[C]) error {
	next := Snapshot[C]{
		Context: x.context, Status: x.status, Output: json.RawMessage(x.output),
		Timers: x.timers, Services: x.services, Steps: x.step,
		chart: x.chart, configuration: x.configuration, history: x.history,
	}
	if !next.Settled() && len(next.Services) == 0 && !x.chart.foreign {
		return fmt.Errorf("%w: chart %s would be in %s after event %q, which is not settled, with no service running and no always enabled",
			ErrStalled, x.chart.id, strings.Join(next.State(), ", "), x.event.Type)
	}
	if len(x.effects) > 0 {
		x.effects = slices.DeleteFunc(x.effects, func(e Effect) bool {
			return e.Kind == Schedule && !slices.ContainsFunc(x.timers, func(t Timer) bool { return t.ID == e.Timer })
		})
	}
	*snapshot = next
	return nil
}

// recovered turns a panic of the chart's code into an error, and returns nothing else.
func (x *interpreter[C]) recovered(effects *[]Effect, handled *bool, err *error) {
	if r := recover(); r != nil {
		*effects = nil
		if handled != nil {
			*handled = false
		}
		failure := x.fail(fmt.Errorf("panic: %v", r))
		failure.Stack = debug.Stack()
		*err = failure
	}
}
