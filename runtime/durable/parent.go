package durable

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/readjson"
	"github.com/settle-run/settle/runtime/statechart"
)

// childStart is the message that stores a child, with its input. `stopped` is set if the message stores the child as
// stopped. An instance without a parent has a zero childStart.
type childStart struct {
	toChild
	input   any
	stopped Instance
}

// isChildOf reports whether the instance exists as the given child.
func (t *turn) isChildOf(parent instances.Parent) bool {
	return t.draft.Instance != nil && t.draft.Record.Parent != nil && *t.draft.Record.Parent == parent
}

// isNamedBy reports whether the instance has the name that the parent gives the child.
func (t *turn) isNamedBy(parent instances.Parent) bool {
	id, err := instances.ParseID(parent.Instance)
	return err == nil && t.draft.Record.Instance == instances.ChildName(id, time.UnixMilli(parent.Incarnation), parent.Child, t.machine.ID())
}

// readToChild parses the body of startEvent or stopEvent.
func readToChild(body string) (form toChild, err error) {
	if err := readjson.Unmarshal([]byte(body), &form); err != nil {
		return form, fmt.Errorf("%w: %w", statechart.ErrPayload, err)
	}
	if _, err := instances.ParseID(form.Parent.Instance); err != nil || form.Parent.Child == "" {
		return form, fmt.Errorf("%w: expected the key %s with a parent's instance, incarnation and child, got %+v", statechart.ErrPayload, parentKey, form.Parent)
	}
	return form, nil
}

// checkStart checks startEvent.
func (t *turn) checkStart(d Delivery) (verdict, error) {
	form, err := readToChild(d.Body)
	switch {
	case err != nil:
		return poisoned, err
	case !t.isNamedBy(form.Parent):
		return skipped, nil // The message is forged. Parking it would report a failed child to the parent.
	case t.draft.Instance == nil:
		return applicable, nil
	case !t.isChildOf(form.Parent):
		return poisoned, fmt.Errorf("%s exists, but it is not that child of %s: another sender started it", t.draft.Record.Instance, form.Parent.Instance)
	default:
		return skipped, nil
	}
}

// checkStop checks stopEvent. The stop message is applied even if the child is not stored yet: see readChildStart.
func (t *turn) checkStop(d Delivery) (verdict, error) {
	form, err := readToChild(d.Body)
	switch {
	case err != nil:
		return poisoned, err
	case t.draft.Instance == nil && t.isNamedBy(form.Parent):
		return applicable, nil
	case t.isChildOf(form.Parent) && t.draft.Instance.Status() == statechart.Active:
		return applicable, nil
	default:
		return skipped, nil
	}
}

// checkAddressee rejects an event that a parent sent to its child if this instance is not that child. In that case, the
// child has ended and expired, or never started.
func (t *turn) checkAddressee(body string) error {
	if !strings.Contains(body, parentKey) {
		return nil
	}
	var form struct {
		Parent *instances.Parent `json:"$parent"`
	}
	if err := readjson.Unmarshal([]byte(body), &form); err != nil {
		return fmt.Errorf("%w: %w", statechart.ErrPayload, err)
	}
	if form.Parent == nil || t.isChildOf(*form.Parent) {
		return nil
	}
	return fmt.Errorf("%s sent it to its child %s, which does not exist: it could not be started, or has ended and expired", form.Parent.Instance, t.draft.Record.Instance)
}

// checkBegins returns an error if an event of the type cannot start an instance.
func (t *turn) checkBegins(typ string) error {
	if t.machine.TakesInput() {
		return fmt.Errorf("%s does not exist, and begins with an input: only a parent starts it", t.draft.Record.Instance)
	}
	if !t.machine.StartedBy(typ) {
		starting := slices.DeleteFunc(t.machine.Events(), func(event string) bool { return !t.machine.StartedBy(event) })
		return fmt.Errorf("%s does not exist, and an event of type %q does not start one: expected %s first", t.draft.Record.Instance, typ, cmp.Or(strings.Join(starting, " or "), "that its parent starts it"))
	}
	return nil
}

// readChildStart reads the message that stores a child. It returns the zero value if the message stores nothing: the
// input is wrong and the parent was notified, or the machine cannot store a stopped child.
//
// A stop message stores the child as stopped, and so does a start message of a child that the parent no longer awaits.
// After that, a process that was frozen cannot store the child as active. The stop message does this because the start
// message may have failed or may be in the dead-letter queue. For a start message, the loop looks into the parent's
// item: the message may arrive after the child has ended and its item has expired.
func (t *turn) readChildStart(ctx context.Context, d Delivery) (start childStart, err error) {
	form, err := readToChild(d.Body)
	if err != nil {
		return start, err
	}
	awaited := false
	if form.Type == startEvent {
		if awaited, err = t.loop.awaitedByParent(ctx, form.Parent, t.machine.ID()); err != nil {
			return start, err
		}
	}
	if !awaited {
		stopped, err := t.machine.Stopped()
		if err != nil {
			t.loop.config.Logger.WarnContext(ctx, "cannot store a child as stopped; its data must accept the JSON of its zero value", "instance", d.Group, "message_id", d.MessageID, "error", err)
			return start, nil // A retry would fail too.
		}
		return childStart{toChild: form, stopped: stopped}, nil
	}
	input, err := t.machine.DecodeInput(form.Input)
	if err != nil {
		return start, t.park(ctx, d, startEvent, err)
	}
	return childStart{toChild: form, input: input}, nil
}

