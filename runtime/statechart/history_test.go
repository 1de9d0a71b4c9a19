package statechart_test

import (
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

// playing returns a chart with the states p and `out`. The compound state p has two levels of states below it, and the
// history state h. BACK leads from `out` to h.
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

func TestTransitionToHistoryFromWithinReentersOnlyLeftStates(t *testing.T) {
	t.Parallel()
	r := begin(t, playing(S{Type: statechart.DeepHistory}))
	r.send("B", "X", "OUT", "BACK").is("p.b.x", "+p +a -a +b +y -y +x -x -b -p +out -out back +p +b +x")
	r = begin(t, playing(S{Type: statechart.DeepHistory, Target: "b"}))
	r.send("B", "H").is("p.b.x", "+p +a -a +b +y -y -b +b +x")
	r.send("OUT", "BACK").is("p.b.x", "-x -b -p +out -out back +p +b +x")
	def := playing(S{Type: statechart.DeepHistory})
	def.States[0].States[2].States[0].On = []On{{Event: "Y", Target: "y"}}
	r = begin(t, def)
	r.send("B", "X", "OUT", "BACK", "Y").is("p.b.y", "+p +a -a +b +y -y +x -x -b -p +out -out back +p +b +x -x +y")
	// The recorded state x lies in b, so H does not leave b.
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

func TestHistoryTargetTogetherWithAnotherRegionsTarget(t *testing.T) {
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

func TestDeepHistoryRestoresEveryRegionOfAParallelState(t *testing.T) {
	t.Parallel()
	def := regions(nil, []On{{Event: "ONE", Target: "b"}}, []On{{Event: "TWO", Target: "b"}})
	p := &def.States[0]
	p.States = append(p.States, S{ID: "h", Type: statechart.DeepHistory})
	def.States[1].On = append(def.States[1].On, On{Event: "H", Target: "p.h"})
	r := begin(t, def)
	r.send("TWO", "LEAVE").is("out", "+p +r1 +a +r2 +a -a +b -b -r2 -a -r1 -p +out")
	r.send("H").is("p.r1.a p.r2.b", "-out +p +r1 +a +r2 +b")
	r.send("ONE", "LEAVE", "H").is("p.r1.b p.r2.b", "-a +b -b -r2 -b -r1 -p +out -out +p +r1 +b +r2 +b")
}

func TestInitialHistoryEntersTheStatesAboveTheRecordedOne(t *testing.T) {
	t.Parallel()
	def := playing(S{Type: statechart.DeepHistory, Target: "a"})
	def.States[0].Initial = "h"
	r := begin(t, def)
	r.send("B", "OUT").is("out", "+p +a -a +b +y -y -b -p +out")
	r.send("FRESH").is("p.b.y", "-out +p +b +y")
}

func TestHistoryWithHistoryAsDefaultMayStandForTheSource(t *testing.T) {
	t.Parallel()
	// h never gets a record. Its default is hb, the history state of b. When A leaves b, hb records x.
	def := Def{Initial: "p", States: []S{{ID: "p", Initial: "b", States: []S{
		{ID: "h", Type: statechart.ShallowHistory, Target: "b.hb"},
		{ID: "a", On: []On{{Event: "BACK", Target: "h"}}},
		{ID: "b", Initial: "x", States: []S{
			{ID: "hb", Type: statechart.DeepHistory, Target: "y"},
			{ID: "x", On: []On{{Event: "A", Target: "#a"}, {Event: "STAY", Target: "#h", Actions: logs("stay")}}}, {ID: "y"},
		}},
	}}}}
	r := begin(t, def)
	r.is("p.b.x", "+p +b +x")
	r.send("STAY").is("p.b.y", "-x stay +y") // h stands for y, the default of hb.
	r = begin(t, def)
	r.send("A", "BACK").is("p.b.x", "+p +b +x -x -b +a -a +b +x")
	r.send("STAY").is("p.b.x", "stay")
}

func TestStepperForgetsTheEntrySetOfEarlierSteps(t *testing.T) {
	t.Parallel()
	// The default entries and default history content of one step must not leak into later steps.
	def := playing(S{Type: statechart.DeepHistory, Target: "b", DefaultEntry: logs("of-h")})
	def.Initial = "out"
	def.States[0].DefaultEntry = logs("of-p")
	def.States[0].States[2].DefaultEntry = logs("of-b")
	chart := compile(t, traced(def))
	stepper := chart.Stepper()
	snapshot, _, err := stepper.Start(statechart.Start{At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ event, log string }{
		{"BACK", "-out back +p of-h +b of-b +x"}, {"OUT", "-x -b -p +out"}, {"BACK", "-out back +p +b +x"},
		{"OUT", "-x -b -p +out"}, {"FRESH", "-out +p of-p +a"}, {"OUT", "-a -p +out"}, {"BACK", "-out back +p +a"},
	} {
		snapshot.Context.Log = nil
		if _, _, err := stepper.Step(&snapshot, &Event{Type: c.event, At: epoch}); err != nil {
			t.Fatal(err)
		}
		equal(t, c.event, strings.Join(snapshot.Context.Log, " "), c.log)
	}
}

// remembering returns a region with two states: `out`, and a compound state x with a history state.
func remembering(id string, typ statechart.Type) S {
	return S{ID: id, Initial: "x" + id, States: []S{
		{ID: "x" + id, Initial: "a" + id, On: []On{{Event: "OUT", Target: "out" + id}, {Event: "OUT" + id, Target: "out" + id}, {Event: "IN", Actions: logs("in")}}, States: []S{
			{ID: "h" + id, Type: typ},
			{ID: "a" + id, On: []On{{Event: "NEXT", Target: "b" + id}}},
			{ID: "b" + id, Type: statechart.Parallel, States: []S{{ID: "l" + id}, {ID: "m" + id}}},
		}},
		{ID: "out" + id, On: []On{{Event: "BACK", Target: "x" + id + ".h" + id}}},
	}}
}

func TestEveryTransitionOfAMicrostepRecordsHistory(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Parallel: true, States: []S{remembering("1", statechart.ShallowHistory), remembering("2", statechart.DeepHistory)}})
	r.send("NEXT", "OUT")
	equal(t, "out", states(r), "1.out1 2.out2")
	equal(t, "history", strings.Contains(text(t, r.step.Next), `"historyValue":{"1.x1.h1":["1.x1.b1"],"2.x2.h2":["2.x2.b2.l2","2.x2.b2.m2"]}`), true)
	r.send("BACK")
	equal(t, "back", states(r), "1.x1.b1.l1 1.x1.b1.m1 2.x2.b2.l2 2.x2.b2.m2")
}

func TestLaterRecordsDoNotChangeEarlierSnapshots(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Parallel: true, States: []S{remembering("1", statechart.ShallowHistory), remembering("2", statechart.DeepHistory)}})
	r.send("NEXT", "OUT1")
	first := text(t, r.step.Next)
	earlier := r.step.Next
	r.send("OUT2")
	equal(t, "history", strings.Contains(text(t, r.step.Next), `"historyValue":{"1.x1.h1":["1.x1.b1"],"2.x2.h2":["2.x2.b2.l2","2.x2.b2.m2"]}`), true)
	equal(t, "the earlier snapshot", text(t, earlier), first)
	r.send("BACK")
	equal(t, "back", states(r), "1.x1.b1.l1 1.x1.b1.m1 2.x2.b2.l2 2.x2.b2.m2")
}

func TestHistoryIsRecordedOnlyOnExit(t *testing.T) {
	t.Parallel()
	def := Def{Parallel: true, On: []On{{Event: "STAY", Actions: logs("stay")}}, States: []S{remembering("1", statechart.ShallowHistory), remembering("2", statechart.DeepHistory)}}
	r := begin(t, def).send("STAY", "IN", "NEXT")
	equal(t, "recorded", strings.Contains(text(t, r.step.Next), "historyValue"), false)
}
