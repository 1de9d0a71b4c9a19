package simulate_test

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
)

// What the sequential model knows of versions.

// versionOf is what a snapshot tells of its version, and when it was migrated.
type versionOf struct {
	Version int
	Context struct{ Count, Migrated int }
}

func versionIn(snapshot json.RawMessage) (v versionOf) {
	_ = json.Unmarshal(snapshot, &v) // Where there is none, it is the first.
	return v
}

// version finds the version on which the instance has begun.
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

// isToMigrate reports whether the instance has come to where it was migrated, or may yet begin there.
func (r *replay) isToMigrate() bool {
	if r.migrated == 0 || r.machine.Version() == newVersion {
		return false
	}
	return r.instance == nil || versionIn(r.snapshot()).Context.Count == r.migrated-1
}

// mayMigrateLater reports whether the instance may be migrated later than as soon as it can be: the history does not say
// whether an event that the first version alone fails on was parked before or after.
func (r *replay) mayMigrateLater() bool {
	failed := func(message accepted) bool {
		return strings.Contains(message.body, failing) && len(r.parked(message)) > 0
	}
	return r.isToMigrate() && slices.ContainsFunc(slices.Concat(r.queues...), failed)
}

// migrate migrates the instance, if it is to be at this point.
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
	// Several steps may have the same count. What the states were called at the next one tells them apart.
	if r.at == len(r.record.History) || slices.Equal(r.record.History[r.at].From, instance.State()) {
		r.machine, r.instance = migrated, limited(instance)
	}
}
