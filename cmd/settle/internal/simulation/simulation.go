// Package simulation runs a machine config of XState v5 in virtual time, without the code that it
// names: actions do nothing but are told of, guards and delays are what the user says, and services
// and child instances end when the user says so.
package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// FiringsMax is how many timers may fire in one advance of the clock: without delays between them
// they would fire for ever.
const FiringsMax = 10_000

// ErrRefused is returned by Send when an event is one that the machine would never get.
var ErrRefused = errors.New("event refused")

// Config tunes a simulation. The zero value is useful.
type Config struct {
	// Guards are what guards say, by name. Defaults to true for those that are not named.
	Guards map[string]bool
	// Delays are the delays that have names. Those that meta.settle.after gives need none.
	Delays map[string]time.Duration
	// Start is when the simulation begins. Defaults to Epoch.
	Start time.Time
	// Clock is the time that passes after the start and after each event. Defaults to none.
	Clock time.Duration
	// Input is the JSON of what the instance starts with. Nil means nothing.
	Input json.RawMessage
	// Microsteps says that each is told of.
	Microsteps bool
}

// Epoch is when simulations begin, so that they repeat to the byte.
var Epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (c Config) withDefaults() Config {
	if c.Start.IsZero() {
		c.Start = Epoch
	}
	c.Start = c.Start.UTC()
	return c
}

// Simulation is one instance of a machine, and its clock.
type Simulation struct {
	config   Config
	chart    *statechart.Chart[json.RawMessage]
	stepper  *statechart.Stepper[json.RawMessage]
	snapshot statechart.Snapshot[json.RawMessage]
	now      time.Time
	// transitions are those of the chart, by their indexes.
	transitions []statechart.TransitionInfo
	// tell is told of every step.
	tell func(Step) error
	// microsteps are those of the step under way.
	microsteps []statechart.Microstep
}

// New reads a machine config. Every step is told to tell; what that returns ends the simulation.
func New(machine []byte, config Config, tell func(Step) error) (*Simulation, error) {
	chart, err := compile(machine, config)
	if err != nil {
		return nil, err
	}
	s := &Simulation{config: config.withDefaults(), chart: chart, stepper: chart.Stepper(), transitions: chart.Transitions(), tell: tell}
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
	if err := s.tell(step); err != nil {
		return err
	}
	return s.advance(s.config.Clock)
}

// Send takes one line of the input: an event, the end of a service or of a child, or an advance of
// the clock.
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

// advance lets time pass. Timers fire in the order of their deadlines, those of one deadline in the
// order in which they were started.
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
	return s.tell(step)
}
