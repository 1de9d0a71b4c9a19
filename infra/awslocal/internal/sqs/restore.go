package sqs

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/settle-run/settle/infra/awslocal/internal/record"
)

// restoring is a model that is being rebuilt from its records. The records of a queue do not arrive together, so
// finish adds the messages at the end.
type restoring struct {
	*Model
	queues map[string]*restoredQueue
}

type restoredQueue struct {
	*queue
	found    bool                // the queue's own record was read
	messages map[uint64]*message // by serial
	groupIDs map[uint64]string   // the group IDs of the messages whose body was read
	// `sent` and `attempts` are collected first, because the windows need them in the order of expiry.
	sent     []entry[dedupKey, sendResult]
	attempts []entry[string, attempt]
}

// Restore rebuilds the state of an empty model from records.
func (m *Model) Restore(records iter.Seq2[string, []byte]) error {
	r := restoring{Model: m, queues: make(map[string]*restoredQueue)}
	for key, value := range records {
		d := record.NewDecoder(value)
		err := r.add(key, d)
		if err == nil {
			err = d.Close()
		}
		if err != nil {
			return brokenRecord(key, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.queues)) {
		if err := r.queues[name].finish(); err != nil {
			return fmt.Errorf("the records of the queue %s: %w", name, err)
		}
		m.queues[name] = r.queues[name].queue
	}
	return nil
}

func (r *restoring) add(key string, d *record.Decoder) error {
	kind, rest, _ := strings.Cut(key, "/")
	switch kind {
	case serialKey:
		r.serial = d.Uint()
		return nil
	case deletedKind:
		r.deleted[rest] = d.Time()
		return nil
	}
	name, id, _ := strings.Cut(rest, "/")
	q, ok := r.queues[name]
	if !ok {
		q = &restoredQueue{queue: r.newQueue(name), messages: make(map[uint64]*message), groupIDs: make(map[uint64]string)}
		r.queues[name] = q
	}
	return q.decode(d, kind, id)
}

// decode reverses queue.encode.
func (q *restoredQueue) decode(d *record.Decoder, kind, id string) error {
	switch kind {
	case queueKind:
		q.found = true
		return q.decodeQueue(d)
	case bodyKind, messageKind:
		serial := serialOf(id)
		if serial == 0 {
			return errors.New("expected its key to end in 16 hexadecimal digits")
		}
		msg, ok := q.messages[serial]
		if !ok {
			msg = &message{serial: serial}
			q.messages[serial] = msg
		}
		if kind == bodyKind {
			q.groupIDs[serial] = msg.decodeBody(d)
			return nil
		}
		return msg.decodeState(d)
	case sentKind:
		group, id, _ := strings.Cut(id, " ")
		first := sendResult{serial: d.Uint(), sequence: d.Uint()}
		q.sent = append(q.sent, entry[dedupKey, sendResult]{dedupKey{group, id}, remembered[sendResult]{first, d.Time()}})
		return nil
	case attemptKind:
		var a attempt
		for range d.Len() {
			a.receipts = append(a.receipts, receiptOf{message: d.Uint(), receives: uint32(d.Uint())})
		}
		a.visibleAt = d.Time()
		q.attempts = append(q.attempts, entry[string, attempt]{id, remembered[attempt]{a, d.Time()}})
		return nil
	}
	return errors.New("expected a kind of record that this build knows")
}

func (q *restoredQueue) decodeQueue(d *record.Decoder) error {
	q.serial = d.Uint()
	q.fifo = d.Bool()
	q.attributes = d.Strings()
	q.tags = d.Strings()
	q.createdAt, q.modifiedAt, q.purgedAt = d.Time(), d.Time(), d.Time()
	for name := range q.attributes {
		if _, ok := settables[name]; !ok {
			return fmt.Errorf("expected attributes that this build knows, got %s", name)
		}
	}
	parsed, err := parseAttributes(q.attributes)
	if err != nil {
		return err
	}
	q.settings = parsed
	return nil
}

// decodeBody decodes the constant part of a message and returns the ID of the message's group.
func (m *message) decodeBody(d *record.Decoder) string {
	m.body = d.String()
	m.trace = d.String()
	m.dedupID = d.String()
	groupID := d.String()
	m.attributes = decodeAttributes(d)
	return groupID
}

func (m *message) decodeState(d *record.Decoder) error {
	m.sequence = d.Uint()
	m.source = d.String()
	m.sentAt, m.firstReceivedAt, m.receivedAt, m.visibleAt = d.Time(), d.Time(), d.Time(), d.Time()
	m.receives, m.receivesHere = uint32(d.Uint()), uint32(d.Uint())
	m.state = state(d.Uint())
	if m.state > inFlight || m.sequence == 0 {
		return fmt.Errorf("expected a message's state, got sequence %d in state %d", m.sequence, m.state)
	}
	return nil
}

// finish adds the restored parts to the queue.
func (q *restoredQueue) finish() error {
	if !q.found {
		return errors.New("expected a record of the queue itself")
	}
	messages := slices.SortedFunc(maps.Values(q.messages), func(a, b *message) int {
		return cmp.Compare(a.sequence, b.sequence)
	})
	for _, msg := range messages {
		groupID, ok := q.groupIDs[msg.serial]
		if !ok || msg.sequence == 0 {
			return fmt.Errorf("expected body and state of the message %d", msg.serial)
		}
		received := msg.state == inFlight
		if received {
			msg.state = available
		}
		q.add(msg, groupID)
		if received {
			q.hide(msg, msg.visibleAt)
		}
	}
	q.queue.sent.restore(q.sent)
	q.queue.attempts.restore(q.attempts)
	return nil
}
