package statechart

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Action is one named step of what a chart does on entry, on exit or in a transition. Actions
// change the context or ask for an effect; they perform nothing.
type Action[C any] struct {
	// Name identifies the action in errors, traces and graphs.
	Name string
	// Params are what the action was made with, in JSON, where it was made from a document; it
	// is for those who write the chart down again.
	Params json.RawMessage
	// No action is one of another context type, though all but the names of types would be the same.
	_ [0]func(C)
	actionBody
}

// actionBody is what an action is for the engine.
type actionBody struct {
	run func(*interpreter) error
	// update is what the action does instead if it needs only the context, assign if it cannot fail.
	update func(held)
	assign func(held, *Event)
	// payload is the type that the action expects of the event; nil takes any event.
	payload reflect.Type
	// raises is the event type that the action raises, "" if it raises none; sends the one that
	// it sends the chart itself later.
	raises, sends string
	// carries is the type of the payload that a raised event gets, nil for none or for one that is
	// known only when it is raised.
	carries reflect.Type
	// child is the ID of the child instance that the action is about, and spawns says that it
	// starts it.
	child  string
	spawns bool
	// enqueues says that what the action asks for is known only while it runs, and that it may ask
	// which states are active.
	enqueues bool
	// resolves is the answer that the action gives to those who wait, nil if it gives none.
	resolves *Resolution[held]
	// starts is what the action starts, nil if it starts nothing.
	starts *start
	// made says by which constructor, for Made.
	made Made
}

// Assign returns an action that changes the context. E is Event, for an action that runs on
// any event, or the payload type of the events that it runs on. The function works on a copy
// of the context; the snapshot that was stepped is untouched.
func Assign[C, E any](name string, fn func(*C, E)) Action[C] {
	if fn == nil {
		return Action[C]{Name: name}
	}
	if fn, ok := any(fn).(func(*C, Event)); ok {
		return Action[C]{Name: name, actionBody: actionBody{assign: func(h held, e *Event) { fn(h.(*C), *e) }}}
	}
	return TryAssign(name, func(c *C, e E) error { fn(c, e); return nil })
}

// perform runs the action.
func (a *actionBody) perform(x *interpreter) error {
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

// Update returns an action that changes the context whatever the event, as Assign does.
func Update[C any](name string, fn func(*C)) Action[C] {
	if fn == nil {
		return Action[C]{Name: name}
	}
	return Action[C]{Name: name, actionBody: actionBody{update: func(h held) { fn(h.(*C)) }}}
}

// TryAssign is Assign for a function that can fail. Its error fails the step: nothing of the
// macrostep remains. If the chart has a transition for ExecutionError, the error raises that
// event instead, and the actions that follow in the same list are skipped.
func TryAssign[C, E any](name string, fn func(*C, E) error) Action[C] {
	if fn == nil {
		return Action[C]{Name: name}
	}
	if fn, ok := any(fn).(func(*C, Event) error); ok {
		return Action[C]{Name: name, actionBody: actionBody{run: func(x *interpreter) error { return fn(contextOf[C](x), *x.event) }}}
	}
	return Action[C]{Name: name, actionBody: actionBody{payload: reflect.TypeFor[E](), run: func(x *interpreter) error {
		payload, ok := x.event.Payload.(E)
		if !ok {
			return payloadMismatch[E](*x.event)
		}
		return fn(contextOf[C](x), payload)
	}}}
}

// Raise returns an action that puts an event without payload at the end of the internal
// queue: it is handled in the same macrostep (SCXML 4.2).
func Raise[C any](typ string) Action[C] {
	return Action[C]{Name: "raise " + typ, actionBody: actionBody{raises: typ, made: Made{By: MadeByRaise, Event: typ}, run: func(x *interpreter) error {
		x.raise(Event{Type: typ})
		return nil
	}}}
}

// RaiseWith is Raise for an event whose payload is made from the context.
func RaiseWith[C, P any](typ string, payload func(C, Event) P) Action[C] {
	return Action[C]{Name: "raise " + typ, actionBody: actionBody{raises: typ, carries: reflect.TypeFor[P](), made: Made{By: MadeByRaiseWith, Event: typ}, run: func(x *interpreter) error {
		x.raise(Event{Type: typ, Payload: payload(*contextOf[C](x), *x.event)})
		return nil
	}}}
}

// SendTo returns an action that sends an event to another instance, once this step is stored.
// The function names the instance ("machine/id") and makes the payload, which must marshal to
// a JSON object, or be nil.
func SendTo[C any](typ string, fn func(C, Event) (instance string, payload any)) Action[C] {
	return Action[C]{Name: "send " + typ, actionBody: actionBody{run: func(x *interpreter) error {
		instance, payload := fn(*contextOf[C](x), *x.event)
		return x.send(instance, typ, payload)
	}}}
}

// SendAfter returns an action that sends the chart itself an event once a delay has passed,
// whatever state it is in by then (SCXML 6.2). The function makes the delay and the payload, which
// must marshal to a JSON object of the declared type, or be nil. Until then, Cancel takes back the
// events sent under the ID; several may share one, and "" cannot be cancelled.
func SendAfter[C any](id, typ string, fn func(C, Event) (delay time.Duration, payload any)) Action[C] {
	return Action[C]{Name: "send " + typ, actionBody: actionBody{sends: typ, made: Made{By: MadeBySendAfter, Event: typ, ID: id}, run: func(x *interpreter) error {
		delay, payload := fn(*contextOf[C](x), *x.event)
		return x.sendAfter(id, typ, delay, payload)
	}}}
}

// Cancel returns an action that takes back the events that SendAfter sent under the ID and that
// have not arrived (SCXML 6.3).
func Cancel[C any](id string) Action[C] {
	return Action[C]{Name: "cancel " + id, actionBody: actionBody{made: Made{By: MadeByCancel, ID: id}, run: func(x *interpreter) error {
		x.cancel(id)
		return nil
	}}}
}

// encodeEvent writes an event in the JSON form that Decode reads.
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
	// Name identifies the guard in errors, traces and graphs.
	Name string
	// Params are what the guard was made with, as an action's are.
	Params json.RawMessage
	guardBody
	// of are the guards that it is made of.
	of []Guard[C]
}

