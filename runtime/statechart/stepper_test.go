package statechart_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// count is the context of the charts in the allocation tests.
type count struct{ N int }

type (
	countState = statechart.State[count]
	countOn    = statechart.Transition[count]
	countDo    = []statechart.Action[count]
)

// counted returns charts in which GO changes only the configuration and the context.
func counted() map[string]statechart.Definition[count] {
	up := countDo{statechart.Update("up", func(c *count) { c.N++ })}
	typed := countDo{statechart.Assign("any", func(c *count, e Event) { c.N += len(e.Type) })}
	few := statechart.When("few", func(c count, _ Event) bool { return c.N < 0 })
	toggle := func(suffix string) []countState {
		return []countState{
			{ID: "a" + suffix, Tags: settled, On: []countOn{{Event: "GO", Target: "b" + suffix, Guard: few}, {Event: "GO", Target: "b" + suffix, Actions: up}}},
			{ID: "b" + suffix, Tags: settled, On: []countOn{{Event: "GO", Target: "a" + suffix, Actions: typed}}},
		}
	}
	nest := func(name, target string) countState {
		return countState{ID: name, Initial: "in", Entry: up, Exit: up, States: []countState{
			{ID: "in", Initial: "most", Entry: up, Exit: up, States: []countState{
				{ID: "most", Tags: settled, Entry: up, Exit: up, On: []countOn{{Event: "GO", Target: "#" + target, Actions: up}}}}}}}
	}
	var regions, ring []countState
	for i := range 9 { // The chart uses only seven of these, because more leaves would allocate.
		regions = append(regions, countState{ID: fmt.Sprint("r", i), Initial: fmt.Sprint("a", i), States: toggle(fmt.Sprint(i))})
	}
	for i := range 1000 {
		ring = append(ring, countState{ID: fmt.Sprint("s", i), Tags: settled, On: []countOn{{Event: "GO", Target: fmt.Sprint("s", (i+1)%1000), Actions: up}}})
	}
	return map[string]statechart.Definition[count]{
		"flat":    {Initial: "a", States: toggle("")},
		"nested":  {Initial: "x", States: []countState{nest("x", "y"), nest("y", "x")}},
		"regions": {Parallel: true, States: regions[:7]},
		"ring":    {Initial: "s0", States: ring},
		"inside":  {Initial: "x", On: []countOn{{Event: "GO", Target: ".x.in", Actions: up}}, States: []countState{nest("x", "x")}},
	}
}

func compileCounted(t *testing.T, def statechart.Definition[count]) *statechart.Chart[count] {
	t.Helper()
	def.ID, def.Version, def.Payloads = "c", 1, statechart.Payloads{"GO": statechart.NoPayload()}
	chart, err := statechart.Compile(def)
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

//nolint:paralleltest // Other tests' allocations would be counted.
func TestStepperAllocatesNothing(t *testing.T) {
	for name, def := range counted() {
		chart := compileCounted(t, def)
		stepper, event := chart.Stepper(), Event{Type: "GO", At: epoch}
		snapshot, _, err := stepper.Start(statechart.Start{At: epoch})
		if err != nil {
			t.Fatal(err)
		}
		step := func() {
			if _, handled, err := stepper.Step(&snapshot, &event); !handled || err != nil {
				t.Fatalf("%s: handled %v, error %v", name, handled, err)
			}
		}
		step()
		if allocations := testing.AllocsPerRun(100, step); allocations != 0 {
			t.Errorf("%s: got %v allocations a step, want none", name, allocations)
		}
	}
}

// TestStepperChangesTheSnapshotInPlace also shows that earlier copies stay unchanged.
func TestStepperChangesTheSnapshotInPlace(t *testing.T) {
	t.Parallel()
	for name, def := range counted() {
		chart := compileCounted(t, def)
		stepper := chart.Stepper()
		snapshot, _, err := stepper.Start(statechart.Start{At: epoch})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			before, written := snapshot, text(t, snapshot)
			pure, err := chart.Step(before, Event{Type: "GO", At: epoch})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := stepper.Step(&snapshot, &Event{Type: "GO", At: epoch}); err != nil {
				t.Fatal(err)
			}
			equal(t, name+": the copy", text(t, before), written)
			equal(t, name+": the snapshot", text(t, snapshot), text(t, pure.Next))
			if text(t, snapshot) == written {
				t.Errorf("%s: the step changed nothing: %s", name, written)
			}
		}
	}
}

