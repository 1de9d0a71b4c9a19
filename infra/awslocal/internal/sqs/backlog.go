package sqs

// ScanMessagesMax is the number of oldest messages that a receive from a FIFO queue searches for available groups.
// LimitScan overrides it. The source is the SQS Developer Guide: "FIFO queues scan the first 120,000 messages to
// determine available message groups."
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/avoid-backlog-with-the-same-message-group-id.html
//
// The guide exempts no messages, and says that a backlog blocks later messages until the backlog is processed. Messages
// in flight and delayed messages therefore count.
const ScanMessagesMax = 120_000

// backlog lists a queue's messages by sequence, whatever their state. It records how far a receive scans. Every method
// takes constant time.
type backlog struct {
	scanMax int
	scanned int      // number of messages that a receive scans: scanMax, or all if there are fewer
	edge    *message // the last of them, or nil if the queue is empty
	last    *message // the newest message, or nil if the queue is empty
}

// push appends m, whose sequence must be the highest so far.
func (b *backlog) push(m *message) {
	m.older, m.newer = b.last, nil
	if b.last != nil {
		b.last.newer = m
	}
	b.last = m
	if b.scanned < b.scanMax {
		b.scanned++
		b.edge = m
	}
}

// unlink removes m. If m was among the messages that a receive scans, a newer message takes its place.
func (b *backlog) unlink(m *message) {
	if b.scans(m) {
		if b.edge.newer != nil {
			b.edge = b.edge.newer
		} else {
			b.scanned--
			if b.edge == m {
				b.edge = m.older
			}
		}
	}
	if m.older != nil {
		m.older.newer = m.newer
	}
	if m.newer != nil {
		m.newer.older = m.older
	} else {
		b.last = m.older
	}
	m.older, m.newer = nil, nil
}

// scans reports whether m, which must be in the queue, is one of the messages that a receive scans.
func (b *backlog) scans(m *message) bool { return m.sequence <= b.edge.sequence }
