package durable

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/limits"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/tracing"
)

// Errors of ports. After all other errors (throttling, timeouts, lost connections), the call may or may not have taken
// effect, and the loop retries it.
var (
	// ErrRefused is wrapped by errors of calls that had no effect and never will, such as a malformed request.
	ErrRefused = errors.New("a retry cannot succeed")
	// ErrDenied is wrapped by errors of calls that had no effect and will fail until an operator acts: a permission
	// or a queue is missing. See Config.DeniedWaitMax.
	ErrDenied = errors.New("a retry cannot succeed until permissions or resources change")
	// ErrConflict is returned by Store when the stored revision is not the expected one. Another writer was faster, or
	// an earlier write of this process succeeded but its answer was lost.
	ErrConflict = errors.New("revision conflict")
	// ErrUnstorable is wrapped by errors of Store.Commit that a retry cannot fix, such as *TooLargeError. The loop parks
	// the event that led to the record.
	ErrUnstorable = errors.New("the record cannot be stored")
	// ErrUnreadable is wrapped by errors of Store.Load when the stored item does not have the format that Commit writes.
	// The loop changes nothing and retries. A person must repair the item.
	ErrUnreadable = errors.New("unreadable item, nothing was changed: repair it, or restore it from a backup")
	// ErrAliasTaken is returned by Store.Claim if another instance has the alias.
	ErrAliasTaken = errors.New("the alias belongs to another instance")
	// ErrExpired is returned by Tokens when a task no longer waits: it has timed out, or its execution has ended.
	ErrExpired = errors.New("the task no longer waits")
	// ErrNoExecution is returned by Executions.Describe for a deleted execution.
	ErrNoExecution = errors.New("there is no such execution")
)

// TooLargeError is returned by Store.Commit if a record is too large.
type TooLargeError struct {
	Bytes, BytesMax int
}

// Error states the size and the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the item would have %d bytes, the limit is %d: keep less in the context", e.Bytes, e.BytesMax)
}

// Is makes a TooLargeError an ErrUnstorable.
func (e *TooLargeError) Is(target error) bool { return target == ErrUnstorable }

// Store keeps one record per instance.
type Store interface {
	// Load reads the record with a consistent read. If the instance has none, it returns a Record with only Instance
	// set and Revision 0. Fails with ErrUnreadable or ErrDenied.
	Load(ctx context.Context, id instances.ID) (instances.Record, error)
	// Commit stores the record in one write, on condition that the stored revision is record.Revision-1, or, if that is 0,
	// that no record is stored. Fails with ErrConflict or ErrUnstorable. After any other error, the record may or may not
	// be stored.
	Commit(ctx context.Context, record instances.Record) error
	// ClearOutbox replaces fields of the record with the fields of `left` and raises the revision by one, on condition
	// that the stored revision equals `revision`. Fails with ErrConflict or ErrUnstorable.
	ClearOutbox(ctx context.Context, id instances.ID, revision int64, left Left) error
	// KeepSends stores last sends that do not fit into the record of their receiver, until expireAt. It does not replace a
	// stored send with an earlier one (LastSend.After).
	KeepSends(ctx context.Context, receiver instances.ID, queue string, sends []instances.LastSend, expireAt time.Time) error
	// LastSend returns the last send of a sender that KeepSends has stored, or false.
	LastSend(ctx context.Context, receiver instances.ID, queue, sender string) (instances.LastSend, bool, error)
	// Claim gives the alias to the instance that was created at `createdAt`, on condition that the stored revision of the
	// instance equals `revision`. It changes nothing if the instance has the alias already. Fails with ErrAliasTaken or
	// ErrConflict.
	Claim(ctx context.Context, alias string, id instances.ID, createdAt time.Time, revision int64) error
	// Release allows others to claim the alias, if the instance has it and its record does not list it. Until another
	// instance claims the alias, the alias still leads to this one. The store may delete the alias at expireAt, or never
	// if expireAt is zero. expireAt is set only for an instance that has ended and so claims nothing more.
	Release(ctx context.Context, alias string, id instances.ID, createdAt, expireAt time.Time) error
}

// Left is the pending work of a record after a dispatch.
type Left struct {
	// Outbox holds the effects that were not performed.
	Outbox     []statechart.Effect
	Tokens     []instances.Token
	Executions []instances.Execution
	// FailedEffects replace those in the record.
	FailedEffects  []instances.FailedEffect
	DeniedSince    time.Time
	ExpireAt       time.Time
	WithoutHistory bool // drops the history of the record
}

