// Package operations applies operators' changes to stored instances: it reads the instance, computes the change with
// [durable.Operate], stores it on condition of the revision, and wakes the instance. The command line and the console use it.
package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// Store is the part of durable.Store that an Operator uses.
type Store interface {
	Load(ctx context.Context, id instances.ID) (instances.Record, error)
	Commit(ctx context.Context, record instances.Record) error
}

// Operator changes stored instances.
type Operator struct {
	Machines *durable.Machines
	Store    Store
	// Queue receives the messages that wake instances. If it is nil, each change is a dry run, which writes and sends
	// nothing.
	Queue durable.Sender
	// NewID returns a new deduplication ID for each message. The queue would drop a message with a used ID.
	NewID func() string
}

// Change is the result of Operator.Change.
type Change struct {
	// Before and After are the records before and after the change.
	Before, After instances.Record
	Steps         []statechart.Microstep
	// MessageID is the ID of the message that wakes the instance. It is empty if nothing is left to do.
	MessageID string
}

// ConflictsMax limits how often Change tries an operation while other writers change the instance.
const ConflictsMax = 5

// ErrNotWoken is returned if the change is stored, but the message that wakes the instance cannot be sent.
var ErrNotWoken = errors.New("nothing wakes the instance, to perform the effects of the change")

// errOtherRevision is returned if the instance has changed before Change reads it.
var errOtherRevision = fmt.Errorf("%w", durable.ErrConflict)

// Change computes the operation that prepare returns for the stored record, commits the result, and wakes the instance.
// The record has the revision 0 if there is no instance. If another writer changes the instance meanwhile, Change
// starts again. If `revision` is not 0, Change applies only to that revision, and fails with durable.ErrConflict at any
// other.
//
// An earlier call may have been interrupted between its commit and its message. So Change also wakes an instance that has
// ended, is in use or is at another revision, before it returns the error.
func (o *Operator) Change(ctx context.Context, id instances.ID, revision int64, prepare func(instances.Record) (instances.Operation, error)) (change Change, err error) {
	var stored instances.Record
	for tries := 1; ; tries++ {
		change, stored, err = o.try(ctx, id, revision, prepare)
		if !errors.Is(err, durable.ErrConflict) || revision != 0 || tries == ConflictsMax {
			break
		}
	}
	if err != nil && !errors.Is(err, instances.ErrEnded) && !errors.Is(err, instances.ErrInUse) && !errors.Is(err, errOtherRevision) {
		return change, err
	}
	var failed error
	if change.MessageID, failed = o.Wake(ctx, stored); failed != nil {
		failed = fmt.Errorf("%w: %w", ErrNotWoken, failed)
	}
	return change, errors.Join(err, failed)
}

// try computes the change of the stored instance and commits it once. It returns the stored record.
func (o *Operator) try(ctx context.Context, id instances.ID, revision int64, prepare func(instances.Record) (instances.Operation, error)) (change Change, stored instances.Record, err error) {
	before, err := o.Store.Load(ctx, id)
	if err != nil {
		return change, before, err
	}
	op, err := prepare(before)
	if err != nil {
		return change, before, err
	}
	if revision != 0 && before.Revision != revision {
		return change, before, fmt.Errorf("expected %s at revision %d, it is at revision %d: %w", id, revision, before.Revision, errOtherRevision)
	}
	after, steps, err := durable.Operate(o.Machines, before, op)
	if err != nil {
		return change, before, err
	}
	change = Change{Before: before, After: after, Steps: steps}
	if o.Queue == nil {
		return change, after, nil
	}
	err = o.Store.Commit(ctx, after)
	if errors.Is(err, durable.ErrUnstorable) && len(after.History) > 1 {
		after.History = after.History[len(after.History)-1:] // The item is full. The loop would also drop its history.
		err = o.Store.Commit(ctx, after)
	}
	if errors.Is(err, durable.ErrConflict) {
		// The conflict may be with this operation's own write: the SDK repeats a write whose response was lost.
		stored, loadErr := o.Store.Load(ctx, id)
		if loadErr != nil { // Another try could apply the change twice.
			return change, after, fmt.Errorf("the change of %s may be stored or not: reading it back: %w", id, loadErr)
		}
		isOwn := func(t instances.Transition) bool {
			return t.At.Equal(op.At.Truncate(time.Millisecond)) && t.By == op.By && t.Reason == op.Reason && t.Event == statechart.ReservedPrefix+string(op.Kind)
		}
		if slices.ContainsFunc(stored.History, isOwn) {
			return change, stored, nil
		}
	}
	return change, after, err
}

// Wake sends a message that lets a consumer settle the instance and perform its effects. If nothing is left to do, Wake
// sends nothing and returns an empty ID.
func (o *Operator) Wake(ctx context.Context, record instances.Record) (messageID string, err error) {
	if o.Queue == nil || !NeedsConsumer(o.Machines, record) {
		return "", nil
	}
	message, err := WakeUp(record.Instance, o.NewID())
	if err != nil {
		return "", err
	}
	return o.Queue.Send(ctx, message)
}

// Applies reports whether the kind of operation can change the instance now. Keep needs an instance that is not kept, and
// Unkeep one that is. Forget needs an instance that has ended. The other kinds need an active one.
func Applies(kind instances.OperationKind, record instances.Record) bool {
	switch kind {
	case instances.Keep, instances.Unkeep:
		return record.Kept == (kind == instances.Unkeep)
	case instances.Forget:
		return record.Status != statechart.Active
	case instances.ChangeLane:
		return record.Status == statechart.Active && record.Moving == nil
	case instances.Stop, instances.Terminate, instances.Move:
		return record.Status == statechart.Active
	default:
		return false
	}
}

// NeedsConsumer reports whether a consumer must settle the instance or perform its effects.
func NeedsConsumer(machines *durable.Machines, record instances.Record) bool {
	// An instance with a service is unsettled. A migration may settle it, but a consumer must store that.
	var stored struct {
		Services map[string]json.RawMessage `json:"services"`
	}
	_, instance, err := machines.Restore(record)
	if err == nil {
		err = json.Unmarshal(record.Snapshot, &stored)
	}
	isSettled := err != nil || instance.Settled() && len(stored.Services) == 0 // An unreadable instance has only effects left.
	return record.Owes() || !isSettled
}

// resumeTimer is not the ID of any timer, because the IDs of timers begin with a number.
const resumeTimer = "resume"

// WakeUp returns a message that reports a fired timer, but the instance has no such timer. The loop settles the
// instance, performs its effects, and then skips the message.
func WakeUp(to instances.ID, deduplicationID string) (durable.Message, error) {
	body, err := json.Marshal(map[string]string{"type": statechart.TimerEvent, "timer": resumeTimer})
	return durable.Message{To: to, Body: body, DeduplicationID: deduplicationID}, err
}
