package schedule

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/tracing"
)

// ErrNotDelayed is returned by Forward if Schedule did not write the body. A retry does not help: leave the message
// to the queue's redrive policy.
var ErrNotDelayed = errors.New("not a message of the delay queue")

// delayed is the body of a message in the delay queue.
type delayed struct {
	// At is when the message is due.
	At time.Time `json:"at"`
	// To is the name of the instance that receives Body, an event.
	To   string          `json:"to"`
	Body json.RawMessage `json:"body"`
	// DeduplicationID is the message's deduplication ID in the FIFO queue.
	DeduplicationID string `json:"deduplication_id"`
	Lane            string `json:"lane,omitempty"`
	// Traceparent and AWSTrace are the trace of the message. They are in the body, because a schedule cannot set
	// attributes of its message.
	Traceparent string `json:"traceparent,omitempty"`
	AWSTrace    string `json:"aws_trace,omitempty"`
}

// delay returns the body for a message that is due at the given time, with the trace of ctx.
func delay(ctx context.Context, at time.Time, message durable.Message) delayed {
	trace := tracing.Of(ctx)
	return delayed{
		At: at, To: message.To.String(), Body: message.Body, DeduplicationID: message.DeduplicationID, Lane: message.Lane,
		Traceparent: trace.Parent, AWSTrace: trace.AWS,
	}
}

// Forwarder handles the messages of a delay queue. It is safe for concurrent use.
type Forwarder struct {
	delays *DelayQueue
	timers *Timers
	sender durable.Sender
}

// NewForwarder returns a forwarder from the delay queue to the sender's FIFO queue. A message that travels in hops
// returns to EventBridge Scheduler as soon as `timers` can schedule it. If `timers` is nil, the message travels in hops
// until it is due.
func NewForwarder(delays *DelayQueue, timers *Timers, sender durable.Sender) *Forwarder {
	return &Forwarder{delays: delays, timers: timers, sender: sender}
}

// A message returns to EventBridge Scheduler if it is early by more than scheduleAgainFrom, which is far above Lead.
// With a lower value, a message that Scheduler has just delivered might return while its schedule still exists. Then
// `create` would count the message as scheduled, and the message would be lost.
const scheduleAgainFrom = 2 * HopMax

// schedulerTimeout limits the time that a hop waits for EventBridge Scheduler. A batch of ten must hop within an
// invocation even if Scheduler does not answer.
const schedulerTimeout = time.Second

// scheduleAgain schedules the message with EventBridge Scheduler, and reports whether Scheduler accepted it.
func (f *Forwarder) scheduleAgain(ctx context.Context, message delayed) bool {
	if f.timers == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, schedulerTimeout)
	defer cancel()
	return f.timers.create(ctx, message) == nil
}

// letter is a message in EventBridge Scheduler's dead-letter queue: the failed request, which contains the message
// (EventBridge Scheduler User Guide, "Configuring a schedule's dead-letter queue").
type letter struct {
	delayed
	MessageBody string
}

// Forward handles one message of the delay queue. If the message is due by the delay queue's clock, Forward sends it
// to the FIFO queue. If it is early, Forward schedules it with EventBridge Scheduler or makes another hop. A dead
// letter of EventBridge Scheduler that was sent to the delay queue counts as the message that it contains. Delete the
// message only after Forward succeeded. Errors wrap ErrNotDelayed, or can be retried.
func (f *Forwarder) Forward(ctx context.Context, body string) error {
	message, to, err := decode(body)
	if err != nil {
		return err
	}
	if message.Traceparent != "" || message.AWSTrace != "" {
		ctx = tracing.With(ctx, tracing.Trace{Parent: message.Traceparent, AWS: message.AWSTrace})
	}
	if early := message.At.Sub(f.delays.now()); early > 0 {
		if early > scheduleAgainFrom && f.scheduleAgain(ctx, message) {
			return nil
		}
		return f.delays.put(ctx, message)
	}
	_, err = f.sender.Send(ctx, durable.Message{To: to, Body: message.Body, DeduplicationID: message.DeduplicationID, Lane: message.Lane})
	if err != nil {
		return fmt.Errorf("forwarding a message that was due at %s: %w", message.At.Format(time.RFC3339Nano), err)
	}
	return nil
}

// Read returns the message for an instance from the body of a message in the delay queue or in its dead-letter queue.
// Errors wrap ErrNotDelayed.
func Read(body string) (durable.Message, error) {
	message, to, err := decode(body)
	if err != nil {
		return durable.Message{}, err
	}
	return durable.Message{To: to, Body: message.Body, DeduplicationID: message.DeduplicationID, Lane: message.Lane}, nil
}

// decode reads a body that `put` or EventBridge Scheduler has written.
func decode(body string) (delayed, instances.ID, error) {
	var read letter
	err := json.Unmarshal([]byte(body), &read)
	if err == nil && read.MessageBody != "" {
		body, read = read.MessageBody, letter{}
		err = json.Unmarshal([]byte(body), &read)
	}
	if err != nil {
		return delayed{}, instances.ID{}, fmt.Errorf("%w: expected a JSON object: %w, got %d bytes", ErrNotDelayed, err, len(body))
	}
	message := read.delayed
	for _, field := range []struct {
		key     string
		missing bool
	}{
		{"at", message.At.IsZero()},
		{"body", !bytes.HasPrefix(message.Body, []byte{'{'})},
		{"deduplication_id", message.DeduplicationID == ""},
	} {
		if field.missing {
			return delayed{}, instances.ID{}, fmt.Errorf("%w: expected a time under \"at\", an object under \"body\" and a text under \"deduplication_id\", "+
				"but %q is missing or wrong in a body of %d bytes", ErrNotDelayed, field.key, len(body))
		}
	}
	to, err := instances.ParseID(message.To)
	if err != nil {
		return delayed{}, instances.ID{}, fmt.Errorf("%w: the key \"to\": %w", ErrNotDelayed, err)
	}
	return message, to, nil
}
