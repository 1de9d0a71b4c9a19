package sqsqueue

import (
	"context"
	"log/slog"

	"github.com/aws/aws-lambda-go/events"

	"github.com/settle-run/settle/runtime/durable"
)

// Consumer takes batches of deliveries; *durable.Loop is one.
type Consumer interface {
	// Handle returns the message IDs of the deliveries that must be delivered again.
	Handle(ctx context.Context, deliveries []durable.Delivery) (failed []string)
}

// Handler returns the Lambda handler of the FIFO queue. The event source mapping must report
// batch item failures. Its error fails the whole batch, and only comes of a mapping to a
// queue that is not FIFO.
func Handler(consumer Consumer) func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
	return func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		deliveries, err := DecodeAll(event)
		if err != nil {
			return events.SQSEventResponse{}, err
		}
		return Respond(consumer.Handle(ctx, deliveries)), nil
	}
}

// EachHandler returns the Lambda handler of a standard queue whose messages have nothing to do
// with one another: each is handled by its body alone. One that fails is logged and delivered
// again, until the queue's redrive policy moves it to the dead-letter queue.
func EachHandler(logger *slog.Logger, handle func(ctx context.Context, body string) error) func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
	return func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		var failed []string
		for _, message := range event.Records {
			if err := handle(ctx, message.Body); err != nil {
				logger.WarnContext(ctx, "message failed, to be delivered again", "error", err,
					"queue", message.EventSourceARN, "message_id", message.MessageId,
					"receive_count", message.Attributes["ApproximateReceiveCount"])
				failed = append(failed, message.MessageId)
			}
		}
		return Respond(failed), nil
	}
}
