package sqs

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

const (
	waitSecondsMax       = 20
	visibilitySecondsMax = 12 * 60 * 60
)

// senderID is the sender of all messages. awslocal accepts any credentials and cannot distinguish senders.
const senderID = "AIDAAWSLOCAL000000000"

// attempt is a receive with a ReceiveRequestAttemptId. A retry with the same ID returns the same messages.
type attempt struct {
	receipts  []receiptOf
	visibleAt time.Time
}

// receiptOf identifies one receipt of a message by the message's serial and the value of message.receives.
type receiptOf struct {
	message  uint64
	receives uint32
}

// ReceiveMessage receives up to MaxNumberOfMessages messages and hides them for the visibility timeout.
//
// ReceiveMessage starts with the group whose oldest message has waited longest. It takes as many messages of that group
// as possible before it continues with the next group (SQS Developer Guide, "FIFO queue delivery logic"). It returns
// the messages sorted by sequence number. On a FIFO queue, it finds only groups whose oldest message is among the first
// ScanMessagesMax messages of the queue.
func (m *Model) ReceiveMessage(now time.Time, in *ReceiveMessageInput) (ReceiveMessageOutput, *wire.Error) {
	q, err := m.resolve(now, in.QueueUrl)
	if err != nil {
		return ReceiveMessageOutput{}, err
	}
	params, err := receiveParams(q, in)
	if err != nil {
		return ReceiveMessageOutput{}, err
	}
	if !q.fifo && q.inFlight >= inFlightMax {
		err := wire.Errorf("OverLimit", "The queue %s has %d messages in flight, the maximum; "+
			"delete the processed ones.", q.name, inFlightMax)
		err.Status = 403
		return ReceiveMessageOutput{}, err
	}

	taken, again := q.retry(now, in.ReceiveRequestAttemptId, params.visibility)
	if !again {
		taken = m.take(now, q, params)
		q.remember(now, in.ReceiveRequestAttemptId, taken)
	}
	out := ReceiveMessageOutput{Wait: params.wait}
	for _, msg := range taken {
		out.Messages = append(out.Messages, received(q, msg, params.systemAttributes, in.MessageAttributeNames))
	}
	return out, nil
}

// receiving holds the validated parameters of a receive.
type receiving struct {
	count            int
	payloadBytesMax  int
	visibility, wait time.Duration
	systemAttributes []string
}

func receiveParams(q *queue, in *ReceiveMessageInput) (receiving, *wire.Error) {
	p := receiving{count: 1, payloadBytesMax: cmp.Or(in.PayloadBytesMax, math.MaxInt), visibility: q.settings.visibility, wait: q.settings.receiveWait,
		systemAttributes: slices.Concat(in.AttributeNames, in.MessageSystemAttributeNames)}
	if n := in.MaxNumberOfMessages; n != nil {
		if *n < 1 || *n > BatchEntriesMax {
			return p, invalidParameter("MaxNumberOfMessages", *n,
				fmt.Sprintf("Must be between 1 and %d, if provided.", BatchEntriesMax))
		}
		p.count = *n
	}
	if s := in.VisibilityTimeout; s != nil {
		if err := checkVisibility(*s); err != nil {
			return p, err
		}
		p.visibility = time.Duration(*s) * time.Second
	}
	if s := in.WaitTimeSeconds; s != nil {
		if *s < 0 || *s > waitSecondsMax {
			return p, invalidParameter("WaitTimeSeconds", *s,
				fmt.Sprintf("Must be >= 0 and <= %d, if provided.", waitSecondsMax))
		}
		p.wait = time.Duration(*s) * time.Second
	}
	if id := in.ReceiveRequestAttemptId; id != "" {
		if !q.fifo {
			return p, invalidParameter("ReceiveRequestAttemptId", id,
				"The request include parameter that is not valid for this queue type.")
		}
		if err := checkToken("ReceiveRequestAttemptId", id); err != nil {
			return p, err
		}
	}
	for _, name := range p.systemAttributes {
		if name != "All" && !slices.Contains(systemAttributeNames, name) {
			return p, wire.Errorf("InvalidAttributeName", "Unknown Attribute %s; expected All or one of %v.",
				name, systemAttributeNames)
		}
	}
	return p, nil
}

func checkVisibility(seconds int) *wire.Error {
	if seconds < 0 || seconds > visibilitySecondsMax {
		return invalidParameter("VisibilityTimeout", seconds,
			fmt.Sprintf("Must be between 0 and %d seconds.", visibilitySecondsMax))
	}
	return nil
}

