package statechart_test

import (
	"encoding/json"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

func output(value any) func(trace, Event) any { return func(trace, Event) any { return value } }

func TestFinalStateCompletesItsCompoundParent(t *testing.T) {
	t.Parallel()
	see := statechart.Assign("see", func(c *trace, out json.RawMessage) { c.Log = append(c.Log, "out="+string(out)) })
	r := begin(t, Def{Initial: "p", States: []S{
		{ID: "p", Initial: "a", OnDone: []On{{Target: "q", Actions: Do{see}}}, States: []S{
			{ID: "a", On: []On{{Event: "END", Target: "f"}}},
			{ID: "f", Type: statechart.Final, Output: func(c trace, e Event) any { return map[string]any{"by": e.Type, "n": c.N} }},
		}},
		{ID: "q"},
	}})
	r.is("p.a", "+p +a")
	r.send("END").is("q", `-a +f -f -p out={"by":"END","n":0} +q`)
}

func TestDoneEventWithoutOutputCarriesNone(t *testing.T) {
	t.Parallel()
	see := statechart.Assign("see", func(c *trace, out json.RawMessage) { c.N = 100 + len(out) })
	r := begin(t, Def{Initial: "p", States: []S{
		{ID: "p", Initial: "f", OnDone: []On{{Target: "q", Actions: Do{see}}}, States: []S{{ID: "f", Type: statechart.Final}}},
		{ID: "q"},
	}})
	equal(t, "length of the output", r.step.Next.Context.N, 100)
}

// finishing returns a parallel state whose regions end on END1 and END2.
func finishing(onDone []On) S {
	region := func(id, event string) S {
		return S{ID: id, Initial: "a", OnDone: []On{{Actions: logs("done " + id)}},
			States: []S{{ID: "a", On: []On{{Event: event, Target: "f"}}}, {ID: "f", Type: statechart.Final}}}
	}
	return S{ID: "p", Type: statechart.Parallel, OnDone: onDone, States: []S{
		{ID: "h", Type: statechart.ShallowHistory}, region("r1", "END1"), region("r2", "END2")}}
}

func TestParallelStateIsDoneOnceAllRegionsAre(t *testing.T) {
	t.Parallel()
	def := Def{Initial: "p", States: []S{finishing([]On{{Target: "q", Actions: logs("all")}}), {ID: "q", On: []On{{Event: "H", Target: "#h"}}}}}
	r := begin(t, def)
	r.send("END1").is("p.r1.f p.r2.a", "+p +r1 +a +r2 +a -a +f done r1")
	r.send("END2").is("q", "-a +f done r2 -f -r2 -f -r1 -p all +q")
	r = begin(t, def)
	r.send("END2").is("p.r1.a p.r2.f", "+p +r1 +a +r2 +a -a +f done r2")
	r.send("END1").is("q", "-a +f done r1 -f -r2 -f -r1 -p all +q")
}

func TestNestedParallelStatesAreDoneFromTheInsideOut(t *testing.T) {
	t.Parallel()
	outer := S{ID: "o", Type: statechart.Parallel, OnDone: []On{{Target: "q"}}, States: []S{
		finishing([]On{{Actions: logs("inner")}}), {ID: "f", Type: statechart.Final}}}
	outer.States[0].States = outer.States[0].States[1:] // without history
	r := begin(t, Def{Initial: "o", States: []S{outer, {ID: "q"}}})
	r.is("o.p.r1.a o.p.r2.a o.f", "+o +p +r1 +a +r2 +a +f")
	r.send("END1", "END2").is("q", "-a +f done r1 -a +f done r2 inner -f -f -r2 -f -r1 -p -o +q")
}

func TestTopLevelFinalStateEndsTheInstance(t *testing.T) {
	t.Parallel()
	def := Def{Initial: "a", Exit: append(logs("-root"), raise("LATE")), On: []On{{Event: "LATE", Actions: logs("late")}}, States: []S{
		{ID: "a", On: []On{{Event: "END", Target: "f", Actions: Do{raise("LATE")}}}},
		{ID: "f", Type: statechart.Final, Output: output(42)},
	}}
	def.After = []After{{Delay: 1, Target: ".f"}}
	r := begin(t, def)
	r.is("a", "+a")
	// END ends the instance. The exit actions of the active states still run, but the queued event LATE is dropped.
	r.send("END").is("f", "-a +f -f -root")
	equal(t, "status", r.step.Next.Status, statechart.Done)
	equal(t, "output", string(r.step.Next.Output), "42")
	equal(t, "settled", r.step.Next.Settled(), true)
	equal(t, "timers", len(r.step.Next.Timers)+len(r.step.Effects), 0)
	before := text(t, r.step.Next)
	r.send("LATE")
	equal(t, "handled when done", r.step.Handled, false)
	equal(t, "snapshot", text(t, r.step.Next), before)
	equal(t, "next events", len(r.step.Next.NextEvents()), 0)
}

func TestChartOutputReplacesFinalStateOutput(t *testing.T) {
	t.Parallel()
	def := Def{Initial: "f", States: []S{{ID: "f", Type: statechart.Final, Output: output("own")}}}
	equal(t, "output", string(begin(t, def).step.Next.Output), `"own"`)
	def.Output = func(c trace, _ Event) any { return c.Log }
	equal(t, "output", string(begin(t, def).step.Next.Output), `["+f"]`)
	def.Output, def.States[0].Output = nil, nil
	equal(t, "output", string(begin(t, def).step.Next.Output), "")
}

func TestParallelRootEndsWhenAllRegionsDo(t *testing.T) {
	t.Parallel()
	def := Def{Parallel: true, Output: output("all"), States: finishing(nil).States[1:]}
	r := begin(t, def)
	r.send("END2")
	equal(t, "status", r.step.Next.Status, statechart.Active)
	r.send("END1").is("r1.f r2.f", "+r1 +a +r2 +a -a +f done r2 -a +f -f -r2 -f -r1")
	equal(t, "status", r.step.Next.Status, statechart.Done)
	equal(t, "output", string(r.step.Next.Output), `"all"`)
}

func TestFinalStateInADeepCompoundDoesNotEndTheChart(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", States: []S{{ID: "p", Initial: "q", States: []S{
		{ID: "q", Initial: "f", States: []S{{ID: "f", Type: statechart.Final}}}}}}})
	r.is("p.q.f", "+p +q +f")
	equal(t, "status", r.step.Next.Status, statechart.Active)
	equal(t, "settled", r.step.Next.Settled(), true)
}

func TestFinalRegionOfTheRootDoesNotEndItAlone(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Parallel: true, Output: output("all"), States: []S{
		{ID: "f", Type: statechart.Final, Output: output("one")},
		{ID: "r", Initial: "a", States: []S{{ID: "a", On: []On{{Event: "END", Target: "g"}}}, {ID: "g", Type: statechart.Final}}},
	}})
	equal(t, "status", r.step.Next.Status, statechart.Active)
	r.send("END").is("f r.g", "+f +r +a -a +g -g -r -f")
	equal(t, "status", r.step.Next.Status, statechart.Done)
}

func TestParallelStateIsNotDoneBeforeItsLastRegionIsEntered(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", States: []S{{ID: "p", Type: statechart.Parallel, OnDone: []On{{Actions: logs("done")}}, States: []S{
		{ID: "r", Initial: "g", States: []S{{ID: "g", Type: statechart.Final}}}, {ID: "f", Type: statechart.Final},
	}}}})
	r.is("p.r.g p.f", "+p +r +g +f done")
}
