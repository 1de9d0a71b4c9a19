package statelesshost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/qmuntal/stateless"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// instance implements durable.Instance.
type instance[T any] struct {
	machine *Machine[T]
	status  statechart.Status
	at      int
	data    T
	timers  []statechart.Timer
	steps   int64
	output  json.RawMessage
}

// step begins a macrostep. The caller sets the data of the step.
func (i *instance[T]) step(event statechart.Event) *step {
	return &step{
		of: i.machine, event: event, state: i.machine.states[i.at].value, at: i.at,
		timers: i.timers, steps: i.steps, sent: i.machine.Decode,
	}
}

// commit returns the instance after a step, and the step's effects.
func (i *instance[T]) commit(s *step) (*instance[T], []statechart.Effect) {
	state := &i.machine.states[s.at]
	for k := range s.effects {
		if e := &s.effects[k]; e.Kind == statechart.ResolveWaits {
			e.State, e.Tags = []string{state.Name}, state.tags
		}
	}
	next := *i
	next.at, next.data, next.timers, next.steps = s.at, *s.data.(*T), s.timers, s.steps+1
	return &next, s.effects
}

// Apply implements durable.Instance. It runs one transition of the machine, and then the transitions that the first one
// fires.
func (i *instance[T]) Apply(event statechart.Event) (next durable.Instance, effects []statechart.Effect, handled bool, err error) {
	if i.status != statechart.Active {
		return i, nil, false, nil
	}
	s := i.step(event)
	defer func() {
		if err != nil {
			next = i
		}
	}()
	defer s.end()
	defer i.recovered(s, &err)
	fire, awaited, err := i.take(s)
	if err != nil || fire == nil {
		return i, nil, false, err
	}
	data := i.machine.chart.CloneContext(i.data)
	s.data = &data
	s.firing = *fire
	sm, ctx := i.machine.config.Machine, s.context()
	if sm == nil {
		sm = i.build(s)
	}
	can, err := sm.CanFireCtx(ctx, fire.trigger, fire.args...)
	switch {
	case err != nil:
		return i, nil, false, i.failed(s, err)
	case !can && !awaited:
		return i, nil, false, nil
	case can:
		err = i.run(ctx, sm, s)
	}
	var output json.RawMessage
	if err == nil {
		output, err = i.settle(s)
	}
	if err != nil {
		return i, nil, false, err
	}
	stepped, effects := i.commit(s)
	if i.machine.states[s.at].Final {
		stepped.status, stepped.output = statechart.Done, output
	}
	return stepped, effects, true, nil
}

// take returns the trigger that the event fires. It returns nil for a timer that the instance does not wait for.
// `awaited` reports whether the event is a timer that the instance waits for.
func (i *instance[T]) take(s *step) (fire *firing, awaited bool, err error) {
	event := s.event
	if event.Type == statechart.TimerEvent {
		k := slices.IndexFunc(s.timers, func(t statechart.Timer) bool { return t.ID == event.Timer })
		if k < 0 {
			return nil, false, nil
		}
		timer := s.timers[k]
		s.timers = slices.Delete(slices.Clone(s.timers), k, k+1)
		if timer.Event == nil {
			after, _ := i.machine.after(timer.State, timer.After)
			return &firing{trigger: after.Trigger}, true, nil
		}
		sent, err := i.machine.Decode(timer.Event)
		if err != nil {
			return nil, false, fmt.Errorf("reading the event of timer %s: %w", timer.ID, err)
		}
		event.Type, event.Payload = sent.Type, sent.Payload
		s.event, awaited = event, true
	}
	declared, ok := i.machine.config.Events[event.Type]
	if !ok {
		return nil, false, fmt.Errorf("%w: machine %s has no event %q", statechart.ErrUndeclared, i.machine.config.ID, event.Type)
	}
	return declared.fires(event.Type, event.Payload), awaited, nil
}