func TestFailedStepDoesNotChangeTheSnapshot(t *testing.T) {
	t.Parallel()
	fails := statechart.TryAssign("fails", func(*trace, Event) error { return errPlanned })
	panics := statechart.Assign("panics", func(*trace, Event) { panic("planned") })
	def := traced(Def{Initial: "p", Payloads: statechart.Payloads{"LATE": statechart.NoPayload()}, States: []S{
		{ID: "p", Type: statechart.Parallel, After: []After{{Delay: 1}}, States: []S{
			{ID: "h", Type: statechart.DeepHistory},
			{ID: "r", Initial: "a", States: []S{
				{ID: "a", On: []On{{Event: "FAIL", Target: "b", Actions: Do{fails}}, {Event: "PANIC", Target: "b", Actions: Do{panics}}}},
				{ID: "b"}}},
			{ID: "q", Initial: "c", States: []S{{ID: "c"}}},
		}, On: []On{
			{Event: "OUT", Target: "out", Actions: Do{raise("LATE")}},
			{Event: "END", Target: "end", Actions: Do{
				statechart.SendAfter("", "LATE", func(trace, Event) (delay time.Duration, payload any) { return 1, nil }), fails,
			}},
		}},
		{ID: "out", On: []On{{Event: "LATE", Target: "end", Actions: Do{panics}}, {Event: "BACK", Target: "p.h"}}},
		{ID: "end"},
	}})
	chart := compile(t, def)
	stepper := chart.Stepper()
	snapshot, _, err := stepper.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	written := text(t, snapshot)
	for _, typ := range []string{"FAIL", "PANIC", "OUT", "END", "FAIL"} {
		effects, handled, err := stepper.Step(&snapshot, &Event{Type: typ, At: epoch})
		var failure *statechart.StepError
		if !errors.As(err, &failure) || handled || effects != nil {
			t.Errorf("%s: got effects %v, handled %v and error %v, want a StepError", typ, effects, handled, err)
		}
		equal(t, typ+": the snapshot", text(t, snapshot), written)
	}
}

func TestMicrostepsAreTraced(t *testing.T) {
	t.Parallel()
	chart := compile(t, traced(Def{Initial: "a", States: []S{
		{ID: "a", On: []On{{Event: "GO", Target: "b", Actions: Do{raise("NEXT")}}}},
		{ID: "b", Initial: "c", On: []On{{Event: "NEXT", Target: "d", Guard: yes}}, States: []S{{ID: "c"}}},
		{ID: "d", Always: []On{{Target: "e", Actions: logs("on")}}},
		{ID: "e"},
	}}))
	var reported []string
	stepper := chart.Stepper()
	stepper.OnMicrostep = func(m statechart.Microstep) {
		var taken []string
		for _, index := range m.Transitions {
			info := chart.Transitions()[index]
			taken = append(taken, fmt.Sprintf("%s %s [%s] %v -> %v", info.Source, info.Trigger, info.Guard, info.Actions, info.Targets))
		}
		reported = append(reported, fmt.Sprintf("%s: %v; left %v, entered %v, ran %v", m.Event, taken, m.Exited, m.Entered, m.Actions))
	}
	snapshot, _, err := stepper.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := stepper.Step(&snapshot, &Event{Type: "GO", At: epoch}); err != nil {
		t.Fatal(err)
	}
	equal(t, "microsteps", strings.Join(reported, "\n"), strings.Join([]string{
		`: []; left [], entered [ a], ran [+a]`,
		`GO: [a on GO [] [raise NEXT] -> [b]]; left [a], entered [b b.c], ran [-a raise NEXT +b +c]`,
		`NEXT: [b on NEXT [yes] [] -> [d]]; left [b.c b], entered [d], ran [-c -b +d]`,
		`NEXT: [d always [] [on] -> [e]]; left [d], entered [e], ran [-d on +e]`,
	}, "\n"))
	var states []string
	for _, state := range chart.Describe().States {
		states = append(states, fmt.Sprintf("%q %v %v", state.Path, state.Atomic, state.Settled))
	}
	equal(t, "states", strings.Join(states, ", "), `"" false false, "a" true true, "b" false false, "b.c" true true, "d" true false, "e" true true`)
}

// TestRunsAreDeterministic compiles and runs the same chart a thousand times concurrently. The results must be
// identical byte by byte, regardless of the iteration order of maps.
func TestRunsAreDeterministic(t *testing.T) {
	t.Parallel()
	const runs = 1000
	results := make([]string, runs)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() { results[i] = runEverything(t) })
	}
	group.Wait()
	if len(results[0]) < 2000 {
		t.Fatalf("a run shows little: %s", results[0])
	}
	if distinct := slices.Compact(slices.Clone(results)); len(distinct) != 1 {
		t.Fatalf("two runs differ:\n%s\n%s", distinct[0], distinct[1])
	}
}

func runEverything(t *testing.T) string {
	t.Helper()
	chart := everything(t)
	var b strings.Builder
	stepper := chart.Stepper()
	stepper.OnMicrostep = func(m statechart.Microstep) { fmt.Fprintln(&b, m) }
	snapshot, effects, err := stepper.Start(statechart.Start{Instance: "c/1", At: epoch})
	fmt.Fprintln(&b, text(t, snapshot), text(t, effects), err)
	for i, typ := range []string{"GO", "OUT", "DEEP", "CALL", "OUT", "FLAT", "GO", "OUT", "DEEP", "END"} {
		effects, handled, err := stepper.Step(&snapshot, &Event{Type: typ, At: epoch.Add(minutes(i))})
		fmt.Fprintln(&b, typ, handled, text(t, snapshot), text(t, effects), err, snapshot.State(), snapshot.Tags(), snapshot.NextEvents())
	}
	fmt.Fprintln(&b, chart.Mermaid(), chart.Transitions(), chart.Describe().States, chart.Events())
	return b.String()
}
