package statechart

import (
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
	// Input is a value of the type that Definition.Input declares, nil if it declares none; see
	// Chart.DecodeInput. The chart's Context makes of it what the instance keeps.
	Input any
}

// Step is the result of a macrostep.
type Step[C any] struct {
	// Next is the snapshot after the macrostep.
	Next Snapshot[C]
	// Effects are what the macrostep asks of the outside, in order.
	// Effects must be performed only after Next is stored.
	Effects []Effect
	// Handled reports whether the event meant anything: false if it enabled no transition, not
	// even an eventless one, was not deferred and released no deferred event, if the instance is done, or if a timer or the
	// end of a service or of a child is stale. Next then equals the snapshot that was stepped.
	Handled bool
}

// Start enters the initial configuration of a new instance. The error wraps ErrPayload if the
// input is not of the declared type.
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
	effects, handled, err := c.Stepper().Step(&snapshot, &event)
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
	// Accept, if set, is asked whether the host can perform the effects of a macrostep. Its error
	// fails the step or, if a deferred event has asked for them, that event.
	Accept func([]Effect) error
	// Fits, if set, is asked whether the host can store the snapshot that a deferred event has led to.
	// Its error fails that event, not the step: the event that comes with the step is not to blame.
	Fits func(Snapshot[C]) error

	x interpreter[C]
}

// Stepper returns a stepper of the chart.
func (c *Chart[C]) Stepper() *Stepper[C] { return &Stepper[C]{x: interpreter[C]{chart: c}} }

// Start is Chart.Start.
func (s *Stepper[C]) Start(start Start) (snapshot Snapshot[C], effects []Effect, err error) {
	x := &s.x
	if err := x.chart.checkInput(start.Input); err != nil {
		return Snapshot[C]{}, nil, err
	}
	var started Snapshot[C]
	started.chart, started.Status = x.chart, Active
	x.own = Event{At: start.At}
	x.adopt(&started, &x.own)
	x.accept, x.fits = s.Accept, s.Fits
	x.begin(s.OnMicrostep)
	defer x.recovered(&err)
	if x.chart.context != nil {
		x.runs(contextCode, "", 0)
		started.Context = x.chart.context(start)
	}
	x.enabled = append(x.enabled[:0], enabledTransition[C]{&x.chart.initial, -1})
	if err := x.microstep(); err != nil {
		return Snapshot[C]{}, nil, err
	}
	if err := x.complete(); err != nil {
		return Snapshot[C]{}, nil, err
	}
	if err := x.accepted(0); err != nil {
		return Snapshot[C]{}, nil, err
	}
	if err := x.stalled(); err != nil {
		return Snapshot[C]{}, nil, err
	}
	started.Steps++
	return started, x.effects, nil
}

// Step is Chart.Step, except that it changes the snapshot in place. Copies of the snapshot made
// before keep what they had; on an error the snapshot does too. The event is only read, and not
// kept.
// Effects must be performed only after the snapshot is stored.
func (s *Stepper[C]) Step(snapshot *Snapshot[C], event *Event) (effects []Effect, handled bool, err error) {
	x := &s.x
	if snapshot.chart != x.chart {
		return nil, false, x.chart.anothers()
	}
	if snapshot.Status != Active {
		return nil, false, nil
	}
	x.adopt(snapshot, event)
	x.accept, x.fits = s.Accept, s.Fits
	defer x.recovered(&err)
	if s.OnMicrostep == nil && x.chart.cloneContext == nil && event.Invocation == "" && len(snapshot.Deferred) == 0 && x.stepWhole() {
		x.returned = true
		return nil, true, nil
	}
	x.begin(s.OnMicrostep)
	return x.stepEvent()
}

// stepEvent takes the event that has begun.
func (x *interpreter[C]) stepEvent() (effects []Effect, handled bool, err error) {
	if x.chart.cloneContext != nil {
		x.ownContext()
	}
	var awaited, stale bool
	if x.event.Invocation != "" || x.event.Type == TimerEvent {
		awaited, stale, err = x.take(x.event)
	}
	if err == nil && !stale {
		err = x.macrostep()
	}
	if err == nil {
		err = x.accepted(0)
	}
	if err == nil && len(x.snapshot.Deferred) > 0 {
		err = x.replay()
	}
	handled = x.moved || awaited
	if err == nil && handled {
		if err = x.stalled(); err == nil {
			x.snapshot.Steps++
		}
	}
	x.returned = true
	if err != nil || !handled {
		x.undo()
		return nil, false, err
	}
	return x.effects, true, nil
}

