package sqs

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/settle-run/settle/infra/awslocal/internal/record"
)

// The records of the model, by the first part of their keys:
//
//	serial                         the last assigned serial
//	deleted/<queue>                when a queue was deleted
//	queue/<queue>                  a queue's attributes, tags and times
//	body/<queue>/<serial>          the constant part of a message
//	message/<queue>/<serial>       the changing part of a message
//	sent/<queue>/<group> <id>      a deduplication ID
//	attempt/<queue>/<id>           a ReceiveRequestAttemptId
//
// Queue names contain no slash. Groups and IDs contain no space. Serials are 16 hexadecimal digits.
const (
	serialKey   = "serial"
	deletedKind = "deleted"
	queueKind   = "queue"
	bodyKind    = "body"
	messageKind = "message"
	sentKind    = "sent"
	attemptKind = "attempt"
)

// Keep starts recording which records change.
func (m *Model) Keep() { m.kept.Keep() }

// TakeRecords returns the records changed since the last call.
func (m *Model) TakeRecords() []record.Record {
	return m.kept.Records(m.recordValue)
}

// recordValue returns the current value of a record, or nil if it does not exist.
func (m *Model) recordValue(key string) []byte {
	var e record.Encoder
	kind, rest, _ := strings.Cut(key, "/")
	switch kind {
	case serialKey:
		e.Uint(m.serial)
		return e.Value()
	case deletedKind:
		at, ok := m.deleted[rest]
		if !ok {
			return nil
		}
		e.Time(at)
		return e.Value()
	}
	name, id, _ := strings.Cut(rest, "/")
	q, ok := m.queues[name]
	if !ok || !q.encode(&e, kind, id) {
		return nil
	}
	return e.Value()
}

// encode writes the part of the queue that kind and id identify. It returns false if the part does not exist.
func (q *queue) encode(e *record.Encoder, kind, id string) bool {
	switch kind {
	case queueKind:
		q.encodeQueue(e)
		return true
	case bodyKind, messageKind:
		msg, ok := q.messages[serialOf(id)]
		switch {
		case !ok:
		case kind == bodyKind:
			msg.encodeBody(e)
		default:
			msg.encodeState(e)
		}
		return ok
	case sentKind:
		group, id, _ := strings.Cut(id, " ")
		first, ok := q.sent.entries[dedupKey{group, id}]
		e.Uint(first.value.serial)
		e.Uint(first.value.sequence)
		e.Time(first.expires)
		return ok
	case attemptKind:
		a, ok := q.attempts.entries[id]
		e.Uint(uint64(len(a.value.receipts)))
		for _, r := range a.value.receipts {
			e.Uint(r.message)
			e.Uint(uint64(r.receives))
		}
		e.Time(a.value.visibleAt)
		e.Time(a.expires)
		return ok
	}
	panic("sqs: unknown kind of record: " + kind) // the note methods below define the kinds
}

func (q *queue) encodeQueue(e *record.Encoder) {
	e.Uint(q.serial)
	e.Bool(q.fifo)
	e.Strings(q.attributes)
	e.Strings(q.tags)
	e.Time(q.createdAt)
	e.Time(q.modifiedAt)
	e.Time(q.purgedAt)
}

func (m *message) encodeBody(e *record.Encoder) {
	e.String(m.body)
	e.String(m.trace)
	e.String(m.dedupID)
	e.String(m.group.id)
	encodeAttributes(e, m.attributes)
}

func (m *message) encodeState(e *record.Encoder) {
	e.Uint(m.sequence)
	e.String(m.source)
	e.Time(m.sentAt)
	e.Time(m.firstReceivedAt)
	e.Time(m.receivedAt)
	e.Time(m.visibleAt)
	e.Uint(uint64(m.receives))
	e.Uint(uint64(m.receivesHere))
	e.Uint(uint64(m.state))
}

// encodeAttributes writes the type and value of each attribute. The type determines which member holds the value.
func encodeAttributes(e *record.Encoder, attributes map[string]MessageAttribute) {
	types, values := make(map[string]string), make(map[string]string)
	for name, a := range attributes {
		types[name], values[name] = a.DataType, string(a.value())
	}
	e.Strings(types)
	e.Strings(values)
}

func decodeAttributes(d *record.Decoder) map[string]MessageAttribute {
	types, values := d.Strings(), d.Strings()
	var attributes map[string]MessageAttribute
	for name, dataType := range types {
		if attributes == nil {
			attributes = make(map[string]MessageAttribute)
		}
		a, value := MessageAttribute{DataType: dataType}, values[name]
		if a.binary() {
			a.BinaryValue = []byte(value)
		} else {
			a.StringValue = &value
		}
		attributes[name] = a
	}
	return attributes
}

// serialText formats a serial for keys.
func serialText(serial uint64) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, serial))
}

// serialOf parses the output of serialText. It returns zero, which no message has, for invalid text.
func serialOf(text string) uint64 {
	serial, err := strconv.ParseUint(text, 16, 64)
	if err != nil || len(text) != 16 {
		return 0
	}
	return serial
}

// The note methods mark the records that a change affects.

func (m *Model) noteDeleted(name string) {
	if m.kept.Kept() {
		m.kept.Note(deletedKind + "/" + name)
	}
}

func (q *queue) note(kind, id string) {
	if q.kept.Kept() {
		q.kept.Note(kind + "/" + q.name + "/" + id)
	}
}

func (q *queue) noteQueue() {
	if q.kept.Kept() {
		q.kept.Note(queueKind + "/" + q.name)
	}
}

func (q *queue) noteMessage(m *message) {
	if q.kept.Kept() {
		q.note(messageKind, serialText(m.serial))
	}
}

// noteWhole marks both records of a message that was added or removed.
func (q *queue) noteWhole(m *message) {
	if q.kept.Kept() {
		q.note(bodyKind, serialText(m.serial))
		q.note(messageKind, serialText(m.serial))
	}
}

func (q *queue) noteSent(key dedupKey) {
	if q.kept.Kept() {
		q.note(sentKind, key.group+" "+key.id)
	}
}

func (q *queue) noteAttempt(id string) { q.note(attemptKind, id) }

// brokenRecord adds the key of the record to an error.
func brokenRecord(key string, err error) error {
	return fmt.Errorf("the record %q of SQS: %w", key, err)
}
