package statechart

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/settle-run/settle/runtime/internal/outline"
)

// Action is a named function that a chart runs on entry, on exit or in a transition. It changes the context or requests
// effects, and performs no I/O. The host performs the effects after it has stored the step. The payload of a sent or
// emitted event must be nil or marshal to a JSON object.
type Action[C any] struct {
	Name string // for errors, traces and graphs
	// Params holds the JSON parameters of an action read from a document. Exporters write them back.
	Params json.RawMessage
	// The zero-length array makes Action[C] a distinct type for each C. Without it, all instantiations would share one
	// underlying type and could be converted to each other.
	_ [0]func(C)
	actionBody
}

// actionBody is the engine's view of an action.
type actionBody struct {
	run func(*interpreter) error
	// Update sets `update` instead of `run`. Assign sets `assign` if its E is Event. Only `run` can fail.
	update func(erased)
	assign func(erased, *Event)
	// payload is the type of event payload that the action expects. If it is nil, the action accepts any event.
	payload reflect.Type
	// raises is the type of the event that the action raises. `sends` is the type of the event that the action sends to
	// its own chart after a delay. Empty means none.
	raises, sends string
	// carries is the payload type of the raised event, or nil for no payload.
	carries reflect.Type
	// child is the ID of the child instance that the action refers to. `spawns` is set if the action starts that child.
	child  string
	spawns bool
	// enqueues is set for an action made by EnqueueActions. Such an action chooses its requests at run time, and may test
	// active states.
	enqueues bool
	// resolves is the answer that the action gives to waiting callers, or nil.
	resolves *Resolution[erased]
	// starts is the workflow that the action starts, or nil.
	starts *start
	// alters is set for TryAssign, whose function may change the context.
	alters bool
	// made records the constructor that made the action, and its arguments.
	made outline.Made
}

// Assign returns an action that changes the context. E is Event or the payload type of the triggering events. The
// function changes a copy of the context. The snapshot passed to Step stays unchanged.
func Assign[C, E any](name string, fn func(*C, E)) Action[C] {
	if fn == nil {
		return Action[C]{Name: name}
	}
	if fn, ok := any(fn).(func(*C, Event)); ok {
		return Action[C]{Name: name, actionBody: actionBody{assign: func(h erased, e *Event) { fn(h.(*C), *e) }}}
	}
	return TryAssign(name, func(c *C, e E) error { fn(c, e); return nil })
}

// mayAlter reports whether the action may change the context, or starts or stops a child.
func (a *actionBody) mayAlter() bool {
	return a.update != nil || a.assign != nil || a.alters || a.enqueues || a.spawns || a.made.By == outline.StopChild
}

func (a *actionBody) perform(x *interpreter) error {
	x.altered = x.altered || a.mayAlter()
	switch {
	case a.update != nil:
		a.update(x.context)
		return nil
	case a.assign != nil:
		a.assign(x.context, x.event)
		return nil
	default:
		return a.run(x)
	}
}

// Update is Assign for a function that does not need the event.
func Update[C any](name string, fn func(*C)) Action[C] {
	if fn == nil {
		return Action[C]{Name: name}
	}
	return Action[C]{Name: name, actionBody: actionBody{update: func(h erased) { fn(h.(*C)) }}}
}

// TryAssign is Assign for a function that can fail. If the chart handles ExecutionError, an error raises that event and
// skips the rest of the action list. Otherwise the error rolls the macrostep back and fails the step.
func TryAssign[C, E any](name string, fn func(*C, E) error) Action[C] {
	if fn == nil {
		return Action[C]{Name: name}
	}
	if fn, ok := any(fn).(func(*C, Event) error); ok {
		return Action[C]{Name: name, actionBody: actionBody{alters: true, run: func(x *interpreter) error { return fn(contextOf[C](x), *x.event) }}}
	}
	return Action[C]{Name: name, actionBody: actionBody{payload: reflect.TypeFor[E](), alters: true, run: func(x *interpreter) error {
		payload, ok := x.event.Payload.(E)
		if !ok {
			return payloadMismatch[E](*x.event)
		}
		return fn(contextOf[C](x), payload)
	}}}
}

