package statechart_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

var (
	failing     = statechart.TryAssign("failing", func(*trace, Event) error { return errPlanned })
	failingWhen = statechart.TryWhen("failing", func(trace, Event) (bool, error) { return true, errPlanned })
	keepFailure = statechart.Assign("keepFailure", func(c *trace, e statechart.StepError) {
		c.Log = append(c.Log, fmt.Sprintf("%s in %q on %s: %v", e.Code, e.State, e.Event, errors.Is(&e, errPlanned)))
	})
)

func TestExecutionErrorIsRaisedIfTheChartHandlesIt(t *testing.T) {
	t.Parallel()
	failed := S{ID: "failed"}
	handler := On{Event: statechart.ExecutionError, Target: "#failed", Actions: Do{keepFailure}}
	for name, c := range map[string]struct {
		a     S
		state string
		log   string
	}{
		"transition": {
			S{ID: "a", On: []On{{Event: "GO", Target: "b", Actions: append(append(logs("1"), failing), logs("2")...)}, handler}},
			"failed", `-a 1 +b -b action failing in "a" on GO: true +failed`,
		},
		"exit": {
			S{ID: "a", On: []On{{Event: "GO", Target: "b"}}, Exit: append(Do{failing}, logs("2")...)},
			"failed", `-a +b -b action failing in "a" on GO: true +failed`,
		},
		"guard": {
			S{ID: "a", On: []On{{Event: "GO", Target: "b", Guard: failingWhen}, {Event: "GO", Actions: logs("else")}, handler}},
			"failed", `else -a guard failing in "a" on GO: true +failed`,
		},
		"no other transition": {
			S{ID: "a", On: []On{{Event: "GO", Target: "b", Guard: failingWhen}, handler}},
			"failed", `-a guard failing in "a" on GO: true +failed`,
		},
		"descriptor": {
			S{ID: "a", On: []On{{Event: "GO", Actions: Do{failing}}, {Event: "error.*", Target: "failed"}, {Event: "NEXT", Target: "b"}}},
			"failed", `-a +failed`,
		},
	} {
		b := S{ID: "b", On: []On{handler}}
		r := begin(t, Def{Initial: "a", States: []S{c.a, b, failed}})
		r.is("a", "+a")
		r.send("GO")
		t.Log(name)
		r.is(c.state, c.log)
		equal(t, "handled", r.step.Handled, true)
	}
}

func TestUnhandledExecutionErrorFailsTheStep(t *testing.T) {
	t.Parallel()
	failed := `chart c, state "a", event "GO": action failing: planned`
	for name, states := range map[string][]S{
		"wildcard": {{ID: "a", On: []On{{Event: "GO", Actions: Do{failing}}, {Event: "*", Target: "b"}}}, {ID: "b"}},
		"wildcard beside a handler elsewhere": {
			{ID: "a", On: []On{{Event: "GO", Actions: Do{failing}}, {Event: "*", Target: "b"}}},
			{ID: "b", On: []On{{Event: statechart.ExecutionError, Target: "a"}}},
		},
		"elsewhere": {
			{ID: "a", On: []On{{Event: "GO", Actions: Do{failing}}, {Event: "NEXT", Target: "b"}}},
			{ID: "b", On: []On{{Event: statechart.ExecutionError, Target: "a"}}},
		},
		"done": {
			{ID: "a", On: []On{{Event: "GO", Target: "b", Actions: Do{failing}}, {Event: statechart.ExecutionError}}},
			{ID: "b", Type: statechart.Final},
		},
		"exit of a done instance": {
			{ID: "a", On: []On{{Event: "GO", Target: "b"}, {Event: statechart.ExecutionError}}, Exit: Do{failing}},
			{ID: "b", Type: statechart.Final},
		},
	} {
		t.Log(name)
		r := begin(t, Def{Initial: "a", States: states})
		r.refuses(Event{Type: "GO"}, errPlanned, failed)
	}
}

func TestPanicIsNotAnExecutionError(t *testing.T) {
	t.Parallel()
	panics := statechart.Assign("panics", func(*trace, Event) { panic("planned") })
	r := begin(t, Def{Initial: "a", States: []S{
		{ID: "a", On: []On{{Event: "GO", Actions: Do{panics}}, {Event: statechart.ExecutionError}}},
	}})
	r.refuses(Event{Type: "GO"}, nil, `chart c, state "a", event "GO": action panics: panic: a value of the type string`)
}

func TestExecutionErrorCannotBeRedeclared(t *testing.T) {
	t.Parallel()
	wrong := statechart.Assign("wrong", func(*trace, statechart.ServiceError) {})
	for problem, def := range map[string]Def{
		`declares the event type "error.execution"`: {Initial: "a", Payloads: statechart.Payloads{statechart.ExecutionError: statechart.NoPayload()}, States: []S{{ID: "a"}}},
		`but the event carries statechart.StepError`: {Initial: "a", States: []S{
			{ID: "a", On: []On{{Event: statechart.ExecutionError, Actions: Do{wrong}}}}}},
	} {
		if _, err := statechart.Compile(traced(def)); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("got the error %v, want %q", err, problem)
		}
	}
}

func TestLimitsAreNotExecutionErrors(t *testing.T) {
	t.Parallel()
	def := func(handles bool) Def {
		many := statechart.EnqueueActions("many", func(_ *trace, _ Event, enqueue statechart.Enqueue) error {
			for range statechart.EffectsMax + 1 {
				if err := enqueue.Log("line"); err != nil {
					return fmt.Errorf("logging: %w", err)
				}
			}
			return nil
		})
		d := Def{Initial: "a", States: []S{{ID: "a", On: []On{{Event: "GO", Actions: Do{many}}}}}}
		if handles {
			d.On = []On{{Event: statechart.ExecutionError, Actions: Do{keepFailure}}}
		}
		return d
	}
	for _, handles := range []bool{false, true} {
		begin(t, def(handles)).refuses(Event{Type: "GO"}, statechart.ErrLimit,
			`chart c, state "a", event "GO": action many: logging: limit exceeded: more than 256 effects in one macrostep (EffectsMax)`)
	}
}

func TestRaisedEventWithAStepErrorIsNotAFailure(t *testing.T) {
	t.Parallel()
	tells := statechart.RaiseWith("TOLD", func(trace, Event) statechart.StepError { return statechart.StepError{Err: errPlanned} })
	r := begin(t, Def{Initial: "a", Payloads: statechart.Payloads{"TOLD": statechart.InternalOf[statechart.StepError]()}, States: []S{
		{ID: "a", On: []On{{Event: "GO", Actions: Do{tells}}, {Event: "END", Target: "end", Actions: Do{tells}}, {Event: "TOLD", Guard: no, Actions: logs("told")}}},
		{ID: "end", Type: statechart.Final},
	}})
	r.send("GO").is("a", "+a") // The guard of the transition for TOLD does not hold, so the event is dropped.
	r.send("END").is("end", "-a +end -end")
}
