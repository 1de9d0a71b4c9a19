// Package instances has the types of stored instances: the record of one instance and its parts. Package durable runs
// instances, and package dynamostore stores them.
package instances

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/internal/readjson"
	"github.com/settle-run/settle/runtime/statechart"
)

const (
	// SnapshotBytesMax is the default limit of a snapshot's JSON: durable.Config.SnapshotBytesMax.
	SnapshotBytesMax = 256 << 10
	// EventBytesMax limits the JSON of an event that an instance sends or emits.
	EventBytesMax = 256 << 10
)

// Record is the stored state of one instance, in one item.
type Record struct {
	Instance ID
	// Revision counts the writes of the instance. 0 means that nothing is stored.
	Revision int64
	// Snapshot is the JSON form of the chart's statechart.Snapshot. A store may keep it as separate attributes.
	Snapshot json.RawMessage
	// State lists the paths of the active atomic states. It repeats a part of Snapshot for people and for queries.
	State  []string
	Status statechart.Status

	// CreatedAt is when the first event was sent. It distinguishes the instance from earlier ones of its name.
	CreatedAt    time.Time
	UpdatedAt    time.Time
	BacklogSince time.Time // when the oldest waiting event was sent, as of UpdatedAt; zero without a backlog
	// ExpireAt is when the item may be deleted; zero means never. It is zero while effects are pending.
	ExpireAt time.Time
	// Kept says that an operator keeps the item: it has no ExpireAt, even after the instance has ended.
	Kept bool
	// Forgotten says that an operator erased the data: only the name, Parent and Watermark are left. See Forget.
	Forgotten bool

	// Watermark maps a queue's ARN to the sequence number of the last event that was applied or parked.
	Watermark map[string]string
	// Lane is the lane of the instance. The lane's consumer applies the instance's events. Empty means MainLane.
	Lane   string
	Moving *LaneMove // the move to another lane that is under way; nil without one
	// Forwarded is like Watermark, for forwarded events, by the queue that they came from. See durable.Forwarding.
	Forwarded map[string]string
	// RecentEvents identifies the last applied events, oldest first. See durable.Remembers.
	// Invariant: len(RecentEvents) <= durable.Config.RecentEventsMax.
	RecentEvents []string
	// LastSends maps a queue's ARN to the last applied sends of other instances, oldest first. See durable.Store.KeepSends.
	// Invariant: no two sends of a queue have the same sender.
	LastSends map[string][]LastSend
	// History holds the last transitions, oldest first.
	// Invariant: len(History) <= durable.Config.HistoryMax.
	History []Transition
	// Ignored counts the events for which no active state had a transition.
	Ignored int64
	// Skipped counts the deliveries that were skipped as duplicates or stale before the last write.
	Skipped       int64
	FailedEffects []FailedEffect // the effects that will never be performed, oldest first: see durable.Config.FailedEffectsMax
	// DeniedSince is when AWS first denied the effect or task answer that the loop performs next; zero without a denial.
	DeniedSince time.Time
	// Outbox holds the effects that may not have been performed yet. Perform them in order, after the record is stored.
	Outbox []statechart.Effect
	// OutboxRevision equals Revision if the last applied event stays in its queue until the loop has performed Outbox. The
	// next event of the queue then clears Outbox.
	OutboxRevision int64
	// Tokens holds each task, in order of arrival, until the loop has answered it or the chart knows that it expired.
	Tokens []Token
	// Executions holds the workflow executions that the instance waits for, in the order of their requests.
	Executions []Execution
	Chains     []Chain   // long chains of messages, the latest last: see durable.Config.HopsMax
	Parent     *Parent   // the instance that spawned this one; nil without one
	Aliases    []string  // the aliases that the instance has claimed
	Attempts   []Attempt // the counts of events in progress, at most one for each queue, the latest last
	Error      *Failure  // the last parked event of the instance and the reason; nil without one
}

// MainLane is the lane of instances that have no other. A stack with one queue has only this lane.
const MainLane = "main"

// HomeLane returns the lane of the instance.
func (r Record) HomeLane() string { return cmp.Or(r.Lane, MainLane) }

// SetLane sets the lane of the instance.
func (r *Record) SetLane(lane string) {
	if r.Lane = lane; lane == MainLane {
		r.Lane = ""
	}
}

// LaneForm describes the names of lanes.
const LaneForm = "1 to 32 of the characters a-z, 0-9 and -"

