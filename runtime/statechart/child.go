package statechart

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/settle-run/settle/runtime/internal/outline"
)

// Prefixes of the event types that report the end of a child instance.
const (
	doneChildPrefix  = "done.child."
	errorChildPrefix = "error.child."
)

// Child describes a child instance bound to a state (<invoke> in SCXML 6.4, an invoked actor in XState v5). The child
// starts at the end of the step that enters the state, and stops when the state is left or the parent ends.
type Child[C any] struct {
	// ID names the child in done.child.ID and error.child.ID. It defaults to the state's path or, for the root, to the chart's ID.
	ID      string
	Machine string
	// Input returns the input of the child, which must marshal to JSON. Nil means no input.
	Input       func(C, Event) any
	InputParams json.RawMessage // like Action.Params
	OnDone      []Transition[C] // taken with the child's output (json.RawMessage)
	OnError     []Transition[C] // taken with a ChildError, if the child cannot start, an operator ends it, or its output is too large
}

// ChildError is the payload of error.child.ID.
type ChildError struct {
	Machine string `json:"machine"`
	Message string `json:"message"`
}

// ChildRef refers to a running child instance.
type ChildRef struct {
	// ID names the child in done.child.ID and error.child.ID. It is unique among the running children.
	ID string
	// Key is unique among all children that the instance ever starts. The host derives the child's name from it. The chart
	// ignores the end of a child with an older key.
	Key     string
	Machine string
	// State is the path of the invoking state. It is "" for the root state and for a child spawned by an action.
	State string
}

// Done returns the event that reports the end of a child. `output` may be nil.
func (r ChildRef) Done(output json.RawMessage) Event {
	return Event{Type: doneChildPrefix + r.ID, Invocation: r.Key, Payload: output}
}

// Failed returns the event for a child that could not start, was ended by an operator, or has too large an output.
func (r ChildRef) Failed(err error) Event {
	return Event{Type: errorChildPrefix + r.ID, Invocation: r.Key, Payload: ChildError{Machine: r.Machine, Message: err.Error()}}
}

// Spawn returns an action that starts a child instance (spawnChild in XState v5). The child runs until it ends,
// StopChild stops it, or this instance ends. When the child ends, this instance receives done.child.ID with its output
// (json.RawMessage), or error.child.ID with a ChildError. A nil function means no input. The action fails if a child
// with the ID is running.
func Spawn[C any](id, machine string, input func(C, Event) any) Action[C] {
	made := outline.Made{By: outline.Spawn, ID: id, Machine: machine, Computed: input != nil}
	compute := eraseFunc(input)
	return Action[C]{Name: "spawn " + id, actionBody: actionBody{child: id, spawns: true, made: made, run: func(x *interpreter) error {
		return x.spawn(id, machine, "", x.made(compute))
	}}}
}

// StopChild returns an action that stops the spawned or invoked child instance with the ID, if it is running. No
// further events arrive from it.
func StopChild[C any](id string) Action[C] {
	made := outline.Made{By: outline.StopChild, ID: id}
	return Action[C]{Name: "stop " + id, actionBody: actionBody{child: id, made: made, run: func(x *interpreter) error { return x.stopChild(id) }}}
}

// SendToChild returns an action that sends an event to a child instance. A nil function means no payload. The action
// fails if the child is not running.
func SendToChild[C any](id, typ string, fn func(C, Event) any) Action[C] {
	made := outline.Made{By: outline.SendToChild, ID: id, Event: typ, Computed: fn != nil}
	compute := eraseFunc(fn)
	return Action[C]{Name: "send " + typ, actionBody: actionBody{child: id, made: made, run: func(x *interpreter) error {
		return x.sendToChild(id, typ, x.made(compute))
	}}}
}

// Spawn starts a child instance. A nil input means no input.
func (q Enqueue) Spawn(id, machine string, input any) error {
	return q.to.spawn(id, machine, "", input)
}