// Stop is Chart.Stop, except that it changes the snapshot in place, as Step does.
func (s *Stepper[C]) Stop(snapshot *Snapshot[C], at time.Time) (effects []Effect, stopped bool, err error) {
	x := &s.x
	if snapshot.chart != x.chart {
		return nil, false, x.chart.anothers()
	}
	if snapshot.Status != Active {
		return nil, false, nil
	}
	x.own = Event{At: at}
	x.adopt(snapshot, &x.own)
	x.accept, x.fits = s.Accept, s.Fits
	x.begin(s.OnMicrostep)
	defer x.recovered(&err)
	x.ownContext()
	x.ended, x.writable().Status = true, Stopped
	if err := x.exitInterpreter(); err != nil {
		x.undo()
		return nil, false, err
	}
	x.tellState()
	snapshot.Steps++
	return x.effects, true, nil
}

// anothers is the error for a snapshot of another chart.
func (c *Chart[C]) anothers() error {
	return fmt.Errorf("%w: expected one that this chart, %s, has made or restored, got another's", ErrUnreadable, c.id)
}

// adopt takes over a snapshot and keeps what undo needs.
func (x *interpreter[C]) adopt(snapshot *Snapshot[C], event *Event) {
	x.snapshot, x.event = snapshot, event
	x.before.Context = snapshot.Context // One by one: together they would be copied twice.
	x.before.configuration = snapshot.configuration
	x.saved, x.returned, x.running.kind = false, false, noCode
}

// begin makes the interpreter as good as new for a snapshot that it has adopted.
func (x *interpreter[C]) begin(onMicrostep func(Microstep)) {
	if x.snapshot.configuration.many != nil {
		x.snapshot.configuration = x.snapshot.configuration.clone()
	}
	x.parked = 0
	x.ended, x.moved, x.historyOwned, x.resolved = false, false, false, false
	x.effects, x.position, x.microsteps = nil, 0, 0
	x.internalQueue, x.statesToInvoke = x.internalQueue[:0], x.statesToInvoke[:0]
	x.onMicrostep, x.tracing = onMicrostep, nil
}

// writable returns the snapshot for changing what is neither context nor configuration.
func (x *interpreter[C]) writable() *Snapshot[C] {
	if !x.saved {
		context, configuration := x.before.Context, x.before.configuration
		x.before, x.saved = *x.snapshot, true
		x.before.Context, x.before.configuration = context, configuration
	}
	return x.snapshot
}

// undo makes the snapshot what it was.
func (x *interpreter[C]) undo() {
	if x.saved {
		*x.snapshot = x.before
	} else {
		x.snapshot.Context, x.snapshot.configuration = x.before.Context, x.before.configuration
	}
}

// becomes gives the event that is handled another type and payload.
func (x *interpreter[C]) becomes(typ string, payload any) {
	x.own = *x.event
	x.own.Type, x.own.Payload = typ, payload
	x.event = &x.own
}

// ownContext makes the context one that can be changed, which may panic.
func (x *interpreter[C]) ownContext() {
	if x.chart.cloneContext != nil {
		x.runs(cloneCode, "", 0)
		x.snapshot.Context = x.chart.cloneContext(x.before.Context)
	}
}

// take removes from the snapshot the timer or the invocation whose end the event is, and
// reports whether there was one to wait for and whether it is stale.
func (x *interpreter[C]) take(event *Event) (awaited, stale bool, err error) {
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
			x.becomes(sent.Type, sent.Payload)
			return true, false, err
		}
		x.becomes(x.chart.nodes[timer.state].timers[timer.index].event, event.Payload)
		return true, false, nil
	case event.Invocation != "":
		k := slices.IndexFunc(x.snapshot.Services, func(i Invocation) bool { return i.Key == event.Invocation })
		if k < 0 {
			ended := x.takeChild(event.Invocation)
			return ended, !ended, nil
		}
		x.writable().Services = slices.Delete(slices.Clone(x.snapshot.Services), k, k+1)
		return true, false, nil
	default:
		return false, false, nil
	}
}

// accepted asks the host whether it can perform the effects from the given index on.
func (x *interpreter[C]) accepted(from int) error {
	x.tellState()
	if x.accept == nil || len(x.effects) <= from {
		return nil
	}
	return x.accept(x.effects[from:])
}

// stalled returns an error if the configuration is unsettled and nothing moves it on.
func (x *interpreter[C]) stalled() error {
	if x.ended || x.chart.foreign || len(x.snapshot.Services) > 0 || x.chart.settled(&x.snapshot.configuration) {
		return nil
	}
	return fmt.Errorf("%w: chart %s would be in %s after event %q, which is not settled, with no service running and no always enabled",
		ErrStalled, x.chart.id, strings.Join(x.snapshot.State(), ", "), x.event.Type)
}

// recovered turns a panic of the chart's code into an error. Other results are not set by then.
func (x *interpreter[C]) recovered(err *error) {
	if x.returned {
		return // Asking recover takes longer.
	}
	if r := recover(); r != nil {
		x.undo()
		*err = x.panicked(r)
	}
}

// panicked returns the error of a panic in the chart's code.
func (x *interpreter[C]) panicked(r any) *StepError {
	failure := x.fail(fmt.Errorf("panic: %v", r))
	failure.Stack = debug.Stack()
	return failure
}
