package statechart_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/internal/foreign"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestMadeDescribesActionsAndGuards(t *testing.T) {
	t.Parallel()
	later := statechart.SendAfter("id", "E", func(trace, Event) (time.Duration, any) { return 0, nil })
	for _, c := range []struct {
		action statechart.Action[trace]
		want   statechart.Made
	}{
		{add(1), statechart.Made{}},
		{statechart.Raise[trace]("E"), statechart.Made{By: statechart.MadeByRaise, Event: "E"}},
		{statechart.RaiseWith("E", func(trace, Event) int { return 1 }), statechart.Made{By: statechart.MadeByRaiseWith, Event: "E"}},
		{statechart.RaiseJSON[trace]("E", nil), statechart.Made{By: statechart.MadeByRaiseJSON, Event: "E"}},
		{later, statechart.Made{By: statechart.MadeBySendAfter, Event: "E", ID: "id"}},
		{statechart.Cancel[trace]("id"), statechart.Made{By: statechart.MadeByCancel, ID: "id"}},
	} {
		equal(t, c.action.Name, c.action.Made(), c.want)
	}
	in := statechart.In[trace]("a")
	for _, c := range []struct {
		guard Guard
		by    statechart.GuardMaker
		of    int
		in    string
	}{
		{no, statechart.MadeByWhen, 0, ""}, {statechart.And(no, in), statechart.MadeByAnd, 2, ""},
		{statechart.Or(no), statechart.MadeByOr, 1, ""}, {statechart.Not(no), statechart.MadeByNot, 1, ""}, {in, statechart.MadeByIn, 0, "a"},
	} {
		made := c.guard.Made()
		if made.By != c.by || len(made.Of) != c.of || made.In != c.in || c.guard.IsZero() {
			t.Errorf("guard %s: made by %d of %d in %q", c.guard.Name, made.By, len(made.Of), made.In)
		}
	}
	if !(Guard{}).IsZero() {
		t.Error("the zero guard is not zero")
	}
}

func TestChartReturnsItsDefinitionAndResolvesTargets(t *testing.T) {
	t.Parallel()
	def := Def{ID: "c", Version: 2, Initial: "a", Entry: logs("in"), States: []S{
		{ID: "a", Initial: "x", States: []S{{ID: "x", Tags: settled}}, On: []On{{Event: "GO", Target: ".x"}}},
	}, Payloads: statechart.Payloads{"GO": statechart.NoPayload(), "own": statechart.Internal()}}
	chart, err := statechart.Compile(def)
	if err != nil {
		t.Fatal(err)
	}
	got := chart.Definition()
	if got.ID != "c" || got.Version != 2 || got.Initial != "a" || got.Parallel || len(got.Entry) != 1 || got.States[0].On[0].Target != ".x" {
		t.Errorf("Definition() = %+v", got)
	}
	if internal := got.Payloads.InternalTypes(); !slices.Equal(internal, []string{"own"}) {
		t.Errorf("InternalTypes() = %q", internal)
	}
	for _, c := range [][3]string{{"a", ".x", "a.x"}, {"a", "#c", ""}, {"a.x", "x", "a.x"}, {"", ".a.x", "a.x"}} {
		if to, ok := chart.Outline().TargetPath(c[0], c[1]); !ok || to != c[2] {
			t.Errorf("Resolve(%q, %q) = %q, %v", c[0], c[1], to, ok)
		}
	}
	for _, c := range [][2]string{{"a", "y"}, {"ghost", "a"}} {
		if to, ok := chart.Outline().TargetPath(c[0], c[1]); ok {
			t.Errorf("Resolve(%q, %q) = %q", c[0], c[1], to)
		}
	}
	if chart.Describe().Foreign {
		t.Error("Compile made a foreign chart")
	}
	if chart, err = statechart.CompileForeign(def, foreign.Document{}); err != nil || !chart.Describe().Foreign {
		t.Errorf("CompileForeign: %v, not foreign", err)
	}
}

