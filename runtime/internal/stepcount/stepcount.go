// Package stepcount raises the step count of a stored snapshot. A chart derives the IDs of its effects from this count.
package stepcount

import (
	"encoding/json"
	"fmt"

	"github.com/settle-run/settle/runtime/internal/plainjson"
	"github.com/settle-run/settle/runtime/internal/readjson"
)

// stepsMax is the largest integer that every JSON reader keeps exactly: 2^53 - 1.
const stepsMax = 1<<53 - 1

// Raise raises the step count in the JSON form of a snapshot, so that later steps derive no ID that was used before. It
// returns the new snapshot and its step count. The count becomes `steps`, or increases by one if it is already that
// high. Everything else stays, including the IDs of timers, services and children.
//
// The snapshot may be of any version and is not migrated. An error means that it is unreadable.
func Raise(snapshot json.RawMessage, steps int64) (json.RawMessage, int64, error) {
	var keys map[string]json.RawMessage
	var stored struct {
		Steps int64 `json:"steps"`
	}
	err := readjson.Unmarshal(snapshot, &keys)
	if err == nil {
		err = readjson.Unmarshal(snapshot, &stored)
	}
	if err == nil && (stored.Steps < 1 || max(steps-1, stored.Steps) >= stepsMax) {
		err = fmt.Errorf("raising the count of steps: expected 1 to %d, got %d to raise to %d", stepsMax-1, stored.Steps, steps)
	}
	if err != nil {
		return nil, 0, err
	}
	steps = max(steps, stored.Steps+1)
	keys["steps"] = fmt.Append(nil, steps)
	raised, err := plainjson.Marshal(keys)
	return raised, steps, err
}
