package durable

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/readjson"
	"github.com/settle-run/settle/runtime/statechart"
)

// failureMessageBytesMax limits the reason for parking that an instance keeps. The reason may quote the event, which
// may be larger than an item.
const failureMessageBytesMax = 2 << 10

// park decides to move a delivery to the dead-letter queue. It first records the decision as an effect of the instance.
// If another process applies the same event and is frozen before its commit, that commit later fails. So an event is
// never both applied and parked. If no instance exists, park cannot record the decision and parks the delivery at once.
// If the event was already applied and the instance cannot settle, park does not park the delivery: a redrive would
// apply the event twice.
func (t *turn) park(ctx context.Context, d Delivery, eventType string, reason error) error {
	switch {
	case t.isApplied(d):
		t.loop.config.Logger.ErrorContext(ctx, "event applied, but its instance cannot settle", "instance", d.Group, "message_id", d.MessageID, "reason", reason)
	case t.draft.Instance == nil:
		if err := t.loop.park(ctx, d, reason); err != nil {
			return err
		}
	default:
		place, err := json.Marshal(d.place())
		if err != nil {
			return err
		}
		t.owe(statechart.Effect{ID: "park." + keyOf(d.place()), Kind: parkDelivery, Event: place, Message: cut(reason.Error(), failureMessageBytesMax)})
	}
	if t.draft.Instance != nil {
		t.draft.Record.Error = &instances.Failure{At: t.now(), Event: eventType, Message: cut(reason.Error(), failureMessageBytesMax)}
	}
	t.pass(d)
	return nil
}

// park moves a delivery to the dead-letter queue. If the delivery starts a child that can never start, it notifies the
// parent instead. It also fails the event's task, unless `held` contains the task's token.
func (l *Loop) park(ctx context.Context, d Delivery, reason error, held ...instances.Token) error {
	head := eventHead(json.RawMessage(d.Body))
	if head.Type == startEvent && !errors.Is(reason, errCycle) {
		if form, err := readToChild(d.Body); err == nil {
			return l.failStart(ctx, d, form.Parent, reason)
		}
	}
	if err := l.failParked(ctx, d, reason, held); err != nil {
		return fmt.Errorf("failing the task of message %s of %s: %w", d.MessageID, d.Group, err)
	}
	d.Body = withoutChain(d.Body)
	if err := l.ports.Queue.Park(ctx, d, reason.Error()); err != nil {
		return fmt.Errorf("parking message %s of %s: %w", d.MessageID, d.Group, err)
	}
	l.config.Logger.ErrorContext(ctx, "event parked", "instance", d.Group, "message_id", d.MessageID, "reason", reason)
	if notify := l.config.Observer.Parked; notify != nil {
		notify(ctx, Parked{Delivery: d, Event: head.Type, Reason: reason})
	}
	return nil
}

// parkAll parks deliveries whose group does not name an instance of a hosted machine. If the machine is unknown, it
// retries timer events and the runtime's own messages: a deployment may be adding or removing the machine.
func (l *Loop) parkAll(ctx context.Context, deliveries []Delivery, reason error) (done int, err error) {
	for i, d := range deliveries {
		typ := eventHead(json.RawMessage(d.Body)).Type
		if errors.Is(reason, ErrUnknownMachine) && (typ == statechart.TimerEvent || isInternal(typ)) {
			return i, reason
		}
		if err := l.park(ctx, d, reason); err != nil {
			return i, err
		}
	}
	return len(deliveries), nil
}

