package statechart_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/internal/foreign"
	"github.com/settle-run/settle/runtime/internal/outline"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestOutlineDescribesActionsAndGuards(t *testing.T) {
	t.Parallel()
	later := statechart.SendAfter("id", "E", func(trace, Event) (time.Duration, any) { return 0, nil })
	for _, c := range []struct {
		action statechart.Action[trace]
		want   outline.Made
	}{
		{add(1), outline.Made{}},
		{statechart.Raise[trace]("E"), outline.Made{By: outline.Raise, Event: "E"}},
		{statechart.RaiseWith("E", func(trace, Event) json.RawMessage { return nil }), outline.Made{By: outline.RaiseWith, Event: "E"}},
		{later, outline.Made{By: outline.SendAfter, Event: "E", ID: "id"}},
		{statechart.Cancel[trace]("id"), outline.Made{By: outline.Cancel, ID: "id"}},
	} {
		chart := statechart.Must(Def{ID: "c", Version: 1, Initial: "a", Entry: Do{c.action}, States: []S{{ID: "a", Tags: settled}},
			Payloads: statechart.Payloads{"E": statechart.NoPayload()}})
		equal(t, c.action.Name, chart.Outline().Root.Entry[0].Made, c.want)
	}
	in := statechart.In[trace]("a")
	for _, c := range []struct {
		guard Guard
		want  string
	}{
		{no, "no"}, {statechart.And(no, in), "And(no In a)"}, {statechart.Or(no), "Or(no)"}, {statechart.Not(in), "Not(In a)"}, {Guard{}, ""},
	} {
		chart := statechart.Must(Def{ID: "c", Version: 1, Initial: "a", On: []On{{Event: "E", Guard: c.guard, Target: ".a"}}, States: []S{{ID: "a", Tags: settled}},
			Payloads: statechart.Payloads{"E": statechart.NoPayload()}})
		equal(t, "guard", guardText(chart.Outline().Root.On[0].Guard), c.want)
	}
}

func guardText(g *outline.Guard) string {
	operators := map[outline.Constructor]string{outline.And: "And", outline.Or: "Or", outline.Not: "Not"}
	switch {
	case g == nil:
		return ""
	case g.By == outline.In:
		return "In " + g.In
	case g.By == outline.Other:
		return g.Name
	}
	var operands []string
	for i := range g.Of {
		operands = append(operands, guardText(&g.Of[i]))
	}
	return operators[g.By] + "(" + strings.Join(operands, " ") + ")"
}

func TestChartReturnsItsDefinitionAndResolvesTargets(t *testing.T) {
	t.Parallel()
	def := Def{ID: "c", Version: 2, Initial: "a", Entry: logs("in"), States: []S{
		{ID: "a", Initial: "x", States: []S{{ID: "x", Tags: settled, On: []On{{Event: "GO", Target: "x"}}}},
			On: []On{{Event: "GO", Target: ".x"}, {Event: "UP", Target: "#c"}}},
	}, On: []On{{Event: "GO", Target: ".a.x"}, {Event: "UP"}}, Payloads: statechart.Payloads{"GO": statechart.NoPayload(), "UP": statechart.NoPayload(), "own": statechart.Internal()}}
	chart, err := statechart.Compile(def)
	if err != nil {
		t.Fatal(err)
	}
	got := chart.Definition()
	if got.ID != "c" || got.Version != 2 || got.Initial != "a" || got.Parallel || len(got.Entry) != 1 || got.States[0].On[0].Target != ".x" {
		t.Errorf("Definition() = %+v", got)
	}
	o := chart.Outline()
	a := o.Root.States[0]
	equal(t, "events and targets", text(t, []any{o.Events, o.Internal, a.On[0].Targets, a.On[1].Targets, a.States[0].On[0].Targets, o.Root.On[0].Targets, o.Root.On[1].Targets}),
		`[["GO","UP"],["own"],["a.x"],[""],["a.x"],["a.x"],null]`)
	if chart.Describe().Foreign {
		t.Error("Compile made a foreign chart")
	}
	def.Foreign = &foreign.Document{}
	if chart, err = statechart.Compile(def); err != nil || !chart.Describe().Foreign {
		t.Errorf("Compile: %v, not foreign", err)
	}
}

// RaiseWith decodes a JSON payload as the type that the chart declares.
func TestRaiseWithDecodesJSON(t *testing.T) {
	t.Parallel()
	type greeting struct{ Name string }
	keep := statechart.Assign("keep", func(c *trace, g greeting) { c.Log = append(c.Log, g.Name) })
	chart := func(event string) *statechart.Chart[trace] {
		return statechart.Must(Def{ID: "c", Version: 1, Initial: "a", States: []S{{ID: "a", Tags: settled, On: []On{
			{Event: "GO", Actions: Do{statechart.RaiseWith("GREET", func(trace, Event) json.RawMessage { return json.RawMessage(event) })}},
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

// A computed delay can have several transitions: later After elements refer to its timer by the ID alone.
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

// The self-transition of the region q does not enter the region r by default. The transition of r re-enters r with its
// child s as the target, so the initial transition of r is not taken.
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
