package statechart

import "time"

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

	chart *Chart[C]
	x     interpreter
	// before is the context of the snapshot that is stepped, as it was.
	before C
}

// Stepper returns a stepper of the chart.
func (c *Chart[C]) Stepper() *Stepper[C] {
	return &Stepper[C]{chart: c, x: interpreter{chart: &c.chart}}
}

// Start is Chart.Start.
func (s *Stepper[C]) Start(start Start) (snapshot Snapshot[C], effects []Effect, err error) {
	x := &s.x
	if err := x.chart.checkInput(start.Input); err != nil {
		return Snapshot[C]{}, nil, err
	}
	var started Snapshot[C]
	started.chart, started.Status = x.chart, Active
	x.own = Event{At: start.At}
	s.adopt(&started, &x.own)
	s.begin(&started)
	defer s.recovered(&started, &err)
	if context := s.chart.definition.Context; context != nil {
		x.runs(contextCode, "", 0)
		started.Context = context(start)
	}
	if err := x.start(); err != nil {
		return Snapshot[C]{}, nil, err
	}
	started.dress(&x.snapshot)
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
	s.adopt(snapshot, event)
	defer s.recovered(snapshot, &err)
	if s.OnMicrostep == nil && x.chart.contexts.own == nil && event.Invocation == "" && len(snapshot.Deferred) == 0 && x.stepWhole(&snapshot.configuration) {
		snapshot.Steps++
		x.returned = true
		return nil, true, nil
	}
	s.begin(snapshot)
	handled, err = x.stepEvent()
	x.returned = true
	if err != nil || !handled {
		snapshot.Context = s.before
		return nil, false, err
	}
	if x.changed {
		snapshot.dress(&x.snapshot)
	} else {
		snapshot.configuration, snapshot.Steps = x.snapshot.configuration, x.snapshot.Steps
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
	s.adopt(snapshot, &x.own)
	s.begin(snapshot)
	defer s.recovered(snapshot, &err)
	if err := x.stop(); err != nil {
		snapshot.Context = s.before
		return nil, false, err
	}
	snapshot.dress(&x.snapshot)
	return x.effects, true, nil
}

// adopt takes over the context of a snapshot, and keeps what it is.
func (s *Stepper[C]) adopt(snapshot *Snapshot[C], event *Event) {
	x := &s.x
	s.before = snapshot.Context
	x.context, x.event = &snapshot.Context, event
	x.returned, x.running.kind = false, noCode
}

// begin makes the interpreter as good as new for a snapshot that the stepper has adopted.
func (s *Stepper[C]) begin(snapshot *Snapshot[C]) {
	x := &s.x
	snapshot.strip(&x.snapshot)
	x.accept, x.fits = s.Accept, nil
	if s.Fits != nil {
		x.fits = s
	}
	x.begin(s.OnMicrostep)
}

// fitsNow asks Fits about the snapshot as it stands.
func (s *Stepper[C]) fitsNow() error {
	snapshot := Snapshot[C]{Context: *contextOf[C](&s.x)}
	snapshot.dress(&s.x.snapshot)
	return s.Fits(snapshot)
}

// recovered turns a panic of the chart's code into an error. Other results are not set by then.
func (s *Stepper[C]) recovered(snapshot *Snapshot[C], err *error) {
	if s.x.returned {
		return // Asking recover takes longer.
	}
	if r := recover(); r != nil {
		snapshot.Context = s.before
		*err = s.x.panicked(r)
	}
}
