package statecharttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// StepsMax is the maximum number of macrosteps per call of a player. A call with more macrosteps counts as endless.
// Split an Advance that fires more timers into several calls.
const StepsMax = 2_000

// Epoch is the default start time of instances.
var Epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// TB is the part of testing.TB that a player needs. *testing.T and *rapid.T implement it.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Config configures an instance. The zero value is usable.
type Config struct {
	// Instance is the name of the instance. Defaults to "ID/1", with the chart's ID.
	Instance string
	// At is the start time of the instance. Defaults to Epoch.
	At time.Time
	// Input is the input of the instance, of the type that the chart declares.
	Input any
	// Coverage, if set, counts the entered states and the taken transitions. Players of one chart may share it.
	Coverage *Coverage
}

func (c Config) withDefaults(chartID string) Config {
	if c.Instance == "" {
		c.Instance = chartID + "/1"
	}
	if c.At.IsZero() {
		c.At = Epoch
	}
	return c
}

// Player plays one instance of a chart in virtual time. Between calls the instance is settled. A Player is not safe for
// concurrent use.
//
// Services run one after the other in document order. A host may run services of parallel regions concurrently.
type Player[C any] struct {
	t      TB
	chart  *statechart.Chart[C]
	config Config
	now    time.Time
	// stepper records the microsteps of the last macrostep.
	stepper    *statechart.Stepper[C]
	microsteps []statechart.Microstep
	// snapshot is the snapshot after the last macrostep, restored from JSON.
	snapshot statechart.Snapshot[C]

	// The remaining fields belong to the last call.

	trace   trace
	effects []statechart.Effect
	handled bool
	steps   int
}

// Play starts an instance of the chart and settles it. Errors in Play and in the player's methods fail the test, unless
// the method returns an error.
func Play[C any](t TB, chart *statechart.Chart[C], config Config) *Player[C] {
	t.Helper()
	p := open(t, chart, config)
	if err := p.rest(); err != nil {
		t.Fatalf("starting %s: %v", p.config.Instance, explained(err))
	}
	return p
}

// open starts an instance and leaves it unsettled.
func open[C any](t TB, chart *statechart.Chart[C], config Config) *Player[C] {
	t.Helper()
	config = config.withDefaults(chart.ID())
	p := &Player[C]{t: t, chart: chart, config: config, now: config.At}
	if err := p.startCoverage(); err != nil {
		t.Fatalf("starting %s: %v", config.Instance, explained(err))
	}
	step, err := p.start()
	if err != nil {
		t.Fatalf("starting %s: %v", config.Instance, explained(err))
	}
	p.begin("")
	p.take(step)
	return p
}

// Send sends an event whose payload is nil or marshals to a JSON object, and settles the instance.
func (p *Player[C]) Send(typ string, payload any) {
	p.t.Helper()
	body, err := encode(typ, payload)
	if err != nil {
		p.t.Fatalf("sending %s to %s: %v", typ, p.config.Instance, explained(err))
	}
	p.SendJSON(body)
}

// SendJSON sends an event in its JSON form and settles the instance.
func (p *Player[C]) SendJSON(body string) {
	p.t.Helper()
	if err := p.Try(body); err != nil {
		p.t.Fatalf("sending %s to %s: %v", body, p.config.Instance, explained(err))
	}
}

// Try is like SendJSON, but returns a rejection or a failed step as an error instead of failing the test. The errors
// come from the chart's Decode and Step.
func (p *Player[C]) Try(body string) error {
	p.t.Helper()
	p.begin("")
	event, err := p.chart.Decode([]byte(body))
	if err != nil {
		return err
	}
	if err := p.apply(event); err != nil {
		return err
	}
	return p.rest()
}

// Advance lets time pass. Due timers fire in the order of their deadlines. Timers with the same deadline fire in the
// order of their start. The instance is settled after each timer. If retries of services take longer than d, the clock
// stops when they end.
func (p *Player[C]) Advance(d time.Duration) {
	p.t.Helper()
	if err := p.advance(d); err != nil {
		p.t.Fatalf("advancing %s by %v: %v", p.config.Instance, d, explained(err))
	}
}

func (p *Player[C]) advance(d time.Duration) error {
	p.t.Helper()
	target := p.now.Add(d)
	p.begin("nothing due")
	for {
		if err := p.rest(); err != nil {
			return err
		}
		timer, ok := p.nextTimer(target)
		if !ok {
			break
		}
		p.now = later(p.now, timer.At)
		if err := p.fire(timer); err != nil {
			return err
		}
	}
	p.now = later(p.now, target)
	return nil
}

// State returns the paths of the active atomic and final states, in document order, joined
// with ", ".
func (p *Player[C]) State() string { return strings.Join(p.snapshot.State(), ", ") }

// Snapshot returns the current snapshot.
func (p *Player[C]) Snapshot() statechart.Snapshot[C] { return p.snapshot }

// Effects returns the effects of the last call, in order.
func (p *Player[C]) Effects() []statechart.Effect { return p.effects }

// Handled reports whether the last event had an effect: see statechart.Step.
func (p *Player[C]) Handled() bool { return p.handled }

// Now returns the virtual time.
func (p *Player[C]) Now() time.Time { return p.now }

// Trace returns the trace of the last call, in the format of the package documentation.
func (p *Player[C]) Trace() string { return p.trace.String() }

// begin starts a call. `idle` is the trace of a call in which nothing happens.
func (p *Player[C]) begin(idle string) {
	p.trace, p.effects, p.handled, p.steps = trace{idle: idle}, nil, false, 0
}

// apply takes the macrostep of an event from outside.
func (p *Player[C]) apply(event statechart.Event) error {
	p.t.Helper()
	p.trace.section("", p.State())
	step, err := p.step(event)
	if err != nil {
		return err
	}
	p.handled = step.Handled
	if !step.Handled {
		p.trace.ignore()
	}
	return nil
}

// fire takes the macrostep of a due timer while the instance is settled.
func (p *Player[C]) fire(timer statechart.Timer) error {
	p.t.Helper()
	p.trace.section(fmt.Sprintf("%s %s", p.since(timer.At), timerName(timer)), p.State())
	_, err := p.step(statechart.Event{Type: statechart.TimerEvent, Timer: timer.ID})
	return err
}

// rest settles the instance and fires timers that became due meanwhile.
func (p *Player[C]) rest() error {
	p.t.Helper()
	for {
		if err := p.settle(); err != nil {
			return err
		}
		timer, ok := p.nextTimer(p.now)
		if !ok {
			return nil
		}
		if err := p.fire(timer); err != nil {
			return err
		}
	}
}

// nextTimer returns the timer with the earliest deadline, if it is due by the given time.
func (p *Player[C]) nextTimer(by time.Time) (next statechart.Timer, ok bool) {
	for _, timer := range p.snapshot.Timers {
		if !timer.At.After(by) && (!ok || timer.At.Before(next.At)) {
			next, ok = timer, true
		}
	}
	return next, ok
}

func (p *Player[C]) since(at time.Time) string { return "+" + at.Sub(p.config.At).String() }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// encode encodes an event as JSON.
func encode(typ string, payload any) (string, error) {
	fields := map[string]any{}
	if payload != nil {
		text, err := json.Marshal(payload)
		if err != nil {
			return "", err
		}
		if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
			return "", fmt.Errorf("expected a payload that marshals to a JSON object, got %s", text)
		}
	}
	if _, taken := fields["type"]; taken {
		return "", errors.New(`expected a payload without the key "type", which is the event's`)
	}
	fields["type"] = typ
	text, err := json.Marshal(fields)
	return string(text), err
}
