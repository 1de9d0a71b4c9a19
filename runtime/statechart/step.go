package statechart

import "time"

// Start holds the parameters of a new instance.
type Start struct {
	Instance string // the name of the instance, such as "signup/42"
	At       time.Time
	Input    any // a value of the type that Definition.Input declares, or nil: see Chart.DecodeInput
}

// Step is the result of a macrostep.
type Step[C any] struct {
	Next    Snapshot[C]
	Effects []Effect // in order; perform them only after Next is stored
	// Handled is false if the event had no effect: it enabled no transition (not even an eventless one), was not deferred,
	// and released no deferred event. It is also false if the instance has ended, or if the event reports a stale timer or
	// the end of a stale service or child. Next then equals the snapshot before the step.
	Handled bool
}

// Start enters the initial configuration. The error wraps ErrPayload if the input does not have the declared type.
func (c *Chart[C]) Start(start Start) (Step[C], error) {
	snapshot, effects, err := c.Stepper().Start(start)
	return Step[C]{Next: snapshot, Effects: effects, Handled: err == nil}, err
}

// Step takes one macrostep: it applies the event, and then eventless transitions and internal events until none is
// left. The snapshot passed in stays unchanged. On an error, Next is that snapshot: see StepError, ErrEndless,
// ErrStalled and ErrLimit. An unsettled snapshot waits only for its timers and services: do not step it with other
// events.
func (c *Chart[C]) Step(snapshot Snapshot[C], event Event) (Step[C], error) {
	effects, handled, err := c.Stepper().Step(&snapshot, &event)
	return Step[C]{Next: snapshot, Effects: effects, Handled: handled}, err
}

// Stop ends an active instance from outside (exitInterpreter in SCXML). Exit actions run, innermost first, and timers,
// services and children end. Next keeps the configuration. On an error, Next is the snapshot passed in.
func (c *Chart[C]) Stop(snapshot Snapshot[C], at time.Time) (Step[C], error) {
	effects, handled, err := c.Stepper().Stop(&snapshot, at)
	return Step[C]{Next: snapshot, Effects: effects, Handled: handled}, err
}

// Stopped returns the snapshot of an instance that is stopped before it starts. The snapshot is in the initial states,
// with a zero context.
func (c *Chart[C]) Stopped() Snapshot[C] {
	set := newEntrySet(&c.chart)
	set.compute(c.chart.initial.targets, c.chart.initial.domain, nil)
	snapshot := Snapshot[C]{Status: Stopped, Steps: 1, chart: &c.chart}
	for _, entered := range set.appendTo(nil) {
		snapshot.configuration.enter(int(entered.state), c.chart.nodes[entered.state].parent)
	}
	return snapshot
}

// Stepper steps snapshots of a chart and reuses memory between steps. Its results do not share that memory. A step
// allocates nothing if it starts no timer and no service, requests no effect and records no history. A Stepper must not
// be used concurrently.
type Stepper[C any] struct {
	// OnMicrostep, if set, receives every completed microstep, even if a later error rolls it back.
	OnMicrostep func(Microstep)
	// Accept, if set, checks whether the host can perform the effects of a macrostep. Fits, if set, checks whether the
	// host can store the snapshot after a replay. An error fails the replayed event or, without a replay, the step.
	Accept func([]Effect) error
	Fits   func(Snapshot[C]) error

	chart *Chart[C]
	x     interpreter
	// `before` is the previous context of the snapshot.
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
	s.reset(&started)
	defer s.recovered(&started, &err)
	if context := s.chart.definition.Context; context != nil {
		x.runs(contextCode, "", 0)
		started.Context = context(start)
	}
	if err := x.start(); err != nil {
		return Snapshot[C]{}, nil, err
	}
	started.fromBare(&x.snapshot)
	return started, x.effects, nil
}

// Step is Chart.Step, but changes the snapshot in place. Earlier copies keep their values, and an error changes
// nothing. Step does not retain the event. Perform the effects only after the snapshot is stored.
func (s *Stepper[C]) Step(snapshot *Snapshot[C], event *Event) (effects []Effect, handled bool, err error) {
	x := &s.x
	if snapshot.chart != x.chart {
		return nil, false, x.chart.otherChart()
	}
	if snapshot.Status != Active {
		return nil, false, nil
	}
	s.adopt(snapshot, event)
	defer s.recovered(snapshot, &err)
	if s.OnMicrostep == nil && x.chart.contexts.own == nil && event.Invocation == "" && len(snapshot.Deferred) == 0 && x.stepFast(&snapshot.configuration) {
		snapshot.Steps++
		x.returned = true
		return nil, true, nil
	}
	s.reset(snapshot)
	handled, err = x.stepEvent()
	x.returned = true
	if err != nil || !handled {
		snapshot.Context = s.before
		return nil, false, err
	}
	if x.changed {
		snapshot.fromBare(&x.snapshot)
	} else {
		snapshot.configuration, snapshot.Steps = x.snapshot.configuration, x.snapshot.Steps
	}
	return x.effects, true, nil
}

// Stop is Chart.Stop, but changes the snapshot in place, as Step does.
func (s *Stepper[C]) Stop(snapshot *Snapshot[C], at time.Time) (effects []Effect, stopped bool, err error) {
	x := &s.x
	if snapshot.chart != x.chart {
		return nil, false, x.chart.otherChart()
	}
	if snapshot.Status != Active {
		return nil, false, nil
	}
	x.own = Event{At: at}
	s.adopt(snapshot, &x.own)
	s.reset(snapshot)
	defer s.recovered(snapshot, &err)
	if err := x.stop(); err != nil {
		snapshot.Context = s.before
		return nil, false, err
	}
	snapshot.fromBare(&x.snapshot)
	return x.effects, true, nil
}

// adopt lets the interpreter change the context of the snapshot in place, and saves the previous context.
func (s *Stepper[C]) adopt(snapshot *Snapshot[C], event *Event) {
	x := &s.x
	s.before = snapshot.Context
	x.context, x.event = &snapshot.Context, event
	x.returned, x.running.kind = false, noCode
}

// reset prepares the interpreter for a snapshot that the stepper has adopted.
func (s *Stepper[C]) reset(snapshot *Snapshot[C]) {
	x := &s.x
	snapshot.toBare(&x.snapshot)
	x.accept, x.fits = s.Accept, nil
	if s.Fits != nil {
		x.fits = s
	}
	x.reset(s.OnMicrostep)
}

// fitsNow calls Fits with the current snapshot.
func (s *Stepper[C]) fitsNow() error {
	snapshot := Snapshot[C]{Context: *contextOf[C](&s.x)}
	snapshot.fromBare(&s.x.snapshot)
	return s.Fits(snapshot)
}

// recovered turns a panic of the chart's code into an error. No other result is set when the code panics.
func (s *Stepper[C]) recovered(snapshot *Snapshot[C], err *error) {
	if s.x.returned {
		return // This avoids a call of recover, which is slower.
	}
	if r := recover(); r != nil {
		snapshot.Context = s.before
		*err = s.x.panicked(r)
	}
}
