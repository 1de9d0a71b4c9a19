package statechart_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/internal/foreign"
	"github.com/settle-run/settle/runtime/statechart"
)

// ways steps a chart in three ways. The first uses a new Stepper for each step. The second uses the same Stepper for
// all steps. The third sets OnMicrostep, which disables the fast paths.
type ways struct {
	chart         *statechart.Chart[trace]
	kept, general *statechart.Stepper[trace]
}

func newWays(chart *statechart.Chart[trace]) *ways {
	w := &ways{chart: chart, kept: chart.Stepper(), general: chart.Stepper()}
	w.general.OnMicrostep = func(statechart.Microstep) {}
	return w
}

// step runs a step in all three ways and returns the result. The error describes any difference.
func (w *ways) step(t fataler, snapshot statechart.Snapshot[trace], event Event) (statechart.Step[trace], error) {
	t.Helper()
	describe := func(next statechart.Snapshot[trace], effects []statechart.Effect, handled bool, err error) string {
		return fmt.Sprintln(text(t, next), text(t, effects), handled, err, next.State())
	}
	before := text(t, snapshot)
	step, err := w.chart.Step(snapshot, event)
	want := describe(step.Next, step.Effects, step.Handled, err)
	for name, stepper := range map[string]*statechart.Stepper[trace]{"with memory of other steps": w.kept, "without fast paths": w.general} {
		next := snapshot
		effects, handled, err := stepper.Step(&next, &event)
		if got := describe(next, effects, handled, err); got != want {
			return step, fmt.Errorf("event %+v on %s: got\n%s%s\n%s", event, before, want, name, got)
		}
	}
	if after := text(t, snapshot); after != before {
		return step, fmt.Errorf("event %+v changed the snapshot from\n%s\nto\n%s", event, before, after)
	}
	return step, nil
}

// failsAt returns an action that logs its name and fails if the counter is n.
func failsAt(name string, n int) statechart.Action[trace] {
	return statechart.TryAssign(name, func(c *trace, _ Event) error {
		c.Log = append(c.Log, name)
		if c.N == n {
			return errPlanned
		}
		return nil
	})
}

// failingRegions returns a chart whose three regions leave and enter three levels of states on GO. SET increments the
// counter. The action with the counter's number fails.
func failingRegions(handles bool) Def {
	at := 0
	fail := func(name string) Do {
		at++
		return append(Do{failsAt(name, at)}, logs("after "+name)...)
	}
	var regions []S
	for _, id := range []string{"1", "2", "3"} {
		side := func(name, other string) S {
			in := S{ID: "in" + name, Entry: fail("entry of in" + name), Exit: fail("exit of in" + name), On: []On{{Event: "GO", Target: "#" + other, Actions: fail("action of in" + name)}}}
			return S{ID: name, Initial: "in" + name, Entry: fail("entry of " + name), DefaultEntry: fail("default of " + name), Exit: fail("exit of " + name), States: []S{in}}
		}
		regions = append(regions, S{ID: "r" + id, Initial: "a" + id, States: []S{side("a"+id, "b"+id), side("b"+id, "a"+id)}})
	}
	def := Def{Parallel: true, States: regions, On: []On{{Event: "SET", Actions: Do{add(1)}}}}
	if handles {
		def.On = append(def.On, On{Event: statechart.ExecutionError, Actions: Do{keepFailure}})
	}
	return def
}

// TestProgramsFailLikeTheGeneralAlgorithm lets each action of several regions fail in turn, with and without a handler.
func TestProgramsFailLikeTheGeneralAlgorithm(t *testing.T) {
	t.Parallel()
	for _, handles := range []bool{false, true} {
		r := begin(t, failingRegions(handles))
		ways, failures := newWays(r.chart), 0
		for range 43 {
			step, wrong := ways.step(t, r.step.Next, Event{Type: "GO", At: epoch})
			if wrong != nil {
				t.Fatal(wrong)
			}
			if handled := strings.Join(step.Next.Context.Log, " "); !step.Handled || strings.Contains(handled, ": true") {
				failures++
			}
			back, wrong := ways.step(t, step.Next, Event{Type: "GO", At: epoch})
			if wrong != nil {
				t.Fatal(wrong)
			}
			if step.Handled && back.Handled {
				equal(t, "states", strings.Join(back.Next.State(), " "), states(r))
			}
			r.send("SET")
		}
		equal(t, "failures", failures, 18) // each region: two exits, an action, two entries and a default entry
	}
}

