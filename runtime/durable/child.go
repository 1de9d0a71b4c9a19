package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// parentKey is the key under which a message to a child holds the child's instances.Parent.
const parentKey = "$parent"

// toChild is the body of startEvent and stopEvent.
type toChild struct {
	Type   string           `json:"type"`
	Parent instances.Parent `json:"$parent"`
	Input  json.RawMessage  `json:"input,omitempty"`
}

// childEnd is the body of childEvent.
type childEnd struct {
	Type        string `json:"type"`
	Incarnation int64  `json:"$incarnation"`
	// Child is the child's key.
	Child   string          `json:"child"`
	Status  childStatus     `json:"status"`
	Output  json.RawMessage `json:"output,omitempty"`
	Message string          `json:"message,omitempty"`
}

// childStatus says how a child has ended.
type childStatus string

const (
	// childDone is the status of a child that is done. Output is its result.
	childDone childStatus = "done"
	// childFailed is the status of a child that failed to start or to finish. Message is the reason.
	childFailed childStatus = "failed"
	// childRefused is the status of a child that the loop refused to spawn.
	childRefused childStatus = "refused"
)

// errNoChild is wrapped by the errors of children that can never be started.
var errNoChild = errors.New("it cannot be a child")

// checkChild returns an error if an instance of the machine cannot be a child.
func (m *Machines) checkChild(machine string) error {
	if _, err := m.Lookup(machine); err != nil {
		return fmt.Errorf("%w: %w", errNoChild, err)
	}
	if _, err := instances.ParseID(instances.ChildName(instances.ID{}, time.Time{}, "", machine).String()); err != nil {
		return fmt.Errorf("%w: with the ID of machine %q, its name would be wrong: %w", errNoChild, machine, err)
	}
	return nil
}

// checkChildren returns an error if a machine spawns children of a machine outside the set, or if a machine needs an
// input and no machine spawns it. It checks the inputs that the current versions give their children.
func (m *Machines) checkChildren() error {
	spawned, anything := map[string]bool{}, false
	for _, machine := range m.all() {
		declared := machine.Describe()
		for _, child := range declared.Children {
			spawned[child] = true
			if err := m.checkChild(child); err != nil {
				return fmt.Errorf("machine %q has child instances of machine %q: %w: host both, or correct the name in its chart", machine.ID(), child, err)
			}
		}
		anything = anything || declared.OtherChildren
	}
	for _, id := range m.ids {
		if m.byID[id].current().TakesInput() && !spawned[id] && !anything {
			return fmt.Errorf("machine %q starts with an Input, which only a parent sends, and no hosted machine spawns it: host such a machine, or read the data from the first event", id)
		}
		if err := m.checkInputs(m.byID[id].current()); err != nil {
			return err
		}
	}
	return nil
}

// checkInputs compares the inputs that a machine gives its children with the inputs that the children take. A child
// starts on the current version of its machine.
func (m *Machines) checkInputs(parent Machine) error {
	for _, child := range parent.Describe().InputTo {
		if !m.byID[child].current().TakesInput() {
			return fmt.Errorf("machine %q gives a child of machine %q an input, but that machine takes none: declare Input in its chart, or remove Input from the child", parent.ID(), child)
		}
	}
	for _, child := range parent.Describe().NoInputTo {
		if _, err := m.byID[child].current().DecodeInput(nil); err != nil {
			return fmt.Errorf("machine %q gives a child of machine %q no input, but that machine needs one: set Input of the child: %w", parent.ID(), child, err)
		}
	}
	return nil
}

// self returns the instance as the parent of the child with the key.
func (t *turn) self(key string) instances.Parent {
	return instances.Parent{Instance: t.draft.Record.Instance.String(), Incarnation: t.incarnation(), Child: key}
}

// spawnable returns the effect. If the effect spawns a child that this process cannot host, spawnable returns a
// refuseChild effect instead. The refusal is stored before the instance receives it.
func (t *turn) spawnable(effect statechart.Effect) statechart.Effect {
	if effect.Kind != statechart.SpawnInstance {
		return effect
	}
	err := t.loop.machines.checkChild(effect.Machine)
	if err == nil {
		return effect
	}
	return statechart.Effect{ID: effect.ID, Kind: refuseChild, Child: effect.Child, Machine: effect.Machine, Message: cut(err.Error(), failureMessageBytesMax)}
}

// childMessage builds the message of an effect that concerns a child.
func (t *turn) childMessage(effect statechart.Effect) (Message, error) {
	r := &t.draft.Record
	to, id := instances.ChildName(r.Instance, r.CreatedAt, effect.Child, effect.Machine), t.derivedID(effect.ID)
	switch effect.Kind {
	case statechart.SpawnInstance:
		return t.message(to, toChild{Type: startEvent, Parent: t.self(effect.Child), Input: effect.Input}, id)
	case statechart.StopInstance:
		return t.message(to, toChild{Type: stopEvent, Parent: t.self(effect.Child)}, id)
	case refuseChild:
		return t.message(r.Instance, childEnd{Type: childEvent, Incarnation: t.incarnation(), Child: effect.Child, Status: childRefused, Message: effect.Message}, id)
	default:
		body, err := withKeys(effect.Event, map[string]any{parentKey: t.self(effect.Child), "$id": id, askedKey: effect.At.UnixMilli()})
		return Message{To: to, Body: body, DeduplicationID: shortened(id), Lane: t.ownLane()}, err
	}
}

// send sends a message that the loop itself makes. `chain` is the message's chain. Nil begins a new chain.
func (l *Loop) send(ctx context.Context, to instances.ID, form any, id string, chain json.RawMessage) error {
	body, err := json.Marshal(form)
	if err != nil {
		return err
	}
	_, err = l.ports.Queue.Send(ctx, Message{To: to, Body: withChain(body, chain), DeduplicationID: shortened(id)})
	return err
}

// applyChildEnd reports the end of a child to the chart, if the instance still lists the child.
func (t *turn) applyChildEnd(ctx context.Context, form childEnd) error {
	ref, lives := t.child(form.Child)
	if !lives {
		return nil
	}
	if form.Status != childDone {
		err := t.applyNow(ref.Failed(errors.New(form.Message)))
		if err == nil && form.Status == childFailed {
			// The child may have started after all, or a retry may still start it. This effect stops it.
			t.owe(statechart.Effect{ID: "child." + ref.Key + ".stop", Kind: statechart.StopInstance, Child: ref.Key, Machine: ref.Machine})
		}
		return err
	}
	err := t.tooLarge
	if err == nil {
		err = t.storably(func() error { return t.applyNow(ref.Done(form.Output)) })
	}
	if errors.Is(err, ErrUnstorable) && len(form.Output) > 0 {
		// If the output does not fit, report a failure.
		t.loop.config.Logger.ErrorContext(ctx, "the output of a child does not fit into its parent", "instance", t.draft.Record.Instance.String(), "child", ref.ID, "error", err)
		err = t.applyNow(ref.Failed(fmt.Errorf("it is done, but its output of %d bytes does not fit into %s: %w", len(form.Output), t.draft.Record.Instance, err)))
	}
	return err
}
