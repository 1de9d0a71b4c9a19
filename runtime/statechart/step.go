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
	// even an eventless one, and was not deferred, if the instance is done, or if a timer or the
	// end of a service or of a child is stale. Next then equals the snapshot that was stepped.
	Handled bool
}

// Start enters the initial configuration of a new instance. The error wraps ErrPayload if the
// input is not of the declared type.
func (c *Chart[C]) Start(start Start) (step Step[C], err error) {
	if err := c.checkInput(start.Input); err != nil {
		return Step[C]{}, err
	}
	x := &interpreter[C]{
		chart: c, status: Active, event: Event{At: start.At}, step: 1,
		configuration: newStateSet(len(c.nodes)),
	}
	defer x.recovered(Step[C]{}, &step, &err)
	x.prepare()
	if c.context != nil {
		x.running = code{what: "context"}
		x.context = c.context(start)
	}
	initial := transition[C]{source: 0, targets: []int{0}, reenter: true, place: "start"}
	if err := x.microstep([]*transition[C]{&initial}); err != nil {
		return Step[C]{}, err
	}
	if err := x.complete(); err != nil {
		return Step[C]{}, err
	}
	return x.result()
}

// Step takes one macrostep: it applies the event and goes on until no eventless transition is
// enabled and no internal event is left. The snapshot that is stepped stays as it is. On an
// error nothing has happened, and Next is that snapshot: see StepError, ErrEndless, ErrStalled
// and ErrLimit.
//
// The caller must not step an unsettled snapshot with an event from outside; the ends of its
// services and its timers are what it waits for.
func (c *Chart[C]) Step(snapshot Snapshot[C], event Event) (step Step[C], err error) {
	unchanged := Step[C]{Next: snapshot}
	if snapshot.chart != c {
		return unchanged, fmt.Errorf("%w: expected one that this chart, %s, has made or restored, got another's", ErrUnreadable, c.id)
	}
	if snapshot.Status != Active {
		return unchanged, nil
	}
	x := c.interpreter(snapshot, event)
	defer x.recovered(unchanged, &step, &err)
	x.resume(snapshot)
	awaited, stale, err := x.take(event)
	if stale || err != nil {
		return unchanged, err
	}
	if err := x.macrostep(); err != nil {
		return unchanged, err
	}
	if err := x.replay(); err != nil {
		return unchanged, err
	}
	if !x.moved && !awaited {
		return unchanged, nil
	}
	taken, err := x.result()
	if err != nil {
		return unchanged, err
	}
	return taken, nil
}

// Stop ends an instance from outside, as SCXML's exitInterpreter does when an invocation is
// cancelled: exit actions run, the innermost first, timers and services end, and nothing follows.
// Next keeps the configuration and has the status Stopped. An instance that is not active stays as
// it is; on an error nothing has happened.
func (c *Chart[C]) Stop(snapshot Snapshot[C], at time.Time) (step Step[C], err error) {
	unchanged := Step[C]{Next: snapshot}
	if snapshot.Status != Active {
		return unchanged, nil
	}
	x := c.interpreter(snapshot, Event{At: at})
	defer x.recovered(unchanged, &step, &err)
	x.resume(snapshot)
	x.status = Stopped
	if err := x.exitInterpreter(); err != nil {
		return unchanged, err
	}
	stopped, err := x.result()
	if err != nil {
		return unchanged, err
	}
	return stopped, nil
}

// interpreter returns the interpreter of an event that reaches a snapshot; resume completes it.
func (c *Chart[C]) interpreter(snapshot Snapshot[C], event Event) *interpreter[C] {
	return &interpreter[C]{
		chart: c, status: Active, event: event, step: snapshot.Steps + 1,
		configuration: snapshot.configuration.clone(),
		timers:        slices.Clip(snapshot.Timers), services: slices.Clip(snapshot.Services),
		children: slices.Clip(snapshot.Children), deferred: slices.Clip(snapshot.Deferred),
	}
}

// resume takes over context and history of a snapshot. Cloning the context may panic.
func (x *interpreter[C]) resume(snapshot Snapshot[C]) {
	x.prepare()
	x.running = code{what: "cloning the context"}
	x.context = x.chart.CloneContext(snapshot.Context)
	for h, recorded := range snapshot.history {
		if x.history == nil {
			x.history = make(map[int]stateSet, len(snapshot.history))
		}
		x.history[h] = recorded
	}
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
			ended := x.takeChild(event.Invocation)
			return ended, !ended, nil
		}
		x.services = slices.Delete(slices.Clone(x.services), k, k+1)
		return true, false, nil
	default:
		return false, false, nil
	}
}

func (x *interpreter[C]) prepare() {
	states := len(x.chart.nodes)
	x.statesToEnter, x.statesToInvoke, x.statesForDefaultEntry = newStateSet(states), newStateSet(states), newStateSet(states)
}

// result makes the step of an interpreter that has come to rest.
func (x *interpreter[C]) result() (Step[C], error) {
	next := Snapshot[C]{
		Context: x.context, Status: x.status, Output: json.RawMessage(x.output),
		Timers: x.timers, Services: x.services, Children: x.children, Deferred: x.deferred, Steps: x.step,
		chart: x.chart, configuration: x.configuration, history: x.history,
	}
	if !next.Settled() && len(next.Services) == 0 && !x.chart.foreign {
		return Step[C]{}, fmt.Errorf("%w: chart %s would be in %s after event %q, which is not settled, with no service running and no always enabled",
			ErrStalled, x.chart.id, strings.Join(next.State(), ", "), x.event.Type)
	}
	effects := slices.DeleteFunc(x.effects, func(e Effect) bool {
		return e.Kind == Schedule && !slices.ContainsFunc(x.timers, func(t Timer) bool { return t.ID == e.Timer })
	})
	return Step[C]{Next: next, Effects: effects, Handled: true}, nil
}

// recovered turns a panic of the chart's code into an error; the step is then as it was.
func (x *interpreter[C]) recovered(unchanged Step[C], step *Step[C], err *error) {
	if r := recover(); r != nil {
		*step = unchanged
		failure := x.fail(fmt.Errorf("panic: %v", r))
		failure.Stack = debug.Stack()
		*err = failure
	}
}