// Raise returns an action that raises an event without payload. The event is handled in the same macrostep (SCXML 4.2).
func Raise[C any](typ string) Action[C] {
	return Action[C]{Name: "raise " + typ, actionBody: actionBody{raises: typ, made: outline.Made{By: outline.Raise, Event: typ}, run: func(x *interpreter) error {
		x.raise(Event{Type: typ})
		return nil
	}}}
}

// RaiseWith is Raise with a payload. A payload of type json.RawMessage is decoded as the type that the chart declares
// for the event.
func RaiseWith[C, P any](typ string, payload func(C, Event) P) Action[C] {
	run := func(x *interpreter) error {
		x.raise(Event{Type: typ, Payload: payload(*contextOf[C](x), *x.event)})
		return nil
	}
	if payload, ok := any(payload).(func(C, Event) json.RawMessage); ok {
		run = func(x *interpreter) error { return x.raiseJSON(typ, payload(*contextOf[C](x), *x.event)) }
	}
	return Action[C]{Name: "raise " + typ, actionBody: actionBody{raises: typ, carries: reflect.TypeFor[P](), made: outline.Made{By: outline.RaiseWith, Event: typ}, run: run}}
}

// raiseJSON raises an event with a payload in JSON form. It decodes the payload as the type that the chart declares for
// the event. The payload of an undeclared event, which only a foreign chart may raise, stays JSON.
func (x *interpreter) raiseJSON(typ string, body json.RawMessage) error {
	event := Event{Type: typ, Payload: body}
	if declared, ok := x.chart.payloads[typ]; ok && declared.typ != reflect.TypeFor[json.RawMessage]() {
		event.Payload = nil
		if declared.typ != nil {
			var err error
			if event.Payload, err = declared.decode(body); err != nil {
				return err
			}
		}
	}
	x.raise(event)
	return nil
}

// SendTo returns an action that sends an event to an instance ("machine/id").
func SendTo[C any](typ string, fn func(C, Event) (instance string, payload any)) Action[C] {
	return Action[C]{Name: "send " + typ, actionBody: actionBody{run: func(x *interpreter) error {
		instance, payload := fn(*contextOf[C](x), *x.event)
		return x.send(instance, typ, payload)
	}}}
}

// SendAfter returns an action that sends the chart itself an event after a delay (SCXML 6.2). Leaving a state does not
// cancel the event, but Cancel does. Events may share an ID. An event with the ID "" cannot be cancelled.
func SendAfter[C any](id, typ string, fn func(C, Event) (delay time.Duration, payload any)) Action[C] {
	return Action[C]{Name: "send " + typ, actionBody: actionBody{sends: typ, made: outline.Made{By: outline.SendAfter, Event: typ, ID: id}, run: func(x *interpreter) error {
		delay, payload := fn(*contextOf[C](x), *x.event)
		return x.sendAfter(id, typ, delay, payload)
	}}}
}

// Cancel returns an action that cancels SendAfter events by ID (SCXML 6.3).
func Cancel[C any](id string) Action[C] {
	return Action[C]{Name: "cancel " + id, actionBody: actionBody{made: outline.Made{By: outline.Cancel, ID: id}, run: func(x *interpreter) error {
		x.cancel(id)
		return nil
	}}}
}

// encodeEvent encodes an event in the JSON form that Decode reads.
func encodeEvent(typ string, payload any) (json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if payload != nil {
		text, err := json.Marshal(payload)
		if err != nil {
			return nil, fmt.Errorf("encoding the payload of event %q: %w", typ, err)
		}
		if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
			return nil, fmt.Errorf("encoding the payload of event %q: expected a type that marshals to a JSON object, got %T", typ, payload)
		}
	}
	fields["type"] = appendText(nil, typ)
	return json.Marshal(fields)
}

func payloadMismatch[E any](event Event) error {
	return fmt.Errorf("expected an event that carries %v, got %q with %T", reflect.TypeFor[E](), event.Type, event.Payload)
}

// Guard is a named condition of a transition. The zero value always holds.
type Guard[C any] struct {
	Name   string          // for errors, traces and graphs
	Params json.RawMessage // like Action.Params
	guardBody
	// `of` holds the operands of And, Or and Not.
	of []Guard[C]
}

