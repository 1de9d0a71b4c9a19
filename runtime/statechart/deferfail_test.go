package statechart_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// TestFailedReplayIsParked also shows that the failed replay is rolled back and does not delay other events.
func TestFailedReplayIsParked(t *testing.T) {
	t.Parallel()
	spoil := statechart.SendAfter("", "ORDER", func(trace, Event) (time.Duration, any) { return time.Hour, nil })
	for name, last := range map[string]statechart.Action[trace]{
		"planned":                           failing,
		"panic: a value of the type string": statechart.Assign("failing", func(*trace, Event) { panic("planned") }),
	} {
		def := busyDef()
		def.States[2].On[1].Actions = slices.Concat(logs("lost"), Do{spoil, statechart.Emit("LOST", func(trace, Event) any { return nil }), last})
		r := begin(t, def).send("CALL").order("tea", "").send("CALL")
		r.send("IDLE").is("idle", "+busy -busy +idle tea")
		equal(t, "waiting", deferredBy(r), "")
		equal(t, "timers", len(r.step.Next.Timers), 0)
		const want = `[{"id":"5.2","kind":"park","event":{"type":"CALL"},"message":"chart c, state \"idle\", event \"CALL\": action failing: %[1]s"},` +
			`{"id":"5.5","kind":"park","event":{"type":"CALL"},"message":"chart c, state \"idle\", event \"CALL\": action failing: %[1]s"}]`
		equal(t, "effects", text(t, r.step.Effects), fmt.Sprintf(want, name))
	}
}

func TestParkedEventKeepsItsID(t *testing.T) {
	t.Parallel()
	def := busyDef()
	def.States[2].On[1].Actions = Do{failing}
	r := begin(t, def)
	step, err := r.chart.Step(r.step.Next, Event{Type: "CALL", ID: "call-1", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	if step, err = r.chart.Step(step.Next, Event{Type: "IDLE", At: epoch}); err != nil {
		t.Fatal(err)
	}
	equal(t, "event", string(step.Effects[0].Event), `{"$id":"call-1","type":"CALL"}`)
}

func TestFailedGuardReleasesNothing(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", States: []S{
		{ID: "a", Defer: []string{"E"}, On: []On{{Event: "E", Guard: failingWhen}, {Event: "GO", Actions: logs("go")}, {Event: statechart.ExecutionError, Actions: logs("failed")}}},
	}})
	r.send("E").is("a", "+a failed")
	r.send("GO").is("a", "go")
	equal(t, "waiting", deferredBy(r), "E")
}

// fickle does not survive a round trip through JSON. Its methods hide that from Compile.
type fickle struct{ n int }

func (l fickle) MarshalJSON() ([]byte, error) { return []byte(fmt.Sprintf(`{"n": %d}`, l.n)), nil }

func (l *fickle) UnmarshalJSON([]byte) error { return errPlanned }

func TestEventThatCannotBeStoredFailsTheStep(t *testing.T) {
	t.Parallel()
	def := busyDef()
	def.Payloads["CALL"] = statechart.PayloadOf[fickle]()
	r := begin(t, def)
	r.refuses(Event{Type: "CALL", Payload: fickle{1}}, nil,
		`chart c, event "CALL": defer: expected the JSON of a statechart_test.fickle, got an object that does not decode`)
	r.refuses(Event{Type: "CALL", Payload: 7}, nil,
		`chart c, event "CALL": defer: encoding the payload of event "CALL": expected a type that marshals to a JSON object, got int`)
}

func TestPanickingGuardReleasesNothing(t *testing.T) {
	t.Parallel()
	boom := statechart.If("boom", func(c trace) bool {
		if c.N > 0 {
			panic("boom")
		}
		return false
	})
	r := begin(t, Def{Initial: "a", States: []S{
		{ID: "a", Defer: []string{"D"}, On: []On{{Event: "D", Guard: boom, Target: "b"}, {Event: "GO", Actions: Do{add(1)}}}},
		{ID: "b", On: []On{{Event: "GO", Target: "a"}}},
	}})
	r.send("D", "GO")
	equal(t, "counter", r.step.Next.Context.N, 1)
	equal(t, "waiting", deferredBy(r), "D")
}

func TestParkedEventsDoNotCountTowardsEffectsMax(t *testing.T) {
	t.Parallel()
	line := statechart.Log(func(trace, Event) string { return "line" })
	many := slices.Repeat(Do{line}, statechart.EffectsMax)
	long := statechart.TryAssign("long", func(*trace, Event) error { return errors.New(strings.Repeat("é", 1<<20)) })
	r := begin(t, Def{Initial: "a", States: []S{
		{ID: "a", Defer: []string{"D", "E", "F"}, On: []On{{Event: "GO", Target: "b", Actions: many[1:]}}},
		{ID: "b", On: []On{{Event: "D", Actions: Do{long}}, {Event: "E", Actions: Do{line}}, {Event: "F", Actions: Do{line}}}},
	}})
	r.send("D", "E", "F", "GO")
	kinds := map[statechart.EffectKind]int{}
	for _, e := range r.step.Effects {
		kinds[e.Kind]++
		if len(e.Message) > statechart.ReasonBytesMax+3 {
			t.Errorf("a reason has %d bytes", len(e.Message))
		}
	}
	equal(t, "lines", kinds[statechart.LogMessage], statechart.EffectsMax)
	equal(t, "parked", kinds[statechart.ParkEvent], 2) // D fails, and the line that F logs exceeds EffectsMax.
}