// fires returns the trigger that an event of this type fires.
func (e Event) fires(typ string, payload any) *firing {
	f := &firing{trigger: e.Trigger}
	if f.trigger == nil {
		f.trigger = typ
	}
	if e.Args != nil {
		f.args = e.Args(payload)
	} else if payload != nil {
		f.args = []any{payload}
	}
	return f
}

// build returns the machine for one step.
func (i *instance[T]) build(s *step) *stateless.StateMachine {
	sm := i.machine.config.Build(s.state, s.data.(*T))
	sm.OnTransitioned(func(ctx context.Context, t stateless.Transition) {
		if s.over.Load() {
			panic(misuse{errors.New("Config.Build returned the same machine twice: return a new one each time")})
		}
		i.machine.transitioned(ctx, sm, s, t)
	})
	return sm
}

// run fires the event's trigger, and then the triggers in the queue until it is empty.
func (i *instance[T]) run(ctx context.Context, sm *stateless.StateMachine, s *step) error {
	for fired := 1; ; fired++ {
		s.loads = 0
		err := sm.FireCtx(ctx, s.firing.trigger, s.firing.args...)
		if s.failure != nil {
			err = s.failure
		}
		if err != nil {
			return i.failed(s, err)
		}
		if len(s.queue) == 0 {
			return nil
		}
		if fired == statechart.MicrostepsMax {
			return i.machine.endless(s)
		}
		s.firing, s.queue = s.queue[0], s.queue[1:]
	}
}

// settle checks the state after a step, and ends an instance that is in a final state.
func (i *instance[T]) settle(s *step) (output json.RawMessage, err error) {
	state := &i.machine.states[s.at]
	if state.settled {
		return nil, nil
	}
	if !state.Final {
		return nil, fmt.Errorf("%w: machine %s would be in %s after event %q, which is not settled, with no trigger left to fire",
			statechart.ErrStalled, i.machine.config.ID, state.Name, s.event.Type)
	}
	s.drop(func(statechart.Timer) bool { return true })
	if state.Output == nil {
		return nil, nil
	}
	output, err = json.Marshal(state.Output(*s.data.(*T)))
	if err != nil {
		return nil, i.failed(s, fmt.Errorf("encoding the output: %w", err))
	}
	return output, nil
}

// failed returns the step error after the machine's code returned an error or exceeded a limit.
func (i *instance[T]) failed(s *step, err error) error {
	failure := &statechart.StepError{Chart: i.machine.config.ID, State: i.machine.states[s.at].Name, Event: s.event.Type, Code: "start", Err: err}
	if s.firing.trigger != nil {
		failure.Code = fmt.Sprintf("trigger %v", s.firing.trigger)
	}
	return failure
}

// recovered converts a panic of the machine's code to an error. The instance stays unchanged.
func (i *instance[T]) recovered(s *step, err *error) {
	r := recover()
	if r == nil {
		return
	}
	if endless, ok := r.(error); ok && errors.Is(endless, statechart.ErrEndless) {
		*err = endless
		return
	}
	if own, ok := r.(misuse); ok {
		*err = i.failed(s, own.error)
		return
	}
	*err = i.failed(s, statechart.Panicked(r))
}

// Status implements durable.Instance.
func (i *instance[T]) Status() statechart.Status { return i.status }

// Settled implements durable.Instance. It is always true: a step that does not settle fails.
func (i *instance[T]) Settled() bool { return true }

// State implements durable.Instance.
func (i *instance[T]) State() []string { return []string{i.machine.states[i.at].Name} }

// Timers implements durable.Instance.
func (i *instance[T]) Timers() []statechart.Timer { return i.timers }

func (i *instance[T]) Defers() bool { return false }

