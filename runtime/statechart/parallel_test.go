package statechart_test

import (
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

// regions returns a chart with the states p and `out`. The state p is parallel and has the regions r1 and r2. Both
// regions start in their state a.
func regions(p, r1, r2 []On) Def {
	region := func(id string, on []On) S {
		return S{ID: id, Initial: "a", States: []S{{ID: "a", On: on}, {ID: "b"}},
			On: []On{{Event: "B", Target: ".b"}}}
	}
	return Def{Initial: "p", States: []S{
		{ID: "p", Type: statechart.Parallel, On: append(p, On{Event: "LEAVE", Target: "out"}),
			States: []S{region("r1", r1), region("r2", r2)}},
		{ID: "out", On: []On{{Event: "BACK", Target: "p"}}},
	}}
}

func TestAllRegionsAreEnteredInDocumentOrderAndLeftInReverse(t *testing.T) {
	t.Parallel()
	r := begin(t, regions(nil, nil, nil))
	r.is("p.r1.a p.r2.a", "+p +r1 +a +r2 +a")
	r.send("LEAVE").is("out", "-a -r2 -a -r1 -p +out")
	r.send("BACK").is("p.r1.a p.r2.a", "-out +p +r1 +a +r2 +a")
}

func TestAllRegionsReactToOneEvent(t *testing.T) {
	t.Parallel()
	r := begin(t, regions(nil, []On{{Event: "GO", Target: "b", Actions: logs("one")}}, []On{{Event: "GO", Target: "b", Actions: logs("two")}}))
	r.is("p.r1.a p.r2.a", "+p +r1 +a +r2 +a")
	r.send("GO").is("p.r1.b p.r2.b", "-a -a one two +b +b")
}

func TestTransitionOfACommonAncestorIsTakenOnce(t *testing.T) {
	t.Parallel()
	r := begin(t, regions([]On{{Event: "GO", Actions: logs("once")}}, nil, nil))
	r.is("p.r1.a p.r2.a", "+p +r1 +a +r2 +a")
	r.send("GO").is("p.r1.a p.r2.a", "once")
}

func TestTargetlessAncestorTransitionDoesNotPreemptALaterRegion(t *testing.T) {
	t.Parallel()
	r := begin(t, regions([]On{{Event: "GO", Actions: logs("parent")}}, nil, []On{{Event: "GO", Target: "b", Actions: logs("region")}}))
	r.is("p.r1.a p.r2.a", "+p +r1 +a +r2 +a")
	// No conflict: the parent's transition leaves no state.
	r.send("GO").is("p.r1.a p.r2.b", "-a parent region +b")
}

func TestDescendantsTransitionPreemptsTheAncestors(t *testing.T) {
	t.Parallel()
	r := begin(t, regions([]On{{Event: "GO", Target: "out"}}, nil, []On{{Event: "GO", Target: "b"}}))
	r.is("p.r1.a p.r2.a", "+p +r1 +a +r2 +a")
	// r1 selects p's transition first, but the transition of r2's descendant wins.
	r.send("GO").is("p.r1.a p.r2.b", "-a +b")
	r.send("GO").is("out", "-b -r2 -a -r1 -p +out")
}

func TestConflictingTransitionsOfRegionsGoByDocumentOrder(t *testing.T) {
	t.Parallel()
	leave := func(word string) []On { return []On{{Event: "GO", Target: "#out", Actions: logs(word)}} }
	r := begin(t, regions(nil, leave("one"), leave("two")))
	r.is("p.r1.a p.r2.a", "+p +r1 +a +r2 +a")
	r.send("GO").is("out", "-a -r2 -a -r1 -p one +out")
}

func TestRegionThatStaysPreemptsALaterOneThatLeaves(t *testing.T) {
	t.Parallel()
	r := begin(t, regions(nil, []On{{Event: "GO", Target: "b"}}, []On{{Event: "GO", Target: "#out"}}))
	r.is("p.r1.a p.r2.a", "+p +r1 +a +r2 +a")
	r.send("GO").is("p.r1.b p.r2.a", "-a +b")
}

func TestTransitionAcrossRegionsReentersThemAll(t *testing.T) {
	t.Parallel()
	// The domain is the parallel state itself, as in XState v5. SCXML would leave the parallel state too.
	r := begin(t, regions(nil, []On{{Event: "GO", Target: "#r2.b"}}, nil))
	r.is("p.r1.a p.r2.a", "+p +r1 +a +r2 +a")
	r.send("GO").is("p.r1.a p.r2.b", "-a -r2 -a -r1 +r1 +a +r2 +b")
}

func TestParallelStateIsTheDomainOfItsInternalTransition(t *testing.T) {
	t.Parallel()
	r := begin(t, regions([]On{{Event: "GO", Target: ".r2.b"}, {Event: "HARD", Target: ".r2.b", Reenter: true}}, nil, nil))
	r.is("p.r1.a p.r2.a", "+p +r1 +a +r2 +a")
	r.send("B").is("p.r1.b p.r2.b", "-a -a +b +b")
	r.send("GO").is("p.r1.a p.r2.b", "-b -r2 -b -r1 +r1 +a +r2 +b")
	r.send("HARD").is("p.r1.a p.r2.b", "-b -r2 -a -r1 -p +p +r1 +a +r2 +b")
}

func TestMultipleTargetsEnterTheNamedStates(t *testing.T) {
	t.Parallel()
	def := regions(nil, nil, nil)
	def.On = []On{{Event: "BOTH", Target: "#p.r1.b #p.r2.b"}, {Event: "ONE", Target: "#p.r2.b"}}
	r := begin(t, def)
	r.send("LEAVE").is("out", "+p +r1 +a +r2 +a -a -r2 -a -r1 -p +out")
	r.send("BOTH").is("p.r1.b p.r2.b", "-out +p +r1 +b +r2 +b")
	r.send("ONE").is("p.r1.a p.r2.b", "-b -r2 -b -r1 -p +p +r1 +a +r2 +b")
}

func TestNestedParallelStatesAreEnteredCompletely(t *testing.T) {
	t.Parallel()
	inner := S{ID: "q", Type: statechart.Parallel, States: []S{{ID: "x"}, {ID: "y", On: []On{{Event: "GO", Target: "#deep"}}}}}
	r := begin(t, Def{Initial: "p", States: []S{
		{ID: "p", Type: statechart.Parallel, States: []S{
			inner,
			{ID: "r", Initial: "a", States: []S{{ID: "a"}, {ID: "b", Initial: "deep", States: []S{{ID: "deep"}}}}},
		}},
	}})
	r.is("p.q.x p.q.y p.r.a", "+p +q +x +y +r +a")
	r.send("GO").is("p.q.x p.q.y p.r.b.deep", "-a -r -y -x -q +q +x +y +r +b +deep")
}

func TestParallelRootHasAllTopLevelStatesActive(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Parallel: true, States: []S{
		{ID: "a", Initial: "x", States: []S{{ID: "x", On: []On{{Event: "GO", Target: "y"}}}, {ID: "y"}}},
		{ID: "b"},
	}})
	r.is("a.x b", "+a +x +b")
	r.send("GO").is("a.y b", "-x +y")
}

