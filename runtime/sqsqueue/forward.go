package sqsqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// AttrForwarded is the message attribute of a message that a consumer forwarded from one lane to another. Its value is
// JSON.
const AttrForwarded = "forwarded"

// forwarding is the value of AttrForwarded.
type forwarding struct {
	// Queue and SequenceNumber are the place of the forwarded message, and SentTo is durable.Forwarding.SentTo.
	Queue          string `json:"queue"`
	SequenceNumber string `json:"sequence_number"`
	SentTo         string `json:"sent_to"`
	// DeduplicationID and SentAt, in milliseconds since 1970, belong to the sender's message.
	DeduplicationID string `json:"deduplication_id"`
	SentAt          int64  `json:"sent_at"`
}

// Forward sends the delivery to the same group of another lane. The copy has the same body. It keeps the place where
// the delivery was first parked, if any. Its deduplication ID is derived from the place of the delivery. Under the
// sender's ID, SQS would drop the copy if the message was in that lane within the last five minutes. Errors wrap
// ErrRefused, ErrNoQueue or ErrDenied. After any other error, the message may or may not be sent.
func (q *Queue) Forward(ctx context.Context, delivery durable.Delivery, lane string) error {
	value, err := json.Marshal(forwarding{
		Queue: delivery.Queue, SequenceNumber: delivery.SequenceNumber, SentTo: cmp.Or(delivery.Forwarding.SentTo, delivery.Queue),
		DeduplicationID: delivery.DeduplicationID, SentAt: delivery.SentAt.UnixMilli(),
	})
	if err != nil {
		return err
	}
	attributes := map[string]types.MessageAttributeValue{}
	put := func(name, value string) {
		if value != "" {
			attributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(value)}
		}
	}
	put(AttrForwarded, string(value))
	put(AttrSourceQueue, delivery.ParkedFrom.Queue)
	put(AttrSequenceNumber, delivery.ParkedFrom.SequenceNumber)
	put(AttrTraceparent, delivery.Trace.Parent)
	body, url := sendable(delivery.Body), q.urlFor(instances.ID{}, lane)
	_, err = q.client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: &url, MessageBody: &body, MessageGroupId: &delivery.Group,
		MessageDeduplicationId: aws.String(forwardingID(delivery)),
		MessageAttributes:      attributes,
	})
	if err != nil {
		return fmt.Errorf("forwarding message %s of %s to %s: %w", delivery.MessageID, delivery.Group, url, classify(err))
	}
	return nil
}

// forwardingID is the deduplication ID of the copy of a delivery.
func forwardingID(delivery durable.Delivery) string { return "forwarded-" + placeID(delivery) }

// isQueueARN reports whether a text may be the ARN of a queue, which is at most 128 bytes long.
func isQueueARN(text string) bool {
	return len(text) <= 128 && strings.HasPrefix(text, "arn:") && strings.Count(text, ":") == 5
}

// forwarded fills in the fields of a delivery that was forwarded. It ignores an invalid attribute. A redriven copy has
// another deduplication ID. forwarded ignores its attribute too, because a later copy may have been applied since.
func forwarded(delivery *durable.Delivery, message events.SQSMessage) {
	value := message.MessageAttributes[AttrForwarded].StringValue
	if value == nil {
		return
	}
	var form forwarding
	if json.Unmarshal([]byte(*value), &form) != nil || !isQueueARN(form.Queue) || !isQueueARN(form.SentTo) || !isDecimal(form.SequenceNumber) || len(form.SequenceNumber) > instances.SequenceDigitsMax {
		return
	}
	from := durable.Delivery{Queue: form.Queue, SequenceNumber: form.SequenceNumber}
	if sentAt := time.UnixMilli(form.SentAt); delivery.DeduplicationID != forwardingID(from) || sentAt.After(delivery.SentAt) || form.SentAt < 0 {
		return
	}
	delivery.Forwarding = durable.Forwarding{From: instances.Place{Queue: form.Queue, SequenceNumber: form.SequenceNumber}, SentTo: form.SentTo}
	delivery.DeduplicationID = form.DeduplicationID
	delivery.SentAt = time.UnixMilli(form.SentAt).UTC()
}
