package telemetry

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"

	lambdaevents "github.com/aws/aws-lambda-go/events"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host/internal/otlp"
	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/tracing"
)

// Sender wraps the queue for a function that only forwards events. It logs each queued event and starts a span for it.
// The event's processing becomes a child of that span.
func (t *Telemetry) Sender(queue durable.Sender) durable.Sender {
	if t == nil {
		return queue
	}
	return sender{t, queue}
}

type sender struct {
	telemetry *Telemetry
	queue     durable.Sender
}

// Send sends the event.
func (s sender) Send(ctx context.Context, message durable.Message) (messageID string, err error) {
	t := s.telemetry
	if t.exporter == nil && !t.config.Logger.Enabled(ctx, slog.LevelInfo) {
		return s.queue.Send(ctx, message)
	}
	to, typ := message.To.String(), typeOf(message.Body)
	if t.exporter != nil {
		var end func(error)
		ctx, end = t.start(ctx, "send "+typ, otlp.Producer, otlp.Attribute{Key: "settle.instance", Value: to})
		defer func() { end(err) }()
	}
	if messageID, err = s.queue.Send(ctx, message); err == nil {
		t.config.Logger.InfoContext(ctx, "event queued", "instance", to, "type", typ, "message_id", messageID)
	}
	return messageID, err
}

// typeOf returns the type of an event, truncated to the limit of event names. The sender may not have validated the
// event.
func typeOf(event json.RawMessage) string {
	var head struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(event, &head) // A body that is not an event has no type.
	if len(head.Type) > statechart.EventNameBytesMax {
		return strings.ToValidUTF8(head.Type[:statechart.EventNameBytesMax-len("…")], "") + "…"
	}
	return head.Type
}

// BatchHandler is the Lambda handler of a queue.
type BatchHandler = func(context.Context, lambdaevents.SQSEvent) (lambdaevents.SQSEventResponse, error)

// Each wraps the handler of a standard queue. It counts failed messages and handles each message within its own trace.
func (t *Telemetry) Each(handler BatchHandler) BatchHandler {
	if t == nil {
		return handler
	}
	if t.exporter != nil {
		handler = t.oneByOne(handler)
	}
	return func(ctx context.Context, batch lambdaevents.SQSEvent) (lambdaevents.SQSEventResponse, error) {
		answer, err := handler(ctx, batch)
		invocationOf(ctx).add(retried, len(answer.BatchItemFailures))
		return answer, err
	}
}

// oneByOne calls the handler for one message at a time, within the message's trace. A message for which the handler
// fails is redelivered. The other messages are not affected.
func (t *Telemetry) oneByOne(handler BatchHandler) BatchHandler {
	return func(ctx context.Context, batch lambdaevents.SQSEvent) (lambdaevents.SQSEventResponse, error) {
		answer := lambdaevents.SQSEventResponse{BatchItemFailures: []lambdaevents.SQSBatchItemFailure{}}
		for _, message := range batch.Records {
			one, err := handler(tracing.With(ctx, carried(message)), lambdaevents.SQSEvent{Records: []lambdaevents.SQSMessage{message}})
			if err != nil {
				t.config.Logger.WarnContext(ctx, "message failed, will be redelivered", "error", err,
					"queue", message.EventSourceARN, "message_id", message.MessageId, "receive_count", message.Attributes["ApproximateReceiveCount"])
				one.BatchItemFailures = []lambdaevents.SQSBatchItemFailure{{ItemIdentifier: message.MessageId}}
			}
			answer.BatchItemFailures = append(answer.BatchItemFailures, one.BatchItemFailures...)
		}
		return answer, nil
	}
}

// carried returns the trace that a message carries, or the zero Trace if this trace identifies no span.
func carried(message lambdaevents.SQSMessage) tracing.Trace {
	trace := tracing.Trace{AWS: message.Attributes["AWSTraceHeader"]}
	if parent := message.MessageAttributes[sqsqueue.AttrTraceparent].StringValue; parent != nil {
		trace.Parent = *parent
	}
	if _, ok := placeOf(trace); !ok {
		return tracing.Trace{}
	}
	return trace
}
