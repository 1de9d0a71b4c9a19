package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// hydrate reads an instance and restores it with the machine of its version. A new instance gets the current version.
// An instance of an older version is migrated: see migrate, which may send the instance a message. An unreadable record
// is an error, and the caller writes nothing.
func (l *Loop) hydrate(ctx context.Context, id instances.ID, deliveries []Delivery) (*turn, error) {
	record, err := l.load(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("hydrating %s: %w", id, err)
	}
	if cache := l.ports.Cache; cache != nil {
		cache.Loaded(record)
	}
	return l.restore(ctx, record, deliveries)
}

// restore returns the turn of a record.
func (l *Loop) restore(ctx context.Context, record instances.Record, deliveries []Delivery) (t *turn, err error) {
	id := record.Instance
	t = &turn{loop: l, deliveries: deliveries, stored: state{Record: record}}
	if record.Revision == 0 {
		t.machine, err = l.machines.Lookup(id.Machine)
		t.loaded, t.draft = t.stored, t.stored
		return t, err
	}
	t.dropPerformed()
	if t.machine, t.stored.Instance, err = l.machines.Restore(record); err != nil {
		return nil, fmt.Errorf("hydrating %s: %w", id, err)
	}
	t.stored.Instance.Limit(l.config.SnapshotBytesMax)
	t.loaded, t.draft = t.stored, t.stored
	if err := t.migrate(ctx); err != nil {
		return nil, fmt.Errorf("migrating %s: %w", id, err)
	}
	return t, nil
}

// errUnproved ends a turn that works on a cached copy, which may be stale. The turn starts again with a read.
var errUnproved = errors.New("the cached copy is not proved by a write")

// fromCache returns a turn that works on a cached copy of the item. It returns false if the item must be read: there is
// no copy, or a delivery was received before.
func (l *Loop) fromCache(ctx context.Context, id instances.ID, deliveries []Delivery) (*turn, bool) {
	isRepeat := func(d Delivery) bool { return d.ReceiveCount > 1 }
	if l.ports.Cache == nil || slices.ContainsFunc(deliveries, isRepeat) {
		return nil, false
	}
	record, ok := l.ports.Cache.Get(id)
	if !ok {
		return nil, false
	}
	t, err := l.restore(ctx, record, deliveries)
	if err != nil {
		return nil, false
	}
	t.isCopy = true
	return t, true
}

// isUnproved reports whether the turn works on a cached copy and has written nothing yet. A write proves the copy,
// because it succeeds only if the stored revision is the revision of the copy. Until then, the turn must not skip or
// retry a delivery, and it must not call a service.
func (t *turn) isUnproved() bool {
	return t.isCopy && t.stored.Record.Revision == t.loaded.Record.Revision
}

// needWrite replaces the result of a delivery with errUnproved if the copy is unproved and no write follows. `before`
// is the draft before the delivery.
func (t *turn) needWrite(before state, done *bool, err *error) {
	if t.isUnproved() && t.broken == nil && (*err != nil || t.draft.changes == before.changes) {
		t.draft, *done, *err = before, false, errUnproved
	}
}

// keepCopy puts the stored record into the cache after a turn that ended with err. It keeps only instances whose next
// turn has nothing to do but apply its deliveries.
func (t *turn) keepCopy(err error) {
	record := t.stored.Record
	if t.loop.ports.Cache == nil || err != nil || t.broken != nil || record.Status != statechart.Active || record.Moving != nil || !t.stored.Instance.Settled() {
		return
	}
	if isPending(record) || len(record.Tokens)+len(record.Executions)+len(record.Attempts)+len(record.FailedEffects) > 0 {
		return
	}
	t.loop.ports.Cache.Put(record)
}