func TestRolledBackReplayIsNotTraced(t *testing.T) {
	t.Parallel()
	chart := compile(t, traced(Def{Initial: "a", Payloads: statechart.Payloads{"D": statechart.NoPayload()}, States: []S{
		{ID: "a", Defer: []string{"D"}, On: []On{{Event: "GO", Target: "b"}}},
		{ID: "b", On: []On{{Event: "D", Target: "x"}}},
		{ID: "x", Always: []On{{Target: "b", Actions: Do{failing}}}},
	}}))
	var entered []string
	stepper := chart.Stepper()
	stepper.OnMicrostep = func(m statechart.Microstep) { entered = append(entered, m.Entered...) }
	snapshot, _, err := stepper.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []string{"D", "GO"} {
		if _, _, err := stepper.Step(&snapshot, &Event{Type: typ, At: epoch}); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "entered", strings.Join(entered, " "), " a b")
}

// moody is a payload that decodes until the test sets sour.
type moody struct{}

func (moody) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

var sour atomic.Bool

func (*moody) UnmarshalJSON([]byte) error {
	if sour.Load() {
		return errPlanned
	}
	return nil
}

func TestUndecodableDelayedEventIsParked(t *testing.T) {
	t.Parallel()
	t.Cleanup(func() { sour.Store(false) })
	def := busyDef()
	def.Payloads["CALL"] = statechart.PayloadOf[moody]()
	def.On = []On{{Event: "LATER", Actions: Do{statechart.SendAfter("", "CALL", func(trace, Event) (time.Duration, any) { return 1, moody{} })}}}
	for _, state := range []string{"busy", "IDLE"} {
		sour.Store(false)
		r := begin(t, def).send("LATER")
		if state == "IDLE" {
			r.send("IDLE")
		}
		sour.Store(true)
		due := Event{Type: statechart.TimerEvent, Timer: r.timer("").ID}
		if can, err := r.chart.Can(r.step.Next, due); can || err != nil {
			t.Errorf("can: got %t and the error %v", can, err)
		}
		r.apply(due)
		equal(t, "handled", r.step.Handled, true)
		equal(t, "timers and deferred events", len(r.step.Next.Timers)+len(r.step.Next.Deferred), 0)
		equal(t, "effects", text(t, r.step.Effects), fmt.Sprintf(`[{"id":"%d.0","kind":"park","event":{"type":"CALL"},`+
			`"message":"chart c: the delayed event \"CALL\" cannot be decoded: expected the JSON of a statechart_test.moody, got an object that does not decode"}]`, r.step.Next.Steps))
	}
}

func TestGuardsThatFailOnStillDeferredEventsRaiseNothing(t *testing.T) {
	t.Parallel()
	guarded := On{Event: "E", Guard: failingWhen}
	r := begin(t, Def{Initial: "a", On: []On{{Event: statechart.ExecutionError, Actions: logs("failed")}}, States: []S{
		{ID: "a", Defer: []string{"E", "X"}, On: []On{{Event: "GO", Target: "b"}}},
		{ID: "b", Defer: []string{"E"}, On: []On{guarded, {Event: "X", Actions: logs("x")}}},
	}})
	r.send("E", "X", "GO").is("b", "+a -a +b x")
	equal(t, "waiting", deferredBy(r), "E")
}

func TestGuardFailureTakesEffectOnReplay(t *testing.T) {
	t.Parallel()
	moody := statechart.TryWhen("moody", func(c trace, _ Event) (bool, error) {
		if c.N > 0 {
			return false, errPlanned
		}
		return false, nil
	})
	r := begin(t, Def{Initial: "a", On: []On{{Event: "ADD", Actions: Do{add(1)}}}, States: []S{
		{ID: "a", Defer: []string{"E"}, On: []On{{Event: "E", Guard: moody}, {Event: "GO", Target: "b"}, {Event: "STAY", Target: "c"}}},
		{ID: "b", On: []On{{Event: "E", Guard: moody}}},
		{ID: "c", Defer: []string{"E"}, On: []On{{Event: "E", Guard: moody}}},
	}})
	r.send("E", "ADD")
	equal(t, "waiting", deferredBy(r), "E")
	freed := *r
	freed.send("GO").is("b", "+a -a +b")
	equal(t, "parked", freed.step.Effects[0].Message, `chart c, state "b", event "E": guard moody: planned`)
	r.send("STAY").is("c", "+a -a +c")
	equal(t, "waiting", deferredBy(r), "E")
}
