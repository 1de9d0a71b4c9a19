// Package simulation runs an XState v5 machine config in virtual time, without the code that the config refers to.
// Actions do nothing. The user sets guards and delays, and ends services and child instances.
package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// FiringsMax limits how many timers may fire in one advance of the clock. Without the limit, a cycle of timers without
// a delay would never end.
const FiringsMax = 10_000

// ErrRefused is returned by Send for an event that the machine would never receive.
var ErrRefused = errors.New("event refused")

// Config tunes a simulation. The zero value is useful.
type Config struct {
	// Guards are the results of guards by name. Defaults to true for each guard.
	Guards map[string]bool
	// Delays are the named delays. A delay that meta.settle.after defines needs no entry.
	Delays map[string]Duration
	// Start is the initial virtual time. Defaults to Epoch.
	Start time.Time
	// Clock is the time that passes after the start and after each event. Defaults to 0.
	Clock Duration
	// Input is the instance's input as JSON. Nil means none.
	Input json.RawMessage
	// Microsteps adds microsteps to the output.
	Microsteps bool
}

// Epoch is the default start, so that output is reproducible.
var Epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (c Config) withDefaults() Config {
	if c.Start.IsZero() {
		c.Start = Epoch
	}
	c.Start = c.Start.UTC()
	return c
}

// Simulation is an instance of a machine with its clock.
type Simulation struct {
	config   Config
	chart    *statechart.Chart[json.RawMessage]
	stepper  *statechart.Stepper[json.RawMessage]
	snapshot statechart.Snapshot[json.RawMessage]
	now      time.Time
	// transitions are the chart's transitions by index.
	transitions []statechart.TransitionInfo
	// emit is called with every step.
	emit func(Step) error
	// microsteps are the microsteps of the current step.
	microsteps []statechart.Microstep
}

// New reads a machine config. The simulation calls `emit` with every step, and ends if `emit` returns an error.
func New(machine []byte, config Config, emit func(Step) error) (*Simulation, error) {
	chart, err := compile(machine, config)
	if err != nil {
		return nil, err
	}
	s := &Simulation{config: config.withDefaults(), chart: chart, stepper: chart.Stepper(), transitions: chart.Transitions(), emit: emit}
	s.stepper.OnMicrostep = func(m statechart.Microstep) { s.microsteps = append(s.microsteps, m) }
	s.now = s.config.Start
	return s, nil
}

// Start enters the initial configuration.
func (s *Simulation) Start() error {
	cause, err := json.Marshal(struct {
		Type  string          `json:"type"`
		Input json.RawMessage `json:"input,omitempty"`
	}{"xstate.init", s.config.Input})
	if err != nil {
		return fmt.Errorf("the input: %w", err)
	}
	start := statechart.Start{Instance: s.chart.ID() + "/simulated", At: s.now}
	if s.config.Input != nil {
		start.Input = s.config.Input
	}
	snapshot, effects, err := s.stepper.Start(start)
	if err != nil {
		return err
	}
	s.snapshot = snapshot
	step := s.step(cause, effects, true)
	step.Context = snapshot.Context
	if err := s.emit(step); err != nil {
		return err
	}
	return s.advance(s.config.Clock)
}

// Send handles a line of the input: an event, the end of a service or child, or an advance of the clock.
func (s *Simulation) Send(line []byte) error {
	given, err := parseLine(line)
	if err != nil {
		return err
	}
	if given.advances {
		return s.advance(given.advance)
	}
	event, err := s.event(given)
	if err != nil {
		return err
	}
	if err := s.apply(event, given.body, nil); err != nil {
		return err
	}
	return s.advance(s.config.Clock)
}

// advance advances the clock. Timers fire in the order of their deadlines. Timers with the same deadline fire in the
// order in which they were started.
func (s *Simulation) advance(by Duration) error {
	if by == 0 {
		return nil
	}
	until := s.now.Add(time.Duration(by))
	if until.Year() > 9999 {
		return fmt.Errorf("%w: expected a clock that stays within the year 9999, got an advance to the year %d", ErrRefused, until.Year())
	}
	for fired := 0; ; fired++ {
		due := timersByDeadline(s.snapshot.Timers)
		if len(due) == 0 || due[0].At.After(until) {
			s.now = until
			return nil
		}
		if fired == FiringsMax {
			return fmt.Errorf("expected at most %d timers to fire in one advance of the clock (FiringsMax), got more; at %s", FiringsMax, s.now.Format(time.RFC3339Nano))
		}
		if due[0].At.After(s.now) {
			s.now = due[0].At
		}
		if err := s.fire(due[0]); err != nil {
			return err
		}
	}
}

func timersByDeadline(timers []statechart.Timer) []statechart.Timer {
	return slices.SortedStableFunc(slices.Values(timers), func(a, b statechart.Timer) int { return a.At.Compare(b.At) })
}

func (s *Simulation) fire(timer statechart.Timer) error {
	fired := timerOf(timer)
	cause := timer.Event
	if cause == nil {
		var err error
		if cause, err = json.Marshal(struct {
			Type  string `json:"type"`
			Timer string `json:"timer"`
		}{statechart.TimerEvent, timer.ID}); err != nil {
			return err
		}
	}
	return s.apply(statechart.Event{Type: statechart.TimerEvent, Timer: timer.ID}, cause, &fired)
}

// apply steps the instance.
func (s *Simulation) apply(event statechart.Event, cause json.RawMessage, fired *Timer) error {
	event.At = s.now
	s.microsteps = nil
	effects, handled, err := s.stepper.Step(&s.snapshot, &event)
	if err != nil {
		return err
	}
	step := s.step(cause, effects, handled)
	step.Timer = fired
	return s.emit(step)
}

// Step is the JSON output for a step.
type Step struct {
	// At is the virtual time.
	At time.Time `json:"at"`
	// Event is the applied event. For the start it is xstate.init. For a timer it is settle.timer or the delayed event.
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
	// Services and Children are the running services and child instances.
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
	// State and After identify a state's timer. State is empty for the machine's root.
	State string `json:"state"`
	After string `json:"after,omitempty"`
	// Event is the event that the machine sends, and Send is the ID of this send.
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
