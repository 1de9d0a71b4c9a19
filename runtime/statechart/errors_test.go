package statechart_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

var errBroken = errors.New("broken")

func fails(c *trace, _ Event) error { c.N = 999; return errBroken }

// breaking returns a chart in which GO leads from a to b. The test's change to a and b makes GO fail.
func breaking(change func(a, b *S)) Def {
	def := Def{Initial: "p", Payloads: statechart.Payloads{"R": statechart.NoPayload()}, States: []S{{ID: "p", Initial: "a", States: []S{
		{ID: "a", On: []On{{Event: "GO", Target: "b", Actions: append(logs("lost"), raise("R"))}}},
		{ID: "b", On: []On{{Event: "R", Actions: logs("r")}}, After: []After{{Delay: time.Minute}}}}}}}
	change(&def.States[0].States[0], &def.States[0].States[1])
	return def
}

func TestFailingCodeIsNamedAndChangesNothing(t *testing.T) {
	t.Parallel()
	failing := statechart.TryAssign("keep", fails)
	panicking := statechart.Assign("drop", func(c *trace, _ Event) { c.Log = nil; panic("no way") })
	unsure := statechart.When("sure", func(trace, Event) bool { panic("who knows") })
	typed := statechart.When("typed", func(trace, int) bool { return true })
	for _, c := range []struct {
		change  func(a, b *S)
		message string
		panics  bool
	}{
		{func(a, _ *S) { a.On[0].Actions = append(a.On[0].Actions, failing) }, `chart c, state "p.a", event "GO": action keep: broken`, false},
		{func(a, _ *S) { a.Exit = Do{failing} }, `chart c, state "p.a", event "GO": action keep: broken`, false},
		{func(_, b *S) { b.Entry = Do{failing} }, `chart c, state "p.b", event "GO": action keep: broken`, false},
		{func(_, b *S) { b.On[0].Actions = Do{failing} }, `chart c, state "p.b", event "R": action keep: broken`, false},
		{func(_, b *S) { b.Entry = Do{panicking} }, `chart c, state "p.b", event "GO": action drop: panic: a value of the type string`, true},
		{func(a, _ *S) { a.On[0].Guard = unsure }, `chart c, state "p.a", event "GO": guard sure: panic: a value of the type string`, true},
		{func(a, _ *S) { a.On[0].Guard = statechart.And(yes, statechart.Or(no, statechart.Not(unsure))) },
			`chart c, state "p.a", event "GO": guard (yes and (no or not sure)): panic: a value of the type string`, true},
		{func(_, b *S) { b.After, b.Always = nil, []On{{Guard: unsure, Target: "a"}} }, `chart c, state "p.b", event "GO": guard sure: panic: a value of the type string`, true},
		{func(_, b *S) { b.After, b.Always = nil, []On{{Guard: statechart.And(typed), Target: "a"}} },
			`chart c, state "p.b", event "GO": guard (typed): expected an event that carries int, got "GO" with <nil>`, false},
		{func(_, b *S) { b.After, b.Always = nil, []On{{Guard: statechart.Or(typed), Target: "a"}} },
			`chart c, state "p.b", event "GO": guard (typed): expected an event that carries int, got "GO" with <nil>`, false},
		{func(_, b *S) { b.After, b.Always = nil, []On{{Guard: statechart.Not(typed), Target: "a"}} },
			`chart c, state "p.b", event "GO": guard not typed: expected an event that carries int, got "GO" with <nil>`, false},
		{func(_, b *S) { b.Entry = Do{statechart.Assign("typed", func(*trace, string) {})} },
			`chart c, state "p.b", event "GO": action typed: expected an event that carries string, got "GO" with <nil>`, false},
		{func(_, b *S) { b.After[0] = After{ID: "due", At: func(trace, Event) time.Time { panic("late") }} },
			`chart c, state "p.b", event "GO": delay due: panic: a value of the type string`, true},
		{func(_, b *S) {
			b.After[0] = After{ID: "due", At: func(trace, Event) time.Time { return time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }}
		}, `chart c, state "p.b", event "GO": delay due: expected a deadline in the years 0 to 9999, got 10000-01-01 00:00:00 +0000 UTC`, false},
		{func(_, b *S) { *b = S{ID: "b", Type: statechart.Final, Output: output(func() {})} },
			`chart c, state "p.b", event "GO": output: json: unsupported type: func()`, false},
		{func(_, b *S) {
			*b = S{ID: "b", Type: statechart.Final, Output: func(trace, Event) any { panic("none") }}
		}, `chart c, state "p.b", event "GO": output: panic: a value of the type string`, true},
		{func(_, b *S) {
			b.Entry = Do{statechart.SendTo("X", func(trace, Event) (string, any) { return "o/1", []int{1} })}
		}, `chart c, state "p.b", event "GO": action send X: encoding the payload of event "X": expected a type that marshals to a JSON object, got []int`, false},
		{func(_, b *S) {
			b.Entry = Do{statechart.SendTo("X", func(trace, Event) (string, any) { return "o/1", func() {} })}
		}, `chart c, state "p.b", event "GO": action send X: encoding the payload of event "X": json: unsupported type: func()`, false},
	} {
		r := begin(t, breaking(c.change))
		r.refuses(Event{Type: "GO"}, nil, c.message)
		_, err := r.chart.Step(r.step.Next, Event{Type: "GO"})
		var failure *statechart.StepError
		if !errors.As(err, &failure) {
			t.Fatalf("got %T, want a *StepError", err)
		}
		equal(t, "panics", errors.As(err, new(*statechart.PanicError)), c.panics)
		equal(t, "chart", failure.Chart, "c")
		equal(t, "state "+failure.State+" in the message", strings.Contains(c.message, `state "`+failure.State+`", event "`+failure.Event+`": `+failure.Code), true)
	}
}

