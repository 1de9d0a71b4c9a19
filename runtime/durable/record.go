package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/settle-run/settle/runtime/statechart"
)

// Record is the stored state of one instance, in one item.
type Record struct {
	Instance InstanceID
	// Revision counts the writes of the instance. 0 means that nothing is stored.
	Revision int64
	// Snapshot is the JSON form of the chart's statechart.Snapshot. A store may keep it as separate attributes.
	Snapshot json.RawMessage
	// State lists the paths of the active atomic states. It repeats a part of Snapshot for people and for queries.
	State  []string
	Status statechart.Status

	// CreatedAt is when the event that started the instance was sent. An earlier instance of the name has another time.
	CreatedAt time.Time
	UpdatedAt time.Time
	// ExpireAt is when the item may be deleted; zero means never. It is zero while effects are pending.
	ExpireAt time.Time

	// Watermark maps a queue's ARN to the sequence number of the last event that was applied or parked.
	Watermark map[string]string
	// RecentEvents identifies the last applied events, oldest first. See durable.Remembers.
	// Invariant: len(RecentEvents) <= Config.RecentEventsMax.
	RecentEvents []string
	// LastSends maps a queue's ARN to the last applied sends of other instances, oldest first. See Store.KeepSends.
	// Invariant: no two sends of a queue have the same sender.
	LastSends map[string][]LastSend
	// History holds the last transitions, oldest first.
	// Invariant: len(History) <= Config.HistoryMax.
	History []Transition
	// Ignored counts the events for which no active state had a transition.
	Ignored int64
	// Skipped counts the deliveries that were skipped as duplicates or stale before the last write.
	Skipped int64
	// FailedEffects holds the effects that will never be performed, oldest first. See Config.FailedEffectsMax.
	FailedEffects []FailedEffect
	// DeniedSince is when AWS first denied the effect at the head of the outbox, or the answer that is next; zero if it
	// has not.
	DeniedSince time.Time
	// Outbox holds the effects that may not have been performed yet. Effects must be performed in order, and only
	// after the record is stored.
	Outbox []statechart.Effect
	// Tokens holds the tasks that wait, or whose answer may not have been given yet, in order of arrival.
	Tokens []Token
	// Executions holds the workflow executions that the instance waits for, in the order of their requests.
	Executions []Execution
	// Parent is the instance that spawned this one; nil without one.
	Parent *Parent
	// Aliases holds the aliases that the instance has claimed.
	Aliases []string
	// Attempts holds the counts of events in progress, at most one for each queue.
	Attempts []Attempt
	// Error is the last parked event of the instance and the reason; nil without one.
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

// Attempt counts the tries of an event that failed in the chart or killed the process, and its services.
type Attempt struct {
	// Queue and SequenceNumber identify the event.
	Queue          string `json:"queue"`
	SequenceNumber string `json:"sequence_number"`
	// Count is stored before each retry, and taken back if the try fails through no fault of the chart.
	Count int `json:"count"`
	// Services counts the services that began or were refused, each once regardless of retries.
	Services int `json:"services,omitempty"`
}

// Failure is an event that was parked.
type Failure struct {
	At      time.Time `json:"at"`
	Event   string    `json:"event"`
	Message string    `json:"message"`
}

// instanceIDBytesMax is the longest name of an instance: the longest MessageGroupId of SQS.
const instanceIDBytesMax = 128

// ErrInstanceID is returned by ParseInstanceID when the text does not name an instance.
var ErrInstanceID = errors.New("not the name of an instance")

// InstanceID names one instance of a machine. Its text form is "machine/id".
type InstanceID struct {
	Machine string
	ID      string
}

// String returns the name as text: the MessageGroupId and the key of the item.
func (i InstanceID) String() string { return i.Machine + "/" + i.ID }

// ParseInstanceID parses the name of an instance: a machine's ID, one slash, and an ID of ASCII letters, digits
// and punctuation other than the slash. A name has at most 128 bytes. Errors wrap ErrInstanceID.
func ParseInstanceID(text string) (InstanceID, error) {
	machine, id, ok := strings.Cut(text, "/")
	if machine != "" && strings.Contains(strings.Trim(id, "/"), "/") {
		return InstanceID{}, fmt.Errorf("%w: expected machine/id such as signup/42, got %q; write the ID without a slash, such as %s", ErrInstanceID, text, strings.ReplaceAll(strings.Trim(id, "/"), "/", "-"))
	}
	if !ok || machine == "" || id == "" || strings.Contains(id, "/") {
		return InstanceID{}, fmt.Errorf("%w: expected machine/id such as signup/42, got %q", ErrInstanceID, text)
	}
	if len(text) > instanceIDBytesMax {
		return InstanceID{}, fmt.Errorf("%w: expected at most %d bytes, got %d in %q", ErrInstanceID, instanceIDBytesMax, len(text), text)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		_, size := utf8.DecodeRuneInString(text[i:])
		return InstanceID{}, fmt.Errorf("%w: expected ASCII letters, digits and punctuation, got %q at byte %d of %q", ErrInstanceID, text[i:i+size], i, text)
	}
	return InstanceID{Machine: machine, ID: id}, nil
}