// parkUnstorable reads the instance again and parks an event whose outcome cannot be stored. It postpones a timer
// event. Everything that the turn stored before the failure stays stored, and the stored effects are performed. If the
// event reports the end of an execution or a child, parkUnstorable first tries to apply it without the output.
func (l *Loop) parkUnstorable(ctx context.Context, d Delivery, under conditions, reason error) (done int, err error) {
	id, err := l.address(d.Group)
	if err != nil {
		return 0, err
	}
	t, err := l.hydrate(ctx, id, []Delivery{d})
	if err != nil {
		return 0, err
	}
	if errors.Is(reason, ErrUnstorable) && t.mayBringOutput(d) {
		under.tooLarge = reason
		if done, err = l.turn(ctx, []Delivery{d}, under); !errors.Is(err, ErrUnstorable) {
			return done, err
		}
		if t, err = l.hydrate(ctx, id, []Delivery{d}); err != nil {
			return 0, err
		}
	}
	t.chain = t.chainOf(d)
	if err := t.drain(ctx); err != nil {
		return 0, err
	}
	why, err := t.giveUpDelivery(ctx, d, reason)
	if err != nil {
		return 0, err
	}
	err = t.commit(ctx)
	if errors.Is(err, ErrUnstorable) {
		// The record is so full that the decision does not fit either. A retry would block the group forever.
		l.config.Logger.ErrorContext(ctx, "no room in the item for the reason of a parked event", "instance", d.Group, "error", err)
		if err = nil; why != nil {
			err = l.park(ctx, d, why, t.stored.Record.Tokens...)
		}
	} else if err == nil {
		err = t.dispatch(ctx, false)
	}
	if err != nil {
		return 0, err
	}
	return 1, nil
}

// mayBringOutput reports whether the delivery may bring the output of an execution or a child to a settled instance.
func (t *turn) mayBringOutput(d Delivery) bool {
	switch eventHead(json.RawMessage(d.Body)).Type {
	case endedEvent, pollEvent, childEvent:
		return t.draft.Instance != nil && t.draft.Instance.Settled()
	default:
		return false
	}
}

// retriesKey is the key under which a message of the runtime counts how often it was postponed.
const retriesKey = "$retries"

// againID is the deduplication ID under which a delivery is scheduled again. Under the delivery's own deduplication ID,
// SQS would drop the message as a duplicate.
func againID(d Delivery) string { return "again/" + keyOf(d.place()) }

// postpone schedules a message of the runtime again, so that the events behind it proceed. It never parks a message
// that it can read, because nothing would send the parked message again.
func (t *turn) postpone(ctx context.Context, d Delivery, eventType string, reason error) error {
	var form struct {
		Retries int `json:"$retries"`
	}
	if err := readjson.Unmarshal([]byte(d.Body), &form); err != nil {
		return t.park(ctx, d, eventType, err)
	}
	retries := min(max(form.Retries, 0), 1<<20) // The message may be forged.
	wait := doubling(t.loop.config.PostponeMin, t.loop.config.PostponeMax, retries)
	body, err := withKeys(json.RawMessage(d.Body), map[string]any{retriesKey: retries + 1})
	if err != nil {
		return t.park(ctx, d, eventType, err)
	}
	message := Message{To: t.draft.Record.Instance, Body: body, DeduplicationID: shortened(t.derivedID(againID(d)))}
	if err := t.loop.ports.Timers.Schedule(ctx, t.loop.config.Now().Add(wait), message); err != nil {
		return fmt.Errorf("scheduling a message of %s again: %w", t.draft.Record.Instance, err)
	}
	t.loop.config.Logger.ErrorContext(ctx, "cannot apply a message of the runtime, scheduled again", "instance", d.Group, "message_id", d.MessageID, "type", eventType, "wait", wait, "error", reason)
	t.draft.Record.Error = &instances.Failure{At: t.now(), Event: eventType, Message: cut(reason.Error(), failureMessageBytesMax)}
	t.pass(d)
	return nil
}

// shed drops data that serves only operators: the history, and details of failed effects that need no report.
func shed(record instances.Record) instances.Record {
	record.History = nil
	failed := slices.Clone(record.FailedEffects)
	for i := range failed {
		if f := &failed[i]; f.Report == "" || f.Report == instances.ReportReceived {
			*f = shortOf(*f)
		}
	}
	record.FailedEffects = failed
	return record
}

// place returns the place of the delivery's message.
func (d Delivery) place() instances.Place {
	return instances.Place{Queue: d.Queue, SequenceNumber: d.SequenceNumber}
}

// keyOf returns a short form of a place.
func keyOf(p instances.Place) string {
	queue := sha256.Sum256([]byte(p.Queue))
	return hex.EncodeToString(queue[:8]) + "/" + p.SequenceNumber
}