// take puts up to p.count messages in flight. From the second message on, it stops before their total size exceeds
// p.payloadBytesMax. Messages that have reached their receive limit move to the dead-letter queue instead.
func (m *Model) take(now time.Time, q *queue, p receiving) []*message {
	var taken []*message
	size := 0
	count := min(p.count, inFlightMax-q.inFlight)
	for len(taken) < count {
		g, ok := q.available()
		if !ok {
			break
		}
		for msg := g.head; msg != nil && len(taken) < count && msg.state == available; {
			next := msg.next
			if dlq := m.deadLetterQueue(q, msg); dlq != nil {
				m.redrive(now, q, msg, dlq)
			} else {
				if size += payloadBytes(msg); size > p.payloadBytesMax && len(taken) > 0 {
					count = len(taken)
					break
				}
				msg.receives++
				msg.receivesHere++
				msg.receivedAt = now
				if msg.firstReceivedAt.IsZero() {
					msg.firstReceivedAt = now
				}
				q.hide(msg, now.Add(p.visibility))
				taken = append(taken, msg)
			}
			msg = next
		}
	}
	slices.SortFunc(taken, func(a, b *message) int { return cmp.Compare(a.sequence, b.sequence) })
	return taken
}

// payloadBytes returns an upper bound for the size of a message's record in a function's payload.
func payloadBytes(msg *message) int {
	const recordBytesMax, attributeBytesMax = 2 << 10, 256 // upper bounds for the rest of a record and of an attribute
	size := recordBytesMax + jsonBytes(msg.body) + jsonBytes(msg.trace)
	for name, a := range msg.attributes {
		size += attributeBytesMax + len(name) + len(a.DataType) + base64.StdEncoding.EncodedLen(len(a.BinaryValue))
		if a.StringValue != nil {
			size += jsonBytes(*a.StringValue)
		}
	}
	return size
}

// jsonBytes returns the size of a message's text as a JSON string written by package wire. Of the characters that JSON
// escapes, it considers only those that SQS allows in a message.
func jsonBytes(s string) int {
	size := len(`""`) + len(s)
	for _, r := range s {
		switch r {
		case '"', '\\', '\t', '\n', '\r':
			size++
		case '\u2028', '\u2029':
			size += len(`\u2028`) - len("\u2028")
		}
	}
	return size
}

// remember stores the messages that a receive with an attempt ID has taken.
func (q *queue) remember(now time.Time, id string, taken []*message) {
	if id == "" || len(taken) == 0 {
		return
	}
	a := attempt{visibleAt: taken[0].visibleAt}
	for _, msg := range taken {
		a.receipts = append(a.receipts, receiptOf{msg.serial, msg.receives})
	}
	q.attempts.put(now, id, a)
}

// retry returns the messages of the earlier receive with the same attempt ID and hides them again. It returns false if
// that receive was more than five minutes ago. It also returns false if one of the messages has since been deleted or
// redelivered, or has a new visibility timeout.
func (q *queue) retry(now time.Time, id string, visibility time.Duration) ([]*message, bool) {
	if id == "" {
		return nil, false
	}
	a, ok := q.attempts.get(now, id)
	if !ok {
		return nil, false
	}
	var taken []*message
	for _, r := range a.receipts {
		msg, ok := q.messages[r.message]
		if !ok || msg.state != inFlight || msg.receives != r.receives || !msg.visibleAt.Equal(a.visibleAt) {
			return nil, false
		}
		taken = append(taken, msg)
	}
	a.visibleAt = now.Add(visibility)
	for _, msg := range taken {
		q.postpone(msg, a.visibleAt)
	}
	q.attempts.amend(id, a)
	return taken, true
}

// systemAttributeNames lists the attributes that SQS sets itself.
var systemAttributeNames = []string{
	"ApproximateFirstReceiveTimestamp", "ApproximateReceiveCount", traceHeader, "DeadLetterQueueSourceArn",
	"MessageDeduplicationId", "MessageGroupId", "SenderId", "SentTimestamp", "SequenceNumber",
}

// received returns a message with the requested attributes, as its receiver sees it.
func received(q *queue, msg *message, systemNames, names []string) ReceivedMessage {
	system := map[string]string{
		"ApproximateFirstReceiveTimestamp": milliseconds(msg.firstReceivedAt),
		"ApproximateReceiveCount":          strconv.FormatUint(uint64(msg.receives), 10),
		"SenderId":                         senderID,
		"SentTimestamp":                    milliseconds(msg.sentAt),
	}
	if q.fifo {
		system["MessageDeduplicationId"] = msg.dedupID
		system["SequenceNumber"] = q.sequenceNumber(msg.sequence)
	}
	for name, value := range map[string]string{
		traceHeader: msg.trace, "DeadLetterQueueSourceArn": msg.source, "MessageGroupId": msg.group.id,
	} {
		if value != "" {
			system[name] = value
		}
	}
	if !slices.Contains(systemNames, "All") {
		for name := range system {
			if !slices.Contains(systemNames, name) {
				delete(system, name)
			}
		}
	}
	attributes := chosenAttributes(msg.attributes, names)
	return ReceivedMessage{
		MessageId:              msg.id(),
		ReceiptHandle:          receipt{q.serial, msg.serial, msg.receives}.handle(),
		Body:                   msg.body,
		MD5OfBody:              md5Hex(msg.body),
		Attributes:             system,
		MessageAttributes:      attributes,
		MD5OfMessageAttributes: attributesMD5(attributes),
	}
}

func milliseconds(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
