package simulate_test

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// This file adds versions to the sequential model.

// versionOf is the part of a snapshot about its version and migration.
type versionOf struct {
	Version int
	Context struct{ Count, Migrated int }
}

func versionIn(snapshot json.RawMessage) (v versionOf) {
	_ = json.Unmarshal(snapshot, &v) // without a snapshot, it is the first version
	return v
}

// version determines the version on which the instance started.
func (r *replay) version() {
	stored := versionIn(r.record.Snapshot)
	r.migrated = stored.Context.Migrated
	if stored.Version == newVersion && r.migrated == 0 {
		r.machine = r.newMachine()
		r.simulation.count("instances begun on a new version", 1)
	}
	if r.migrated > 0 {
		r.simulation.count("instances migrated", 1)
	}
}

func (r *replay) newMachine() durable.Machine {
	versions := r.simulation.versions[r.machine.ID()]
	return versions[slices.IndexFunc(versions, func(m durable.Machine) bool { return m.Version() == newVersion })]
}

// isToMigrate reports whether the instance has reached the point of its migration, or has not started yet and may start
// on the new version.
func (r *replay) isToMigrate() bool {
	if r.migrated == 0 || r.machine.Version() == newVersion {
		return false
	}
	return r.instance == nil || versionIn(r.snapshot()).Context.Count == r.migrated-1
}

// mayMigrateLater reports whether the instance may skip an opportunity to migrate. The history does not say whether an
// event that only the first version fails on was parked before or after the migration. Nor does it say when the task of
// an ended instance was answered, or which of two versions took a step from states that both have.
func (r *replay) mayMigrateLater() bool {
	if r.instance != nil && r.instance.Status() != statechart.Active {
		return r.isToMigrate()
	}
	failed := func(message accepted) bool {
		return strings.Contains(message.body, failing) && len(r.parked(message)) > 0
	}
	defers := slices.ContainsFunc(r.record.History[r.at:], func(t instances.Transition) bool { return t.Event == replayed })
	isOpen := r.instance == nil || r.at < len(r.record.History) && slices.Equal(r.record.History[r.at].From, r.instance.State())
	return r.isToMigrate() && (defers || isOpen || slices.ContainsFunc(slices.Concat(r.queues...), failed))
}

// migrate migrates the instance, if it has been migrated at this point of the history.
func (r *replay) migrate() {
	if r.instance == nil || r.unmigrated || !r.isToMigrate() {
		return
	}
	snapshot := r.snapshot()
	migrated := r.newMachine()
	instance, err := migrated.Restore(snapshot)
	if err != nil {
		panic(err)
	}
	// At several steps the context may have the same Count. The names of the states at the next step show whether the
	// migration happened before it. A forget replaces the state, so the step before a forget also counts as the last
	// one.
	isLast := r.at == len(r.record.History) || r.record.History[r.at].Event == statechart.ReservedPrefix+string(instances.Forget)
	if isLast || slices.Equal(r.record.History[r.at].From, instance.State()) && !(r.busy && instance.Settled() && r.isNextInside()) {
		r.machine, r.instance = migrated, limited(instance)
	}
}

// isNextInside reports whether the instance is unsettled and can take the next step of the history without a message.
func (r *replay) isNextInside() bool {
	next := r.record.History[r.at]
	if r.instance.Settled() || !slices.Equal(next.From, r.instance.State()) {
		return false
	}
	failed := r.failed
	_, ok := r.inside(next)
	r.failed = failed
	return ok
}

// replayed is the name of the step in the history that replays deferred events.
const replayed = statechart.ReservedPrefix + "replay"

// mustReplay reports whether deferred events must be replayed before the next message is applied.
func (r *replay) mustReplay() bool {
	if r.instance == nil || !r.instance.Defers() {
		return false
	}
	_, _, handled, err := r.instance.Apply(statechart.Event{Type: statechart.TimerEvent})
	return err == nil && handled
}

// isPeriodic reports whether the loop repeats messages of the type. If such a message takes no step, it overtakes no
// deferred event.
func isPeriodic(typ string) bool {
	return typ == "settle.token" || typ == "settle.execution" || typ == "settle.child"
}

// replayDeferred takes the step that replays deferred events.
func (r *replay) replayDeferred() error {
	if r.migrate(); !r.mustReplay() {
		return differ("step %d of the history replays events, but none can be replayed", r.at)
	}
	r.simulation.count("steps that replay deferred events after a migration", 1)
	if err := r.step(statechart.Event{Type: statechart.TimerEvent}); err != nil {
		return err
	}
	return r.settle()
}
