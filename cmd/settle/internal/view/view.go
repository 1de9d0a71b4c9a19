// Package view shows instances to people: what is stored of them, without the runtime's
// bookkeeping and without secrets.
package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// Instance is what is shown of an instance. Its JSON form has the keys of the gateway's
// answer, and more: an operator may see why an event was parked. Keys are named one by one,
// so that what a record learns to hold later, task tokens above all, stays inside.
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
	Since  time.Time `json:"since,omitzero"`
	Tags   []string  `json:"tags"`
	Events []string  `json:"next_events"`

	Context  json.RawMessage `json:"context"`
	Output   json.RawMessage `json:"output,omitempty"`
	Timers   []Timer         `json:"timers"`
	Services []Service       `json:"services"`

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
	Service string `json:"service"`
	State   string `json:"state"`
	Attempt int    `json:"attempt"`
}

// snapshot is the keys of a stored snapshot that are shown.
type snapshot struct {
	Machine  string             `json:"machine"`
	Version  int                `json:"version"`
	Value    json.RawMessage    `json:"value"`
	Tags     []string           `json:"tags"`
	Context  json.RawMessage    `json:"context"`
	Output   json.RawMessage    `json:"output"`
	Timers   map[string]Timer   `json:"timers"`
	Services map[string]Service `json:"services"`
}

// Of makes the view of a stored record. The events are the types that the instance takes next.
func Of(record durable.Record, events []string) (Instance, error) {
	var stored snapshot
	if err := json.Unmarshal(record.Snapshot, &stored); err != nil {
		return Instance{}, fmt.Errorf("reading the snapshot of %s at revision %d: %w", record.Instance, record.Revision, err)
	}
	v := Instance{
		Instance: record.Instance.String(), Machine: stored.Machine, Version: stored.Version, Status: record.Status,
		State: notNil(record.State), Value: stored.Value, Since: since(record),
		Tags: notNil(stored.Tags), Events: notNil(events), Context: stored.Context, Output: stored.Output,
		Timers: []Timer{}, Services: []Service{},
		Revision: record.Revision, CreatedAt: record.CreatedAt, UpdatedAt: record.UpdatedAt, ExpireAt: record.ExpireAt,
		History: notNil(record.History), Ignored: record.Ignored, Parked: record.Error,
	}
	for _, timer := range stored.Timers {
		v.Timers = append(v.Timers, timer)
	}
	slices.SortFunc(v.Timers, func(a, b Timer) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.State, b.State), cmp.Compare(a.After, b.After))
	})
	for _, service := range stored.Services {
		v.Services = append(v.Services, service)
	}
	slices.SortFunc(v.Services, func(a, b Service) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Service, b.Service))
	})
	return v, nil
}

// since returns when the record's state was entered, as far as its history tells.
func since(record durable.Record) time.Time {
	for _, transition := range slices.Backward(record.History) {
		if !slices.Equal(transition.From, transition.To) {
			return transition.At
		}
	}
	if len(record.History) > 0 && !slices.Equal(record.History[0].From, record.State) {
		return time.Time{}
	}
	return record.CreatedAt
}

func notNil[E any](s []E) []E {
	if s == nil {
		return []E{}
	}
	return s
}
