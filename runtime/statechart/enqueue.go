package statechart

import (
	"fmt"
	"reflect"
	"time"
)

// EnqueueActions returns an action that decides at run time which actions to perform (enqueueActions in XState v5).
// Prefer other constructors where they suffice: Compile checks their events. See TryAssign for E and errors.
func EnqueueActions[C, E any](name string, fn func(c *C, e E, enqueue Enqueue) error) Action[C] {
	if fn == nil {
		return Action[C]{Name: name}
	}
	if fn, ok := any(fn).(func(*C, Event, Enqueue) error); ok {
		return Action[C]{Name: name, actionBody: actionBody{enqueues: true, run: func(x *interpreter) error { return fn(contextOf[C](x), *x.event, Enqueue{x}) }}}
	}
	return Action[C]{Name: name, actionBody: actionBody{payload: reflect.TypeFor[E](), enqueues: true, run: func(x *interpreter) error {
		payload, ok := x.event.Payload.(E)
		if !ok {
			return payloadMismatch[E](*x.event)
		}
		return fn(contextOf[C](x), payload, Enqueue{x})
	}}}
}

// Enqueue performs actions like the constructors of the same names. It is valid only while the function of
// EnqueueActions runs.
type Enqueue struct{ to *interpreter }

// Raise raises an event. It returns an error if the type is not declared.
func (q Enqueue) Raise(typ string, payload any) error { return q.to.raiseDeclared(typ, payload) }

// SendTo sends an event to another instance.
func (q Enqueue) SendTo(instance, typ string, payload any) error {
	return q.to.send(instance, typ, payload)
}

// SendAfter sends an event to the chart itself after a delay.
func (q Enqueue) SendAfter(id, typ string, delay time.Duration, payload any) error {
	return q.to.sendAfter(id, typ, delay, payload)
}

// Cancel cancels the pending events with the ID.
func (q Enqueue) Cancel(id string) { q.to.cancel(id) }

// In reports whether the state with the given path is active.
func (q Enqueue) In(path string) bool { return q.to.in(path) }

func (x *interpreter) raiseDeclared(typ string, payload any) error {
	if _, declared := x.chart.payloads[typ]; !declared && !x.chart.foreign {
		return fmt.Errorf("raising event: %w: %q", ErrUndeclared, typ)
	}
	x.raise(Event{Type: typ, Payload: payload})
	return nil
}

// send requests the effect that sends an event to another instance.
func (x *interpreter) send(instance, typ string, payload any) error {
	body, err := encodeEvent(typ, payload)
	if err != nil {
		return err
	}
	return x.effect(Effect{Kind: Send, To: instance, Event: body})
}

func (x *interpreter) in(path string) bool {
	i, ok := x.chart.byPath[path]
	return ok && x.isActive(i)
}