// TestFailedProgramNamesStateAndAction checks the exact error messages. The other tests only check that all ways to
// step a chart give the same message.
func TestFailedProgramNamesStateAndAction(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{
		2:  `chart c, state "r1.a1.ina1", event "GO": action exit of ina1: planned`,
		3:  `chart c, state "r1.a1.ina1", event "GO": action action of ina1: planned`,
		6:  `chart c, state "r1.a1", event "GO": action exit of a1: planned`,
		7:  `chart c, state "r1.b1.inb1", event "GO": action entry of inb1: planned`,
		10: `chart c, state "r1.b1", event "GO": action entry of b1: planned`,
		11: `chart c, state "r1.b1", event "GO": action default of b1: planned`,
		14: `chart c, state "r2.a2.ina2", event "GO": action exit of ina2: planned`,
		35: `chart c, state "r3.b3", event "GO": action default of b3: planned`,
	} {
		r := begin(t, failingRegions(false))
		for range n {
			r.send("SET")
		}
		r.refuses(Event{Type: "GO"}, errPlanned, want)
	}
}

// TestFailingActionSkipsOnlyItsOwnList lets actions of one program fail in a chart that handles the error.
func TestFailingActionSkipsOnlyItsOwnList(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{
		1: `-x exit after exit -p action after action +q entry after entry default after default +y`,
		2: `-x exit -p action after action +q entry after entry default after default +y action exit in "p.x" on GO: true`,
		3: `-x exit after exit -p action +q entry after entry default after default +y action action in "p.x" on GO: true`,
		4: `-x exit after exit -p action after action +q entry default after default +y action entry in "q" on GO: true`,
		5: `-x exit after exit -p action after action +q entry after entry default +y action default in "q" on GO: true`,
	} {
		then := func(name string, n int) Do { return append(Do{failsAt(name, n)}, logs("after "+name)...) }
		r := begin(t, Def{Initial: "p", On: []On{{Event: "SET", Actions: Do{add(1)}}, {Event: statechart.ExecutionError, Actions: Do{keepFailure}}}, States: []S{
			{ID: "p", Initial: "x", States: []S{{ID: "x", Exit: then("exit", 2), On: []On{{Event: "GO", Target: "#q", Actions: then("action", 3)}}}}},
			{ID: "q", Initial: "y", Entry: then("entry", 4), DefaultEntry: then("default", 5), States: []S{{ID: "y"}}},
		}})
		for range n {
			r.send("SET")
		}
		r.is("p.x", "+p +x").send("GO").is("q.y", want)
	}
}

// TestInSeesTheCurrentlyActiveStates tests In at every point of a microstep: states are left one by one and entered one
// by one.
func TestInSeesTheCurrentlyActiveStates(t *testing.T) {
	t.Parallel()
	ask := func(where string) Do {
		return Do{statechart.EnqueueActions(where, func(c *trace, _ Event, enqueue statechart.Enqueue) error {
			active := where + ":"
			for _, path := range []string{"p", "p.x", "q", "q.y"} {
				if enqueue.In(path) {
					active += path + ","
				}
			}
			c.Log = append(c.Log, active)
			return nil
		})}
	}
	r := begin(t, Def{Initial: "p", States: []S{
		{ID: "p", Initial: "x", Exit: ask("2"), States: []S{{ID: "x", Exit: ask("1"), On: []On{{Event: "GO", Target: "#q", Actions: ask("3")}}}}},
		{ID: "q", Initial: "y", Entry: ask("4"), States: []S{{ID: "y", Entry: ask("5")}}},
	}})
	r.is("p.x", "+p +x")
	r.send("GO").is("q.y", "-x 1:p,p.x, -p 2:p, 3: +q 4:q, +y 5:q,q.y,")
}