// awaitedByParent reports whether the parent lists the child, as a child of the machine. The parent stored the child
// before it sent the start message.
func (l *Loop) awaitedByParent(ctx context.Context, parent instances.Parent, machine string) (bool, error) {
	id, err := instances.ParseID(parent.Instance)
	if err != nil {
		return false, err
	}
	record, err := l.load(ctx, id)
	if err != nil {
		return false, fmt.Errorf("reading the parent %s: %w", id, err)
	}
	if record.Revision == 0 || record.CreatedAt.UnixMilli() != parent.Incarnation {
		return false, nil
	}
	var snapshot struct {
		Children map[string]struct {
			Key     string `json:"key"`
			Machine string `json:"machine"`
		} `json:"children"`
	}
	if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
		return false, fmt.Errorf("reading the snapshot of the parent %s: %w: %w", id, ErrUnreadable, err)
	}
	for _, child := range snapshot.Children {
		if child.Key == parent.Child && child.Machine == machine {
			return true, nil
		}
	}
	return false, nil
}

// failStart reports to the parent that the start failed permanently. The start message is not parked, because a redrive
// would start a child that no parent waits for.
func (l *Loop) failStart(ctx context.Context, d Delivery, parent instances.Parent, reason error) error {
	to, err := instances.ParseID(parent.Instance)
	if err != nil {
		return err
	}
	l.config.Logger.ErrorContext(ctx, "child cannot be started", "instance", d.Group, "parent", parent.Instance, "reason", reason)
	end := childEnd{
		Type: childEvent, Incarnation: parent.Incarnation, Child: parent.Child, Status: childFailed,
		Message: cut(reason.Error(), failureMessageBytesMax),
	}
	var next json.RawMessage
	if chain, ok := chainIn(d.Body); ok {
		next = l.nextHop(chain, d.Group)
	}
	return l.send(ctx, to, end, fmt.Sprintf("%s@%d/%s.failed", to, parent.Incarnation, parent.Child), next)
}

// stopStuck stops an instance that cannot settle, if the delivery is its parent's stop.
func (t *turn) stopStuck(d Delivery) bool {
	if t.draft.Instance == nil || t.draft.Instance.Settled() || eventHead(json.RawMessage(d.Body)).Type != stopEvent {
		return false
	}
	form, err := readToChild(d.Body)
	from := t.draft.Instance.State()
	if err != nil || !t.isChildOf(form.Parent) || t.stop() != nil {
		return false
	}
	t.closeWaits()
	t.pass(d)
	t.notes.applied = append(t.notes.applied, Applied{Delivery: d, Event: stopEvent, From: from, To: t.draft.Instance.State(), Attempts: d.ReceiveCount, Settled: true})
	return true
}

// stop ends the instance from outside.
func (t *turn) stop() error {
	from, now := t.draft.Instance.State(), t.loop.config.Now()
	next, effects, stopped, err := t.draft.Instance.Stop(now)
	if err != nil || !stopped {
		return err
	}
	t.draft.Instance = next
	for _, effect := range effects {
		t.ask(effect)
	}
	t.addHistory(instances.Transition{At: now.UTC().Truncate(timeUnit), Event: stopEvent, From: from, To: next.State()}, statechart.Event{At: now}, "")
	return nil
}

// endAsChild notifies the parent if the instance is done.
func (t *turn) endAsChild() {
	if t.draft.Record.Parent != nil && t.draft.Instance.Status() == statechart.Done {
		t.owe(statechart.Effect{ID: "end", Kind: notifyParent})
	}
}

// parentMessage builds the message that reports the end of the instance to its parent. It takes the output from the
// snapshot: a second copy in the outbox might make the item too large.
func (t *turn) parentMessage(effect statechart.Effect) (Message, error) {
	r := &t.stored.Record
	if r.Parent == nil {
		return Message{}, fmt.Errorf("the outbox of %s has a message to its parent, but the instance has no parent", r.Instance)
	}
	to, err := instances.ParseID(r.Parent.Instance)
	if err != nil {
		return Message{}, err
	}
	if effect.Kind == notifyStopped {
		stopped := childEnd{Type: childEvent, Incarnation: r.Parent.Incarnation, Child: r.Parent.Child, Status: childFailed, Message: effect.Message}
		return t.message(to, stopped, t.derivedID(effect.ID))
	}
	var snapshot struct {
		Output json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(r.Snapshot, &snapshot); err != nil {
		return Message{}, err
	}
	end := childEnd{Type: childEvent, Incarnation: r.Parent.Incarnation, Child: r.Parent.Child, Status: childDone, Output: snapshot.Output}
	if bytes := len(end.Output); bytes > instances.EventBytesMax {
		end.Status, end.Output = childFailed, nil
		end.Message = fmt.Sprintf("%s is done, but its output has %d bytes, the limit is %d (EventBytesMax): store it elsewhere and return a reference", r.Instance, bytes, instances.EventBytesMax)
	}
	return t.message(to, end, t.derivedID(effect.ID))
}
