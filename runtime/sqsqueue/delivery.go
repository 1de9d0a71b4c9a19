package sqsqueue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// ErrNotFIFO is returned by Decode if a message lacks the attributes of a FIFO queue.
var ErrNotFIFO = errors.New("not a message of a FIFO queue")

// Decode decodes a FIFO queue's message from Lambda's event source mapping. The body may be anything. Errors wrap
// ErrNotFIFO and mean that the mapping belongs to another queue.
func Decode(message events.SQSMessage) (durable.Delivery, error) {
	attributes := message.Attributes
	delivery := durable.Delivery{
		MessageID:       message.MessageId,
		ReceiptHandle:   message.ReceiptHandle,
		Queue:           message.EventSourceARN,
		Group:           attributes["MessageGroupId"],
		SequenceNumber:  attributes["SequenceNumber"],
		DeduplicationID: attributes["MessageDeduplicationId"],
		Body:            message.Body,
		ParkedFrom:      parkedFrom(message),
		Trace:           traceOf(message),
	}
	count, countErr := strconv.Atoi(attributes["ApproximateReceiveCount"])
	sentAt, sentErr := strconv.ParseInt(attributes["SentTimestamp"], 10, 64)
	delivery.ReceiveCount, delivery.SentAt = count, time.UnixMilli(sentAt).UTC()
	forwarded(&delivery, message)
	switch {
	case delivery.Group == "" || !isDecimal(delivery.SequenceNumber):
		return durable.Delivery{}, fmt.Errorf("%w: message %s of %s: expected the attributes MessageGroupId and SequenceNumber, got %q and %q: "+
			"connect the function to the FIFO queue", ErrNotFIFO, message.MessageId, message.EventSourceARN, delivery.Group, delivery.SequenceNumber)
	case countErr != nil || sentErr != nil:
		return durable.Delivery{}, fmt.Errorf("%w: message %s of %s: expected numbers as ApproximateReceiveCount and SentTimestamp, got %q and %q: connect the function to the FIFO queue",
			ErrNotFIFO, message.MessageId, message.EventSourceARN, attributes["ApproximateReceiveCount"], attributes["SentTimestamp"])
	}
	return delivery, nil
}

// parkedFrom returns the place from which Park first parked the message. It reads the place from the attributes that
// Park added, which SQS keeps when it moves messages out of a dead-letter queue.
func parkedFrom(message events.SQSMessage) instances.Place {
	queue, number := message.MessageAttributes[AttrSourceQueue].StringValue, message.MessageAttributes[AttrSequenceNumber].StringValue
	if queue == nil || number == nil || *queue == "" || !isPlaceNumber(*number) {
		return instances.Place{}
	}
	return instances.Place{Queue: *queue, SequenceNumber: *number}
}

// isPlaceNumber reports whether Park may have written the sequence number: decimal digits or, for a deferred event, the
// ID of an effect such as "3.0". All other values are ignored, so that a producer cannot fill the item with them.
func isPlaceNumber(s string) bool {
	return s != "" && len(s) <= placeNumberBytesMax && strings.Trim(s, "0123456789.") == ""
}

// placeNumberBytesMax is long enough for any 128-bit number, and for any two 64-bit numbers with a dot.
const placeNumberBytesMax = 41

// DecodeAll decodes the messages of one invocation, in order.
func DecodeAll(event events.SQSEvent) ([]durable.Delivery, error) {
	deliveries := make([]durable.Delivery, 0, len(event.Records))
	for _, message := range event.Records {
		delivery, err := Decode(message)
		if err != nil {
			return nil, err
		}
		deliveries = append(deliveries, delivery)
	}
	return deliveries, nil
}

// Respond returns the response that makes Lambda delete all messages of the batch except the failed IDs.
func Respond(failed []string) events.SQSEventResponse {
	failures := make([]events.SQSBatchItemFailure, len(failed))
	for i, id := range failed {
		failures[i].ItemIdentifier = id
	}
	return events.SQSEventResponse{BatchItemFailures: failures}
}

func isDecimal(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