// guardBody is the engine's view of a guard.
type guardBody struct {
	test    func(*interpreter) (bool, error)
	payload reflect.Type
	// `in` is the path of the state that an In guard tests. checkCode checks that the state exists.
	in string
	// made names the constructor that made the guard.
	made outline.Constructor
}

// When returns a guard that tests the context and the event. See Assign for E. The function must not change data that
// the context refers to.
func When[C, E any](name string, fn func(C, E) bool) Guard[C] {
	if fn == nil {
		return Guard[C]{Name: name}
	}
	if fn, ok := any(fn).(func(C, Event) bool); ok { // This avoids TryWhen, which would copy the large event.
		return Guard[C]{Name: name, guardBody: guardBody{test: func(x *interpreter) (bool, error) { return fn(*contextOf[C](x), *x.event), nil }}}
	}
	return TryWhen(name, func(c C, e E) (bool, error) { return fn(c, e), nil })
}

// If returns a guard that tests only the context.
func If[C any](name string, fn func(C) bool) Guard[C] {
	if fn == nil {
		return Guard[C]{Name: name}
	}
	return Guard[C]{Name: name, guardBody: guardBody{test: func(x *interpreter) (bool, error) { return fn(*contextOf[C](x)), nil }}}
}

// TryWhen is When for a function that can fail. If the chart handles ExecutionError, an error raises that event and the
// guard counts as false. Otherwise the error fails the step.
func TryWhen[C, E any](name string, fn func(C, E) (bool, error)) Guard[C] {
	if fn == nil {
		return Guard[C]{Name: name}
	}
	if fn, ok := any(fn).(func(C, Event) (bool, error)); ok {
		return Guard[C]{Name: name, guardBody: guardBody{test: func(x *interpreter) (bool, error) { return fn(*contextOf[C](x), *x.event) }}}
	}
	return Guard[C]{Name: name, guardBody: guardBody{payload: reflect.TypeFor[E](), test: func(x *interpreter) (bool, error) {
		payload, ok := x.event.Payload.(E)
		if !ok {
			return false, payloadMismatch[E](*x.event)
		}
		return fn(*contextOf[C](x), payload)
	}}}
}

// And returns a guard that holds if all operands, tested in order, hold.
func And[C any](guards ...Guard[C]) Guard[C] {
	return Guard[C]{Name: joinGuards("and", guards), of: guards, guardBody: guardBody{made: outline.And, test: func(x *interpreter) (bool, error) {
		for i := range guards {
			if holds, err := guards[i].holds(x); err != nil || !holds {
				return false, err
			}
		}
		return true, nil
	}}}
}

// Or returns a guard that holds if any operand, tested in order, holds.
func Or[C any](guards ...Guard[C]) Guard[C] {
	return Guard[C]{Name: joinGuards("or", guards), of: guards, guardBody: guardBody{made: outline.Or, test: func(x *interpreter) (bool, error) {
		for i := range guards {
			if holds, err := guards[i].holds(x); err != nil || holds {
				return holds, err
			}
		}
		return false, nil
	}}}
}

// Not returns a guard that holds if the operand does not hold.
func Not[C any](guard Guard[C]) Guard[C] {
	return Guard[C]{Name: "not " + guard.Name, of: []Guard[C]{guard}, guardBody: guardBody{made: outline.Not, test: func(x *interpreter) (bool, error) {
		holds, err := guard.holds(x)
		return !holds && err == nil, err
	}}}
}

// In returns a guard that holds while the state is active (SCXML 5.9.1).
func In[C any](path string) Guard[C] {
	return Guard[C]{Name: "in " + path, guardBody: guardBody{in: path, made: outline.In, test: func(x *interpreter) (bool, error) {
		return x.in(path), nil
	}}}
}

func (g *guardBody) holds(x *interpreter) (bool, error) {
	if g.test == nil {
		return true, nil
	}
	return g.test(x)
}

func joinGuards[C any](word string, guards []Guard[C]) string {
	name := "("
	for i, g := range guards {
		if i > 0 {
			name += " " + word + " "
		}
		name += g.Name
	}
	return name + ")"
}
