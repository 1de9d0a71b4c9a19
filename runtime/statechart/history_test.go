package statechart_test

import (
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

// playing is a compound state p with two levels below it, a history state h, and a state out
// from which BACK leads to the history.
func playing(h S) Def {
	h.ID = "h"
	return Def{Initial: "p", States: []S{
		{ID: "p", Initial: "a", On: []On{{Event: "OUT", Target: "out"}}, States: []S{
			h,
			{ID: "a", On: []On{{Event: "B", Target: "b.y"}}},
			{ID: "b", Initial: "x", States: []S{{ID: "x"}, {ID: "y", On: []On{{Event: "X", Target: "x"}, {Event: "H", Target: "#h"}}}}},
		}},
		{ID: "out", On: []On{{Event: "BACK", Target: "p.h", Actions: logs("back")}, {Event: "FRESH", Target: "p"}}},
	}}
}

func TestShallowHistoryEntersTheChildThatWasActive(t *testing.T) {
	t.Parallel()
	r := begin(t, playing(S{Type: statechart.ShallowHistory}))
	r.send("B", "OUT").is("out", "+p +a -a +b +y -y -b -p +out")
	r.send("BACK").is("p.b.x", "-out back +p +b +x")
}

func TestDeepHistoryEntersTheAtomicStateThatWasActive(t *testing.T) {
	t.Parallel()
	r := begin(t, playing(S{Type: statechart.DeepHistory}))
	r.send("B", "OUT").is("out", "+p +a -a +b +y -y -b -p +out")
	r.send("BACK").is("p.b.y", "-out back +p +b +y")
}

func TestHistoryIsRecordedAnewAtEachExit(t *testing.T) {
	t.Parallel()
	r := begin(t, playing(S{Type: statechart.DeepHistory}))
	r.send("B", "OUT", "FRESH", "OUT", "BACK").is("p.a", "+p +a -a +b +y -y -b -p +out -out +p +a -a -p +out -out back +p +a")
}

func TestHistoryWithoutRecordEntersItsDefault(t *testing.T) {
	t.Parallel()
	for _, typ := range []statechart.Type{statechart.ShallowHistory, statechart.DeepHistory} {
		for target, state := range map[string]string{"": "p.a", "b": "p.b.x", "b.y": "p.b.y", "#y": "p.b.y"} {
			def := playing(S{Type: typ, Target: target})
			def.Initial = "out"
			r := begin(t, def)
			equal(t, "default "+target, r.send("BACK").step.Next.State()[0], state)
		}
	}
}

func TestHistoryMayBeTheInitialState(t *testing.T) {
	t.Parallel()
	def := playing(S{Type: statechart.ShallowHistory, Target: "a"})
	def.States[0].Initial = "h"
	r := begin(t, def)
	r.is("p.a", "+p +a")
	r.send("B", "OUT", "FRESH").is("p.b.x", "-a +b +y -y -b -p +out -out +p +b +x")
}

func TestTransitionToHistoryFromWithinReentersNothingThatStays(t *testing.T) {
	t.Parallel()
	r := begin(t, playing(S{Type: statechart.DeepHistory}))
	r.send("B", "X", "OUT", "BACK").is("p.b.x", "+p +a -a +b +y -y +x -x -b -p +out -out back +p +b +x")
	r = begin(t, playing(S{Type: statechart.DeepHistory, Target: "b"}))
	r.send("B", "H").is("p.b.x", "+p +a -a +b +y -y -b +b +x")
	// What was recorded, y, lies in b, which is active and is not left: it is not entered again.
	r.send("OUT", "BACK").is("p.b.x", "-x -b -p +out -out back +p +b +x")
	def := playing(S{Type: statechart.DeepHistory})
	def.States[0].States[2].States[0].On = []On{{Event: "Y", Target: "y"}}
	r = begin(t, def)
	r.send("B", "X", "OUT", "BACK", "Y").is("p.b.y", "+p +a -a +b +y -y +x -x -b -p +out -out back +p +b +x -x +y")
	r.send("H").is("p.b.x", "-y +x")
}

func TestHistoryOfAParallelStateRestoresEveryRegion(t *testing.T) {
	t.Parallel()
	region := func(id, event string) S {
		return S{ID: id, Initial: "a", States: []S{{ID: "a", On: []On{{Event: event, Target: "b.y"}}},
			{ID: "b", Initial: "x", States: []S{{ID: "x"}, {ID: "y"}}}}}
	}
	for _, c := range []struct {
		typ              statechart.Type
		target           string
		recorded, unseen string
	}{
		{statechart.DeepHistory, "", "p.r1.b.y p.r2.a", "p.r1.a p.r2.a"},
		{statechart.ShallowHistory, "", "p.r1.a p.r2.a", "p.r1.a p.r2.a"},
		{statechart.DeepHistory, "r1.b.x", "p.r1.b.y p.r2.a", "p.r1.b.x p.r2.a"},
		{statechart.DeepHistory, "r1.b.y r2.b", "p.r1.b.y p.r2.a", "p.r1.b.y p.r2.b.x"},
	} {
		def := Def{Initial: "p", States: []S{
			{ID: "p", Type: statechart.Parallel, On: []On{{Event: "OUT", Target: "out"}}, States: []S{
				{ID: "h", Type: c.typ, Target: c.target}, region("r1", "ONE"), region("r2", "TWO")}},
			{ID: "out", On: []On{{Event: "BACK", Target: "p.h"}, {Event: "FRESH", Target: "p"}}}}}
		r := begin(t, def)
		equal(t, "recorded", states(r.send("ONE", "OUT", "BACK")), c.recorded)
		def.Initial = "out"
		equal(t, "default", states(begin(t, def).send("BACK")), c.unseen)
	}
}

func TestHistoryTargetBesideAnotherRegionsTarget(t *testing.T) {
	t.Parallel()
	region := func(id string, h ...S) S {
		return S{ID: id, Initial: "a", States: append(h, S{ID: "a", On: []On{{Event: "GO", Target: "b"}}}, S{ID: "b"})}
	}
	r := begin(t, Def{Initial: "p", States: []S{
		{ID: "p", Type: statechart.Parallel, On: []On{{Event: "OUT", Target: "out"}},
			States: []S{region("r1", S{ID: "h", Type: statechart.ShallowHistory}), region("r2")}},
		{ID: "out", On: []On{{Event: "BACK", Target: "#h #r2.a"}}}}})
	r.send("GO", "OUT", "BACK")
	equal(t, "state", states(r), "p.r1.b p.r2.a")
}
