package statechart

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// stepsMax is the largest count of steps that every reader of JSON keeps exactly: 2^53 - 1.
const stepsMax = 1<<53 - 1

// SkipSteps raises the count of steps in the JSON form of a snapshot, so that no ID which a later step derives was
// used before. It returns the new snapshot and its count: steps or, if the snapshot has reached that already, the next
// number. All else stays: timers, services and children keep their IDs.
//
// The snapshot may be of any version, and is not migrated. The error wraps ErrUnreadable.
func SkipSteps(snapshot json.RawMessage, steps int64) (json.RawMessage, int64, error) {
	var keys map[string]json.RawMessage
	var stored struct {
		Steps int64 `json:"steps"`
	}
	err := ReadJSON(snapshot, &keys)
	if err == nil {
		err = ReadJSON(snapshot, &stored)
	}
	if err == nil && (stored.Steps < 1 || max(steps-1, stored.Steps) >= stepsMax) {
		err = fmt.Errorf("raising the count of steps: expected 1 to %d, got %d to raise to %d", stepsMax-1, stored.Steps, steps)
	}
	if err != nil {
		return nil, 0, &UnreadableError{Err: err}
	}
	steps = max(steps, stored.Steps+1)
	keys["steps"] = fmt.Append(nil, steps)
	var raised bytes.Buffer
	encoder := json.NewEncoder(&raised)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(keys); err != nil {
		return nil, 0, &UnreadableError{Err: err}
	}
	return bytes.TrimSpace(raised.Bytes()), steps, nil
}
