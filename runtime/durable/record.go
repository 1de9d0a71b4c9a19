package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Record is what is kept of one instance, in one item.
type Record struct {
	Instance InstanceID
	// Revision counts the writes of the instance. 0 means that nothing is stored.
	Revision int64
	// Snapshot is the JSON form of the chart's snapshot; see statechart.Snapshot for its
	// keys. A store may keep it as attributes of their own.
	Snapshot json.RawMessage
	// State is the paths of the active atomic states; it repeats what Snapshot says, for
	// people and for queries.
	State  []string
	Status statechart.Status

	// CreatedAt is when the event that started the instance was sent. With the name, it
	// tells the instance from an earlier one of the same name.
	CreatedAt time.Time
	UpdatedAt time.Time
	// ExpireAt is when the item may be deleted; zero means never. It is zero while the instance owes effects.
	ExpireAt time.Time

	// Watermark maps a queue's ARN to the sequence number of the last event of this
	// instance that was applied or parked.
	Watermark map[string]string
	// RecentEvents are the events applied last, oldest first: the producer's ID with a hash of the body or, for an event without
	// an ID that was redriven or that was among the first of its instance, the place that it was parked at, or may have been.
	// Invariant: len(RecentEvents) <= Config.RecentEventsMax.
	RecentEvents []string
	// LastSends are, by the ARN of the queue that they came in, the last events of other instances that were
	// applied, oldest first. Those of older senders are in the store: see Store.KeepSends.
	// Invariant: no two of a queue have the same sender.
	LastSends map[string][]LastSend
	// History are the last transitions, oldest first.
	// Invariant: len(History) <= Config.HistoryMax.
	History []Transition
	// Ignored counts the events that no active state had a transition for.
	Ignored int64
	// Skipped counts the deliveries that were passed over because their event was applied before, or is stale. It is
	// no reason to write the record: what comes after the last write is not counted.
	Skipped int64
	// FailedEffects are those that will never be performed, oldest first; see Config.FailedEffectsMax.
	FailedEffects []FailedEffect
	// DeniedSince is when AWS first denied the effect at the head of the outbox, zero if it does not.
	DeniedSince time.Time
	// Outbox is the effects committed with Snapshot and not yet known to be performed.
	// Effects must be performed in order, and only after the record is stored.
	Outbox []statechart.Effect
	// Tokens are the Step Functions tasks that wait for the instance, in the order in which they
	// came, and those whose answer is not yet known to be given.
	Tokens []Token
	// Executions are those of workflows whose end the instance waits for, in the order in which it
	// asked for them.
	Executions []Execution
	// Parent is the instance that has spawned this one; nil if none has.
	Parent *Parent
	// Aliases are the other names that the instance has claimed.
	Aliases []string
	// Attempts are the marks left before a redelivered event is tried, and between the services that follow one
	// another within an event: at most one for each queue.
	Attempts []Attempt
	// Error is the last event of the instance that was parked, and why; nil if none was.
	Error *Failure
}

// Transition is one line of an instance's history.
type Transition struct {
	At time.Time `json:"at"`
	// Event is the event's type.
	Event string   `json:"event"`
	From  []string `json:"from"`
	To    []string `json:"to"`
	// Ignored says that no active state had a transition for the event.
	Ignored bool `json:"ignored,omitempty"`
}

// Attempt counts the tries of an event that the chart failed on or that came to no end, and the services that have begun within
// an event.
type Attempt struct {
	// Queue and SequenceNumber identify the event.
	Queue          string `json:"queue"`
	SequenceNumber string `json:"sequence_number"`
	// Count is written before a redelivered event is tried, and taken back if the try fails for no fault of the chart.
	Count int `json:"count"`
	// Services counts those that began, once however often each was tried, and those that were refused.
	Services int `json:"services,omitempty"`
}

// Failure is an event that was parked.
type Failure struct {
	At      time.Time `json:"at"`
	Event   string    `json:"event"`
	Message string    `json:"message"`
}

// InstanceIDBytesMax is the longest name of an instance, because the name is also the SQS
// MessageGroupId of the instance's events.
const InstanceIDBytesMax = 128

// ErrInstanceID is returned by ParseInstanceID when the text does not name an instance.
var ErrInstanceID = errors.New("not the name of an instance")

// InstanceID names one instance of a machine; as text, "machine/id".
type InstanceID struct {
	Machine string
	ID      string
}

// String returns the name as text: the MessageGroupId and the key of the item.
func (i InstanceID) String() string { return i.Machine + "/" + i.ID }

// ParseInstanceID reads the name of an instance: a machine's ID, one slash, and an ID of
// letters, digits and punctuation other than the slash.
func ParseInstanceID(text string) (InstanceID, error) {
	machine, id, ok := strings.Cut(text, "/")
	if !ok || machine == "" || id == "" || strings.Contains(id, "/") {
		return InstanceID{}, fmt.Errorf("%w: expected machine/id such as signup/42, got %q", ErrInstanceID, text)
	}
	if len(text) > InstanceIDBytesMax {
		return InstanceID{}, fmt.Errorf("%w: expected at most %d bytes, got %d in %q", ErrInstanceID, InstanceIDBytesMax, len(text), text)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return InstanceID{}, fmt.Errorf("%w: expected letters, digits and ASCII punctuation, got %q at byte %d of %q", ErrInstanceID, text[i:i+1], i, text)
	}
	return InstanceID{Machine: machine, ID: id}, nil
}
