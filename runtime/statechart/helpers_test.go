package statechart_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// trace is the context of most tests: a log of executed actions, and a counter for guards.
type trace struct {
	Log []string `json:"log"`
	N   int      `json:"n"`
}

// Short names for the tests' charts.
type (
	Def    = statechart.Definition[trace]
	S      = statechart.State[trace]
	On     = statechart.Transition[trace]
	Do     = []statechart.Action[trace]
	After  = statechart.After[trace]
	Invoke = statechart.Invoke[trace]
	Guard  = statechart.Guard[trace]
	Event  = statechart.Event
)

var settled = []string{statechart.Settled}

// logs returns actions that append the words to the log.
func logs(words ...string) Do {
	var do Do
	for _, word := range words {
		do = append(do, statechart.Assign(word, func(c *trace, _ Event) { c.Log = append(c.Log, word) }))
	}
	return do
}

func add(n int) statechart.Action[trace] {
	return statechart.Assign("add", func(c *trace, _ Event) { c.N += n })
}

func raise(typ string) statechart.Action[trace] { return statechart.Raise[trace](typ) }

// below returns a guard that holds while the counter is below n.
func below(n int) Guard {
	return statechart.When("below", func(c trace, _ Event) bool { return c.N < n })
}

var (
	yes = statechart.When("yes", func(trace, Event) bool { return true })
	no  = statechart.When("no", func(trace, Event) bool { return false })
)

// service returns an invocation with the given ID.
func service(id string, done, failed []On) Invoke {
	return Invoke{ID: id, Service: statechart.ServiceFunc("call", callNothing), OnDone: done, OnError: failed}
}

// traced completes a definition for a test. Every state logs "+id" on entry and "-id" on exit. Atomic states with
// neither Invoke nor Always become settled. traced also declares the events of every On list.
func traced(def Def) Def {
	def.ID, def.Version = "c", 1
	payloads := statechart.Payloads{}
	declare := func(transitions []On) {
		for _, t := range transitions {
			internal := strings.HasPrefix(t.Event, "done.") || strings.HasPrefix(t.Event, "error.")
			if !internal && !strings.HasSuffix(t.Event, "*") {
				payloads[t.Event] = statechart.NoPayload()
			}
		}
	}
	var complete func(states []S) []S
	complete = func(states []S) []S {
		states = slices.Clone(states)
		for i := range states {
			s := &states[i]
			declare(s.On)
			s.States = complete(s.States)
			if s.Type == statechart.ShallowHistory || s.Type == statechart.DeepHistory {
				continue
			}
			s.Entry = slices.Concat(logs("+"+s.ID), s.Entry)
			s.Exit = slices.Concat(logs("-"+s.ID), s.Exit)
			if s.Type == statechart.Plain && len(s.States)+len(s.Always)+len(s.Invoke) == 0 {
				s.Tags = append([]string{statechart.Settled}, s.Tags...)
			}
		}
		return states
	}
	declare(def.On)
	def.States = complete(def.States)
	for typ, payload := range def.Payloads {
		payloads[typ] = payload
	}
	def.Payloads = payloads
	return def
}

// run is an instance under test.
type run struct {
	t     *testing.T
	chart *statechart.Chart[trace]
	step  statechart.Step[trace]
	now   time.Time
	seen  int // length of the log at the last check
}

func compile(t *testing.T, def Def) *statechart.Chart[trace] {
	t.Helper()
	chart, err := statechart.Compile(def)
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

// begin starts an instance of a traced chart.
func begin(t *testing.T, def Def) *run {
	t.Helper()
	r := &run{t: t, chart: compile(t, traced(def)), now: epoch}
	step, err := r.chart.Start(statechart.Start{Instance: "c/1", At: r.now})
	if err != nil {
		t.Fatal(err)
	}
	r.step = step
	return r
}

// apply steps the instance and fails the test on an error.
func (r *run) apply(event Event) *run {
	r.t.Helper()
	event.At = r.now
	step, err := r.chart.Step(r.step.Next, event)
	if err != nil {
		r.t.Fatalf("event %s: %v", event.Type, err)
	}
	r.step = step
	return r
}

func (r *run) send(types ...string) *run {
	r.t.Helper()
	for _, typ := range types {
		r.apply(Event{Type: typ})
	}
	return r
}

// refuses steps the instance and expects the given error message, an error that wraps target (nil means any), and no
// change.
func (r *run) refuses(event Event, target error, message string) {
	r.t.Helper()
	before := text(r.t, r.step.Next)
	event.At = r.now
	step, err := r.chart.Step(r.step.Next, event)
	if err == nil || target != nil && !errors.Is(err, target) {
		r.t.Fatalf("event %s: got the error %v, want %v", event.Type, err, target)
	}
	if after := text(r.t, r.step.Next); after != before {
		r.t.Errorf("the failed step changed its snapshot:\n%s\n%s", before, after)
	}
	if next := text(r.t, step.Next); next != before || step.Handled || step.Effects != nil {
		r.t.Errorf("the failed step returned %s, handled %v, effects %v; want the old snapshot and nothing", next, step.Handled, step.Effects)
	}
	equal(r.t, "message", err.Error(), message)
}

// is checks the active atomic states, and the log entries since the last check.
func (r *run) is(state, log string) *run {
	r.t.Helper()
	if got := strings.Join(r.step.Next.State(), " "); got != state {
		r.t.Errorf("state: got %q, want %q", got, state)
	}
	all := r.step.Next.Context.Log
	if got := strings.Join(all[r.seen:], " "); got != log {
		r.t.Errorf("log: got %q, want %q", got, log)
	}
	r.seen = len(all)
	return r
}

// timer returns the only timer of a state.
func (r *run) timer(state string) statechart.Timer {
	r.t.Helper()
	var found []statechart.Timer
	for _, timer := range r.step.Next.Timers {
		if timer.State == state {
			found = append(found, timer)
		}
	}
	if len(found) != 1 {
		r.t.Fatalf("state %q has %d timers, want 1", state, len(found))
	}
	return found[0]
}

func (r *run) fire(timer statechart.Timer) *run {
	r.t.Helper()
	return r.apply(Event{Type: statechart.TimerEvent, Timer: timer.ID})
}

func text(t fataler, value any) string {
	t.Helper()
	written, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(written)
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func states(r *run) string { return strings.Join(r.step.Next.State(), " ") }

func minutes(n int) time.Duration { return time.Duration(n) * time.Minute }

func sortEvents(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int { return strings.Compare(a.Type, b.Type) })
}

var errPlanned = errors.New("planned")

// fataler has the methods that tests and rapid properties share.
type fataler interface {
	Helper()
	Fatal(args ...any)
}
