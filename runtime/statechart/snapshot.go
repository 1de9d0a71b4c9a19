package statechart

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Status says whether an instance lives.
type Status string

// The statuses of an instance, in XState's words.
const (
	Active Status = "active"
	Done   Status = "done"
	// Stopped is the status of an instance that Stop ended.
	Stopped Status = "stopped"
)

// Timer is a durable delayed event that a snapshot waits for: an After of a state, or an event
// that SendAfter sent.
type Timer struct {
	// ID is unique within the instance, for ever: a firing with an older ID is stale.
	ID string
	// State is the path of the state that started the timer, After its ID there. Of an event
	// that was sent, State is "" and After the event's type.
	State, After string
	// At is the deadline in UTC, to the millisecond. Restoring a snapshot keeps it.
	At time.Time
	// Event is the JSON form of an event that was sent, Send the ID that cancels it; both are
	// empty for a state's timer.
	Event json.RawMessage `json:",omitempty"`
	Send  string          `json:",omitempty"`

	// state and index locate a state's timer; of an event that was sent, state is -1.
	state, index int
}

// Snapshot is the state of one instance between macrosteps. It is a value: a step makes a new
// one. Its JSON form has the keys of an XState snapshot (value, context, status, tags,
// historyValue, children) and beside them machine, version, steps, timers, services and deferred.
type Snapshot[C any] struct {
	Context C
	Status  Status
	// Output is the JSON of the output once Status is Done, nil if there is none.
	Output json.RawMessage
	// Timers are in the order in which they were started.
	Timers []Timer
	// Services are the invocations whose end the snapshot waits for.
	Services []Invocation
	// Children are the child instances that live, in the order in which they were started.
	Children []ChildRef
	// Deferred are the events that wait for another configuration, in the order in which they
	// arrived. An instance that has ended keeps those that it never came to.
	Deferred []Deferred
	// Steps counts the macrosteps taken; IDs are derived from it.
	Steps int64

	chart         *Chart[C]
	configuration stateSet
	history       map[int]stateSet
}

// State returns the paths of the active atomic and final states, in document order.
func (s Snapshot[C]) State() []string {
	var paths []string
	for i := s.configuration.next(0); i >= 0; i = s.configuration.next(i + 1) {
		if n := &s.chart.nodes[i]; len(n.children) == 0 {
			paths = append(paths, n.path)
		}
	}
	return paths
}

