package xstatejson_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/xstatejson"
)

// depth returns the number of random machines in a test. It is lower with -short, which `make test` and the race
// detector use. For TestRandomMachinesRunAsInXState, ORACLE_MACHINES overrides the number and ORACLE_SEED the first
// seed.
func depth(short, full uint64) uint64 {
	if testing.Short() {
		return short
	}
	return full
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// counter is the context of random machines. Log holds the actions since the last check.
type counter struct {
	N   int      `json:"n"`
	Log []string `json:"log"`
}

// implementations returns the same implementations that testdata/driver.cjs uses in XState.
func implementations() xstatejson.Implementations[counter] {
	type (
		action = statechart.Action[counter]
		guard  = statechart.Guard[counter]
		event  = statechart.Event
	)
	simple := func(fn func(*counter, event)) func(json.RawMessage) (action, error) {
		return func(json.RawMessage) (action, error) { return statechart.Assign("", fn), nil }
	}
	when := func(fn func(counter) bool) func(json.RawMessage) (guard, error) {
		return func(json.RawMessage) (guard, error) {
			return statechart.When("", func(c counter, _ event) bool { return fn(c) }), nil
		}
	}
	return xstatejson.Implementations[counter]{
		Actions: map[string]func(json.RawMessage) (action, error){
			"log": func(params json.RawMessage) (action, error) {
				var p struct{ Text string }
				err := json.Unmarshal(params, &p)
				return statechart.Assign("", func(c *counter, _ event) { c.Log = append(c.Log, p.Text) }), err
			},
			"inc": simple(func(c *counter, _ event) { c.N++ }),
			"note": func(params json.RawMessage) (action, error) {
				var p struct{ Text string }
				err := json.Unmarshal(params, &p)
				return notes(func(event) string { return p.Text }), err
			},
			"output":      simple(func(c *counter, e event) { c.Log = append(c.Log, outputOf(e)) }),
			"note output": func(json.RawMessage) (action, error) { return notes(outputOf), nil },
		},
		Guards: map[string]func(json.RawMessage) (guard, error){
			"lt": func(params json.RawMessage) (guard, error) {
				var p struct{ N int }
				err := json.Unmarshal(params, &p)
				return statechart.When("", func(c counter, _ event) bool { return c.N < p.N }), err
			},
			"even":  when(func(c counter) bool { return c.N%2 == 0 }),
			"never": when(func(counter) bool { return false }),
		},
		Delays: map[string]func(counter, event) time.Duration{
			"brief":   func(counter, event) time.Duration { return 20 * time.Millisecond },
			"growing": func(c counter, _ event) time.Duration { return time.Duration(10*(1+c.N%4)) * time.Millisecond },
		},
	}
}

func outputOf(e statechart.Event) string {
	output, _ := e.Payload.(json.RawMessage)
	if output == nil {
		output = json.RawMessage("null")
	}
	return "output " + string(output)
}

// notes returns an action that logs a line as an effect. The action does not change the context, so a chart can rest
// after an eventless transition with it. A step has a limited number of effects, so only machines with eventless
// transitions that change nothing log with notes.
func notes(line func(statechart.Event) string) statechart.Action[counter] {
	note := statechart.SendTo("LOG", func(_ counter, e statechart.Event) (string, any) {
		return logTarget, map[string]string{"line": line(e)}
	})
	note.Name = ""
	return note
}

// logTarget is the instance to which machines send their notes.
const logTarget = "log"

// noted returns the lines in the effects of notes.
func noted(effects []statechart.Effect) []string {
	var lines []string
	for _, effect := range effects {
		var event struct{ Line string }
		if effect.To == logTarget && json.Unmarshal(effect.Event, &event) == nil {
			lines = append(lines, event.Line)
		}
	}
	return lines
}

// seen is the observable state of a machine after an event.
type seen struct {
	Value  any      `json:"value"`
	Log    []string `json:"log"`
	Tags   []string `json:"tags"`
	Status string   `json:"status"`
}

type answer struct {
	Steps []seen `json:"steps"`
	Error string `json:"error,omitempty"`
	// Emitted and Logged are the events and lines from XState's machine. Received holds the events that its actor
	// "listener" received.
	Emitted  json.RawMessage `json:"emitted,omitempty"`
	Logged   json.RawMessage `json:"logged,omitempty"`
	Received json.RawMessage `json:"received,omitempty"`
	// Tree holds the states of a machine, if the test requested them.
	Tree *shape `json:"tree,omitempty"`
	// limited is set if the machine exceeded a limit of this runtime.
	limited bool
}

// engine runs a machine on this runtime. If `restoring` is set, it restores every snapshot from JSON.
func engine(d *drawn, restoring bool) answer {
	def, err := xstatejson.Read(d.config(), implementations())
	if err != nil {
		return answer{Error: err.Error()}
	}
	return play(def, d.events, restoring)
}

func play(def statechart.Definition[counter], events []any, restoring bool) (got answer) {
	fail := func(err error) answer {
		limited := errors.Is(err, statechart.ErrLimit) || errors.Is(err, statechart.ErrEndless)
		return answer{Steps: got.Steps, Error: err.Error(), limited: limited}
	}
	chart, err := xstatejson.Foreign(def)
	if err != nil {
		return fail(err)
	}
	now := epoch
	step, err := chart.Start(statechart.Start{At: now})
	if err != nil {
		return fail(err)
	}
	snapshot, lines, logged := step.Next, noted(step.Effects), 0
	take := func() error {
		s := seen{Log: append(lines, snapshot.Context.Log[logged:]...), Tags: snapshot.Tags(), Status: string(snapshot.Status)}
		lines, logged = nil, len(snapshot.Context.Log)
		if err := json.Unmarshal(snapshot.Value(), &s.Value); err != nil {
			return err
		}
		got.Steps = append(got.Steps, s)
		return nil
	}
	apply := func(event statechart.Event) error {
		event.At = now
		step, err := chart.Step(snapshot, event)
		if err != nil {
			return err
		}
		snapshot, lines = step.Next, append(lines, noted(step.Effects)...)
		if !restoring {
			return nil
		}
		stored, err := json.Marshal(snapshot)
		if err != nil {
			return err
		}
		snapshot, err = chart.Restore(stored)
		return err
	}
	if err := take(); err != nil {
		return fail(err)
	}
	for _, e := range events {
		event := e.(map[string]any)
		if ms, ok := event["advance"].(int); ok {
			until := now.Add(time.Duration(ms) * time.Millisecond)
			for {
				first, ok := firstDue(snapshot.Timers, until)
				if !ok {
					break
				}
				now = first.At
				if err := apply(statechart.Event{Type: statechart.TimerEvent, Timer: first.ID}); err != nil {
					return fail(err)
				}
			}
			now = until
		} else if success, ok := event["end"].(bool); ok {
			if len(snapshot.Services) == 1 { // the order of several services differs between the engines
				if err := apply(ended(snapshot.Services[0], success)); err != nil {
					return fail(err)
				}
			}
		} else if err := apply(statechart.Event{Type: event["type"].(string), Payload: payloadOf(event)}); err != nil {
			return fail(err)
		}
		if err := take(); err != nil {
			return fail(err)
		}
	}
	return got
}

// payloadOf returns the payload of an event: the event, or an empty object for an event with only a type.
func payloadOf(event map[string]any) json.RawMessage {
	if len(event) == 1 {
		return json.RawMessage(`{}`)
	}
	return json.RawMessage(text(event))
}

// ended returns the event that ends a service.
func ended(service statechart.Invocation, success bool) statechart.Event {
	if success {
		return service.Done(json.RawMessage("null"))
	}
	return service.Failed(errors.New("failed"))
}

// firstDue returns the timer with the earliest deadline. If several timers have this deadline, it returns the timer
// that was started first.
func firstDue(timers []statechart.Timer, until time.Time) (first statechart.Timer, found bool) {
	for _, t := range timers {
		if !t.At.After(until) && (!found || t.At.Before(first.At)) {
			first, found = t, true
		}
	}
	return first, found
}

func text(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	given := os.Getenv(name)
	if given == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestRandomMachinesRunAsInXState runs random machines once on XState and twice here. The second run here restores
// every snapshot from JSON.
func TestRandomMachinesRunAsInXState(t *testing.T) {
	t.Parallel()
	const workers = 2
	first, count := setting(t, "ORACLE_SEED", 1), setting(t, "ORACLE_MACHINES", depth(25, 500))
	results := make(chan tally, workers)
	for worker := range uint64(workers) {
		oracle := startXState(t)
		go func() {
			sum := tally{verdicts: map[string]int{}}
			for seed := first + worker; seed < first+count && len(sum.failures) < 3; seed += workers {
				sum.try(oracle, seed)
			}
			results <- sum
		}()
	}
	verdicts, compared, steps, moved := map[string]int{}, 0, 0, 0
	for range workers {
		sum := <-results
		for _, failure := range sum.failures {
			t.Error(failure)
		}
		for verdict, n := range sum.verdicts {
			verdicts[verdict] += n
			compared += n
		}
		steps, moved = steps+sum.steps, moved+sum.moved
	}
	t.Logf("%d machines from seed %d, %d steps, %d with actions: %v", compared, first, steps, moved, verdicts)
	if verdicts[agrees] < compared*3/4 {
		t.Errorf("only %d of %d machines agree with XState as it is: the generator draws too many known differences", verdicts[agrees], compared)
	}
}

type tally struct {
	verdicts     map[string]int
	failures     []string
	steps, moved int
}

func (sum *tally) try(oracle *xstate, seed uint64) {
	d := draw(seed)
	def, err := xstatejson.Read(d.config(), implementations())
	if err != nil {
		sum.failures = append(sum.failures, fmt.Sprintf("seed %d: %v\n%s", seed, err, d.config()))
		return
	}
	ours := play(def, d.events, false)
	for _, s := range ours.Steps {
		if sum.steps++; len(s.Log) > 0 {
			sum.moved++
		}
	}
	verdict, difference, err := compare(oracle, d.config(), d.events, ours)
	if err != nil {
		sum.failures = append(sum.failures, fmt.Sprintf("seed %d: %v", seed, err))
		return
	}
	sum.verdicts[verdict]++
	if verdict == differing {
		// Print this now: shrinking the machine is slow and may be interrupted.
		fmt.Fprintf(os.Stderr, "seed %d differs, %s\n", seed, difference)
		small, difference := shrink(oracle, d, difference)
		sum.failures = append(sum.failures, fmt.Sprintf("seed %d: %s\nmachine %s\nevents  %s", seed, difference, small.config(), text(small.events)))
	}
	again := play(def, d.events, true)
	if ours.limited && again.limited {
		ours.Error, again.Error = "", ""
	}
	if difference := differs(ours, again); difference != "" {
		sum.failures = append(sum.failures, fmt.Sprintf("seed %d: with every snapshot restored (shown as XState below), %s\nmachine %s\nevents  %s", seed, difference, d.config(), text(d.events)))
	}
}

// Verdicts of compare, besides the names of known differences.
const (
	agrees    = "agree"
	differing = "differ"
	// limited means that the machine exceeds a limit that XState does not have. Up to that point, the engines agree.
	limited = "limited"
	// several means that several known differences apply at once.
	several = "several"
)

// compare runs a machine on unpatched XState, and then on XState with patches for the known differences.
func compare(oracle *xstate, config []byte, events []any, ours answer) (verdict, difference string, err error) {
	theirs, err := oracle.run(config, events, nil)
	if err != nil {
		return "", "", err
	}
	if difference = differs(ours, theirs); difference == "" {
		return agrees, "", nil
	}
	if difference = differs(untilLimit(ours, theirs)); difference == "" {
		return limited, "", nil
	}
	var all []patch
	for _, known := range knownDifferences {
		theirs, err := oracle.run(config, events, known.patches)
		if err != nil {
			return "", "", err
		}
		if differs(ours, theirs) == "" {
			return known.name, "", nil
		}
		all = append(all, known.patches...)
	}
	if theirs, err = oracle.run(config, events, all); err != nil {
		return "", "", err
	}
	if difference = differs(untilLimit(ours, theirs)); difference == "" {
		return several, "", nil
	}
	return differing, difference, nil
}

// untilLimit cuts XState's answer at the step in which this runtime exceeded a limit. XState must report an endless loop
// in this step, or log many lines.
func untilLimit(ours, theirs answer) (answer, answer) {
	const linesMin = 64
	at := len(ours.Steps)
	endless := len(theirs.Steps) == at && strings.HasPrefix(theirs.Error, "Infinite loop")
	if ours.limited && (endless || len(theirs.Steps) > at && len(theirs.Steps[at].Log) >= linesMin) {
		ours.Error, theirs.Error, theirs.Steps = "", "", theirs.Steps[:at]
	}
	return ours, theirs
}
