package httpapi

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/statechart"
)

// Instance is what is shown of an instance. Keys are named one by one, so that what a record
// learns to hold later, task tokens above all, stays inside.
type Instance struct {
	// Name is the instance's, such as signup/42.
	Name    string            `json:"instance"`
	Machine string            `json:"machine"`
	Version int               `json:"version"`
	Status  statechart.Status `json:"status"`
	// State is the paths of the active atomic states, Value their XState form.
	State []string        `json:"state"`
	Value json.RawMessage `json:"value"`
	// Since is when the instance came into State, the zero time if its history does not
	// reach back that far.
	Since time.Time `json:"since,omitzero"`
	Tags  []string  `json:"tags"`
	// NextEvents are the types of the events from outside that an active state has a
	// transition for, sorted; guards are not asked. They are those of the chart that this
	// process hosts: if it cannot read the snapshot, there are none.
	NextEvents []string `json:"next_events"`
	// Settled reports whether only the outside world can move the instance, by the chart that this process hosts. If it
	// cannot read the snapshot, what this holds tells: no service runs, and a state has the tag.
	Settled bool `json:"-"`

	Context      json.RawMessage `json:"context"`
	Output       json.RawMessage `json:"output,omitempty"`
	HistoryValue json.RawMessage `json:"historyValue,omitempty"`
	// Timers are by ID, Services by key.
	Timers   map[string]Timer   `json:"timers,omitempty"`
	Services map[string]Service `json:"services,omitempty"`
	// Children are the child instances that live, by ID; Parent is the instance that has spawned this one.
	Children map[string]Child `json:"children,omitempty"`
	Parent   string           `json:"parent,omitempty"`
	// Waits are the Step Functions tasks that wait for the instance, in the order in which they came.
	Waits []Wait `json:"waits,omitempty"`

	Revision  int64     `json:"revision"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	ExpireAt  time.Time `json:"expire_at,omitzero"`
	// History is the last transitions, oldest first.
	History []durable.Transition `json:"history"`
	// Ignored counts the events that no active state had a transition for.
	Ignored int64 `json:"ignored"`
	// Parked is the last event that could not be applied.
	Parked *Parked `json:"parked,omitempty"`
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
	State   string `json:"state"`
	Service string `json:"service"`
	Attempt int    `json:"attempt"`
}

// Child is a child instance that lives.
type Child struct {
	// Instance is its name, Key what the name derives from.
	Instance string `json:"instance"`
	Key      string `json:"key"`
	Machine  string `json:"machine"`
	// State is the path of the state that invokes it, empty if an action has spawned it.
	State string `json:"state,omitempty"`
}

// Wait is a Step Functions task that waits for an instance. Its token, and what is derived from that,
// stay inside.
type Wait struct {
	// Name is the name under which the instance answers.
	Name string `json:"name"`
	// Since is when the execution entered the task's state.
	Since time.Time `json:"since"`
	// Deadline is when the task times out, the zero time if it did not tell.
	Deadline time.Time `json:"deadline,omitzero"`
}

// Parked names an event that was parked. Why it was is for operators, in the dead-letter
// queue: the reason may quote the event.
type Parked struct {
	At time.Time `json:"at"`
	// Event is the event's type as its producer wrote it, declared or not; empty if it could
	// not be read.
	Event string `json:"event"`
}

// ViewOf returns what is shown of a record. It asks the machine that carries the instance on
// what comes next; where that is not one of machines, or cannot read the snapshot, the rest is
// shown all the same.
func ViewOf(machines *durable.Machines, record durable.Record) (Instance, error) {
	var v Instance
	// The snapshot has the keys that are its own; those of the record are all set below.
	if err := json.Unmarshal(record.Snapshot, &v); err != nil {
		return Instance{}, fmt.Errorf("reading the snapshot of %s at revision %d: %w", record.Instance, record.Revision, err)
	}
	v.Name, v.Status, v.State, v.Since = record.Instance.String(), record.Status, notNil(record.State), since(record)
	v.Tags, v.NextEvents, v.Settled = notNil(v.Tags), []string{}, v.Status != statechart.Active || len(v.Services) == 0 && slices.Contains(v.Tags, statechart.Settled)
	if _, instance, err := machines.Restore(record); err == nil {
		v.NextEvents, v.Settled = notNil(instance.NextEvents()), instance.Settled()
	}
	v.Revision, v.CreatedAt, v.UpdatedAt, v.ExpireAt = record.Revision, record.CreatedAt, record.UpdatedAt, record.ExpireAt
	v.History, v.Ignored, v.Parked, v.Waits = notNil(record.History), record.Ignored, nil, waits(record)
	for id, child := range v.Children {
		child.Instance = durable.ChildName(record.Instance, record.CreatedAt, child.Key, child.Machine).String()
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

func waits(record durable.Record) []Wait {
	var waits []Wait
	for _, token := range record.Tokens {
		wait := Wait{Name: token.Name, Since: token.EnteredAt}
		if token.TimeoutSeconds > 0 {
			wait.Deadline = token.EnteredAt.Add(time.Duration(token.TimeoutSeconds) * time.Second)
		}
		waits = append(waits, wait)
	}
	return waits
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

func (a *api) getInstance(r *http.Request) (reply, error) {
	id, err := a.instanceID(r)
	if err != nil {
		return reply{}, err
	}
	return a.show(r, id)
}

// getAlias is getInstance for whoever knows only a third party's key.
func (a *api) getAlias(r *http.Request) (reply, error) {
	id, err := a.store.Find(r.Context(), r.PathValue("alias"))
	switch {
	case errors.Is(err, dynamostore.ErrNoAlias):
		return reply{}, fmt.Errorf("%w: no instance has the alias %q", errUnknownAlias, r.PathValue("alias"))
	case err != nil:
		return reply{}, fmt.Errorf("%w: %w", errStore, err)
	default:
		return a.show(r, id)
	}
}

func (a *api) show(r *http.Request, id durable.InstanceID) (reply, error) {
	record, err := a.store.Load(r.Context(), id)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", errStore, err)
	}
	if record.Revision == 0 {
		return reply{}, fmt.Errorf("%w: nothing is stored of %s; its first event creates it", errUnknownInstance, id)
	}
	view, err := ViewOf(a.machines, record)
	if err != nil {
		return reply{}, err
	}
	body, err := json.Marshal(view)
	if err != nil {
		return reply{}, err
	}
	etag := entityTag(record.Revision, body)
	if isMatch(r.Header.Values("If-None-Match"), etag) {
		return reply{status: http.StatusNotModified, etag: etag}, nil
	}
	return reply{status: http.StatusOK, etag: etag, body: json.RawMessage(body)}, nil
}

// entityTag returns the ETag of an answer. The revision is there for people and would not do
// alone: it repeats itself when an instance expires and another takes its name, and what comes
// next may change with the chart that is deployed.
func entityTag(revision int64, body []byte) string {
	sum := sha256.Sum256(body)
	return fmt.Sprintf(`"%d-%x"`, revision, sum[:8])
}

// isMatch reports whether the If-None-Match lines name the ETag (RFC 9110 13.1.2: weakly
// compared, or any by "*").
func isMatch(lines []string, etag string) bool {
	for candidate := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || strings.TrimPrefix(candidate, "W/") == etag {
			return true
		}
	}
	return false
}