func TestMismatchedPayloadIsNamed(t *testing.T) {
	t.Parallel()
	large := statechart.When("large", func(_ trace, n int) bool { return n > 9 })
	keep := statechart.Assign("keep", func(c *trace, n int) { c.N = n })
	untyped := statechart.RaiseWith("R", func(trace, Event) any { return nil })
	def := Def{Initial: "a", Payloads: statechart.Payloads{"N": statechart.PayloadOf[int](), "R": statechart.InternalOf[int]()}, States: []S{
		{ID: "a", On: []On{{Event: "N", Guard: large}, {Event: "N", Actions: Do{keep}}, {Event: "R", Guard: large}, {Event: "GO", Actions: Do{untyped}}}}}}
	r := begin(t, def)
	r.apply(Event{Type: "N", Payload: 5})
	equal(t, "counter", r.step.Next.Context.N, 5)
	for message, event := range map[string]Event{
		`chart c, state "a", event "N": guard large: expected an event that carries int, got "N" with string`: {Type: "N", Payload: "5"},
		`chart c, state "a", event "R": guard large: expected an event that carries int, got "R" with <nil>`:  {Type: "GO"},
	} {
		r.refuses(event, nil, message)
	}
}

func TestErrorOfAnActionIsWrapped(t *testing.T) {
	t.Parallel()
	r := begin(t, breaking(func(a, _ *S) { a.Exit = Do{statechart.TryAssign("keep", fails)} }))
	r.refuses(Event{Type: "GO"}, errBroken, `chart c, state "p.a", event "GO": action keep: broken`)
}

func TestFailingStartReturnsNothing(t *testing.T) {
	t.Parallel()
	for message, change := range map[string]func(*Def){
		`chart c: context: panic: a value of the type string`: func(d *Def) { d.Context = func(statechart.Start) trace { panic("no") } },
		`chart c, state "a": action keep: broken`:             func(d *Def) { d.States[0].Entry = Do{statechart.TryAssign("keep", fails)} },
		`chart c: output: encoding the chart's output: json: unsupported type: func()`: func(d *Def) {
			d.States, d.Output = []S{{ID: "a", Type: statechart.Final}}, output(func() {})
		},
		`chart c, state "a": guard sure: panic: a value of the type string`: func(d *Def) {
			d.States[0].Always = []On{{Guard: statechart.When("sure", func(trace, Event) bool { panic("who knows") }), Actions: logs("x")}}
		},
		`chart c: action keep: broken`: func(d *Def) {
			d.States, d.Exit = []S{{ID: "a", Type: statechart.Final}}, Do{statechart.TryAssign("keep", fails)}
		},
	} {
		def := Def{ID: "c", Version: 1, Initial: "a", States: []S{{ID: "a", Tags: settled}}}
		change(&def)
		step, err := compile(t, def).Start(statechart.Start{At: epoch})
		if err == nil || err.Error() != message {
			t.Errorf("got %v, want %s", err, message)
		}
		equal(t, "effects", len(step.Effects), 0)
		equal(t, "status", step.Next.Status, "")
	}
}

// brittle is a context whose Clone panics.
type brittle struct{ Broken bool }

func (b brittle) Clone() brittle {
	if b.Broken {
		panic("cracked")
	}
	return b
}

