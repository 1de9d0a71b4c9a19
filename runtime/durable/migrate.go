package durable

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/settle-run/settle/runtime/statechart"
)

// owedTo returns the effects that a migration requires. The first commit on the new version puts them into the
// outbox:
//
//   - The timers of an instance that was stored while a service ran. While an instance is
//     unsettled, the loop serves its timers in process. On the new version, they may have to
//     fire through the queue.
//   - The stop of a child that the instance no longer has.
//
// from is the version that stored the snapshot, or 0 if that is the machine's own. settles reports that the instance
// was stored unsettled and is settled after the migration. The loop then stores this without waiting for an event.
func owedTo(snapshot json.RawMessage, machine Machine, instance Instance) (owed []statechart.Effect, from int, settles bool) {
	if !migratesFrom(machine, machine.Version()-1) {
		return nil, 0, false
	}
	var stored struct {
		Version  int                        `json:"version"`
		Services map[string]json.RawMessage `json:"services"`
		Children map[string]struct {
			Key     string `json:"key"`
			Machine string `json:"machine"`
		} `json:"children"`
	}
	if err := json.Unmarshal(snapshot, &stored); err != nil || stored.Version == machine.Version() {
		return nil, 0, false // There was no migration.
	}
	if len(stored.Services) > 0 {
		for _, timer := range instance.Timers() {
			owed = append(owed, statechart.Effect{ID: timer.ID, Kind: statechart.Schedule, Timer: timer.ID, At: timer.At})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(stored.Children)) {
		child := stored.Children[id]
		isKept := func(ref statechart.ChildRef) bool { return ref.Key == child.Key }
		if !slices.ContainsFunc(instance.Children(), isKept) {
			owed = append(owed, statechart.Effect{ID: "child." + child.Key + ".stop", Kind: statechart.StopInstance, Child: child.Key, Machine: child.Machine})
		}
	}
	return owed, stored.Version, len(stored.Services) > 0 && instance.Settled()
}
