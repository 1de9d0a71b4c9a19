package statechart

import (
	"encoding/json"
	"fmt"
	"slices"
)

// The types of the events by which the ends of child instances arrive.
const (
	doneChildPrefix  = "done.child."
	errorChildPrefix = "error.child."
)

// Child describes a child instance that lives while its state is active (an <invoke> of
// SCXML 6.4, an actor that XState v5 invokes): it is started when the step that enters the state
// comes to its end, and stopped when the state is left or the instance ends.
type Child[C any] struct {
	// ID names the child in the events done.child.ID and error.child.ID. Empty means the path of
	// the state, or the ID of the chart, for one of its own.
	ID string
	// Machine is the ID of the child's machine.
	Machine string
	// Input makes the input of the child, which must marshal to JSON. Nil means none.
	Input func(C, Event) any
	// InputParams are what Input was made with, as an action's Params are.
	InputParams json.RawMessage
	// OnDone are the transitions taken when the child is done; its output is the event's payload
	// (json.RawMessage).
	OnDone []Transition[C]
	// OnError are the transitions taken when the child could not be started or was given up; the
	// payload is a ChildError.
	OnError []Transition[C]
}

// ChildError is the payload of error.child.ID.
type ChildError struct {
	Machine string `json:"machine"`
	Message string `json:"message"`
}

// ChildRef is a child instance that lives.
type ChildRef struct {
	// ID is the one in the events done.child.ID and error.child.ID; no two children that live at
	// the same time share one.
	ID string
	// Key is unique within the instance, for ever: the host derives the child's name from it, and
	// the end of a child with an older key is ignored.
	Key string
	// Machine is the ID of the child's machine.
	Machine string
	// State is the path of the state that invokes the child, "" if that is the chart itself or if an
	// action has spawned it.
	State string
}

// Done returns the event by which the host reports that a child is done, with the JSON of its
// output, nil if there is none.
func (r ChildRef) Done(output json.RawMessage) Event {
	return Event{Type: doneChildPrefix + r.ID, Invocation: r.Key, Payload: output}
}

// Failed returns the event by which the host reports that a child could not be started or was
// given up.
func (r ChildRef) Failed(err error) Event {
	return Event{Type: errorChildPrefix + r.ID, Invocation: r.Key, Payload: ChildError{Machine: r.Machine, Message: err.Error()}}
}

// UsesChildren reports whether some state has Children or some action is about a child. An action of
// EnqueueActions may be although this says no.
func (c *chart) UsesChildren() bool { return c.usesChildren }

// Spawn returns an action that starts a child instance, which lives until it ends itself, StopChild
// stops it, or this instance ends (spawnChild in XState v5). Its end arrives as done.child.ID, with
// its output (json.RawMessage), or error.child.ID, with a ChildError. The function makes the
// child's input, which must marshal to JSON; nil means none. That a child with the ID lives
// already is an error.
func Spawn[C any](id, machine string, input func(C, Event) any) Action[C] {
	made := Made{By: MadeBySpawn, ID: id, Machine: machine, Computed: input != nil}
	erased := eraseFunc(input)
	return Action[C]{Name: "spawn " + id, actionBody: actionBody{child: id, spawns: true, made: made, run: func(x *interpreter) error {
		return x.spawn(id, machine, "", x.made(erased))
	}}}
}

// StopChild returns an action that stops the child instance with the ID, if it lives, invoked ones
// included. Nothing more arrives from it.
func StopChild[C any](id string) Action[C] {
	made := Made{By: MadeByStopChild, ID: id}
	return Action[C]{Name: "stop " + id, actionBody: actionBody{child: id, made: made, run: func(x *interpreter) error { return x.stopChild(id) }}}
}