// rich returns a chart that uses nearly all features. Some of its actions fail.
func rich(tb testing.TB) *statechart.Chart[trace] {
	tb.Helper()
	later := statechart.SendAfter("later", "LATER", func(trace, Event) (time.Duration, any) { return time.Minute, nil })
	note := statechart.Log(func(c trace, e Event) string { return fmt.Sprint(e.Type, c.N) })
	asks := statechart.EnqueueActions("asks", func(c *trace, _ Event, enqueue statechart.Enqueue) error {
		c.Log = append(c.Log, fmt.Sprint(enqueue.In("p.r1.a"), enqueue.In("p.r2.c.d")))
		return nil
	})
	third := statechart.When("third", func(c trace, _ Event) bool { return c.N%3 == 0 })
	unsure := statechart.TryWhen("unsure", func(c trace, _ Event) (bool, error) {
		if c.N%5 == 4 {
			return false, errPlanned
		}
		return c.N%2 == 0, nil
	})
	r1 := S{ID: "r1", Initial: "a", States: []S{
		{ID: "flat", Type: statechart.ShallowHistory, DefaultEntry: logs("flat default")},
		{ID: "a", Exit: Do{failsAt("a", 7)}, On: []On{
			{Event: "GO", Target: "b", Guard: third, Actions: Do{add(1)}}, {Event: "GO", Target: "b.y", Actions: append(Do{failsAt("go", 2), note}, logs("went")...)},
			{Event: "E1", Actions: Do{add(1)}}, {Event: "E2", Actions: Do{add(2)}}, {Event: "E3", Target: "b", Actions: Do{asks}}, {Event: "E4", Target: "a", Reenter: true},
			{Event: "E5", Target: "#q.m"}, {Event: "E6", Target: "#deep", Guard: unsure}, {Event: "E7", Actions: Do{raise("GO"), add(1)}}, {Event: "E8", Actions: Do{failing}}}},
		{ID: "b", Initial: "x", Entry: Do{failsAt("b", 4)}, DefaultEntry: logs("b default"), After: []After{{Delay: time.Minute, Target: "a"}}, Defer: []string{"E1"}, States: []S{
			{ID: "x", On: []On{{Event: "GO", Target: "y"}, {Event: "E1", Guard: third, Target: "y"}}},
			{ID: "y", On: []On{{Event: "GO", Target: "#r1.a", Actions: Do{add(1)}}, {Event: "E2", Target: "x", Actions: Do{asks, failsAt("e2", 9)}}, {Event: "E5", Target: "#end1"}}}}},
		{ID: "end1", Type: statechart.Final},
	}}
	r2 := S{ID: "r2", Initial: "c", States: []S{
		{ID: "c", Initial: "d", States: []S{
			{ID: "d", Entry: Do{add(1)}, On: []On{{Event: "GO", Target: "e"}, {Event: "CALL", Target: "#call"}}},
			{ID: "e", Children: []Child{{Machine: "job", OnDone: []On{{Target: "d"}}}}, On: []On{{Event: "GO", Target: "d", Actions: Do{failsAt("back", 12)}}, {Event: "E3", Target: "#end2"}}}}},
		{ID: "call", Invoke: []Invoke{service("", []On{{Target: "c", Actions: Do{add(1)}}}, []On{{Target: "end2"}})}},
		{ID: "end2", Type: statechart.Final, Output: output("r2")},
	}}
	r3 := S{ID: "r3", Initial: "s", OnDone: []On{{Actions: logs("r3 done")}}, States: []S{
		{ID: "s", On: []On{{Event: "GO", Target: "t", Guard: unsure}, {Event: "E.*", Actions: Do{add(1)}}, {Event: "E4", Target: "end3"}}},
		{ID: "t", Tags: settled, Always: []On{{Target: "s", Guard: third, Actions: Do{add(1)}}}, On: []On{{Event: "*", Guard: unsure, Actions: Do{add(1)}}, {Event: "GO", Target: "s"}}},
		{ID: "end3", Type: statechart.Final}}}
	var many []S
	for i := range 9 {
		many = append(many, S{ID: fmt.Sprint("m", i), Initial: fmt.Sprint("u", i), States: []S{
			{ID: fmt.Sprint("u", i), On: []On{{Event: "GO", Target: fmt.Sprint("v", i)}}},
			{ID: fmt.Sprint("v", i), On: []On{{Event: "GO", Target: fmt.Sprint("u", i)}, {Event: fmt.Sprint("E", i), Target: "#p"}}}}})
	}
	chart, err := statechart.Compile(traced(Def{Initial: "p", Payloads: statechart.Payloads{"LATER": statechart.NoPayload(), "E.x": statechart.NoPayload()}, States: []S{
		{ID: "deep", Type: statechart.DeepHistory, Target: "p"},
		{ID: "p", Type: statechart.Parallel, States: []S{r1, r2, r3}, OnDone: []On{{Target: "end"}}, On: []On{
			{Event: "OUT", Target: "q"}, {Event: "FLAT", Target: ".r1.flat"}, {Event: "BOTH", Target: "#r1.b.y #r2.c.e"}, {Event: "LATER", Actions: Do{add(1)}}}},
		{ID: "q", Initial: "n", States: []S{{ID: "n", On: []On{{Event: "GO", Target: "m"}}}, {ID: "m", Type: statechart.Parallel, States: many}},
			On: []On{{Event: "DEEP", Target: "#deep"}, {Event: "OUT", Target: "p"}, {Event: "BOTH", Target: "#p.r1.flat #p.r3.t"}}},
		{ID: "end", Type: statechart.Final},
	}, On: []On{
		{Event: "SEND", Actions: Do{later}}, {Event: "CANCEL", Actions: Do{statechart.Cancel[trace]("later")}}, {Event: "ADD", Actions: Do{add(1)}},
		{Event: "SPAWN", Actions: Do{statechart.Spawn[trace]("w", "worker", nil)}}, {Event: "STOP", Actions: Do{statechart.StopChild[trace]("w")}},
		{Event: statechart.ExecutionError, Guard: third, Actions: Do{add(1), keepFailure}},
	}}))
	if err != nil {
		tb.Fatal(err)
	}
	return chart
}

