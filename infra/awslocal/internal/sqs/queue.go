package sqs

import (
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/record"
)

// inFlightMax is the maximum number of messages in flight per queue (SQS Developer Guide, "Amazon SQS message
// quotas").
const inFlightMax = 120_000

// queue is one queue and its messages.
//
// A receive looks only at the field ready. Time-driven work looks only at the fields deadlines and ages. An operation
// therefore costs at most O(log n) for each message that it touches.
type queue struct {
	// serial identifies the queue permanently, unlike its name, which can be reused.
	serial     uint64
	name       string
	fifo       bool
	attributes map[string]string // the settable attributes, including defaults
	settings   settings          // attributes, parsed
	tags       map[string]string

	createdAt, modifiedAt time.Time
	purgedAt              time.Time // zero if never purged

	messages map[uint64]*message // by serial
	groups   map[string]*group   // the groups of a FIFO queue, by MessageGroupId; none of them is empty
	backlog  backlog             // all messages, by sequence

	// ready holds the groups for which group.ready is true, by the sequence of their first message.
	ready indexed[*group]
	// deadlines holds the messages that are delayed or in flight, by visibleAt.
	deadlines indexed[*message]
	// ages holds all messages, by sentAt.
	ages indexed[*message]

	inFlight, delayed int // number of messages in these states

	sent     window[dedupKey, sendResult]
	attempts window[string, attempt]

	kept *record.Touched // shared with the model
}

// newQueue returns an empty queue that is not yet part of the model.
func (m *Model) newQueue(name string) *queue {
	q := &queue{name: name, kept: &m.kept, backlog: backlog{scanMax: m.scanMax}}
	q.sent.changed, q.attempts.changed = q.noteSent, q.noteAttempt
	q.clear()
	return q
}

// clear removes all messages and forgets the ReceiveRequestAttemptIds. It keeps the deduplication IDs.
func (q *queue) clear() {
	if q.kept.Kept() {
		for _, m := range q.ages.order.items {
			q.noteWhole(m)
		}
	}
	q.messages = make(map[uint64]*message)
	q.groups = make(map[string]*group)
	q.backlog = backlog{scanMax: q.backlog.scanMax}
	q.ready = newIndexed(
		func(a, b *group) bool { return a.head.sequence < b.head.sequence },
		func(g *group) *int { return &g.readyIndex })
	q.deadlines = newIndexed(
		func(a, b *message) bool {
			if !a.visibleAt.Equal(b.visibleAt) {
				return a.visibleAt.Before(b.visibleAt)
			}
			return a.sequence < b.sequence
		},
		func(m *message) *int { return &m.deadlineIndex })
	q.ages = newIndexed(
		func(a, b *message) bool {
			if !a.sentAt.Equal(b.sentAt) {
				return a.sentAt.Before(b.sentAt)
			}
			return a.sequence < b.sequence
		},
		func(m *message) *int { return &m.ageIndex })
	q.inFlight, q.delayed = 0, 0
	q.attempts.clear()
}

// add appends m to the group groupID. m.state must be available, or delayed with m.visibleAt set.
func (q *queue) add(m *message, groupID string) {
	g := q.groups[groupID]
	if !q.fifo || g == nil {
		g = &group{id: groupID, readyIndex: absent}
	}
	if q.fifo {
		q.groups[groupID] = g
	}
	g.push(m)
	m.deadlineIndex, m.ageIndex = absent, absent
	q.messages[m.serial] = m
	q.backlog.push(m)
	q.ages.put(m)
	if m.state == delayed {
		q.delayed++
		q.deadlines.put(m)
	}
	q.refresh(g)
	q.noteWhole(m)
}

// remove removes m from the queue, whatever its state.
func (q *queue) remove(m *message) {
	g := m.group
	q.settle(m)
	q.ages.remove(m)
	delete(q.messages, m.serial)
	q.backlog.unlink(m)
	g.unlink(m)
	if g.head == nil && q.fifo {
		delete(q.groups, g.id)
	}
	q.refresh(g)
	q.noteWhole(m)
}

// hide puts an available message in flight until the given time.
func (q *queue) hide(m *message, until time.Time) {
	m.state, m.visibleAt = inFlight, until
	m.group.inFlight++
	q.inFlight++
	q.deadlines.put(m)
	q.refresh(m.group)
	q.noteMessage(m)
}

// postpone moves the end of a delay or a visibility timeout.
func (q *queue) postpone(m *message, until time.Time) {
	m.visibleAt = until
	q.deadlines.put(m)
	q.noteMessage(m)
}

// settle ends m's delay or visibility timeout and makes m available.
func (q *queue) settle(m *message) {
	switch m.state {
	case delayed:
		q.delayed--
	case inFlight:
		q.inFlight--
		m.group.inFlight--
	}
	m.state = available
	q.deadlines.remove(m)
	q.refresh(m.group)
	q.noteMessage(m)
}

// refresh adds g to q.ready if the oldest message of g can be received. Otherwise it removes g from q.ready.
func (q *queue) refresh(g *group) {
	if g.ready() {
		q.ready.put(g)
	} else {
		q.ready.remove(g)
	}
}

// available returns the group with the oldest message that a receive finds, or false if it finds none.
func (q *queue) available() (*group, bool) {
	g, ok := q.ready.min()
	if !ok || q.fifo && !q.backlog.scans(g.head) {
		return nil, false
	}
	return g, true
}

// advance performs the time-driven work: it ends delays and visibility timeouts, and deletes messages past the
// retention period. Every operation on a queue starts with it.
func (q *queue) advance(now time.Time) {
	for {
		m, ok := q.deadlines.min()
		if !ok || m.visibleAt.After(now) {
			break
		}
		q.settle(m)
	}
	for {
		m, ok := q.ages.min()
		if !ok || m.sentAt.Add(q.settings.retention).After(now) {
			break
		}
		q.remove(m)
	}
}

// nextReceivable returns the earliest time at which a receive may find a message. It returns false if no message
// becomes receivable as time passes.
func (q *queue) nextReceivable(now time.Time) (time.Time, bool) {
	q.advance(now)
	if _, ok := q.available(); ok && q.inFlight < inFlightMax {
		return now, true
	}
	var next time.Time
	if m, ok := q.deadlines.min(); ok {
		next = m.visibleAt
	}
	if m, ok := q.ages.min(); ok {
		// At the end of its retention period, a message in flight is deleted, which unlocks its group.
		if end := m.sentAt.Add(q.settings.retention); next.IsZero() || end.Before(next) {
			next = end
		}
	}
	return next, !next.IsZero()
}
