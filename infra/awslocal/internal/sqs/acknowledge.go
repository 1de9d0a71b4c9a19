package sqs

import (
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// DeleteMessage deletes the message of a receipt handle. Deleting it again is not an error.
//
// On a FIFO queue, the handle must be the latest handle of the message, and the message's visibility timeout must not
// have ended. On a standard queue, an expired handle still deletes the message, unless a consumer has since received
// the message again. In that case the call succeeds and the message stays (API Reference, DeleteMessage).
func (m *Model) DeleteMessage(now time.Time, in *DeleteMessageInput) (Empty, *wire.Error) {
	q, err := m.resolve(now, in.QueueUrl)
	if err != nil {
		return Empty{}, err
	}
	return Empty{}, q.deleteMessage(in.ReceiptHandle)
}

// DeleteMessageBatch deletes the messages of up to ten receipt handles.
func (m *Model) DeleteMessageBatch(now time.Time, in *DeleteMessageBatchInput) (BatchOutput[BatchID], *wire.Error) {
	q, err := m.resolve(now, in.QueueUrl)
	if err != nil {
		return BatchOutput[BatchID]{}, err
	}
	return batch(in.Entries, func(e DeleteMessageBatchEntry) string { return e.Id },
		func(e DeleteMessageBatchEntry) (BatchID, *wire.Error) {
			return BatchID{e.Id}, q.deleteMessage(e.ReceiptHandle)
		})
}

func (q *queue) deleteMessage(handle string) *wire.Error {
	r, err := parseReceipt(q, handle)
	if err != nil {
		return err
	}
	msg, ok := q.messages[r.message]
	if !ok {
		return nil
	}
	latest := msg.receives == r.receives
	if q.fifo && !(latest && msg.state == inFlight) {
		return invalidParameter("ReceiptHandle", handle, "The receipt handle has expired.")
	}
	if latest {
		q.remove(msg)
	}
	return nil
}

// ChangeMessageVisibility sets the visibility timeout of a message in flight, counted from now. With 0 the message
// is available at once.
func (m *Model) ChangeMessageVisibility(now time.Time, in *ChangeMessageVisibilityInput) (Empty, *wire.Error) {
	q, err := m.resolve(now, in.QueueUrl)
	if err != nil {
		return Empty{}, err
	}
	return Empty{}, q.changeVisibility(now, in.ReceiptHandle, in.VisibilityTimeout)
}

// ChangeMessageVisibilityBatch changes the visibility timeouts of up to ten messages.
func (m *Model) ChangeMessageVisibilityBatch(now time.Time, in *ChangeMessageVisibilityBatchInput) (BatchOutput[BatchID], *wire.Error) {
	q, err := m.resolve(now, in.QueueUrl)
	if err != nil {
		return BatchOutput[BatchID]{}, err
	}
	return batch(in.Entries, func(e ChangeMessageVisibilityBatchEntry) string { return e.Id },
		func(e ChangeMessageVisibilityBatchEntry) (BatchID, *wire.Error) {
			return BatchID{e.Id}, q.changeVisibility(now, e.ReceiptHandle, e.VisibilityTimeout)
		})
}

// Release ends the visibility timeouts of the messages that were received before receivedBefore. Call it when the
// consumers of these messages no longer exist.
func (m *Model) Release(now time.Time, name string, receivedBefore time.Time) {
	q, ok := m.queues[name]
	if !ok {
		return
	}
	for _, msg := range slices.Clone(q.deadlines.order.items) {
		if msg.state == inFlight && msg.receivedAt.Before(receivedBefore) {
			q.postpone(msg, now)
		}
	}
	q.advance(now)
	m.touch(name)
}

func (q *queue) changeVisibility(now time.Time, handle string, seconds *int) *wire.Error {
	if seconds == nil {
		return missingParameter("VisibilityTimeout")
	}
	if err := checkVisibility(*seconds); err != nil {
		return err
	}
	r, err := parseReceipt(q, handle)
	if err != nil {
		return err
	}
	msg, ok := q.messages[r.message]
	if !ok || msg.receives != r.receives {
		return invalidParameter("ReceiptHandle", handle,
			"Message does not exist or is not available for visibility timeout change.")
	}
	if msg.state != inFlight {
		return namedf("MessageNotInflight", "The message %s is not in flight: its visibility timeout "+
			"has ended; receive it again.", msg.id())
	}
	end := now.Add(time.Duration(*seconds) * time.Second)
	if end.After(msg.receivedAt.Add(visibilitySecondsMax * time.Second)) {
		return invalidParameter("VisibilityTimeout", *seconds, fmt.Sprintf("Total VisibilityTimeout "+
			"for the message is beyond the limit [%d seconds].", visibilitySecondsMax))
	}
	q.postpone(msg, end)
	q.advance(now)
	return nil
}