func TestInternalSelfTransitionOfARegionThatIsLeftOnlyRunsItsActions(t *testing.T) {
	t.Parallel()
	r := begin(t, regions([]On{{Event: "GO", Target: "out"}}, nil, []On{{Event: "GO", Target: "a", Actions: logs("stay")}}))
	r.is("p.r1.a p.r2.a", "+p +r1 +a +r2 +a")
	// The transition of r2's child leaves no state, so it conflicts with no other transition.
	r.send("GO").is("out", "-a -r2 -a -r1 -p stay +out")
}

func TestInternalTransitionToOwnHistoryOfARegionThatIsLeftEntersNothing(t *testing.T) {
	t.Parallel()
	def := regions([]On{{Event: "GO", Target: "out"}}, nil, []On{{Event: "GO", Target: "h", Actions: logs("stay")}})
	r2 := &def.States[0].States[1]
	r2.States = append(r2.States, S{ID: "h", Type: statechart.DeepHistory})
	r := begin(t, def)
	r.is("p.r1.a p.r2.a", "+p +r1 +a +r2 +a")
	r.send("GO").is("out", "-a -r2 -a -r1 -p stay +out")
}

func TestHistoryRecordedInTheSameMicrostepDoesNotMoveADomain(t *testing.T) {
	t.Parallel()
	// h has no record yet, so the transition of a leads to the default of h: a itself. In the same microstep, the
	// transition of r2 leaves p, and h gets a record. The transition of a keeps the domain that was computed before h
	// got the record.
	r := begin(t, Def{Parallel: true, States: []S{
		{ID: "p", Type: statechart.Parallel, States: []S{
			{ID: "h", Type: statechart.ShallowHistory, Target: "a"}, {ID: "a", On: []On{{Event: "GO", Target: "h"}}}, {ID: "b"}}},
		{ID: "r2", Initial: "x", States: []S{{ID: "x", On: []On{{Event: "GO", Target: "#y"}}}}},
		{ID: "r3", Initial: "z", States: []S{{ID: "z"}, {ID: "y"}}},
	}})
	r.is("p.a p.b r2.x r3.z", "+p +a +b +r2 +x +r3 +z")
	r.send("GO").is("p.a p.b r2.x r3.y", "-z -r3 -x -r2 -b -a -p +p +a +b +r2 +x +r3 +y")
}