// SendToChild returns an action that sends an event to the child instance with the ID, once this
// step is stored. The function makes the payload, which must marshal to a JSON object, or be nil; a
// nil function means none. That no such child lives is an error.
func SendToChild[C any](id, typ string, fn func(C, Event) any) Action[C] {
	made := Made{By: MadeBySendToChild, ID: id, Event: typ, Computed: fn != nil}
	erased := eraseFunc(fn)
	return Action[C]{Name: "send " + typ, actionBody: actionBody{child: id, made: made, run: func(x *interpreter) error {
		return x.sendToChild(id, typ, x.made(erased))
	}}}
}

// Spawn starts a child instance with an input, nil for none, as the action Spawn does.
func (q Enqueue) Spawn(id, machine string, input any) error {
	return q.to.spawn(id, machine, "", input)
}

// StopChild stops a child instance, as the action StopChild does.
func (q Enqueue) StopChild(id string) error { return q.to.stopChild(id) }

// SendToChild sends an event to a child instance, as the action SendToChild does.
func (q Enqueue) SendToChild(id, typ string, payload any) error {
	return q.to.sendToChild(id, typ, payload)
}

// made returns what a function of the chart makes, nil if there is none.
func (x *interpreter) made(fn func(held, Event) any) any {
	if fn == nil {
		return nil
	}
	return fn(x.context, *x.event)
}

// spawn starts a child, for a state or, if state is "", for an action.
func (x *interpreter) spawn(id, machine, state string, input any) error {
	if id == "" || machine == "" || len(errorChildPrefix+id) > EventNameBytesMax {
		return fmt.Errorf("spawning a child: expected an ID of at most %d bytes and a machine, got %q and %q", EventNameBytesMax-len(errorChildPrefix), id, machine)
	}
	if _, lives := x.child(id); lives {
		return fmt.Errorf("spawning child %q: expected an ID of its own, but a child with that ID lives", id)
	}
	if len(x.snapshot.Children) >= ChildrenMax {
		return fmt.Errorf("%w: more than %d children at once (ChildrenMax)", ErrLimit, ChildrenMax)
	}
	var encoded json.RawMessage
	if input != nil {
		var err error
		if encoded, err = json.Marshal(input); err != nil {
			return fmt.Errorf("encoding the input of child %q: %w", id, err)
		}
	}
	ref := ChildRef{ID: id, Key: x.nextID(), Machine: machine, State: state}
	x.writable().Children = append(slices.Clip(x.snapshot.Children), ref)
	return x.effect(Effect{ID: ref.Key, Kind: SpawnInstance, Child: ref.Key, Machine: machine, Input: encoded})
}

// child returns the child that lives under an ID.
func (x *interpreter) child(id string) (ChildRef, bool) {
	k := slices.IndexFunc(x.snapshot.Children, func(r ChildRef) bool { return r.ID == id })
	if k < 0 {
		return ChildRef{}, false
	}
	return x.snapshot.Children[k], true
}

func (x *interpreter) sendToChild(id, typ string, payload any) error {
	ref, lives := x.child(id)
	if !lives {
		return fmt.Errorf("sending event %q: no child %q lives", typ, id)
	}
	body, err := encodeEvent(typ, payload)
	if err != nil {
		return err
	}
	return x.effect(Effect{Kind: Send, Child: ref.Key, Machine: ref.Machine, Event: body})
}

func (x *interpreter) stopChild(id string) error {
	return x.stopChildren(func(r ChildRef) bool { return r.ID == id })
}

// stopChildren stops the children that the function picks. Of one that this step has spawned,
// nothing is asked.
func (x *interpreter) stopChildren(which func(ChildRef) bool) error {
	if !slices.ContainsFunc(x.snapshot.Children, which) {
		return nil
	}
	stopped := slices.DeleteFunc(slices.Clone(x.snapshot.Children), func(r ChildRef) bool { return !which(r) })
	x.writable().Children = slices.DeleteFunc(slices.Clone(x.snapshot.Children), which)
	for _, ref := range stopped {
		asked := len(x.effects)
		if step, _ := splitID(ref.Key); step == x.snapshot.Steps+1 {
			x.effects = slices.DeleteFunc(x.effects, func(e Effect) bool { return e.Child == ref.Key })
		}
		if len(x.effects) < asked {
			continue
		}
		if err := x.effect(Effect{Kind: StopInstance, Child: ref.Key, Machine: ref.Machine}); err != nil {
			return err
		}
	}
	return nil
}

