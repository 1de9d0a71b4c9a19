package simulation

import (
	"encoding/json"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Step is the JSON output for a step.
type Step struct {
	// At is the virtual time.
	At time.Time `json:"at"`
	// Event is the applied event as given: xstate.init at the start, and settle.timer or the sent event for a timer.
	Event json.RawMessage `json:"event"`
	// Timer is the timer that fired.
	Timer *Timer `json:"timer,omitempty"`
	// Handled is false if the machine ignored the event.
	Handled bool              `json:"handled"`
	Value   json.RawMessage   `json:"value"`
	Status  statechart.Status `json:"status"`
	Tags    []string          `json:"tags"`
	// Context is only in the first step, because a simulation never changes it.
	Context json.RawMessage `json:"context,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
	// Actions are the names of the executed actions, in order.
	Actions []string            `json:"actions"`
	Effects []statechart.Effect `json:"effects"`
	// Timers are the pending timers, the next one first.
	Timers []Timer `json:"timers"`
	// Services and Children are the running ones.
	Services []Service `json:"services,omitempty"`
	Children []Child   `json:"children,omitempty"`
	// Deferred are the deferred events.
	Deferred   []json.RawMessage `json:"deferred,omitempty"`
	Microsteps []Microstep       `json:"microsteps,omitempty"`
}

// Timer is a timer of a state, or an event that the machine sends itself with a delay.
type Timer struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	// State and After identify the timer of a state. State is empty for the machine's root.
	State string `json:"state"`
	After string `json:"after,omitempty"`
	// Event is the sent event, Send its ID.
	Event json.RawMessage `json:"event,omitempty"`
	Send  string          `json:"send,omitempty"`
}

// Service is a running service.
type Service struct {
	ID    string `json:"id"`
	Src   string `json:"src"`
	State string `json:"state"`
}

// Child is a live child instance.
type Child struct {
	ID      string `json:"id"`
	Machine string `json:"machine"`
	State   string `json:"state"`
}

// Microstep is one microstep of a step.
type Microstep struct {
	Event       string       `json:"event"`
	Transitions []Transition `json:"transitions"`
	Exited      []string     `json:"exited"`
	Entered     []string     `json:"entered"`
	Actions     []string     `json:"actions"`
}

// Transition is a transition that was taken.
type Transition struct {
	Source  string   `json:"source"`
	Trigger string   `json:"trigger"`
	Guard   string   `json:"guard,omitempty"`
	Targets []string `json:"targets"`
}

func timerOf(t statechart.Timer) Timer {
	timer := Timer{ID: t.ID, At: t.At, State: t.State, Event: t.Event, Send: t.Send}
	if t.Event == nil {
		timer.After = t.After
	}
	return timer
}

// step returns the output for the current step.
func (s *Simulation) step(cause json.RawMessage, effects []statechart.Effect, handled bool) Step {
	step := Step{
		At: s.now, Event: cause, Handled: handled, Value: s.snapshot.Value(), Status: s.snapshot.Status, Tags: listed(s.snapshot.Tags()),
		Output: s.snapshot.Output, Actions: []string{}, Effects: listed(effects), Timers: []Timer{},
	}
	for _, timer := range timersByDeadline(s.snapshot.Timers) {
		step.Timers = append(step.Timers, timerOf(timer))
	}
	for _, service := range s.snapshot.Services {
		step.Services = append(step.Services, Service{ID: service.ID, Src: service.Service, State: service.State})
	}
	for _, child := range s.snapshot.Children {
		step.Children = append(step.Children, Child{ID: child.ID, Machine: child.Machine, State: child.State})
	}
	for _, deferred := range s.snapshot.Deferred {
		step.Deferred = append(step.Deferred, deferred.Event)
	}
	for _, m := range s.microsteps {
		step.Actions = append(step.Actions, m.Actions...)
		if !s.config.Microsteps {
			continue
		}
		microstep := Microstep{Event: m.Event, Transitions: []Transition{}, Exited: listed(m.Exited), Entered: listed(m.Entered), Actions: listed(m.Actions)}
		for _, index := range m.Transitions {
			t := s.transitions[index]
			microstep.Transitions = append(microstep.Transitions, Transition{Source: t.Source, Trigger: t.Trigger, Guard: t.Guard, Targets: listed(t.Targets)})
		}
		step.Microsteps = append(step.Microsteps, microstep)
	}
	return step
}

// listed returns an empty list for nil, so that JSON has [] instead of null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