func TestPanicOfTheContextsCloneIsAnError(t *testing.T) {
	t.Parallel()
	chart := once(t, func(b *brittle) { b.Broken = true })
	start, _ := chart.Start(statechart.Start{})
	step, err := chart.Step(start.Next, Event{Type: "GO"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = chart.Step(step.Next, Event{Type: "GO"})
	equal(t, "message", err.Error(), `chart c, event "GO": cloning the context: panic: a value of the type string`)
}

func TestEndlessMacrostepIsRefused(t *testing.T) {
	t.Parallel()
	// GO takes one microstep, and each run of the Always transition takes one more. In total, MicrostepsMax microsteps
	// are allowed.
	looping := func(bound int) Def {
		return Def{Initial: "a", States: []S{{ID: "a", Tags: settled,
			On:     []On{{Event: "GO", Actions: Do{add(-bound)}}},
			Always: []On{{Guard: below(0), Actions: Do{add(1)}}}}}}
	}
	r := begin(t, looping(statechart.MicrostepsMax-1))
	equal(t, "counter", r.send("GO").step.Next.Context.N, 0)
	begin(t, looping(statechart.MicrostepsMax)).refuses(Event{Type: "GO"}, statechart.ErrEndless,
		`the macrostep does not end: chart c took 1000 microsteps on event "GO" (MicrostepsMax); check its always and raise`)
	begin(t, Def{Initial: "a", States: []S{{ID: "a", On: []On{{Event: "GO", Actions: Do{raise("GO")}}}}}}).refuses(Event{Type: "GO"}, statechart.ErrEndless,
		`the macrostep does not end: chart c took 1000 microsteps on event "GO" (MicrostepsMax); check its always and raise`)
}

func TestStalledConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	def := Def{Initial: "a", States: []S{
		{ID: "a", On: []On{{Event: "GO", Target: "b"}}},
		{ID: "b", Always: []On{{Guard: no, Target: "a"}}},
	}}
	begin(t, def).refuses(Event{Type: "GO"}, statechart.ErrStalled,
		`the chart is stalled: chart c would be in b after event "GO", which is not settled, with no service running and no always enabled`)
	def.Initial = "b"
	def.States[1].Always = append(def.States[1].Always, On{Guard: no, Target: "a"})
	if _, err := compile(t, traced(def)).Start(statechart.Start{}); !errors.Is(err, statechart.ErrStalled) {
		t.Errorf("got %v, want ErrStalled", err)
	}
	calls := begin(t, Def{Initial: "p", States: []S{{ID: "p", Invoke: []Invoke{service("", []On{{}}, []On{{}})}}}})
	calls.refuses(calls.step.Next.Services[0].Done(0), statechart.ErrStalled,
		`the chart is stalled: chart c would be in p after event "done.invoke.p", which is not settled, with no service running and no always enabled`)
}

// timed returns a chart in which GO enters a state with n timers.
func timed(n int) Def {
	def := Def{Initial: "a", States: []S{{ID: "a", On: []On{{Event: "GO", Target: "b"}}}, {ID: "b"}}}
	for i := range n {
		def.States[1].After = append(def.States[1].After, After{Delay: time.Duration(i + 1)})
	}
	return def
}

func TestLimitsAreEnforced(t *testing.T) {
	t.Parallel()
	equal(t, "timers at the limit", len(begin(t, timed(statechart.TimersMax)).send("GO").step.Next.Timers), statechart.TimersMax)
	begin(t, timed(statechart.TimersMax+1)).refuses(Event{Type: "GO"}, statechart.ErrLimit,
		`limit exceeded: chart c: more than 256 timers (TimersMax)`)

	send := statechart.SendTo("X", func(trace, Event) (string, any) { return "o/1", nil })
	sending := func(n int) Def {
		def := Def{Initial: "a", States: []S{{ID: "a", On: []On{{Event: "GO"}}}}}
		for range n {
			def.States[0].On[0].Actions = append(def.States[0].On[0].Actions, send)
		}
		return def
	}
	equal(t, "effects at the limit", len(begin(t, sending(statechart.EffectsMax)).send("GO").step.Effects), statechart.EffectsMax)
	begin(t, sending(statechart.EffectsMax+1)).refuses(Event{Type: "GO"}, statechart.ErrLimit,
		`chart c, state "a", event "GO": action send X: limit exceeded: more than 256 effects in one macrostep (EffectsMax)`)

	full := timed(statechart.TimersMax)
	full.States[1].Entry = Do{send}
	begin(t, full).refuses(Event{Type: "GO"}, statechart.ErrLimit,
		`chart c, state "b", event "GO": delay 256ns: limit exceeded: more than 256 effects in one macrostep (EffectsMax)`)
}
