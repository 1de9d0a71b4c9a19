package durable

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/tracing"
)

// state is an instance, as stored or as drafted. It is a value: a change replaces slices and maps and never modifies
// them.
type state struct {
	Record   instances.Record
	Instance Instance // nil before the first event
	// changes counts the changes that are worth a write. Some changes are not: see Record.Skipped.
	changes int
	// transitions holds the transitions since the last commit. events and bodies hold their events and the messages of
	// these events: see Committed.
	transitions []instances.Transition
	events      []statechart.Event
	bodies      []string
}

// timeUnit is the resolution of stored times.
const timeUnit = time.Millisecond

// turn processes deliveries of one instance.
type turn struct {
	loop    *Loop
	machine Machine
	loaded  state // as loaded
	stored  state // as loaded or last committed
	draft   state // the stored state with all later changes
	// isCopy is set if `loaded` comes from Ports.Cache.
	isCopy bool
	// deliveries holds the deliveries of the turn.
	deliveries []Delivery
	conditions
	// broken is the error of a commit that failed. The stored state is then unknown, so nothing more is stored.
	broken error
	// repeats is set while the turn performs effects that an earlier turn may have performed already.
	repeats bool
	notes   notes
	// chain is the chain of the delivery that is being processed.
	chain instances.Chain
}

// notes holds data that a turn needs after it has stored its draft.
type notes struct {
	applied []Applied
	// cancels holds timers that are no longer needed.
	cancels []statechart.Timer
	// traces holds the traces of effects, by effect ID.
	traces map[string]tracing.Trace
}

// dirty reports whether the draft has changes to store.
func (t *turn) dirty() bool { return t.draft.changes != t.stored.changes }

// changed marks the draft as worth a write.
func (t *turn) changed() { t.draft.changes++ }

// exists reports whether the instance is stored.
func (t *turn) exists() bool { return t.stored.Record.Revision > 0 }

func (t *turn) now() time.Time { return t.loop.config.Now().UTC().Truncate(timeUnit) }

func (t *turn) incarnation() int64 { return t.draft.Record.CreatedAt.UnixMilli() }

// derivedID makes an ID of the chart unique among all instances, including earlier ones of the same name.
func (t *turn) derivedID(id string) string {
	return fmt.Sprintf("%s@%d/%s", t.draft.Record.Instance, t.incarnation(), id)
}

// timer returns the timer with the ID, if the instance waits for it.
func (t *turn) timer(id string) (timer statechart.Timer, ok bool) {
	return find(t.draft.Instance.Timers(), func(other *statechart.Timer) bool { return other.ID == id })
}

// child returns the child with the key, if the instance lists it.
func (t *turn) child(key string) (ref statechart.ChildRef, ok bool) {
	return find(t.draft.Instance.Children(), func(other *statechart.ChildRef) bool { return other.Key == key })
}

// token returns the token with the key, if the instance holds it.
func (t *turn) token(key string) (instances.Token, bool) {
	return find(t.draft.Record.Tokens, func(other *instances.Token) bool { return other.Key == key })
}

// execution returns the execution with the name, if the instance waits for it.
func (t *turn) execution(name string) (instances.Execution, bool) {
	return find(t.draft.Record.Executions, func(other *instances.Execution) bool { return other.Name == name })
}

// next returns the record to store for the draft, with its snapshot.
func (t *turn) next(snapshot json.RawMessage) instances.Record {
	next := t.draft.Record
	next.Revision, next.Snapshot, next.UpdatedAt = t.stored.Record.Revision+1, snapshot, t.now()
	if t.draft.Instance != nil { // The instance is nil if an operator terminates an unreadable instance.
		next.State, next.Status, next.Outbox = t.draft.Instance.State(), t.draft.Instance.Status(), t.pending()
	}
	if next.OutboxRevision = 0; t.mayLeave(next) {
		next.OutboxRevision = next.Revision
	}
	next.BacklogSince = time.Time{}
	if t.machine.BacklogAgeMax() > 0 {
		next.BacklogSince = t.backlogSince()
	}
	if next.Kept || next.Owes() {
		next.ExpireAt = time.Time{} // TTL must not delete pending work: see clear.
	} else if next.ExpireAt.IsZero() {
		next.ExpireAt = t.expireAt(next)
	}
	return next
}

// fullBatch is the size of a FIFO queue's largest batch (AWS Lambda Developer Guide, "Lambda parameters for Amazon SQS event
// source mappings").
const fullBatch = 10

// backlogSince returns when the oldest new delivery of the turn was sent, if the instance has a backlog: its events fill
// the whole batch. Otherwise, it returns the zero time. The age of a retried delivery includes its retries, and the age of
// a forwarded one includes its time in another lane, so neither says how long events wait.
func (t *turn) backlogSince() time.Time {
	if len(t.deliveries) < fullBatch {
		return time.Time{}
	}
	oldest, _ := find(t.deliveries, func(d *Delivery) bool { return d.ReceiveCount == 1 && d.Forwarding == (Forwarding{}) })
	return oldest.SentAt
}

// expireAt returns when the item of an instance that has ended may be deleted, unless an operator keeps it; zero means
// never.
func (t *turn) expireAt(record instances.Record) time.Time {
	retention := t.machine.Retention()
	if record.Forgotten {
		retention = t.loop.config.RetentionMin
	}
	if retention <= 0 || record.Status == statechart.Active || record.Status == "" {
		return time.Time{}
	}
	return record.UpdatedAt.Add(retention)
}

// find returns the first element that matches.
func find[E any](elements []E, matches func(*E) bool) (found E, ok bool) {
	for i := range elements {
		if matches(&elements[i]) {
			return elements[i], true
		}
	}
	return found, false
}

// replaced returns a copy of the elements with `change` applied to the elements that match.
func replaced[E any](elements []E, matches func(*E) bool, change func(*E)) []E {
	elements = slices.Clone(elements)
	for i := range elements {
		if matches(&elements[i]) {
			change(&elements[i])
		}
	}
	return elements
}

// without returns a copy of the elements that leaves out the matching ones.
func without[E any](elements []E, matches func(E) bool) []E {
	return slices.DeleteFunc(slices.Clone(elements), matches)
}

// appended returns a copy of the elements with one more at the end. It drops the oldest elements beyond countMax.
func appended[E any](elements []E, element E, countMax int) []E {
	return slices.Concat(elements[max(0, len(elements)+1-countMax):], []E{element})
}