func TestTargetsInSeveralRegionsActWithinTheirCommonAncestorInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, targets := range []string{"#r1.b #r2.b", "#r2.b #r1.b"} {
		// The source of each transition lies within the region of a target, or is that region.
		def := regions(nil, []On{{Event: "LEAF", Target: targets}}, nil)
		for i := range def.States[0].States {
			region := &def.States[0].States[i]
			region.On = append(region.On, On{Event: "REGION" + region.ID, Target: targets})
		}
		for _, event := range []string{"LEAF", "REGIONr1", "REGIONr2"} {
			r := begin(t, def)
			r.is("p.r1.a p.r2.a", "+p +r1 +a +r2 +a")
			r.send(event).is("p.r1.b p.r2.b", "-a -r2 -a -r1 +r1 +b +r2 +b")
		}
	}
}

func TestFirstSelectedTransitionWinsAConflictOfDomains(t *testing.T) {
	t.Parallel()
	// The first selected transition has the inner domain r1, the second the outer domain p.
	r := begin(t, regions(nil, []On{{Event: "GO", Target: "b"}}, []On{{Event: "GO", Target: "#r1.b"}, {Event: "B"}}))
	r.is("p.r1.a p.r2.a", "+p +r1 +a +r2 +a")
	r.send("GO").is("p.r1.b p.r2.a", "-a +b")
	// r1 has no transition now, so the transition of r2 is taken.
	r.send("GO").is("p.r1.b p.r2.a", "-a -r2 -b -r1 +r1 +b +r2 +a")
	// Now the first selected transition has the outer domain.
	r = begin(t, regions(nil, []On{{Event: "GO", Target: "#r2.b"}}, []On{{Event: "GO", Target: "b"}}))
	r.is("p.r1.a p.r2.a", "+p +r1 +a +r2 +a")
	r.send("GO").is("p.r1.a p.r2.b", "-a -r2 -a -r1 +r1 +a +r2 +b")
}

func TestTargetlessAncestorTransitionDoesNotConflictWithAnEarlierRegion(t *testing.T) {
	t.Parallel()
	r := begin(t, regions([]On{{Event: "GO", Actions: logs("parent")}}, []On{{Event: "GO", Target: "b", Actions: logs("region")}}, nil))
	r.is("p.r1.a p.r2.a", "+p +r1 +a +r2 +a")
	r.send("GO").is("p.r1.b p.r2.a", "-a region parent +b")
}