// takeChild removes the child with the key, whose end has come, and reports whether it lived.
func (x *interpreter) takeChild(key string) bool {
	before := len(x.snapshot.Children)
	x.writable().Children = slices.DeleteFunc(slices.Clone(x.snapshot.Children), func(r ChildRef) bool { return r.Key == key })
	return len(x.snapshot.Children) < before
}

// cancelChildren stops the children of a state that is left.
func (x *interpreter) cancelChildren(n *node) error {
	x.runs(stopCode, "", n.index)
	// One of the chart's own has no more of a state than one that was spawned.
	of := func(r ChildRef) bool { return r.State == n.path && (n.index > 0 || x.chart.hasChild(n, r)) }
	if err := x.stopChildren(of); err != nil {
		return x.fail(err)
	}
	return nil
}

// invokeChildren starts the children of the states that were entered and not left again. Events
// that this has raised are handled in the same macrostep, as in SCXML's mainEventLoop.
func (x *interpreter) invokeChildren() error {
	for _, i := range x.statesToInvoke {
		n := &x.chart.nodes[i]
		for k := range n.def.Children {
			child := &n.def.Children[k]
			id := x.chart.childID(n, k)
			x.runs(childCode, id, n.index)
			err := x.spawn(id, child.Machine, n.path, x.made(child.Input))
			if err == nil {
				continue
			}
			if err := x.executionError(x.fail(err)); err != nil {
				return err
			}
		}
	}
	x.statesToInvoke = x.statesToInvoke[:0]
	if len(x.internalQueue) == 0 {
		return nil
	}
	return x.complete()
}

type childJSON struct {
	Key     string `json:"key"`
	Machine string `json:"machine"`
	State   string `json:"state,omitempty"`
}

func childrenJSON(children []ChildRef) map[string]childJSON {
	if len(children) == 0 {
		return nil
	}
	form := map[string]childJSON{}
	for _, ref := range children {
		form[ref.ID] = childJSON{Key: ref.Key, Machine: ref.Machine, State: ref.State}
	}
	return form
}

func (c *chart) restoreChildren(form *snapshotJSON, s *bareSnapshot) error {
	if len(form.Children) > ChildrenMax {
		return c.unreadable("expected at most %d children (ChildrenMax), got %d", ChildrenMax, len(form.Children))
	}
	byKey := map[string]string{}
	for _, id := range sortedKeys(form.Children) {
		key := form.Children[id].Key
		if err := c.checkID(key, s); err != nil {
			return err
		}
		if other, twice := byKey[key]; twice {
			return c.unreadable("the children %q and %q share the key %s", other, id, key)
		}
		byKey[key] = id
	}
	for _, key := range sortedIDs(byKey) {
		id := byKey[key]
		stored := form.Children[id]
		if id == "" || stored.Machine == "" || stored.State != "" && !c.invokesChild(s, stored.State, id, stored.Machine) {
			return c.unmatched(hostOrMend, "child %q of machine %q is none of the active state %q of this version", id, stored.Machine, stored.State)
		}
		s.Children = append(s.Children, ChildRef{ID: id, Key: key, Machine: stored.Machine, State: stored.State})
	}
	return nil
}

// invokesChild reports whether an active state has the child.
func (c *chart) invokesChild(s *bareSnapshot, state, id, machine string) bool {
	i, ok := c.byPath[state]
	if !ok || !c.isActive(i, &s.configuration) {
		return false
	}
	return c.hasChild(&c.nodes[i], ChildRef{ID: id, Machine: machine})
}

func (c *chart) hasChild(n *node, ref ChildRef) bool {
	for k := range n.def.Children {
		if c.childID(n, k) == ref.ID && n.def.Children[k].Machine == ref.Machine {
			return true
		}
	}
	return false
}
