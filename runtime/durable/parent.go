package durable

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// birth is what a child begins with.
type birth struct {
	parent Parent
	input  any
}

// isChildOf reports whether the instance exists as that child.
func (t *turn) isChildOf(parent Parent) bool {
	return t.instance != nil && t.record.Parent != nil && *t.record.Parent == parent
}

// readToChild reads the body of startEvent or stopEvent.
func readToChild(body string) (form toChild, err error) {
	if err := statechart.ReadJSON([]byte(body), &form); err != nil {
		return form, fmt.Errorf("%w: %w", statechart.ErrPayload, err)
	}
	if _, err := ParseInstanceID(form.Parent.Instance); err != nil || form.Parent.Child == "" {
		return form, fmt.Errorf("%w: expected the key %s with a parent's instance, incarnation and child, got %+v", statechart.ErrPayload, parentKey, form.Parent)
	}
	return form, nil
}

// examineAsChild is examine for what parents send their children.
func (t *turn) examineAsChild(d Delivery, event statechart.Event) (statechart.Event, verdict, error) {
	form, err := readToChild(d.Body)
	switch {
	case err != nil:
		return event, poisoned, err
	case event.Type == startEvent && t.instance == nil:
		return event, applicable, nil
	case event.Type == startEvent && !t.isChildOf(form.Parent):
		return event, poisoned, fmt.Errorf("%s exists, and is not that child of %s: somebody else has begun it", t.record.Instance, form.Parent.Instance)
	case event.Type == stopEvent && t.isChildOf(form.Parent) && t.instance.Status() == statechart.Active:
		return event, applicable, nil
	default:
		return event, skipped, nil
	}
}

// checkAddressee refuses an event that a parent has sent to a child other than this instance: that
// child is not there any more, or never was.
func (t *turn) checkAddressee(body string) error {
	if !strings.Contains(body, parentKey) {
		return nil
	}
	var form struct {
		Parent *Parent `json:"$parent"`
	}
	if err := statechart.ReadJSON([]byte(body), &form); err != nil {
		return fmt.Errorf("%w: %w", statechart.ErrPayload, err)
	}
	if form.Parent == nil || t.isChildOf(*form.Parent) {
		return nil
	}
	return fmt.Errorf("%s sent it to its child %s, which does not exist: it could not be started, or has ended and expired", form.Parent.Instance, t.record.Instance)
}

// checkBegins reports why an event of the type does not begin an instance, nil if it does.
func (t *turn) checkBegins(typ string) error {
	if t.machine.TakesInput() {
		return fmt.Errorf("%s does not exist, and begins with an input: only a parent starts it", t.record.Instance)
	}
	if !t.machine.StartedBy(typ) {
		starting := slices.DeleteFunc(t.machine.Events(), func(event string) bool { return !t.machine.StartedBy(event) })
		return fmt.Errorf("%s does not exist, and an event of type %q does not start one: expected %s first", t.record.Instance, typ, cmp.Or(strings.Join(starting, " or "), "that its parent starts it"))
	}
	return nil
}

// admit decides whether a start is to be tried. One that the parent does not wait for any more is over,
// and so is one with a wrong input, of which the parent is told.
//
// The parent is asked, and not a mark left by a stop: a start may come after the stop, out of the
// dead-letter queue, and when all that was stored of the child has expired.
func (t *turn) admit(ctx context.Context, d Delivery) (over bool, err error) {
	form, err := readToChild(d.Body)
	if err != nil {
		return false, err
	}
	awaited, err := t.loop.lists(ctx, form.Parent)
	if err != nil {
		return false, err
	}
	if !awaited {
		t.loop.config.Logger.InfoContext(ctx, "start skipped, the parent does not wait for this child any more", "instance", d.Group, "message_id", d.MessageID)
		t.forestall(ctx, d, form)
		return true, nil
	}
	input, err := t.machine.DecodeInput(form.Input)
	if err != nil {
		return true, t.park(ctx, d, startEvent, err)
	}
	t.birth = &birth{parent: form.Parent, input: input}
	return false, nil
}

// forestall stores a child that nobody waits for as stopped, without its effects: a process that was frozen when the
// parent still waited may be about to store it as active. If it cannot begin here, it cannot there.
func (t *turn) forestall(ctx context.Context, d Delivery, form toChild) {
	parent, err := ParseInstanceID(form.Parent.Instance)
	if err != nil || t.record.Instance != ChildName(parent, time.UnixMilli(form.Parent.Incarnation), form.Parent.Child, t.machine.ID()) {
		return // No parent has asked for a child of this name.
	}
	now := t.loop.config.Now()
	input, err := t.machine.DecodeInput(form.Input)
	if err != nil {
		return
	}
	instance, _, err := t.machine.Start(statechart.Start{Instance: t.record.Instance.String(), At: now, Input: input})
	if err != nil {
		return
	}
	if _, _, err := instance.Stop(now); err != nil {
		t.loop.config.Logger.WarnContext(ctx, "a child that nobody waits for cannot be stopped", "instance", d.Group, "error", err)
		return
	}
	t.adopt(instance)
	t.record.Parent, t.record.CreatedAt = &form.Parent, d.SentAt.UTC().Truncate(time.Millisecond)
	t.pass(d)
}

