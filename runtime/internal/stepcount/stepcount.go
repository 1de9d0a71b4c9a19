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
	return raise(snapshot, func(stored int64) int64 { return max(steps, stored+1) })
}

// turnMax is more than the number of steps that a turn takes before it stores them.
const turnMax = 1 << 16

// SkipTurn raises the step count beyond the steps of a turn that has read the snapshot and may still run. So later
// steps derive no ID that this turn uses.
func SkipTurn(snapshot json.RawMessage) (json.RawMessage, error) {
	raised, _, err := raise(snapshot, func(stored int64) int64 { return stored + turnMax })
	return raised, err
}

// raise replaces the step count.
func raise(snapshot json.RawMessage, raised func(stored int64) int64) (json.RawMessage, int64, error) {
	var keys map[string]json.RawMessage
	var stored struct {
		Steps int64 `json:"steps"`
	}
	err := readjson.Unmarshal(snapshot, &keys)
	if err == nil {
		err = readjson.Unmarshal(snapshot, &stored)
	}
	if err != nil {
		return nil, 0, err
	}
	steps := raised(stored.Steps)
	if stored.Steps < 1 || stored.Steps >= stepsMax || steps > stepsMax {
		return nil, 0, fmt.Errorf("raising the count of steps: expected 1 to %d, got %d to raise to %d", stepsMax-1, stored.Steps, steps)
	}
	keys["steps"] = fmt.Append(nil, steps)
	next, err := plainjson.Marshal(keys)
	return next, steps, err
}
