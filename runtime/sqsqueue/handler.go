package sqsqueue

import (
	"context"
	"log/slog"

	"github.com/aws/aws-lambda-go/events"

	"github.com/settle-run/settle/runtime/durable"
)

// Consumer handles batches of deliveries. *durable.Loop implements it.
type Consumer interface {
	// Handle returns the message IDs of the deliveries that need redelivery.
	Handle(ctx context.Context, deliveries []durable.Delivery) (failed []string)
}

// Handler returns the Lambda handler of the FIFO queue. The event source mapping must enable ReportBatchItemFailures.
// The handler returns an error, which fails the whole batch, only if the mapping is for a queue that is not FIFO.
func Handler(consumer Consumer) func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
	return func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		deliveries, err := DecodeAll(event)
		if err != nil {
			return events.SQSEventResponse{}, err
		}
		return Respond(consumer.Handle(ctx, deliveries)), nil
	}
}

// EachHandler returns the Lambda handler of a standard queue with independent messages. It passes each body to
// `handle`. It logs a failed message and lets SQS redeliver it, until the queue's redrive policy moves it to the
// dead-letter queue.
func EachHandler(logger *slog.Logger, handle func(ctx context.Context, body string) error) func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
	return func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		var failed []string
		for _, message := range event.Records {
			if err := handle(ctx, message.Body); err != nil {
				logger.WarnContext(ctx, "message failed, will be redelivered", "error", err,
					"queue", message.EventSourceARN, "message_id", message.MessageId,
					"receive_count", message.Attributes["ApproximateReceiveCount"])
				failed = append(failed, message.MessageId)
			}
		}
		return Respond(failed), nil
	}
}
