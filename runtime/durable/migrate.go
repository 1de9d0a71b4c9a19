package durable

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/settle-run/settle/runtime/statechart"
)

// owedTo returns the effects that a migration asks for, and the version that it has led from, 0 if the machine
// itself has stored the snapshot. They go into the outbox with the first commit on the new version:
//
//   - The timers of an instance that a service was running in. While it is unsettled, its timers are served in
//     process; on the new version they may be such as fire through the queue.
//   - The stop of a child that the instance has no more.
//
// Settles says that the instance was stored unsettled, and that the migration has settled it: no event need come
// for that to be stored.
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
		return nil, 0, false // The machine has read it.
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
