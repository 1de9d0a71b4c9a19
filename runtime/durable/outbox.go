package durable

import (
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// An outbox whose effects may be repeated costs no write of its own: the next commit clears it. Until then, its
// OutboxEvent performs it. SQS delivers no later message of a group while an earlier one is in its queue (SQS Developer
// Guide, "FIFO queue delivery logic"). The loop acknowledges the OutboxEvent after it has performed the outbox. So a later
// event of that queue proves that the outbox is performed.

// outboxEvent returns the OutboxEvent of the next record, or nil if the outbox must be cleared by a write of its own. This
// turn must have applied the event. Otherwise another process may have acknowledged it before. And the queue must deliver
// the event again before it gives it up: see takeOver.
func (t *turn) outboxEvent(next instances.Record) *instances.OutboxEvent {
	if len(t.deliveries) == 0 || len(next.Outbox) == 0 || next.Status != statechart.Active || !t.draft.Instance.Settled() || len(owed(next.Tokens)) > 0 {
		return nil
	}
	if slices.ContainsFunc(next.Outbox, func(e statechart.Effect) bool { return !effectKinds[e.Kind].repeatable }) {
		return nil
	}
	queue := t.deliveries[0].Queue
	number := next.Watermark[queue]
	isApplied := func(d Delivery) bool {
		return d.SequenceNumber == number && d.ReceiveCount <= 1 && !isAppliedIn(t.loaded.Record, d)
	}
	if !slices.ContainsFunc(t.deliveries, isApplied) {
		return nil
	}
	return &instances.OutboxEvent{Queue: queue, Revision: next.Revision}
}

// dropPerformed drops the stored outbox from the turn if the OutboxEvent has left its queue: a later event of this queue
// is here, or the message would be too old. The next commit stores this.
func (t *turn) dropPerformed() {
	record := &t.stored.Record
	event := performer(*record)
	if event == nil {
		return
	}
	isLater := func(d Delivery) bool { return d.Queue == event.Queue && !isAppliedIn(*record, d) }
	if len(t.deliveries) > 0 && isLater(t.deliveries[0]) || isPerformedByNow(*record, t.now()) {
		record.Outbox, record.OutboxEvent = nil, nil
	}
}

// performer returns the OutboxEvent of a record, or nil if a later write has made it void.
func performer(record instances.Record) *instances.OutboxEvent {
	if event := record.OutboxEvent; event != nil && event.Revision == record.Revision {
		return event
	}
	return nil
}

// messageAgeMax is the longest time that SQS keeps a message (SQS Developer Guide, "Amazon SQS message quotas").
const messageAgeMax = 14 * 24 * time.Hour

// isPerformedByNow reports whether the OutboxEvent of a record has left its queue because of its age.
func isPerformedByNow(record instances.Record, now time.Time) bool {
	return performer(record) != nil && now.Sub(record.UpdatedAt) > messageAgeMax
}

// mayLeave reports whether the next commit may clear the outbox. `left` is the pending work after a dispatch.
func (t *turn) mayLeave(left Left) bool {
	return performer(t.stored.Record) != nil && len(left.Outbox) == 0 && !t.gaveUp()
}

// leave drops the performed outbox from the turn, and leaves it in the store.
func (t *turn) leave() {
	later := t.draft.Record.Outbox[len(t.stored.Record.Outbox):] // These effects of a migration are not stored yet.
	t.stored.Record.Outbox, t.draft.Record.Outbox = nil, later
}

// isPending reports whether the turn must perform effects or answer tasks.
func isPending(record instances.Record) bool { return len(record.Outbox) > 0 || record.Owes() }