// NextEvents implements durable.Instance. For each event type, stateless evaluates the guards with the payload of an
// event that consists only of its type. A guard counts as met if it panics, or if its arguments cannot be built from
// this payload.
func (i *instance[T]) NextEvents() []string {
	if i.status != statechart.Active {
		return nil
	}
	var next []string
	for _, typ := range i.machine.Events() {
		if i.can(typ) {
			next = append(next, typ)
		}
	}
	return next
}

func (i *instance[T]) can(typ string) (can bool) {
	s := i.step(statechart.Event{Type: typ})
	defer s.end()
	data := i.machine.chart.CloneContext(i.data)
	s.data = &data
	fire := i.sample(typ)
	sm := i.machine.config.Machine
	defer func() {
		if recover() != nil {
			can = true
		}
	}()
	if sm == nil {
		sm = i.build(s)
	}
	can, err := sm.CanFireCtx(s.context(), fire.trigger, fire.args...)
	return can && err == nil
}

// sample returns the trigger for an event that has only its type.
func (i *instance[T]) sample(typ string) (fire *firing) {
	declared := i.machine.config.Events[typ]
	defer func() {
		if recover() != nil {
			declared.Args = nil
			fire = declared.fires(typ, nil)
		}
	}()
	body, err := encode(typ, nil)
	if err != nil {
		return declared.fires(typ, nil)
	}
	event, err := i.machine.Decode(body)
	if err != nil {
		event.Payload = nil
	}
	return declared.fires(typ, event.Payload)
}

// Children implements durable.Instance: a stateless machine has none.
func (i *instance[T]) Children() []statechart.ChildRef { return nil }

// Stop implements durable.Instance. It fires no trigger, so no exit action runs.
func (i *instance[T]) Stop(time.Time) (next durable.Instance, effects []statechart.Effect, stopped bool, err error) {
	if i.status != statechart.Active {
		return i, nil, false, nil
	}
	ended := *i
	ended.status, ended.timers, ended.steps = statechart.Stopped, nil, i.steps+1
	return &ended, nil, true, nil
}

// Move implements durable.Instance. It fires no trigger, so no entry or exit action runs. Timers and answers of the
// states work as in a transition.
func (i *instance[T]) Move(path string, at time.Time) (next durable.Instance, effects []statechart.Effect, err error) {
	to, known := i.machine.byName[path]
	if !known {
		return i, nil, fmt.Errorf("machine %s has no state %q", i.machine.config.ID, path)
	}
	s := i.step(statechart.Event{Type: statechart.ReservedPrefix + "move", At: at})
	defer s.end()
	data := i.machine.chart.CloneContext(i.data)
	s.data = &data
	defer func() {
		if err != nil {
			next = i
		}
	}()
	defer i.recovered(s, &err)
	left, entered := i.machine.states[i.at].path, i.machine.states[to].path
	if err := i.machine.change(s, to, without(left, entered), without(entered, left)); err != nil {
		return i, nil, err
	}
	output, err := i.settle(s)
	if err != nil {
		return i, nil, err
	}
	moved, effects := i.commit(s)
	if i.machine.states[to].Final {
		moved.status, moved.output = statechart.Done, output
	}
	return moved, effects, nil
}

// Trace implements durable.Instance: a stateless machine has no microsteps.
func (i *instance[T]) Trace(func(statechart.Microstep)) {}

// Limit implements durable.Instance: a stateless machine defers no events.
func (i *instance[T]) Limit(int) {}

// Invocations implements durable.Instance: a stateless machine has no services.
func (i *instance[T]) Invocations() []statechart.Invocation { return nil }

// WithAttempt implements durable.Instance.
func (i *instance[T]) WithAttempt(string, int, time.Time) durable.Instance { return i }

// Prepare implements durable.Instance.
func (i *instance[T]) Prepare(invocation statechart.Invocation, _ statechart.Call) (durable.Work, error) {
	return durable.Work{}, fmt.Errorf("machine %s has no services, got asked for %q", i.machine.config.ID, invocation.ID)
}

var _ durable.Instance = (*instance[struct{}])(nil)
