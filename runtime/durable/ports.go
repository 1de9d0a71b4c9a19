package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// ErrConflict is returned by Store when the stored revision is not the expected one: another
// writer was faster, or an earlier write of our own succeeded although its answer was lost.
var ErrConflict = errors.New("revision conflict")

// ErrUnstorable is wrapped by the errors of Store.Commit that no repetition mends: the event
// that led to the record is parked. *TooLargeError is one.
var ErrUnstorable = errors.New("the record cannot be stored")

// ErrUnreadable is wrapped by the errors of Store.Load when what is stored is not a record as Commit writes it. The loop
// touches nothing then, and tries again: somebody has to mend what is stored.
var ErrUnreadable = errors.New("unreadable item, nothing is touched: mend it, or restore it from a backup")

// TooLargeError is returned by Store.Commit when a record does not fit into an item.
type TooLargeError struct {
	Bytes, BytesMax int
}

// Error names the size and the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the item would have %d bytes, the limit is %d: keep less in the context", e.Bytes, e.BytesMax)
}

// Is makes a TooLargeError an ErrUnstorable.
func (e *TooLargeError) Is(target error) bool { return target == ErrUnstorable }

// The errors of ports that no time mends by itself. All others (throttling, time-outs, lost connections)
// leave open what has happened, and are tried again.
var (
	// ErrRefused is wrapped by the errors of calls that had no effect and never will: what was asked for is
	// malformed or too long.
	ErrRefused = errors.New("trying again cannot help")
	// ErrDenied is wrapped by the errors of calls that had no effect and will have none before somebody
	// changes something: a permission is missing, or a queue. See Config.DeniedWaitMax.
	ErrDenied = errors.New("trying again can help only once somebody has changed permissions or resources")
)

// Store keeps one record an instance.
type Store interface {
	// Load reads the record consistently. An instance without one gives a Record that has
	// only Instance set and Revision 0. Fails with ErrUnreadable.
	Load(ctx context.Context, id InstanceID) (Record, error)
	// Commit stores the record in one write, on condition that the stored revision is
	// record.Revision-1 (no record, if that is 0). Fails with ErrConflict or
	// ErrUnstorable; any other error leaves open whether the record was stored.
	Commit(ctx context.Context, record Record) error
	// ClearOutbox replaces the outbox of the record, and the other fields of left, and raises the revision by one, on
	// condition that the revision is the given one. Fails with ErrConflict or ErrUnstorable.
	ClearOutbox(ctx context.Context, id InstanceID, revision int64, left Left) error
	// KeepSends stores the last sends of senders that do not fit into the record of a receiver, until expireAt. A stored send
	// that comes after the given one stays (LastSend.After).
	KeepSends(ctx context.Context, receiver InstanceID, queue string, sends []LastSend, expireAt time.Time) error
	// LastSend returns the last send of a sender that KeepSends has stored, and false if there is none.
	LastSend(ctx context.Context, receiver InstanceID, queue, sender string) (LastSend, bool, error)
	// Claim makes the instance that was created at the given time known under the alias, on condition that the stored
	// revision of the instance is the given one. Claiming the same alias again changes nothing. Fails with ErrAliasTaken or
	// ErrConflict.
	Claim(ctx context.Context, alias string, id InstanceID, createdAt time.Time, revision int64) error
	// Release lets others claim the alias, if it is that instance's. Until one does, it goes on to lead
	// to the instance, and may be deleted when the instance may: at expireAt, or never if that is zero.
	Release(ctx context.Context, alias string, id InstanceID, createdAt, expireAt time.Time) error
}

// Left is what a record still owes after a dispatch.
type Left struct {
	// Outbox has the effects that were not performed.
	Outbox     []statechart.Effect
	Tokens     []Token
	Executions []Execution
	// FailedEffects take the place of the record's.
	FailedEffects []FailedEffect
	DeniedSince   time.Time
	ExpireAt      time.Time
}

// Message is an event on its way to an instance.
type Message struct {
	To InstanceID
	// Body is the event's JSON form.
	Body json.RawMessage
	// DeduplicationID makes repeats recognisable to the queue; at most 128 characters.
	DeduplicationID string
}

// Sender puts events into the FIFO queue.
type Sender interface {
	// Send sends the message under its DeduplicationID, in the group To, and returns the
	// queue's message ID.
	Send(ctx context.Context, message Message) (messageID string, err error)
}

// Queue is the FIFO queue that the deliveries come from.
type Queue interface {
	Sender
	// SendBatch sends messages, at most SendBatchMax and no two to one instance, and returns an error for each, nil if it
	// was sent.
	SendBatch(ctx context.Context, messages []Message) []error
	// Park sends the delivery to the dead-letter queue, in its group, with the reason. It
	// does not acknowledge the delivery. Parking a delivery again is recognisable by the
	// same deduplication ID.
	Park(ctx context.Context, delivery Delivery, reason string) error
	// Delay hides the deliveries, all of one group, for the given time from now.
	Delay(ctx context.Context, deliveries []Delivery, wait time.Duration) error
}

// Timers brings messages to the FIFO queue at a later time.
type Timers interface {
	// Schedule sends the message no earlier than at. Scheduling again under the same
	// DeduplicationID may send it again.
	Schedule(ctx context.Context, at time.Time, message Message) error
	// Cancel tries to save the sending of a message that nobody waits for any more. It may be sent
	// all the same.
	Cancel(ctx context.Context, deduplicationID string) error
}

// Ports is all that a loop reaches.
type Ports struct {
	Store  Store
	Queue  Queue
	Timers Timers
	// Tokens may be nil: then an event that hands over a task's token is parked.
	Tokens Tokens
	// Acknowledger may be nil: then all groups of a batch stay locked until the slowest has finished.
	Acknowledger Acknowledger
	// Executions may be nil: then New refuses machines that start workflows.
	Executions Executions
}

// Delivery is one receipt of one queue message; a message may be delivered many times.
type Delivery struct {
	MessageID     string
	ReceiptHandle string
	// Queue is the ARN of the queue.
	Queue string
	// Group is the MessageGroupId: the name of the instance.
	Group string
	// SequenceNumber is the queue's number of the message: decimal digits, increasing within
	// the queue.
	SequenceNumber string
	// DeduplicationID is the one that the message was sent under.
	DeduplicationID string
	// ReceiveCount counts the receipts of the message, this one included.
	ReceiveCount int
	SentAt       time.Time
	Body         string
	// ParkedFrom is where the message was parked first, if it was: this is its copy, sent again. Zero if it was
	// not, or if that is not known.
	ParkedFrom Place
	// Trace is the place of the message in a distributed trace; zero if it has none.
	Trace Trace
}

// Place is where a message was: the ARN of a queue, and the message's sequence number there.
type Place struct {
	Queue, SequenceNumber string
}

// Acknowledger takes deliveries off the queue that are done, before the others of their batch are.
type Acknowledger interface {
	// Acknowledge deletes the deliveries. One that is not deleted is acknowledged with its batch, or comes again.
	Acknowledge(ctx context.Context, deliveries []Delivery) error
}