// RaiseJSON decodes its payload as the chart declares it.
func TestRaiseJSONDecodesThePayload(t *testing.T) {
	t.Parallel()
	type greeting struct{ Name string }
	keep := statechart.Assign("keep", func(c *trace, g greeting) { c.Log = append(c.Log, g.Name) })
	chart := func(event string) *statechart.Chart[trace] {
		return statechart.Must(Def{ID: "c", Version: 1, Initial: "a", States: []S{{ID: "a", Tags: settled, On: []On{
			{Event: "GO", Actions: Do{statechart.RaiseJSON[trace]("GREET", json.RawMessage(event))}},
			{Event: "GREET", Actions: Do{keep}},
		}}}, Payloads: statechart.Payloads{"GO": statechart.NoPayload(), "GREET": statechart.PayloadOf[greeting]()}})
	}
	start := func(c *statechart.Chart[trace]) (statechart.Step[trace], error) {
		step, err := c.Start(statechart.Start{At: epoch})
		if err != nil {
			t.Fatal(err)
		}
		return c.Step(step.Next, Event{Type: "GO", At: epoch})
	}
	step, err := start(chart(`{"type": "GREET", "name": "Ada"}`))
	if err != nil || !slices.Equal(step.Next.Context.Log, []string{"Ada"}) {
		t.Errorf("got %q, %v", step.Next.Context.Log, err)
	}
	if _, err = start(chart(`{"type": "GREET", "name": 1}`)); err == nil || !strings.Contains(err.Error(), "raise GREET") {
		t.Errorf("got %v for a payload of the wrong shape", err)
	}
}

// A computed delay can have several transitions: later entries refer to the timer by ID alone.
func TestEntriesWithOnlyAnIDShareTheTimer(t *testing.T) {
	t.Parallel()
	minute := func(trace, Event) time.Duration { return time.Minute }
	chart := statechart.Must(Def{ID: "c", Version: 1, Initial: "a", States: []S{
		{ID: "a", Tags: settled, After: []After{{ID: "soon", DelayFunc: minute, Guard: no, Target: "b"}, {ID: "soon", Target: "c"}}},
		{ID: "b", Type: statechart.Final}, {ID: "c", Type: statechart.Final},
	}})
	step, err := chart.Start(statechart.Start{At: epoch})
	if err != nil || len(step.Next.Timers) != 1 {
		t.Fatalf("%v, timers %v", err, step.Next.Timers)
	}
	step, err = chart.Step(step.Next, Event{Type: statechart.TimerEvent, Timer: step.Next.Timers[0].ID, At: epoch.Add(time.Minute)})
	if err != nil || !step.Next.Matches("c") {
		t.Errorf("%v, in %s", err, step.Next.Value())
	}
	_, err = statechart.Compile(Def{ID: "c", Version: 1, Initial: "a", States: []S{
		{ID: "a", Tags: settled, After: []After{{ID: "soon", Target: "c"}, {ID: "soon", DelayFunc: minute, Target: "c"}}}, {ID: "c", Type: statechart.Final},
	}})
	if err == nil || !strings.Contains(err.Error(), "after soon: sets 0 of Delay, DelayFunc and At") {
		t.Errorf("an ID before its timer: %v", err)
	}
}

// A self-transition of one region does not enter another region by default. The initial transition of r is not taken,
// because its child is the target.
func TestSelfTransitionDoesNotAffectOtherRegions(t *testing.T) {
	t.Parallel()
	chart := statechart.Must(Def{ID: "c", Version: 1, Initial: "p", States: []S{{ID: "p", Type: statechart.Parallel, States: []S{
		{ID: "q", Tags: settled, On: []On{{Event: "GO", Target: "q"}}},
		{ID: "r", Initial: "s", DefaultEntry: logs("initial"), On: []On{{Event: "GO", Target: ".s", Reenter: true}}, States: []S{{ID: "s", Tags: settled}}},
	}}}, Payloads: statechart.Payloads{"GO": statechart.NoPayload()}})
	step, err := chart.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	step, err = chart.Step(step.Next, Event{Type: "GO", At: epoch})
	if err != nil || !slices.Equal(step.Next.Context.Log, []string{"initial"}) {
		t.Errorf("%v, log %q, want one initial, of the start", err, step.Next.Context.Log)
	}
}