// Tags returns the tags of all active states, sorted, each once.
func (s Snapshot[C]) Tags() []string {
	var tags []string
	for i := s.configuration.next(0); i >= 0; i = s.configuration.next(i + 1) {
		tags = append(tags, s.chart.nodes[i].def.Tags...)
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

// HasTag reports whether an active state has the tag.
func (s Snapshot[C]) HasTag(tag string) bool { return slices.Contains(s.Tags(), tag) }

// Matches reports whether the state with the given path is active.
func (s Snapshot[C]) Matches(path string) bool {
	i, ok := s.chart.byPath[path]
	return ok && s.configuration.has(i)
}

// Settled reports whether only the outside world can move the instance: every active atomic
// state is tagged Settled or final and no service runs, or the instance is done.
func (s Snapshot[C]) Settled() bool {
	if s.Status != Active {
		return true
	}
	if len(s.Services) > 0 {
		return false
	}
	for i := s.configuration.next(0); i >= 0; i = s.configuration.next(i + 1) {
		if n := &s.chart.nodes[i]; n.kind == atomic && !n.settled {
			return false
		}
	}
	return true
}

// NextEvents returns the types of events from outside that some active state has a transition
// for, sorted. Guards are not asked.
func (s Snapshot[C]) NextEvents() []string {
	var next []string
	if s.Status != Active {
		return nil
	}
	for _, typ := range s.chart.payloads.Types() {
		for i := s.configuration.next(0); i >= 0; i = s.configuration.next(i + 1) {
			if slices.ContainsFunc(s.chart.nodes[i].transitions, func(t transition[C]) bool { return matches(t.event, typ) }) {
				next = append(next, typ)
				break
			}
		}
	}
	return next
}

// Value returns the configuration in XState's form: the ID of the active child, or an object
// from child to value, in document order.
func (s Snapshot[C]) Value() json.RawMessage {
	var b strings.Builder
	s.writeValue(&b, 0)
	return json.RawMessage(b.String())
}

func (s Snapshot[C]) writeValue(b *strings.Builder, state int) {
	var active []int
	for _, child := range s.chart.nodes[state].children {
		if s.configuration.has(child) {
			active = append(active, child)
		}
	}
	if len(active) == 1 && s.chart.nodes[state].kind == compound && len(s.chart.nodes[active[0]].children) == 0 {
		fmt.Fprintf(b, "%q", s.chart.nodes[active[0]].def.ID)
		return
	}
	b.WriteByte('{')
	for k, child := range active {
		if k > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, "%q:", s.chart.nodes[child].def.ID)
		s.writeValue(b, child)
	}
	b.WriteByte('}')
}

// snapshotJSON is the JSON form of a snapshot.
type snapshotJSON struct {
	Machine      string                 `json:"machine"`
	Version      int                    `json:"version"`
	Status       Status                 `json:"status"`
	Value        json.RawMessage        `json:"value"`
	Context      json.RawMessage        `json:"context"`
	Tags         []string               `json:"tags"`
	HistoryValue map[string][]string    `json:"historyValue,omitempty"`
	Timers       map[string]timerJSON   `json:"timers,omitempty"`
	Services     map[string]serviceJSON `json:"services,omitempty"`
	Children     map[string]childJSON   `json:"children,omitempty"`
	Deferred     []deferredJSON         `json:"deferred,omitempty"`
	Steps        int64                  `json:"steps"`
	Output       json.RawMessage        `json:"output,omitempty"`
}

type timerJSON struct {
	State string          `json:"state"`
	After string          `json:"after"`
	At    time.Time       `json:"at"`
	Event json.RawMessage `json:"event,omitempty"`
	Send  string          `json:"send,omitempty"`
}

type serviceJSON struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Service string `json:"service"`
	Attempt int    `json:"attempt"`
}

// MarshalJSON writes the snapshot; Restore reads it back.
func (s Snapshot[C]) MarshalJSON() ([]byte, error) {
	if s.chart == nil {
		return nil, errors.New("marshalling a snapshot: expected one made by a chart, got a zero Snapshot")
	}
	context, err := json.Marshal(&s.Context) // The pointer lets methods of *C write it too.
	if err != nil {
		return nil, fmt.Errorf("marshalling the context of chart %s: %w", s.chart.id, err)
	}
	form := snapshotJSON{
		Machine: s.chart.id, Version: s.chart.version, Status: s.Status, Value: s.Value(),
		Context: context, Tags: append([]string{}, s.Tags()...), Steps: s.Steps, Output: s.Output,
	}
	form.Children, form.Deferred = childrenJSON(s.Children), deferredEventsJSON(s.Deferred)
	for h, recorded := range s.history {
		if form.HistoryValue == nil {
			form.HistoryValue = map[string][]string{}
		}
		paths := []string{}
		for i := recorded.next(0); i >= 0; i = recorded.next(i + 1) {
			paths = append(paths, s.chart.nodes[i].path)
		}
		form.HistoryValue[s.chart.nodes[h].path] = paths
	}
	for _, timer := range s.Timers {
		if form.Timers == nil {
			form.Timers = map[string]timerJSON{}
		}
		form.Timers[timer.ID] = timerJSON{State: timer.State, After: timer.After, At: timer.At, Event: timer.Event, Send: timer.Send}
	}
	for _, service := range s.Services {
		if form.Services == nil {
			form.Services = map[string]serviceJSON{}
		}
		form.Services[service.Key] = serviceJSON{ID: service.ID, State: service.State, Service: service.Service, Attempt: service.Attempt}
	}
	return json.Marshal(form)
}
