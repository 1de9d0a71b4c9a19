package sqs

import (
	"fmt"
	"time"
)

// state is the state of a message between sending and deletion.
type state uint8

const (
	available state = iota // can be received, unless its group is locked
	delayed                // waits for its initial delay to end
	inFlight               // received, and hidden until visibleAt
)

// message is one message of one queue.
type message struct {
	// serial identifies the message permanently. Its MessageId derives from it.
	serial uint64
	// sequence is the position in the queue. A move to a dead-letter queue assigns a new sequence.
	sequence uint64

	body       string
	attributes map[string]MessageAttribute
	trace      string // AWSTraceHeader
	dedupID    string
	source     string // ARN of the queue that a redrive policy moved it from

	sentAt          time.Time
	firstReceivedAt time.Time
	receivedAt      time.Time // time of the latest receipt
	visibleAt       time.Time // end of the delay or of the visibility timeout

	// receives counts the receipts from all queues that held the message, as ApproximateReceiveCount does.
	// receivesHere counts the receipts from the current queue, for its redrive policy.
	receives     uint32
	receivesHere uint32

	state      state
	group      *group
	prev, next *message // neighbours in the group, by sequence

	older, newer *message // neighbours in the queue, by sequence; see backlog

	deadlineIndex int // index in queue.deadlines
	ageIndex      int // index in queue.ages
}

// id returns the MessageId, a UUID derived from the serial.
func (m *message) id() string { return messageID(m.serial) }

// messageID spreads serial over 122 bits in the form of a version 4 UUID.
func messageID(serial uint64) string {
	high, low := mix(2*serial), mix(2*serial+1)
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		high>>32, high>>16&0xffff, high&0xfff, low>>48&0x3fff|0x8000, low&0xffffffffffff)
}

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
// It is a bijection, so different inputs never collide.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// sequenceNumber formats a sequence as SQS does: 20 digits, so that text order equals numeric order. The numbering
// starts anew for each queue, even if the queue reuses the name of a deleted one.
func (q *queue) sequenceNumber(sequence uint64) string {
	const first, step = 10_000_000_000_000_000_000, 256
	return fmt.Sprintf("%020d", first+step*(sequence-q.serial))
}

// group holds the messages of one MessageGroupId of a FIFO queue, in the order they were sent. A standard queue puts
// each message into its own group and therefore has no order and no locks.
type group struct {
	id         string
	head, tail *message
	// inFlight counts the messages that were received and are still hidden. While it is not zero, the group is
	// locked: none of its messages can be received.
	inFlight   int
	readyIndex int // index in queue.ready
}

// push appends m to the group.
func (g *group) push(m *message) {
	m.group, m.prev = g, g.tail
	if g.tail == nil {
		g.head = m
	} else {
		g.tail.next = m
	}
	g.tail = m
}

// unlink removes m from the group.
func (g *group) unlink(m *message) {
	if m.prev == nil {
		g.head = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		g.tail = m.prev
	} else {
		m.next.prev = m.prev
	}
	m.group, m.prev, m.next = nil, nil, nil
}

// ready reports whether the group's oldest message can be received.
func (g *group) ready() bool {
	return g.head != nil && g.inFlight == 0 && g.head.state == available
}