// walkRich steps the chart from `rich` in all three ways. Each byte of `choices` selects an event. walkRich writes and
// restores each snapshot.
func walkRich(t fataler, ways *ways, choices []byte) (steps int, wrong error) {
	chart := ways.chart
	started, err := chart.Start(statechart.Start{Instance: "c/1", At: epoch})
	if err != nil {
		return 0, err
	}
	snapshot, types := started.Next, chart.Events()
	for i, choice := range choices {
		var events []Event
		for _, timer := range snapshot.Timers {
			events = append(events, Event{Type: statechart.TimerEvent, Timer: timer.ID})
		}
		for _, call := range snapshot.Services {
			events = append(events, call.Done(1), call.Failed(errPlanned))
		}
		for _, child := range snapshot.Children {
			events = append(events, child.Done(nil), child.Failed(errPlanned))
		}
		if snapshot.Settled() {
			for _, typ := range types {
				events = append(events, Event{Type: typ})
			}
		}
		event := events[int(choice)%len(events)]
		event.At = epoch.Add(minutes(i))
		step, wrong := ways.step(t, snapshot, event)
		if wrong != nil {
			return steps, wrong
		}
		written := text(t, step.Next)
		if restored, err := chart.Restore([]byte(written)); err != nil || text(t, restored) != written {
			return steps, fmt.Errorf("after %+v, %s restores as %s: %w", event, written, text(t, restored), err)
		}
		if snapshot = step.Next; snapshot.Status != statechart.Active {
			return steps, nil
		}
		snapshot.Context.Log = nil
		steps++
	}
	return steps, nil
}