// StopChild stops a child instance.
func (q Enqueue) StopChild(id string) error { return q.to.stopChild(id) }

// SendToChild sends an event to a child instance.
func (q Enqueue) SendToChild(id, typ string, payload any) error {
	return q.to.sendToChild(id, typ, payload)
}

// made calls a function of the chart and returns its result. It returns nil if the function is nil.
func (x *interpreter) made(fn func(erased, Event) any) any {
	if fn == nil {
		return nil
	}
	return fn(x.context, *x.event)
}

// spawn starts a child. `state` is the path of the invoking state. It is "" for the root state and for an action.
func (x *interpreter) spawn(id, machine, state string, input any) error {
	if id == "" || machine == "" || len(errorChildPrefix+id) > EventNameBytesMax {
		return fmt.Errorf("spawning a child: expected an ID of at most %d bytes and a machine, got %q and %q", EventNameBytesMax-len(errorChildPrefix), id, machine)
	}
	if _, lives := x.child(id); lives {
		return fmt.Errorf("spawning child %q: a child with that ID is already running", id)
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

// child returns the running child with the ID.
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
		return fmt.Errorf("sending event %q: child %q is not running", typ, id)
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

// stopChildren stops the selected children. If a child was spawned in the same step, stopChildren only removes the
// effects for the child from the step.
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

// removeChild removes the ended child with the key. It reports whether the snapshot listed the child.
func (x *interpreter) removeChild(key string) bool {
	before := len(x.snapshot.Children)
	x.writable().Children = slices.DeleteFunc(slices.Clone(x.snapshot.Children), func(r ChildRef) bool { return r.Key == key })
	return len(x.snapshot.Children) < before
}

// cancelChildren stops the children of a state that is left.
func (x *interpreter) cancelChildren(n *node) error {
	x.runs(stopCode, "", n.index)
	// A spawned child has the state "", like a child of the root state.
	of := func(r ChildRef) bool { return r.State == n.path && (n.index > 0 || x.chart.hasChild(n, r)) }
	if err := x.stopChildren(of); err != nil {
		return x.fail(err)
	}
	return nil
}

// invokeChildren starts the children of the states that were entered and not left again. Events raised by failures are
// handled in the same macrostep, as in SCXML's mainEventLoop.
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
		if id == "" || stored.Machine == "" {
			return c.unreadable("expected a child with an ID and a machine, got %q and %q", id, stored.Machine)
		}
		if err := c.checkInvoked(s, id, stored); err != nil {
			return err
		}
		s.Children = append(s.Children, ChildRef{ID: id, Key: key, Machine: stored.Machine, State: stored.State})
	}
	return nil
}

// checkInvoked checks that the stored child's state is active and declares the child. A spawned child has no state.
func (c *chart) checkInvoked(s *bareSnapshot, id string, stored childJSON) error {
	state, ok := c.byPath[stored.State]
	if stored.State == "" || ok && c.isActive(state, &s.configuration) && c.hasChild(&c.nodes[state], ChildRef{ID: id, Machine: stored.Machine}) {
		return nil
	}
	if !ok || !c.isActive(state, &s.configuration) {
		return c.unreadable("child %q of machine %q belongs to the state %q, which is not active", id, stored.Machine, stored.State)
	}
	n, to := &c.nodes[state], "..."
	for k := range n.def.Children {
		if n.def.Children[k].Machine == stored.Machine {
			to = strconv.Quote(c.childID(n, k))
			break
		}
	}
	return c.unmatched(fmt.Sprintf("RenameChild(%q, %s) before any change to %[1]q if the child has another ID now", id, to),
		"child %q of machine %q is not a child of the active state %q in this version", id, stored.Machine, stored.State)
}

func (c *chart) hasChild(n *node, ref ChildRef) bool {
	for k := range n.def.Children {
		if c.childID(n, k) == ref.ID && n.def.Children[k].Machine == ref.Machine {
			return true
		}
	}
	return false
}
