package statechart

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Status is the status of an instance.
type Status string

// The statuses of an instance, as in XState.
const (
	Active  Status = "active"
	Done    Status = "done"
	Stopped Status = "stopped" // ended by Stop
)

// Timer is a pending durable timer: an After, or an event sent with SendAfter.
type Timer struct {
	// ID is unique among all timers of the instance, past and future. A TimerEvent with an older ID is stale.
	ID string
	// State is the path of the state that started the timer, and After is the timer's ID in that state. For a sent event,
	// State is "" and After is the event type.
	State, After string
	At           time.Time // the deadline in UTC, to the millisecond
	// Event is the JSON form of a sent event, and Send is its ID for Cancel. Both are empty for a state's timer.
	Event json.RawMessage `json:",omitempty"`
	Send  string          `json:",omitempty"`

	// state and index locate a state's timer. state is -1 for a sent event.
	state, index int
}

// Snapshot is the state of one instance between macrosteps. It is a value: a step returns a new
// one. docs/charts/snapshots.md describes its JSON form.
type Snapshot[C any] struct {
	Context  C
	Status   Status
	Output   json.RawMessage // nil unless Status is Done
	Timers   []Timer         // in start order
	Services []Invocation    // the running services
	Children []ChildRef      // the running children, in start order
	Deferred []Deferred      // in order of arrival; an ended instance keeps the events that it never handled
	Steps    int64           // counts the macrosteps; IDs are derived from it

	chart         *chart
	configuration configuration
	// history is indexed by the ordinal of the history state. It is nil until a history state records something.
	history []record
}

// bareSnapshot is a Snapshot without the context. The other fields are the same.
type bareSnapshot struct {
	Status   Status
	Output   json.RawMessage
	Timers   []Timer
	Services []Invocation
	Children []ChildRef
	Deferred []Deferred
	Steps    int64

	chart         *chart
	configuration configuration
	history       []record
}

// toBare copies everything except the context.
func (s *Snapshot[C]) toBare(into *bareSnapshot) {
	into.Status, into.Output, into.Timers, into.Services, into.Children, into.Deferred, into.Steps = s.Status, s.Output, s.Timers, s.Services, s.Children, s.Deferred, s.Steps
	into.chart, into.configuration, into.history = s.chart, s.configuration, s.history
}

// fromBare sets everything except the context.
func (s *Snapshot[C]) fromBare(b *bareSnapshot) {
	s.Status, s.Output, s.Timers, s.Services, s.Children, s.Deferred, s.Steps = b.Status, b.Output, b.Timers, b.Services, b.Children, b.Deferred, b.Steps
	s.chart, s.configuration, s.history = b.chart, b.configuration, b.history
}

// record holds the recorded states of a history state: indexes in ascending order, or nil.
type record []uint16

// State returns the paths of the active atomic states in document order.
func (s Snapshot[C]) State() []string { return s.chart.state(&s.configuration) }

func (c *chart) state(configuration *configuration) []string {
	var paths []string
	for _, leaf := range configuration.leaves() {
		paths = append(paths, c.nodes[leaf].path)
	}
	return paths
}

// Tags returns the tags of all active states, sorted and without duplicates.
func (s Snapshot[C]) Tags() []string { return s.chart.tags(&s.configuration, nil) }

// HasTag reports whether an active state has the tag.
func (s Snapshot[C]) HasTag(tag string) bool { return slices.Contains(s.Tags(), tag) }

// Matches reports whether the state with the given path is active.
func (s Snapshot[C]) Matches(path string) bool {
	i, ok := s.chart.byPath[path]
	return ok && s.chart.isActive(i, &s.configuration)
}

// Settled reports whether the instance waits or has ended. It waits if no service runs, and every active atomic state
// is final or tagged Settled.
func (s Snapshot[C]) Settled() bool {
	var bare bareSnapshot
	s.toBare(&bare)
	return bare.settled()
}

func (s *bareSnapshot) settled() bool {
	if s.Status != Active {
		return true
	}
	return len(s.Services) == 0 && s.chart.settled(&s.configuration)
}

// settled reports whether every active atomic state is tagged Settled.
func (c *chart) settled(configuration *configuration) bool {
	for _, leaf := range configuration.leaves() {
		if n := &c.nodes[leaf]; n.kind == atomic && !n.settled {
			return false
		}
	}
	return true
}

// NextEvents returns the sorted types of the outside events for which an active state has a transition. It ignores
// guards.
func (s Snapshot[C]) NextEvents() []string {
	if s.Status != Active {
		return nil
	}
	return s.chart.nextEvents(&s.configuration)
}