// TestFastPathsMatchTheGeneralAlgorithm takes random walks with fixed seeds.
func TestFastPathsMatchTheGeneralAlgorithm(t *testing.T) {
	t.Parallel()
	ways := newWays(rich(t))
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // Each run must take the same walks.
	all := 0
	for range 60 {
		choices := make([]byte, 30)
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		steps, wrong := walkRich(t, ways, choices)
		if wrong != nil {
			t.Fatal(wrong)
		}
		all += steps
	}
	if all < 1000 {
		t.Errorf("the walks ended after %d steps in all, want at least 1000", all)
	}
}

func FuzzFastPaths(f *testing.F) {
	chart := rich(f)
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19})
	f.Fuzz(func(t *testing.T, choices []byte) {
		if _, wrong := walkRich(t, newWays(chart), choices[:min(len(choices), 100)]); wrong != nil {
			t.Fatal(wrong)
		}
	})
}

func stepping(t *testing.T, chart *statechart.Chart[nothing], snapshot statechart.Snapshot[nothing], event statechart.Event) (statechart.Snapshot[nothing], []statechart.Effect) {
	t.Helper()
	event.At = epoch
	effects, _, err := chart.Stepper().Step(&snapshot, &event)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot, effects
}

// The done event of a root service removes the service from the snapshot. The active leaf has an unguarded transition
// for this event, but the fast path must not take it.
func TestFastPathEndsServices(t *testing.T) {
	t.Parallel()
	chart, err := statechart.Compile(definition{
		Foreign: &foreign.Document{},
		ID:      "c", Version: 1, Initial: "a",
		Invoke: []statechart.Invoke[nothing]{{ID: "s", Service: statechart.ServiceFunc("s", func(context.Context, nothing, statechart.Call) (string, error) { return "", nil })}},
		States: []state{{ID: "a", On: []on{{Event: "done.invoke.s", Target: "b"}}}, {ID: "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	started, err := chart.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	next, _ := stepping(t, chart, started.Next, started.Next.Services[0].Done(""))
	equal(t, "services", len(next.Services), 0)
	equal(t, "state", next.State()[0], "b")
}

// A snapshot may hold an event that an earlier version of the chart has deferred.
func TestFastPathReplaysDeferredEvents(t *testing.T) {
	t.Parallel()
	chart := statechart.Must(definition{
		ID: "c", Version: 1, Initial: "a", Payloads: events("GO", "CALL"),
		States: []state{{ID: "a", Tags: settled, On: []on{{Event: "GO", Target: "b"}}}, {ID: "b", Tags: settled, On: []on{{Event: "CALL", Target: "c"}}}, {ID: "c", Tags: settled}},
	})
	snapshot, err := chart.Restore([]byte(`{"machine":"c","version":1,"status":"active","value":"a","context":{},"tags":[],"steps":1,"deferred":[{"event":{"type":"CALL"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	next, _ := stepping(t, chart, snapshot, statechart.Event{Type: "GO"})
	equal(t, "deferred", len(next.Deferred), 0)
	equal(t, "state", next.State()[0], "c")
}

func TestStepWithRefusedEffectsIsRolledBack(t *testing.T) {
	t.Parallel()
	chart := statechart.Must(definition{
		ID: "c", Version: 1, Initial: "a", Payloads: events("GO", "SAY"),
		States: []state{{ID: "a", Tags: settled, On: []on{{Event: "GO", Target: "b"}, {Event: "SAY", Target: "b", Actions: do{note("b")}}}}, {ID: "b", Tags: settled}},
	})
	started, err := chart.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	stepper, refused := chart.Stepper(), errors.New("refused")
	stepper.Accept = func(effects []statechart.Effect) error {
		equal(t, "effects", len(effects), 1)
		return refused
	}
	snapshot := started.Next
	if _, handled, err := stepper.Step(&snapshot, &statechart.Event{Type: "SAY", At: epoch}); handled || !errors.Is(err, refused) {
		t.Errorf("want the host's error, got handled %v and %v", handled, err)
	}
	equal(t, "state", snapshot.State()[0], "a")
	if _, handled, err := stepper.Step(&snapshot, &statechart.Event{Type: "GO", At: epoch}); !handled || err != nil {
		t.Errorf("want a step without effects to succeed, got handled %v and %v", handled, err)
	}
}