// Message is an event to be sent to an instance.
type Message struct {
	To instances.ID
	// Body is the event's JSON form.
	Body json.RawMessage
	// DeduplicationID identifies repeats to the queue. It has at most 128 characters.
	DeduplicationID string
	// Lane is the lane to send to. Empty means the lane that the queue assigns to the instance.
	Lane string
}

// Sender puts events into the FIFO queue.
type Sender interface {
	// Send sends the message under its DeduplicationID, in the group To. It returns the queue's message ID.
	Send(ctx context.Context, message Message) (messageID string, err error)
}

// Queue is the FIFO queue of the deliveries.
type Queue interface {
	Sender
	// SendBatch sends at most 10 messages, no two to the same instance. It returns one error for each message, nil if
	// the message was sent.
	SendBatch(ctx context.Context, messages []Message) []error
	// Park sends the delivery to the dead-letter queue, in its group, with the reason. It does not acknowledge the
	// delivery. Parking a delivery again uses the same deduplication ID.
	Park(ctx context.Context, delivery Delivery, reason string) error
	// Forward sends the delivery to the same instance in the given lane, with a Forwarding that names the delivery's
	// place. It does not acknowledge the delivery. Forwarding a delivery again uses the same deduplication ID. Without
	// lanes, nothing calls Forward.
	Forward(ctx context.Context, delivery Delivery, lane string) error
	// Delay hides the deliveries for the given time from now. It delays a retry or extends a lease.
	Delay(ctx context.Context, deliveries []Delivery, wait time.Duration) error
}

// Timers sends messages to the FIFO queue at a later time.
type Timers interface {
	// Schedule sends the message no earlier than the time `at`. Scheduling again under the same DeduplicationID may
	// send the message twice.
	Schedule(ctx context.Context, at time.Time, message Message) error
	// Cancel tries to prevent the sending of a message that is no longer needed. The message may still be sent.
	Cancel(ctx context.Context, deduplicationID string) error
}

// Ports holds all external dependencies of a loop.
type Ports struct {
	Store  Store
	Queue  Queue
	Timers Timers
	// Tokens may be nil. Then an event with a task's token is parked.
	Tokens Tokens
	// Acknowledger may be nil. Then all groups of a batch stay locked until the slowest has finished.
	Acknowledger Acknowledger
	// Executions may be nil. Then New rejects machines that start workflows.
	Executions Executions
	// Cache may be nil. Then each turn reads its instance.
	Cache Cache
	// Limiter may be nil. Then New rejects machines with limits.
	Limiter *limits.Limiter
}

// Delivery is one receipt of a message, which may be delivered many times.
type Delivery struct {
	MessageID     string
	ReceiptHandle string
	// Queue is the ARN of the queue.
	Queue string
	// Group is the MessageGroupId: the name of the instance.
	Group string
	// SequenceNumber is the number that the queue gave the message: decimal digits that increase within the queue.
	SequenceNumber string
	// DeduplicationID is the ID that the message was sent under.
	DeduplicationID string
	// ReceiveCount is how often the message was received, including this time.
	ReceiveCount int
	SentAt       time.Time
	Body         string
	// ParkedFrom is the place where the message was first parked; zero if it was not redriven or the place is unknown.
	ParkedFrom instances.Place
	// Trace is the position of the message in a distributed trace; zero if it has none.
	Trace tracing.Trace
	// Forwarding says where the message was forwarded from; zero if its sender sent it to this queue. DeduplicationID
	// and SentAt belong to the sender's message.
	Forwarding Forwarding
}

// Forwarding is the origin of a message that a consumer forwarded from one lane to another.
type Forwarding struct {
	// From is the place of the message that was forwarded.
	From instances.Place
	// SentTo is the ARN of the queue to which the sender sent the message. It differs from From.Queue if the message
	// was forwarded twice.
	SentTo string
}

// sentTo returns the ARN of the queue to which the sender of the message sent it.
func (d Delivery) sentTo() string { return cmp.Or(d.Forwarding.SentTo, d.Queue) }

// Cache keeps copies of records that this process has stored. A copy may be stale, because other processes write too. The
// loop applies events to a copy, and lets the conditional write prove that the copy was current.
type Cache interface {
	// Get returns a copy if it is probably current.
	Get(id instances.ID) (instances.Record, bool)
	// Put keeps a copy of a record that was just stored.
	Put(record instances.Record)
	// Loaded compares the copy of an instance with the record that was just read, and drops the copy.
	Loaded(record instances.Record)
}

// Acknowledger deletes finished deliveries before their batch ends.
type Acknowledger interface {
	// Acknowledge deletes the deliveries. After a failure, a delivery is acknowledged with its batch or redelivered.
	Acknowledge(ctx context.Context, deliveries []Delivery) error
}
