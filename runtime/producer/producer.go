// Package producer is the sending side of the queue. It validates events, reserves their IDs, queues them, and waits until
// instances have applied them. The gateway, package client and the command line share it. Programs that send
// events use package client.
package producer

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// Limits on events.
const (
	// EventBytesMax is the size limit of an event with its ID, in the gateway, package client, the console and the
	// command line. A message may have 1 MiB, attributes included (SQS Developer Guide, "Amazon SQS message quotas").
	// The remaining 8 KiB are for the attributes of a parked message, such as the reason.
	EventBytesMax = 1<<20 - 8<<10
	// EventIDBytesMax is the length limit of an event ID. Instances store the IDs of their recent events.
	EventIDBytesMax = 256
)

// Errors of Check. Check also returns the errors of durable.Machines.Accept.
var (
	// ErrTooLarge is returned if an event with its ID exceeds the limit.
	ErrTooLarge = errors.New("too large")
	// ErrEventID is returned if an event ID is too long, or differs from the event's $id.
	ErrEventID = errors.New("bad event ID")
)

// Queue puts events into the FIFO queue. *sqsqueue.Queue implements it.
type Queue interface {
	// Enqueue sends the message as durable.Sender does. It also returns the message's sequence number.
	Enqueue(ctx context.Context, message durable.Message) (messageID, sequenceNumber string, err error)
	// ARN returns the queue's ARN, under which records keep their watermarks.
	ARN(ctx context.Context) (string, error)
}

// Store reads instances and reserves event IDs. *dynamostore.Store implements it.
type Store interface {
	// Load returns the record of an instance by a consistent read. If no record is stored, its Revision is 0.
	Load(ctx context.Context, id instances.ID) (instances.Record, error)
	// Reserve reserves an event ID for this event to the instance. The reservation starts at the given time. It returns
	// dynamostore.ErrIDReused if the ID is reserved for another event. Reserving the same event again succeeds.
	Reserve(ctx context.Context, to instances.ID, eventID string, event json.RawMessage, at time.Time) error
}

// Producer sends events to the instances of its machines. It is safe for concurrent use.
type Producer struct {
	machines *durable.Machines
	queue    Queue
	store    Store
	now      func() time.Time
}

// New returns a producer. `now` is the clock for the expiry of reserved IDs.
func New(machines *durable.Machines, queue Queue, store Store, now func() time.Time) *Producer {
	return &Producer{machines: machines, queue: queue, store: store, now: now}
}

// Event is a valid event, ready to be queued. Check makes one.
type Event struct {
	Message durable.Message
	Type    string
	// ID is the event's ID, empty if it has none.
	ID string
}

// Check validates an event and builds its message. The event's ID is eventID or the event's own $id. If both are given,
// they must be equal. An event without an ID is never deduplicated. An event, including its ID, may have at most
// bytesMax bytes.
func Check(machines *durable.Machines, to instances.ID, body []byte, eventID string, bytesMax int) (Event, error) {
	if !utf8.Valid(body) {
		// encoding/json accepts invalid UTF-8. SQS does not.
		return Event{}, fmt.Errorf("%w: expected JSON in UTF-8", statechart.ErrNotAnEvent)
	}
	event, err := machines.Accept(to, body)
	if err != nil {
		return Event{}, err
	}
	switch {
	case eventID == "":
		eventID = event.ID
	case event.ID == "":
		body = withEventID(body, eventID)
	case event.ID != eventID:
		return Event{}, fmt.Errorf("%w: the idempotency key is %q but the event's $id is %q: send only one of them, or the same value in both", ErrEventID, eventID, event.ID)
	}
	if len(eventID) > EventIDBytesMax {
		return Event{}, fmt.Errorf("%w: expected at most %d bytes, got %d", ErrEventID, EventIDBytesMax, len(eventID))
	}
	if size := queuedBytes(body); size > bytesMax {
		return Event{}, fmt.Errorf("%w: expected an event of at most %d bytes with its $id, got %d: store the data elsewhere and send a reference", ErrTooLarge, bytesMax, size)
	}
	deduplicationID := rand.Text()
	if eventID != "" {
		if deduplicationID, err = durable.DeduplicationID(to, eventID, body); err != nil {
			return Event{}, fmt.Errorf("%w: %w", statechart.ErrNotAnEvent, err)
		}
	}
	return Event{durable.Message{To: to, Body: body, DeduplicationID: deduplicationID}, event.Type, eventID}, nil
}

// queuedBytes returns the size of an event in the queue. SQS refuses two characters of three bytes. Package sqsqueue
// replaces each with an escape of six bytes, such as \uffff.
func queuedBytes(event []byte) int {
	return len(event) + 3*(bytes.Count(event, []byte("\ufffe"))+bytes.Count(event, []byte("\uffff")))
}

// withEventID appends the ID to the event as its last key. If the event has two keys "$id", decoders use the last one.
func withEventID(event []byte, id string) []byte {
	quoted, err := json.Marshal(id)
	if err != nil {
		panic(err) // A string always marshals.
	}
	object := strings.TrimRight(string(event), " \t\r\n")
	return []byte(strings.TrimSuffix(object, "}") + `,"$id":` + string(quoted) + "}")
}

// Reserve reserves the ID of an event, before the event is queued. If the process dies before it queues the event, a
// retry of the same event reuses the reservation. Without an ID, Reserve does nothing. It fails with
// dynamostore.ErrIDReused. An event whose ID derives from its body needs no reservation, because no other event has
// that ID.
func (p *Producer) Reserve(ctx context.Context, event Event) error {
	if event.ID == "" {
		return nil
	}
	return p.store.Reserve(ctx, event.Message.To, event.ID, event.Message.Body, p.now())
}

// Sent is a queued event.
type Sent struct {
	Event
	// MessageID is the queue's ID of the message. If SQS drops the event as a duplicate, it is the ID of the first message.
	MessageID string
	// Place is the position of the message in the queue. Place.Queue is empty after Send.
	Place instances.Place
	// `before` is the instance as stored before the event was queued.
	before instances.Record
}

// Send queues an event. After an error that does not wrap durable.ErrDenied or durable.ErrRefused, the event may or may not
// be queued.
func (p *Producer) Send(ctx context.Context, event Event) (Sent, error) {
	return p.SendWatched(ctx, Sent{Event: event})
}

// Watch prepares to send an event whose outcome Await will wait for. It reads the queue's ARN and the instance, so that
// Await can distinguish this outcome from earlier outcomes. Watch queues nothing: call SendWatched with its result.
func (p *Producer) Watch(ctx context.Context, event Event) (Sent, error) {
	sent := Sent{Event: event}
	var err error
	if sent.Place.Queue, err = p.queue.ARN(ctx); err != nil {
		return Sent{}, err
	}
	sent.before, err = p.store.Load(ctx, event.Message.To)
	return sent, err
}

// SendWatched queues the event that Watch has prepared. It fails as Send does.
func (p *Producer) SendWatched(ctx context.Context, watched Sent) (Sent, error) {
	var err error
	watched.MessageID, watched.Place.SequenceNumber, err = p.queue.Enqueue(ctx, watched.Message)
	return watched, err
}
