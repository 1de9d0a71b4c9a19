// Package instanceview defines the public view of a stored instance, which is its JSON form in the HTTP API. Package
// client and the command line base their views on it.
package instanceview

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// Instance is the public view of an instance. It lists its keys one by one, so that new fields of a record, such as
// task tokens, are never shown by accident.
type Instance struct {
	// Name is the instance's ID, such as signup/42.
	Name    string            `json:"instance"`
	Machine string            `json:"machine"`
	Version int               `json:"version"`
	Status  statechart.Status `json:"status"`
	// State lists the paths of the active atomic states. Value is the same in XState's form.
	State []string        `json:"state"`
	Value json.RawMessage `json:"value"`
	// Since is when the instance entered State, the zero time if its history does not reach back that far.
	Since time.Time `json:"since,omitzero"`
	Tags  []string  `json:"tags"`
	// NextEvents are the types of external events for which an active state has a transition, sorted. Guards are not
	// evaluated. The types come from the chart hosted by this process. The list is empty if the chart cannot read the
	// snapshot.
	NextEvents []string `json:"next_events"`
	// Settled reports whether the instance waits only for external events or timers, according to the chart hosted by
	// this process. If the chart cannot read the snapshot, Settled is derived from the view: no service is running, and
	// the tag statechart.Settled is present.
	Settled bool `json:"-"`

	Context      json.RawMessage `json:"context"`
	Output       json.RawMessage `json:"output,omitempty"`
	HistoryValue json.RawMessage `json:"historyValue,omitempty"`
	// Timers has the timers by their IDs, and Services has the services by their keys.
	Timers   map[string]Timer   `json:"timers,omitempty"`
	Services map[string]Service `json:"services,omitempty"`
	// Children are the live child instances, by ID. Parent is the instance that spawned this one.
	Children map[string]Child `json:"children,omitempty"`
	Parent   string           `json:"parent,omitempty"`
	// Waits are the Step Functions tasks that wait for the instance, oldest first.
	Waits []Wait `json:"waits,omitempty"`
	// Deferred are the events that wait for a state that handles them, in order of arrival.
	Deferred []Deferred `json:"deferred,omitempty"`

	Revision  int64     `json:"revision"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	ExpireAt  time.Time `json:"expire_at,omitzero"`
	// History lists the last transitions, oldest first.
	History []instances.Transition `json:"history"`
	// Ignored counts the events without a matching transition.
	Ignored int64 `json:"ignored"`
	// Parked is the last parked event.
	Parked *Parked `json:"parked,omitempty"`
}

// Timer is an armed timer.
type Timer struct {
	// State is the path of the state that started the timer. After is the timer's ID in that state.
	State string    `json:"state"`
	After string    `json:"after"`
	At    time.Time `json:"at"`
}

// Service is a running service.
type Service struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Service string `json:"service"`
	Attempt int    `json:"attempt"`
	// RetryAt is when the next attempt may begin, after a failed one.
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// Child is a live child instance.
type Child struct {
	// Instance is the ID of the child. Key is the value that the ID is derived from.
	Instance string `json:"instance"`
	Key      string `json:"key"`
	Machine  string `json:"machine"`
	// State is the path of the invoking state, empty if an action spawned the child.
	State string `json:"state,omitempty"`
}

// Wait is a Step Functions task that waits for an instance, without its token or anything derived from it.
type Wait struct {
	// Name is the name under which the instance answers the task.
	Name string `json:"name"`
	// Since is when the execution entered the task's state.
	Since time.Time `json:"since"`
	// Deadline is when the task times out, the zero time if its timeout is unknown.
	Deadline time.Time `json:"deadline,omitzero"`
}

// Deferred describes a deferred event, without its payload.
type Deferred struct {
	Type string `json:"type"`
	// ID is the producer's event ID, empty for none.
	ID string `json:"id,omitempty"`
}

// UnmarshalJSON reads a deferred event of a view or of a snapshot. A snapshot has the whole event, with its payload.
func (d *Deferred) UnmarshalJSON(text []byte) error {
	var read struct {
		Type  string
		ID    string
		Event struct{ Type string }
	}
	err := json.Unmarshal(text, &read)
	d.Type, d.ID = cmp.Or(read.Type, read.Event.Type), read.ID
	return err
}

// Parked describes a parked event, without the reason, which may quote the event. Operators find the reason in the
// dead-letter queue.
type Parked struct {
	At time.Time `json:"at"`
	// Event is the event's type as sent, even if undeclared. It is empty if the type could not be read.
	Event string `json:"event"`
}

// Of returns the view of a record. NextEvents and Settled come from the instance's machine. If that machine is not
// in machines, or cannot read the snapshot, the rest of the view is still complete. Of fails if the snapshot cannot
// be decoded.
func Of(machines *durable.Machines, record instances.Record) (Instance, error) {
	var v Instance
	// Unmarshal sets the keys that come from the snapshot. The code below sets all keys that come from the record.
	if err := json.Unmarshal(record.Snapshot, &v); err != nil {
		return Instance{}, fmt.Errorf("reading the snapshot of %s at revision %d: %w", record.Instance, record.Revision, err)
	}
	v.Name, v.Status, v.State, v.Since = record.Instance.String(), record.Status, notNil(record.State), since(record)
	v.Tags, v.NextEvents, v.Settled = notNil(v.Tags), []string{}, v.Status != statechart.Active || len(v.Services) == 0 && slices.Contains(v.Tags, statechart.Settled)
	if _, instance, err := machines.Restore(record); err == nil {
		v.NextEvents, v.Settled = notNil(instance.NextEvents()), instance.Settled()
	}
	v.Revision, v.CreatedAt, v.UpdatedAt, v.ExpireAt = record.Revision, record.CreatedAt, record.UpdatedAt, record.ExpireAt
	v.History, v.Ignored, v.Parked, v.Waits = publicHistory(record.History), record.Ignored, nil, waits(record)
	for id, child := range v.Children {
		child.Instance = instances.ChildName(record.Instance, record.CreatedAt, child.Key, child.Machine).String()
		v.Children[id] = child
	}
	v.Parent = ""
	if record.Parent != nil {
		v.Parent = record.Parent.Instance
	}
	if record.Error != nil {
		v.Parked = &Parked{At: record.Error.At, Event: record.Error.Event}
	}
	return v, nil
}

// publicHistory returns the history without the names and reasons of operators.
func publicHistory(history []instances.Transition) []instances.Transition {
	shown := append([]instances.Transition{}, history...)
	for i := range shown {
		shown[i].By, shown[i].Reason = "", ""
	}
	return shown
}

func waits(record instances.Record) []Wait {
	var waits []Wait
	for _, token := range record.Tokens {
		if token.Expired {
			continue
		}
		wait := Wait{Name: token.Name, Since: token.EnteredAt}
		if token.TimeoutSeconds > 0 {
			wait.Deadline = token.EnteredAt.Add(time.Duration(token.TimeoutSeconds) * time.Second)
		}
		waits = append(waits, wait)
	}
	return waits
}

// since returns when the record's state was entered, or the zero time if the history is too short.
func since(record instances.Record) time.Time {
	handled := int64(0)
	for _, transition := range slices.Backward(record.History) {
		if !slices.Equal(transition.From, transition.To) {
			return transition.At
		}
		if !transition.Ignored {
			handled++
		}
	}
	var snapshot struct {
		Steps int64 `json:"steps"`
	}
	// The first step is the start. Each later step has a transition in the history, unless the history has dropped it.
	if err := json.Unmarshal(record.Snapshot, &snapshot); err != nil || snapshot.Steps < 1 || snapshot.Steps-1 > handled {
		return time.Time{}
	}
	return record.CreatedAt
}

// notNil returns an empty slice for nil, which JSON would encode as null.
func notNil[E any](s []E) []E {
	if s == nil {
		return []E{}
	}
	return s
}
