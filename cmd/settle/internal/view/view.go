// Package view shows instances to people: what is stored of them, without the runtime's
// bookkeeping and without secrets.
package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// Instance is what is shown of an instance. Its JSON form is the gateway's answer and three
// things more: since when the instance is in its state, what it takes next, and why an event
// was parked, which is for operators only. Keys are named one by one, so that what a record
// learns to hold later, task tokens above all, stays inside.
type Instance struct {
	Instance string            `json:"instance"`
	Machine  string            `json:"machine"`
	Version  int               `json:"version"`
	Status   statechart.Status `json:"status"`
	// State is the paths of the active atomic states, Value their XState form.
	State []string        `json:"state"`
	Value json.RawMessage `json:"value"`
	// Since is when the instance came into State, the zero time if its history does not
	// reach back that far.
	Since time.Time `json:"since,omitzero"`
	Tags  []string  `json:"tags"`
	// NextEvents are the types of the events that an active state has a transition for.
	NextEvents []string `json:"next_events"`

	Context      json.RawMessage `json:"context"`
	Output       json.RawMessage `json:"output,omitempty"`
	HistoryValue json.RawMessage `json:"historyValue,omitempty"`
	// Timers are by ID, Services by key.
	Timers   map[string]Timer   `json:"timers,omitempty"`
	Services map[string]Service `json:"services,omitempty"`

	Revision  int64     `json:"revision"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	ExpireAt  time.Time `json:"expire_at,omitzero"`
	// History is the last transitions, oldest first.
	History []durable.Transition `json:"history"`
	// Ignored counts the events that no active state had a transition for.
	Ignored int64 `json:"ignored"`
	// Parked is the last event that could not be applied, and why.
	Parked *durable.Failure `json:"parked,omitempty"`
}

// Timer is a timer that an instance waits for.
type Timer struct {
	// State is the path of the state that started it, After its ID there.
	State string    `json:"state"`
	After string    `json:"after"`
	At    time.Time `json:"at"`
}

// Service is a service that an unsettled instance waits for.
type Service struct {
	ID      string `json:"id"`
	Service string `json:"service"`
	State   string `json:"state"`
	Attempt int    `json:"attempt"`
}

// Of makes the view of a stored record. nextEvents are the types of the events that the
// instance takes next.
func Of(record durable.Record, nextEvents []string) (Instance, error) {
	var v Instance
	// The snapshot has the keys that are its own; those of the record are set below.
	if err := json.Unmarshal(record.Snapshot, &v); err != nil {
		return Instance{}, fmt.Errorf("reading the snapshot of %s at revision %d: %w", record.Instance, record.Revision, err)
	}
	v.Instance, v.Status, v.State = record.Instance.String(), record.Status, notNil(record.State)
	v.Since, v.Tags, v.NextEvents = since(record), notNil(v.Tags), notNil(nextEvents)
	v.Revision, v.CreatedAt, v.UpdatedAt, v.ExpireAt = record.Revision, record.CreatedAt, record.UpdatedAt, record.ExpireAt
	v.History, v.Ignored, v.Parked = notNil(record.History), record.Ignored, record.Error
	return v, nil
}

// timers returns the timers, the next one first.
func (v Instance) timers() []Timer {
	return slices.SortedFunc(maps.Values(v.Timers), func(a, b Timer) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.State, b.State), cmp.Compare(a.After, b.After))
	})
}

// services returns the services, by the state that runs them.
func (v Instance) services() []Service {
	return slices.SortedFunc(maps.Values(v.Services), func(a, b Service) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.ID, b.ID))
	})
}

// since returns when the record's state was entered, as far as its history tells.
func since(record durable.Record) time.Time {
	for _, transition := range slices.Backward(record.History) {
		if !slices.Equal(transition.From, transition.To) {
			return transition.At
		}
	}
	if len(record.History) > 0 {
		return time.Time{} // Older transitions may have been forgotten.
	}
	return record.CreatedAt
}

func notNil[E any](s []E) []E {
	if s == nil {
		return []E{}
	}
	return s
}
