// Package simulation runs an XState v5 machine config in virtual time, without the code that it names. Actions do
// nothing. The user sets guards and delays, and ends services and child instances.
package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// FiringsMax limits how many timers may fire in one advance of the clock. A cycle of timers without delay would never
// end.
const FiringsMax = 10_000

// ErrRefused is returned by Send for an event that the machine would never receive.
var ErrRefused = errors.New("event refused")

// Config tunes a simulation. The zero value is useful.
type Config struct {
	// Guards are the results of guards by name. Defaults to true for each guard.
	Guards map[string]bool
	// Delays are the named delays. A delay in meta.settle.after needs no entry.
	Delays map[string]time.Duration
	// Start is the initial virtual time. Defaults to Epoch.
	Start time.Time
	// Clock is the time that passes after the start and after each event. Defaults to none.
	Clock time.Duration
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

// New reads a machine config. emit is called with every step. Its error ends the simulation.
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

// Send takes a line of the input: an event, the end of a service or a child, or an advance of the clock.
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

// advance advances the clock. Timers fire in the order of their deadlines, and timers of one deadline in the order in
// which they were started.
func (s *Simulation) advance(by time.Duration) error {
	if by == 0 {
		return nil
	}
	until := s.now.Add(by)
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