// guardBody is what a guard is for the engine.
type guardBody struct {
	test    func(*interpreter) (bool, error)
	payload reflect.Type
	// in is the state that an In guard asks for, resolved when the chart is compiled.
	in string
	// made says by which constructor, for Made.
	made GuardMaker
}

// When returns a guard over the context and the event. E is Event, or the payload type of the
// events that the transition reacts to, as in Assign. The function must not change what the
// context refers to.
func When[C, E any](name string, fn func(C, E) bool) Guard[C] {
	if fn == nil {
		return Guard[C]{Name: name}
	}
	if fn, ok := any(fn).(func(C, Event) bool); ok { // Not through TryWhen: an event is large.
		return Guard[C]{Name: name, guardBody: guardBody{test: func(x *interpreter) (bool, error) { return fn(*contextOf[C](x), *x.event), nil }}}
	}
	return TryWhen(name, func(c C, e E) (bool, error) { return fn(c, e), nil })
}

// If returns a guard over the context alone, whatever the event.
func If[C any](name string, fn func(C) bool) Guard[C] {
	if fn == nil {
		return Guard[C]{Name: name}
	}
	return Guard[C]{Name: name, guardBody: guardBody{test: func(x *interpreter) (bool, error) { return fn(*contextOf[C](x)), nil }}}
}

// TryWhen is When for a function that can fail. Its error fails the step, unless the chart has a
// transition for ExecutionError: then the guard does not hold.
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

// And returns a guard that holds when all of the guards do; they are tried in order.
func And[C any](guards ...Guard[C]) Guard[C] {
	return Guard[C]{Name: joinGuards("and", guards), of: guards, guardBody: guardBody{made: MadeByAnd, test: func(x *interpreter) (bool, error) {
		for i := range guards {
			if holds, err := guards[i].holds(x); err != nil || !holds {
				return false, err
			}
		}
		return true, nil
	}}}
}

// Or returns a guard that holds when one of the guards does; they are tried in order.
func Or[C any](guards ...Guard[C]) Guard[C] {
	return Guard[C]{Name: joinGuards("or", guards), of: guards, guardBody: guardBody{made: MadeByOr, test: func(x *interpreter) (bool, error) {
		for i := range guards {
			if holds, err := guards[i].holds(x); err != nil || holds {
				return holds, err
			}
		}
		return false, nil
	}}}
}

// Not returns a guard that holds when the given one does not.
func Not[C any](guard Guard[C]) Guard[C] {
	return Guard[C]{Name: "not " + guard.Name, of: []Guard[C]{guard}, guardBody: guardBody{made: MadeByNot, test: func(x *interpreter) (bool, error) {
		holds, err := guard.holds(x)
		return !holds && err == nil, err
	}}}
}

// In returns a guard that holds while the state with the given path ("region.state") is
// active (SCXML 5.9.1).
func In[C any](path string) Guard[C] {
	return Guard[C]{Name: "in " + path, guardBody: guardBody{in: path, made: MadeByIn, test: func(x *interpreter) (bool, error) {
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