func (c *chart) nextEvents(configuration *configuration) []string {
	var next []string
	active := c.active(configuration)
	for _, typ := range c.payloads.Types() {
		for _, i := range active {
			if slices.ContainsFunc(c.nodes[i].transitions, func(t transition) bool { return matches(t.event, typ) }) {
				next = append(next, typ)
				break
			}
		}
	}
	return next
}

// Value returns the configuration in XState's form: the active child's ID, or an object that maps child IDs to values
// in document order.
func (s Snapshot[C]) Value() json.RawMessage { return s.chart.appendValue(nil, &s.configuration, 0) }

type snapshotJSON struct {
	Machine string          `json:"machine"`
	Version int             `json:"version"`
	Status  Status          `json:"status"`
	Value   json.RawMessage `json:"value"`
	Context json.RawMessage `json:"context"`
	Tags    []string        `json:"tags"`
	waitingJSON
	Steps  int64           `json:"steps"`
	Output json.RawMessage `json:"output,omitempty"`
}

// waitingJSON holds the members that most snapshots lack.
type waitingJSON struct {
	HistoryValue map[string][]string    `json:"historyValue,omitempty"`
	Timers       map[string]timerJSON   `json:"timers,omitempty"`
	Services     map[string]serviceJSON `json:"services,omitempty"`
	Children     map[string]childJSON   `json:"children,omitempty"`
	Deferred     []deferredJSON         `json:"deferred,omitempty"`
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
	// RetryAt is set while the service waits for its next attempt.
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// MarshalJSON is AppendJSON, for encoding/json.
func (s Snapshot[C]) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil) }

// AppendJSON appends the JSON form that Restore reads. Marshal is slower.
func (s Snapshot[C]) AppendJSON(b []byte) ([]byte, error) {
	if s.chart == nil {
		return nil, errors.New("marshalling a snapshot: expected one made by a chart, got a zero Snapshot")
	}
	context := s.Context
	text, err := json.Marshal(&context) // With the pointer, Marshal also uses methods of *C.
	if err != nil {
		return nil, fmt.Errorf("marshalling the context of chart %s: %w", s.chart.id, err)
	}
	var bare bareSnapshot
	s.toBare(&bare)
	return bare.appendJSON(b, text)
}

// appendJSON is AppendJSON, but takes the context as JSON.
func (s *bareSnapshot) appendJSON(b, context []byte) ([]byte, error) {
	if b == nil {
		b = make([]byte, 0, 256+len(context))
	}
	b = appendText(append(b, `{"machine":`...), s.chart.id)
	b = strconv.AppendInt(append(b, `,"version":`...), int64(s.chart.version), 10)
	b = appendText(append(b, `,"status":`...), string(s.Status))
	b = s.chart.appendValue(append(b, `,"value":`...), &s.configuration, 0)
	b = append(append(b, `,"context":`...), context...)
	b = s.chart.appendTags(append(b, `,"tags":`...), &s.configuration)
	if rest := s.waiting(); rest != nil {
		text, err := json.Marshal(rest)
		if err != nil {
			return nil, fmt.Errorf("marshalling a snapshot of chart %s: %w", s.chart.id, err)
		}
		if members := text[1 : len(text)-1]; len(members) > 0 {
			b = append(append(b, ','), members...)
		}
	}
	b = strconv.AppendInt(append(b, `,"steps":`...), s.Steps, 10)
	if s.Output != nil {
		output, err := json.Marshal(s.Output)
		if err != nil {
			return nil, fmt.Errorf("marshalling the output of chart %s: %w", s.chart.id, err)
		}
		b = append(append(b, `,"output":`...), output...)
	}
	return append(b, '}'), nil
}

// waiting returns the timers, services, children, deferred events and history in JSON form. Without any of these, it
// returns nil.
func (s *bareSnapshot) waiting() *waitingJSON {
	if len(s.Timers)+len(s.Services)+len(s.Children)+len(s.Deferred) == 0 && s.history == nil {
		return nil
	}
	form := &waitingJSON{Children: childrenJSON(s.Children), Deferred: deferredEventsJSON(s.Deferred)}
	for ordinal, recorded := range s.history {
		if recorded == nil {
			continue
		}
		if form.HistoryValue == nil {
			form.HistoryValue = map[string][]string{}
		}
		paths := []string{}
		for _, i := range recorded {
			paths = append(paths, s.chart.nodes[i].path)
		}
		form.HistoryValue[s.chart.nodes[s.chart.histories[ordinal]].path] = paths
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
		form.Services[service.Key] = serviceJSON{ID: service.ID, State: service.State, Service: service.Service, Attempt: service.Attempt, RetryAt: service.RetryAt}
	}
	return form
}
