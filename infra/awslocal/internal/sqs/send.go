package sqs

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// MessageBytesMax is the maximum total size of the bodies and attributes of a message or a batch (SQS Developer
// Guide, "Amazon SQS message quotas").
const MessageBytesMax = 1 << 20

// dedupKey identifies duplicates: a FIFO queue drops a message whose key equals the key of a message sent in the last
// five minutes.
type dedupKey struct {
	group string // empty if the deduplication scope is the queue
	id    string
}

// sendResult identifies a message in the answer to its send, and in the answers to duplicates of the message.
type sendResult struct {
	serial, sequence uint64
}

// SendMessage adds a message to a queue. On a FIFO queue, it drops a duplicate within five minutes and returns the
// answer for the first message.
func (m *Model) SendMessage(now time.Time, in *SendMessageInput) (SendMessageOutput, *wire.Error) {
	q, err := m.resolve(now, in.QueueUrl)
	if err != nil {
		return SendMessageOutput{}, err
	}
	return m.send(now, q, &in.Message)
}

// SendMessageBatch adds up to ten messages to a queue, in order.
func (m *Model) SendMessageBatch(now time.Time, in *SendMessageBatchInput) (BatchOutput[SendMessageBatchResult], *wire.Error) {
	q, err := m.resolve(now, in.QueueUrl)
	if err != nil {
		return BatchOutput[SendMessageBatchResult]{}, err
	}
	total := 0
	for i := range in.Entries {
		total += messageBytes(&in.Entries[i].Message)
	}
	if total > MessageBytesMax {
		return BatchOutput[SendMessageBatchResult]{}, namedf("BatchRequestTooLong",
			"Batch requests cannot be longer than %d bytes. You have sent %d bytes.", MessageBytesMax, total)
	}
	return batch(in.Entries, func(e SendMessageBatchEntry) string { return e.Id },
		func(e SendMessageBatchEntry) (SendMessageBatchResult, *wire.Error) {
			out, err := m.send(now, q, &e.Message)
			return SendMessageBatchResult{Id: e.Id, SendMessageOutput: out}, err
		})
}

func (m *Model) send(now time.Time, q *queue, in *Message) (SendMessageOutput, *wire.Error) {
	delay, err := checkMessage(q, in)
	if err != nil {
		return SendMessageOutput{}, err
	}
	dedupID := in.MessageDeduplicationId
	if q.fifo && dedupID == "" {
		sum := sha256.Sum256([]byte(in.MessageBody))
		dedupID = hex.EncodeToString(sum[:])
	}
	key := dedupKey{id: dedupID}
	if q.settings.deduplicatePerGroup {
		key.group = in.MessageGroupId
	}

	first, duplicate := sendResult{}, false
	if q.fifo {
		first, duplicate = q.sent.get(now, key)
	}
	if !duplicate {
		serial := m.nextSerial()
		first = sendResult{serial: serial, sequence: serial}
		msg := &message{
			serial: serial, sequence: serial,
			body: in.MessageBody, attributes: in.MessageAttributes,
			trace: traceOf(in), dedupID: dedupID, sentAt: now,
		}
		if delay > 0 {
			msg.state, msg.visibleAt = delayed, now.Add(delay)
		}
		q.add(msg, in.MessageGroupId)
		if q.fifo {
			q.sent.put(now, key, first)
		}
	}

	out := SendMessageOutput{
		MessageId:                    messageID(first.serial),
		MD5OfMessageBody:             md5Hex(in.MessageBody),
		MD5OfMessageAttributes:       attributesMD5(in.MessageAttributes),
		MD5OfMessageSystemAttributes: attributesMD5(in.MessageSystemAttributes),
	}
	if q.fifo {
		out.SequenceNumber = q.sequenceNumber(first.sequence)
	}
	return out, nil
}

// checkMessage returns the delay of a message, or an error if q cannot accept the message.
func checkMessage(q *queue, in *Message) (time.Duration, *wire.Error) {
	if in.MessageBody == "" {
		return 0, missingParameter("MessageBody")
	}
	for _, r := range in.MessageBody {
		if !allowedInBody(r) {
			return 0, wire.Errorf("InvalidMessageContents", "Invalid binary character '%#x' was found in the "+
				"message body; the set of allowed characters is #x9 | #xA | #xD | #x20 to #xD7FF | "+
				"#xE000 to #xFFFD | #x10000 to #x10FFFF.", r)
		}
	}
	if err := checkAttributes(in.MessageAttributes); err != nil {
		return 0, err
	}
	if err := checkSystemAttributes(in.MessageSystemAttributes); err != nil {
		return 0, err
	}
	if size := messageBytes(in); size > q.settings.messageBytesMax {
		return 0, wire.Errorf("InvalidParameterValue", "One or more parameters are invalid. Reason: "+
			"Message must be shorter than %d bytes; with its attributes it has %d.",
			q.settings.messageBytesMax, size)
	}
	if err := checkToken("MessageGroupId", in.MessageGroupId); err != nil {
		return 0, err
	}
	if err := checkToken("MessageDeduplicationId", in.MessageDeduplicationId); err != nil {
		return 0, err
	}
	if err := checkForType(q, in); err != nil {
		return 0, err
	}
	if in.DelaySeconds == nil || q.fifo {
		return q.settings.delay, nil
	}
	if d := *in.DelaySeconds; d < 0 || d > delaySecondsMax {
		return 0, invalidParameter("DelaySeconds", d,
			fmt.Sprintf("DelaySeconds must be >= 0 and <= %d.", delaySecondsMax))
	}
	return time.Duration(*in.DelaySeconds) * time.Second, nil
}

// checkForType checks the parameters that only FIFO queues require or only standard queues allow.
func checkForType(q *queue, in *Message) *wire.Error {
	const notForType = "The request include parameter that is not valid for this queue type."
	switch {
	case !q.fifo && in.MessageDeduplicationId != "":
		return invalidParameter("MessageDeduplicationId", in.MessageDeduplicationId, notForType)
	case !q.fifo:
		return nil
	case in.MessageGroupId == "":
		return missingParameter("MessageGroupId")
	case in.MessageDeduplicationId == "" && !q.settings.contentBasedDeduplication:
		return wire.Errorf("InvalidParameterValue", "The queue should either have "+
			"ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly.")
	case in.DelaySeconds != nil && *in.DelaySeconds != 0:
		return invalidParameter("DelaySeconds", *in.DelaySeconds, notForType)
	}
	return nil
}

// allowedInBody reports whether a message body may contain the character. SQS allows the characters of XML 1.0.
func allowedInBody(r rune) bool {
	return r == 0x9 || r == 0xA || r == 0xD || r >= 0x20 && r <= 0xD7FF ||
		r >= 0xE000 && r <= 0xFFFD || r >= 0x10000 && r <= 0x10FFFF
}

// checkToken rejects a parameter that is set but does not consist of 1 to 128 alphanumeric or punctuation characters.
func checkToken(name, value string) *wire.Error {
	outside := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(value) > 128 || strings.ContainsFunc(value, outside) {
		return invalidParameter(name, value,
			name+" can only include alphanumeric and punctuation characters. 1 to 128 in length.")
	}
	return nil
}

func md5Hex(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}