// IsLane reports whether a lane may have the name.
func IsLane(name string) bool {
	return name != "" && len(name) <= 32 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// LaneMove is a move to another lane. It ends when the instance's own lane delivers a message with the Number.
type LaneMove struct {
	Lane string `json:"lane"`
	// Number is the revision of the write that began the move. It distinguishes the move from earlier ones.
	Number int64 `json:"number"`
}

// Owes reports whether the record has effects, or answers to Step Functions tasks, that may not have been performed
// yet. The next delivery to the instance performs them first. If IsLeft is true, Outbox does not count.
func (r Record) Owes() bool {
	return len(r.Outbox) > 0 && !r.IsLeft() || slices.ContainsFunc(r.Tokens, func(token Token) bool { return token.Answer != nil })
}

// IsLeft reports whether the last applied event stays in its queue until Outbox is performed: see OutboxRevision.
func (r Record) IsLeft() bool { return r.OutboxRevision != 0 && r.OutboxRevision == r.Revision }

// Version returns the version of the machine that stored the snapshot. It fails with a *statechart.UnreadableError.
func (r Record) Version() (int, error) {
	var head struct {
		Version int `json:"version"`
	}
	if err := readjson.Unmarshal(r.Snapshot, &head); err != nil {
		return 0, &statechart.UnreadableError{Err: err}
	}
	return head.Version, nil
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
	// By is the operator who made the change, and Reason the operator's reason. Both are empty for an event.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Attempt counts an event's tries that failed in the chart or killed the process, and the services that the event led
// to.
type Attempt struct {
	// Queue and SequenceNumber identify the event.
	Queue          string `json:"queue"`
	SequenceNumber string `json:"sequence_number"`
	// Count is raised and stored before each retry, and lowered again if the try fails through no fault of the chart.
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

// Parent identifies a child by its parent instance and the child's key.
type Parent struct {
	// Instance is the parent's name. Incarnation distinguishes the parent from an earlier instance of that name. It
	// is the time of creation, in milliseconds since 1970.
	Instance    string `json:"instance"`
	Incarnation int64  `json:"incarnation"`
	// Child is the child's key in the parent's snapshot (statechart.ChildRef.Key).
	Child string `json:"child"`
}

// FailedEffect is an effect that AWS refused, or denied for too long.
type FailedEffect struct {
	// ID is the effect's ID. For an answer to a task, it is "token." and the token's key.
	ID     string                `json:"id"`
	Kind   statechart.EffectKind `json:"kind"`
	At     time.Time             `json:"at"`               // when the loop gave up
	Target string                `json:"target,omitempty"` // as in statechart.CommunicationFailure
	Error  string                `json:"error"`
	// Data is the JSON of the event, input or answer, or else the time that the effect asked for. Data longer than 2
	// KiB is not kept. DataBytes is the full length either way.
	Data      json.RawMessage `json:"data,omitempty"`
	DataBytes int             `json:"data_bytes,omitempty"`
	// Report says whether the chart has received the failure. If the chart does not declare
	// statechart.CommunicationError, Report is empty, except for an effect that starts a child.
	Report Report          `json:"report,omitempty"`
	Chain  json.RawMessage `json:"chain,omitempty"` // the chain of the effect, for the report
}

// Chain counts the messages since a timer or an event from outside.
type Chain struct {
	Origin string   `json:"origin"` // identifies the timer's firing or the event
	Hops   int      `json:"hops"`
	Via    []string `json:"via,omitempty"` // the last senders, in a message of a long chain
}

// Report is the progress of reporting a failed effect to the chart.
type Report string

// The values of Report.
const (
	// ReportUnsent means that the report could not be sent either. With each event of the instance, the loop tries again.
	ReportUnsent Report = "unsent"
	// ReportSent means that the report is in the queue. If Report keeps this value, the report was parked.
	ReportSent     Report = "sent"
	ReportReceived Report = "received"
)

// Place is the position of a message: the ARN of a queue, and the message's sequence number there.
type Place struct {
	Queue, SequenceNumber string
}

// SequenceDigitsMax is the number of digits of the largest sequence number. SQS documents them as 128-bit numbers.
const SequenceDigitsMax = 39

// CompareSequence compares two sequence numbers of a queue. They are decimal digits, and SQS guarantees that they
// increase. An empty number comes first.
func CompareSequence(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// NewTransitions returns the transitions that are in the history `after`, but not in the earlier history `before`.
// `missed` is true if the two do not overlap, so that transitions in between may be lost.
func NewTransitions(before, after []Transition) (fresh []Transition, missed bool) {
	same := func(a, b Transition) bool {
		return a.At.Equal(b.At) && a.Event == b.Event && a.Ignored == b.Ignored && slices.Equal(a.From, b.From) && slices.Equal(a.To, b.To)
	}
	for n := max(0, len(after)-len(before)); n < len(after); n++ {
		kept := after[:len(after)-n]
		if slices.EqualFunc(kept, before[len(before)-len(kept):], same) {
			return after[len(kept):], false
		}
	}
	return after, len(before) > 0
}
