package durable

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Parent says which instance has spawned another, and as which of its children.
type Parent struct {
	// Instance is the parent's name. Incarnation tells it from an earlier instance of that name: its
	// creation, in milliseconds since 1970.
	Instance    string `json:"instance"`
	Incarnation int64  `json:"incarnation"`
	// Child is the child's key in the parent's snapshot (statechart.ChildRef.Key).
	Child string `json:"child"`
}

// parentKey is the key under which an event to a child says whose child is meant.
const parentKey = "$parent"

// toChild is the body of startEvent and stopEvent.
type toChild struct {
	Type   string          `json:"type"`
	Parent Parent          `json:"$parent"`
	Input  json.RawMessage `json:"input,omitempty"`
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
	// childDone is that of a child that is done, with its output.
	childDone childStatus = "done"
	// childFailed is that of a child that did not start, or not to the end: Message says why.
	childFailed childStatus = "failed"
	// childRefused is that of a child that was never asked for.
	childRefused childStatus = "refused"
)

// ChildName returns the name of the child that an instance, created at the given time, has under a key:
// a readable beginning and a hash. It is the same for ever, and no other child's.
func ChildName(parent InstanceID, createdAt time.Time, key, machine string) InstanceID {
	hash := sha256.Sum256(fmt.Appendf(nil, "%s@%d/%s", parent, createdAt.UnixMilli(), key))
	suffix := "-" + hex.EncodeToString(hash[:16])
	readable := strings.ReplaceAll(parent.String(), "/", "-") + "-" + key
	left := max(InstanceIDBytesMax-len(machine)-len("/")-len(suffix), 0)
	return InstanceID{Machine: machine, ID: readable[:min(len(readable), left)] + suffix}
}

// errNoChild is wrapped by the errors of children that can never be started.
var errNoChild = errors.New("it cannot be a child")

// checkChild reports why an instance of the machine cannot be a child, nil if it can.
func (m *Machines) checkChild(machine string) error {
	if _, err := m.Lookup(machine); err != nil {
		return fmt.Errorf("%w: %w", errNoChild, err)
	}
	if _, err := ParseInstanceID(ChildName(InstanceID{}, time.Time{}, "", machine).String()); err != nil {
		return fmt.Errorf("%w: with the ID of machine %q, its name would be wrong: %w", errNoChild, machine, err)
	}
	return nil
}

// checkChildren refuses a set in which a machine spawns what is not in it, or in which one starts with
// an input that nobody gives it.
func (m *Machines) checkChildren() error {
	spawned, anything := map[string]bool{}, false
	for _, machine := range m.all() {
		parent, ok := machine.(interface{ ChildMachines() ([]string, bool) })
		if !ok {
			continue
		}
		children, more := parent.ChildMachines()
		for _, child := range children {
			spawned[child] = true
			if err := m.checkChild(child); err != nil {
				return fmt.Errorf("machine %q has child instances of machine %q: %w: host both, or correct the name in its chart", machine.ID(), child, err)
			}
		}
		anything = anything || more
	}
	for _, id := range m.ids {
		if m.byID[id].current().TakesInput() && !spawned[id] && !anything {
			return fmt.Errorf("machine %q starts with an Input, which only a parent gives it, and no machine here spawns it: host one that does, or take what it needs from its first event", id)
		}
	}
	return nil
}

// self is the instance as the parent of the child with the key.
func (t *turn) self(key string) Parent {
	return Parent{Instance: t.draft.Record.Instance.String(), Incarnation: t.incarnation(), Child: key}
}

// spawnable returns the effect or, if it spawns what nobody here could host, the one that says so: what
// the instance is told is decided before it is stored.
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

// childMessage is the message of an effect about a child.
func (t *turn) childMessage(effect statechart.Effect) (Message, error) {
	r := &t.draft.Record
	to, id := ChildName(r.Instance, r.CreatedAt, effect.Child, effect.Machine), t.derivedID(effect.ID)
	switch effect.Kind {
	case statechart.SpawnInstance:
		return t.message(to, toChild{Type: startEvent, Parent: t.self(effect.Child), Input: effect.Input}, id)
	case statechart.StopInstance:
		return t.message(to, toChild{Type: stopEvent, Parent: t.self(effect.Child)}, id)
	case refuseChild:
		return t.message(r.Instance, childEnd{Type: childEvent, Incarnation: t.incarnation(), Child: effect.Child, Status: childRefused, Message: effect.Message}, id)
	default:
		body, err := withKeys(effect.Event, map[string]any{parentKey: t.self(effect.Child), "$id": id, askedKey: effect.At.UnixMilli()})
		return Message{To: to, Body: body, DeduplicationID: shortened(id)}, err
	}
}

// send sends a message of the loop's own.
func (l *Loop) send(ctx context.Context, to InstanceID, form any, id string) error {
	body, err := json.Marshal(form)
	if err != nil {
		return err
	}
	_, err = l.ports.Queue.Send(ctx, Message{To: to, Body: body, DeduplicationID: shortened(id)})
	return err
}

// applyChildEnd tells the chart of the end of a child, if the instance lists it still.
func (t *turn) applyChildEnd(ctx context.Context, form childEnd) error {
	ref, lives := t.child(form.Child)
	if !lives {
		return nil
	}
	if form.Status != childDone {
		err := t.applyNow(ref.Failed(errors.New(form.Message)))
		if err == nil && form.Status == childFailed {
			// Its start may be tried once more, or have led somewhere: nothing is to come of that.
			t.owe(statechart.Effect{ID: "child." + ref.Key + ".stop", Kind: statechart.StopInstance, Child: ref.Key, Machine: ref.Machine})
		}
		return err
	}
	err := t.storably(func() error { return t.applyNow(ref.Done(form.Output)) })
	if errors.Is(err, ErrUnstorable) && len(form.Output) > 0 {
		// Better a failure than no end.
		t.loop.config.Logger.ErrorContext(ctx, "the output of a child does not fit into its parent", "instance", t.draft.Record.Instance.String(), "child", ref.ID, "error", err)
		err = t.applyNow(ref.Failed(fmt.Errorf("it is done, but its output of %d bytes does not fit into %s: %w", len(form.Output), t.draft.Record.Instance, err)))
	}
	return err
}
