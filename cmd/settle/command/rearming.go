package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// rearming is one run of settle rearm.
type rearming struct {
	*operator
	// progress is nil in a bulk run, which reports its instances itself.
	progress *progress
	// stamp is the start of the run, in microseconds since 1970. An instance whose step count is at least the stamp counts
	// as rearmed.
	stamp int64
	// If `family` is set, the run also rearms the finished children of each instance. Otherwise, the run's records already
	// include these children.
	family bool
	// newQueue is the ARN of the queue that replaces all earlier queues, which are lost. If it is empty, the earlier
	// queues stay valid.
	newQueue string

	mu    sync.Mutex
	found view.Rearms
}

// rearmConflictsMax is the number of attempts to rearm an instance while other writers change it.
const rearmConflictsMax = 10

// all rearms the records and shows progress. It counts failed items, and returns the first error that affects all
// instances.
func (r *rearming) all(ctx context.Context, records iter.Seq2[instances.Record, error]) error {
	r.progress = r.session.newProgress("instance done", "instances done")
	defer r.progress.end()
	return inParallel(ctx, readable(records, func(item *dynamostore.ItemError) { _ = r.fail(item.Instance, item) }), r.rearm)
}

// rearm rearms one instance, unless this run has already done so. If the instance has effects to perform or is
// unsettled, rearm also wakes it. It returns only errors that affect other instances too.
func (r *rearming) rearm(ctx context.Context, record instances.Record) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // The caller reports the cause.
	}
	err := r.try(ctx, record)
	for tries := 1; errors.Is(err, durable.ErrConflict) && tries < rearmConflictsMax; tries++ {
		if record, err = r.store.Load(ctx, record.Instance); err == nil {
			err = r.try(ctx, record)
		}
	}
	for _, own := range []error{
		durable.ErrConflict, durable.ErrUnstorable, durable.ErrUnreadable, statechart.ErrUnreadable, durable.ErrUnknownMachine,
	} {
		if errors.Is(err, own) {
			return r.fail(record.Instance.String(), err)
		}
	}
	if err == nil && r.progress != nil {
		r.progress.add()
	}
	return err
}

// isDone reports whether this run has already rearmed the instance.
func (r *rearming) isDone(record instances.Record) bool {
	var stored struct {
		Steps int64 `json:"steps"`
	}
	return json.Unmarshal(record.Snapshot, &stored) == nil && stored.Steps >= r.stamp
}

// try makes one attempt to rearm the record's instance. Its error wraps durable.ErrConflict if the instance has changed
// since the record was read.
func (r *rearming) try(ctx context.Context, record instances.Record) error {
	_, instance, err := r.machines.Restore(record)
	if err != nil {
		return fmt.Errorf("reading %s: %w", record.Instance, err)
	}
	rearmed := record
	isAlready := r.isDone(record)
	if !isAlready {
		if rearmed, err = durable.Rearm(r.machines, record, r.session.Now(), r.newQueue); err != nil {
			return fmt.Errorf("rearming %s: %w", record.Instance, err)
		}
	}
	changed := rearmed.Revision != record.Revision
	if changed && r.queue != nil {
		if err := r.store.Commit(ctx, rearmed); err != nil {
			return err
		}
	}
	if _, err := r.wake(ctx, rearmed); err != nil {
		return fmt.Errorf("sending to %s: %w", record.Instance, err)
	}
	r.count(rearmed, instance, changed, isAlready)
	return r.children(ctx, rearmed, instance)
}

// count counts a processed instance.
func (r *rearming) count(record instances.Record, instance durable.Instance, changed, isAlready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := r.found.Of(record.Instance.Machine)
	switch {
	case isAlready:
		row.Already++
	case !changed:
		row.Ended++
	default:
		row.Rearmed++
		row.Timers += len(instance.Timers())
		row.Aliases += len(record.Aliases)
		row.Executions += len(record.Executions)
		for _, token := range record.Tokens {
			if token.Answer == nil {
				row.Tasks++
			}
		}
	}
}

// fail reports and counts an item that cannot be rearmed. In a bulk run, it returns the error instead.
func (r *rearming) fail(name string, err error) error {
	if r.progress == nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	machine, _, _ := strings.Cut(name, "/")
	r.found.Of(machine).Failed++
	r.progress.add()
	r.note("%s: %s", r.session.name(), oneLine(err))
	return nil
}

// children reports missing children, because a restored parent would wait for them forever. If `family` is set, it
// rearms the children that have ended, so that they notify the parent again.
func (r *rearming) children(ctx context.Context, parent instances.Record, instance durable.Instance) error {
	for _, ref := range instance.Children() {
		isAskedFor := func(e statechart.Effect) bool { return e.Kind == statechart.SpawnInstance && e.Child == ref.Key }
		name := instances.ChildName(parent.Instance, parent.CreatedAt, ref.Key, ref.Machine)
		child, err := r.store.Load(ctx, name)
		switch {
		case errors.Is(err, durable.ErrUnreadable):
			if !r.family {
				continue
			}
			if err := r.fail(name.String(), err); err != nil {
				return err
			}
		case err != nil:
			return err
		case child.Revision == 0 && parent.Owes() && slices.ContainsFunc(parent.Outbox, isAskedFor): // The child has not started yet.
		case child.Revision == 0:
			r.note("%s waits for its child %s, which is missing. Unless the queue still has its start, it will not report its end.", parent.Instance, name)
		case child.Status != statechart.Active && r.family:
			if err := r.rearm(ctx, child); err != nil {
				return err
			}
		}
	}
	return nil
}