// lists reports whether the parent lists the child. It did when it asked for it: that was stored before.
func (l *Loop) lists(ctx context.Context, parent Parent) (bool, error) {
	id, err := ParseInstanceID(parent.Instance)
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
			Key string `json:"key"`
		} `json:"children"`
	}
	if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil {
		return false, fmt.Errorf("reading the snapshot of the parent %s: %w: %w", id, ErrUnreadable, err)
	}
	for _, child := range snapshot.Children {
		if child.Key == parent.Child {
			return true, nil
		}
	}
	return false, nil
}

// failStart tells a parent of a start that failed for good. Such a start is not parked: sent again one
// day, it would begin a child that nobody waits for.
func (l *Loop) failStart(ctx context.Context, d Delivery, parent Parent, reason error) error {
	to, err := ParseInstanceID(parent.Instance)
	if err != nil {
		return err
	}
	l.config.Logger.ErrorContext(ctx, "child cannot be started", "instance", d.Group, "parent", parent.Instance, "reason", reason)
	end := childEnd{
		Type: childEvent, Incarnation: parent.Incarnation, Child: parent.Child, Status: childFailed,
		Message: cut(reason.Error(), failureMessageBytesMax),
	}
	return l.send(ctx, to, end, fmt.Sprintf("%s@%d/%s.failed", to, parent.Incarnation, parent.Child))
}

// stopStuck stops an instance that cannot settle, if that is what the delivery asks for.
func (t *turn) stopStuck(d Delivery) bool {
	if t.instance == nil || t.instance.Settled() || eventHead(json.RawMessage(d.Body)).Type != stopEvent {
		return false
	}
	form, err := readToChild(d.Body)
	from := t.instance.State()
	if err != nil || !t.isChildOf(form.Parent) || t.stop() != nil {
		return false
	}
	t.leaveOff()
	t.pass(d)
	t.untold = append(t.untold, Applied{Delivery: d, Event: stopEvent, From: from, To: t.instance.State(), Attempts: d.ReceiveCount, Settled: true})
	return true
}

// stop ends the instance from outside.
func (t *turn) stop() error {
	from, now := t.instance.State(), t.loop.config.Now()
	effects, stopped, err := t.instance.Stop(now)
	if err != nil || !stopped {
		return err
	}
	for _, effect := range effects {
		if effect.Kind == statechart.ResolveWaits {
			t.answer(effect)
		} else {
			t.ask(effect)
		}
	}
	t.releaseAliases()
	transition := Transition{At: now.UTC().Truncate(time.Millisecond), Event: stopEvent, From: from, To: t.instance.State()}
	t.record.History = last(append(t.record.History, transition), t.loop.config.HistoryMax)
	t.unlogged = append(t.unlogged, transition)
	t.dirty = true
	return nil
}

// endAsChild asks for the message that tells the parent of an instance which is done.
func (t *turn) endAsChild() {
	if t.record.Parent != nil && t.instance.Status() == statechart.Done {
		t.ask(statechart.Effect{ID: "end", Kind: tellParent})
	}
}

// tellParent tells the parent that the instance is done. The output is that of the snapshot: an item
// that held it twice might be too large.
func (t *turn) tellParent(ctx context.Context, effect statechart.Effect) error {
	if t.record.Parent == nil {
		return fmt.Errorf("the outbox of %s has a message for its parent, and it has none", t.record.Instance)
	}
	to, err := ParseInstanceID(t.record.Parent.Instance)
	if err != nil {
		return err
	}
	var snapshot struct {
		Output json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(t.record.Snapshot, &snapshot); err != nil {
		return err
	}
	end := childEnd{Type: childEvent, Incarnation: t.record.Parent.Incarnation, Child: t.record.Parent.Child, Status: childDone, Output: snapshot.Output}
	if bytes := len(end.Output); bytes > EventBytesMax {
		end.Status, end.Output = childFailed, nil
		end.Message = fmt.Sprintf("%s is done, but its output has %d bytes, the limit is %d (EventBytesMax): keep it elsewhere, and end with where it is", t.record.Instance, bytes, EventBytesMax)
	}
	return t.loop.send(ctx, to, end, t.derivedID(effect.ID))
}
