package sqsqueue

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// The message attributes of a parked delivery. A message that SQS itself moved to the dead-letter queue has none of
// them.
const (
	// AttrReason says why the delivery was parked. It is limited to ReasonBytesMax.
	AttrReason = "reason"
	// AttrSourceQueue is the ARN of the source queue. For a delivery that was parked before and sent again, it is the
	// first source queue.
	AttrSourceQueue = "source_queue"
	// AttrSequenceNumber is the sequence number in the source queue. All copies of an event have the same source
	// queue and sequence number, and keep them when SQS moves a message. So the loop applies only one copy.
	AttrSequenceNumber = "sequence_number"
	// AttrSentAt is the time when the delivery was sent to the source queue, in RFC 3339 with milliseconds.
	AttrSentAt = "sent_at"
	// AttrReceiveCount is the number of times that the delivery had been received. Its type is Number.
	AttrReceiveCount = "receive_count"
)

// ReasonBytesMax limits the length of a reason.
const ReasonBytesMax = 4 << 10

// olderMessageBytesMax was the maximum and the default MaximumMessageSize of a queue before SQS raised it to
// MessageBytesMax.
const olderMessageBytesMax = 256 << 10

// Park sends the delivery to the dead-letter queue: the same body and group, with the reason and the origin as
// message attributes. The deduplication ID is derived from the source queue and the sequence number, so parking a
// delivery twice within five minutes parks it once. Park does not know the dead-letter queue's MaximumMessageSize. If
// body and attributes are too long together, Park shortens the attributes, and then omits them. Errors wrap
// ErrRefused, ErrNoQueue or ErrDenied. After any other error, the message may or may not be parked.
func (q *Queue) Park(ctx context.Context, delivery durable.Delivery, reason string) error {
	if q.deadLetterURL == "" {
		return fmt.Errorf("parking message %s: %w", delivery.MessageID, errors.New("expected the URL of a dead-letter queue, got none"))
	}
	delivery.Body = sendable(delivery.Body) // the loop encoded the body of a deferred event, and SQS may refuse its characters
	var err error
	for _, bytesMax := range []int{MessageBytesMax, olderMessageBytesMax, len(delivery.Body)} {
		_, err = q.client.SendMessage(ctx, &sqs.SendMessageInput{
			QueueUrl:               &q.deadLetterURL,
			MessageBody:            &delivery.Body,
			MessageGroupId:         &delivery.Group,
			MessageDeduplicationId: aws.String("parked-" + placeID(delivery)),
			MessageAttributes:      parkingAttributes(delivery, reason, bytesMax),
		})
		if err == nil {
			return nil
		}
		if err = classify(err); !errors.Is(err, ErrRefused) {
			break
		}
	}
	return fmt.Errorf("parking message %s of %s at %s: %w", delivery.MessageID, delivery.Group, q.deadLetterURL, err)
}

// placeID identifies the message of a delivery among the messages of all queues. The ARN is hashed because a deduplication ID is
// limited to 128 characters.
func placeID(delivery durable.Delivery) string {
	queue := sha256.Sum256([]byte(delivery.Queue))
	return fmt.Sprintf("%x-%s", queue[:8], delivery.SequenceNumber)
}

// parkingAttributes returns as many of the attributes as fit into a message of bytesMax bytes together with the body.
func parkingAttributes(delivery durable.Delivery, reason string, bytesMax int) map[string]types.MessageAttributeValue {
	attributes := map[string]types.MessageAttributeValue{}
	room := bytesMax - len(delivery.Body)
	put := func(name, dataType, value string) {
		if size := len(name) + len(dataType) + len(value); value != "" && size <= room {
			attributes[name] = types.MessageAttributeValue{DataType: aws.String(dataType), StringValue: aws.String(value)}
			room -= size
		}
	}
	from := delivery.ParkedFrom
	if from == (instances.Place{}) {
		from = instances.Place{Queue: delivery.Queue, SequenceNumber: delivery.SequenceNumber}
	}
	put(AttrSourceQueue, "String", from.Queue)
	put(AttrSequenceNumber, "String", from.SequenceNumber)
	put(AttrSentAt, "String", delivery.SentAt.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	put(AttrReceiveCount, "Number", strconv.Itoa(delivery.ReceiveCount))
	put(AttrTraceparent, "String", delivery.Trace.Parent)
	put(AttrReason, "String", cut(printable(reason), min(ReasonBytesMax, room-len(AttrReason)-len("String"))))
	return attributes
}

// printable replaces the characters that SQS refuses in a message attribute.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\ufffe' || r == '\uffff' {
			return utf8.RuneError
		}
		return r
	}, s)
}

// cut shortens s to at most bytesMax bytes. It cuts at a character and appends "…".
func cut(s string, bytesMax int) string {
	const mark = "…"
	if len(s) <= bytesMax {
		return s
	}
	end := bytesMax - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	if end <= 0 {
		return ""
	}
	return s[:end] + mark
}
