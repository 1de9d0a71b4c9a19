package durable

import (
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// An outbox whose effects may be repeated costs no write of its own: the loop leaves it in the item, and the next
// commit clears it. SQS delivers the messages of a group in order, in one batch or one after the other (SQS Developer
// Guide, "FIFO queue delivery logic"). The loop acknowledges an event after it has performed the event's effects. So a
// later event at the front of a batch proves that the outbox was performed.

const (
	// messageAgeMax is the longest time that SQS keeps a message (SQS Developer Guide, "Amazon SQS message quotas").
	messageAgeMax = 14 * 24 * time.Hour
	// receivesMax is the highest maxReceiveCount of a queue (Amazon SQS API Reference, SetQueueAttributes).
	receivesMax = 1000
	// leftEventAgeMax and leftReceivesMax limit the age and the receives of an event whose outbox is left. The queue can
	// then redeliver such an event for days, and many times, until its effects are performed.
	leftEventAgeMax = 24 * time.Hour
	leftReceivesMax = 3
)

// mayLeave reports whether the outbox of `next` may stay in the item until the next commit. The instance must have one
// queue: then a later event proves that the last applied event has left the queue. This turn must have applied that
// event: otherwise another process may have acknowledged it already. With a maxReceiveCount below receivesMax, failed
// reads could dead-letter the event.
func (t *turn) mayLeave(next instances.Record) bool {
	if t.loop.config.ReceivesMax < receivesMax || len(t.deliveries) == 0 || len(next.Outbox) == 0 || len(next.Watermark) != 1 || next.Status != statechart.Active || !t.draft.Instance.Settled() || len(owed(next.Tokens)) > 0 {
		return false
	}
	if slices.ContainsFunc(next.Outbox, func(e statechart.Effect) bool { return !effectKinds[e.Kind].repeatable }) {
		return false
	}
	return slices.ContainsFunc(t.deliveries, func(d Delivery) bool {
		isNew := d.ReceiveCount <= 1 && t.now().Sub(d.SentAt) < leftEventAgeMax
		return d.SequenceNumber == next.Watermark[d.Queue] && isNew && !isAppliedIn(t.loaded.Record, d)
	})
}

// dropPerformed drops an outbox that a commit left in the item, if its event is gone from the queue. The next commit
// stores this.
func (t *turn) dropPerformed() {
	record := &t.stored.Record
	if !record.IsLeft() {
		return
	}
	isOfQueue, isLater := false, false
	if len(t.deliveries) > 0 {
		first := t.deliveries[0]
		isOfQueue = record.Watermark[first.Queue] != ""
		isLater = isOfQueue && !isAppliedIn(*record, first)
	}
	isTooOld := t.now().Sub(record.UpdatedAt) > min(messageAgeMax, t.loop.config.RetentionMin)
	if isLater || !isOfQueue && isTooOld {
		record.Outbox, record.OutboxRevision = nil, 0
	}
}

// leaves reports whether a dispatch that ended with err writes nothing. If a first dispatch has performed the whole
// outbox, leaves drops the outbox from the turn, but not from the item. After a repeat of the whole outbox, the loop
// must write: this stops other processes that perform the same outbox. If a repeat failed, the loop must not write:
// another process may have acknowledged the event, and then no message would perform the rest.
func (t *turn) leaves(left Left, err error) bool {
	switch {
	case !t.stored.Record.IsLeft() || t.gaveUp():
		return false
	case t.repeats:
		return err != nil
	case err != nil || len(left.Outbox) > 0:
		return false
	}
	t.draft.Record.Outbox = t.draft.Record.Outbox[len(t.stored.Record.Outbox):]
	t.stored.Record.Outbox = nil
	return true
}

// isPending reports whether the turn must perform effects or answer tasks.
func isPending(record instances.Record) bool { return len(record.Outbox) > 0 || record.Owes() }
