package statechart_test

import (
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestStatesAreEnteredOutsideInAndLeftInsideOut(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", Entry: logs("+root"), States: []S{
		{ID: "a", Initial: "x", States: []S{{ID: "x", Initial: "y", States: []S{{ID: "y"}}}},
			On: []On{{Event: "GO", Target: "b.z", Actions: logs("one", "two")}}},
		{ID: "b", Initial: "w", States: []S{{ID: "w"}, {ID: "z", Initial: "deep", States: []S{{ID: "deep"}}}},
			On: []On{{Event: "IN", Target: ".w"}}},
	}})
	r.is("a.x.y", "+root +a +x +y")
	r.send("GO").is("b.z.deep", "-y -x -a one two +b +z +deep")
	r.send("IN").is("b.w", "-deep -z +w")
}

func TestEntryActionsSeeTheEventThatLedToThem(t *testing.T) {
	t.Parallel()
	see := func(where string) Do {
		return Do{statechart.Assign("see", func(c *trace, e Event) { c.Log = append(c.Log, where+"="+e.Type) })}
	}
	r := begin(t, Def{Initial: "a", States: []S{
		{ID: "a", Entry: see("start"), Exit: see("exit"), On: []On{{Event: "GO", Target: "b"}}},
		{ID: "b", Always: []On{{Target: "c", Actions: see("always")}}},
		{ID: "c", Entry: append(see("entry"), raise("R")), On: []On{{Event: "R", Actions: see("internal")}}},
	}})
	r.is("a", "+a start=")
	r.send("GO").is("c", "-a exit=GO +b -b always=GO +c entry=GO internal=R")
}

// selfTargets returns a chart with a compound state. One of its transitions targets the state itself. The others target
// its child y, each with another form of reference.
func selfTargets(reenter bool) Def {
	return Def{Initial: "a", States: []S{{ID: "a", Initial: "x",
		On: []On{
			{Event: "SELF", Target: "a", Reenter: reenter},
			{Event: "CHILD", Target: ".y", Reenter: reenter},
			{Event: "SIBLING", Target: "a.y", Reenter: reenter},
			{Event: "ID", Target: "#y", Reenter: reenter},
		},
		States: []S{{ID: "x"}, {ID: "y"}},
	}}}
}

func TestTransitionToTheSourceOrBelowItIsInternalByDefault(t *testing.T) {
	t.Parallel()
	for _, event := range []string{"CHILD", "SIBLING", "ID"} {
		r := begin(t, selfTargets(false))
		r.is("a.x", "+a +x")
		r.send(event).is("a.y", "-x +y")
		r.send("SELF").is("a.x", "-y +x")
	}
}

func TestReenterLeavesAndReentersTheSource(t *testing.T) {
	t.Parallel()
	for _, event := range []string{"CHILD", "SIBLING", "ID"} {
		r := begin(t, selfTargets(true))
		r.is("a.x", "+a +x")
		r.send(event).is("a.y", "-x -a +a +y")
		r.send("SELF").is("a.x", "-y -a +a +x")
	}
}

func TestAtomicStateTargetingItselfStaysUnlessReentered(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", States: []S{{ID: "a", On: []On{
		{Event: "STAY", Target: "a", Actions: logs("stay")},
		{Event: "AGAIN", Target: "a", Actions: logs("again"), Reenter: true},
	}}}})
	r.is("a", "+a")
	r.send("STAY").is("a", "stay")
	r.send("AGAIN").is("a", "-a again +a")
}

func TestTransitionToAnAncestorLeavesAndReentersIt(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", Entry: logs("+root"), Exit: logs("-root"), States: []S{
		{ID: "p", Initial: "a", States: []S{{ID: "a", On: []On{{Event: "UP", Target: "#p"}, {Event: "TOP", Target: "#c"}}}}},
	}})
	r.is("p.a", "+root +p +a")
	r.send("UP").is("p.a", "-a -p +p +a")
	r.send("TOP").is("p.a", "-a -p -root +root +p +a")
}

func TestRootTransitionKeepsTheRootUnlessReentered(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", Entry: logs("+root"), Exit: logs("-root"),
		On:     []On{{Event: "SOFT", Target: "#c"}, {Event: "HARD", Target: "#c", Reenter: true}, {Event: "B", Target: ".b"}},
		States: []S{{ID: "a"}, {ID: "b"}}})
	r.is("a", "+root +a")
	r.send("B").is("b", "-a +b")
	r.send("SOFT").is("a", "-b +a")
	r.send("HARD").is("a", "-a -root +root +a")
}

func TestTargetlessTransitionRunsItsActionsOnly(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", States: []S{{ID: "p", Initial: "a", States: []S{{ID: "a"}},
		On: []On{{Event: "DO", Actions: logs("did"), Reenter: true}}}}})
	r.is("p.a", "+p +a")
	r.send("DO").is("p.a", "did")
	equal(t, "handled", r.step.Handled, true)
}

func TestForbiddenTransitionHidesTheEventFromAncestors(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", States: []S{{ID: "p", Initial: "a",
		On:     []On{{Event: "GO", Actions: logs("ancestor")}},
		States: []S{{ID: "a", On: []On{{Event: "GO"}, {Event: "NEXT", Target: "b"}}}, {ID: "b"}}}}})
	r.is("p.a", "+p +a")
	r.send("GO").is("p.a", "")
	r.send("NEXT", "GO").is("p.b", "-a +b ancestor")
}

func TestFirstTransitionInDocumentOrderWhoseGuardHoldsIsTaken(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", States: []S{{ID: "a", On: []On{
		{Event: "GO", Guard: no, Actions: logs("first")},
		{Event: "OTHER", Actions: logs("other")},
		{Event: "GO", Guard: yes, Actions: logs("second")},
		{Event: "GO", Actions: logs("third")},
	}}}})
	r.is("a", "+a")
	r.send("GO").is("a", "second")
}

func TestNearestStateWithAnEnabledTransitionTakesTheEvent(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", On: []On{{Event: "GO", Actions: logs("root")}}, States: []S{
		{ID: "p", Initial: "a", On: []On{{Event: "GO", Guard: below(2), Actions: logs("parent")}}, States: []S{
			{ID: "a", On: []On{{Event: "GO", Guard: below(1), Actions: logs("child")}, {Event: "ADD", Actions: Do{add(1)}}}}}}}})
	r.is("p.a", "+p +a")
	r.send("GO").is("p.a", "child")
	r.send("ADD", "GO").is("p.a", "parent")
	r.send("ADD", "GO").is("p.a", "root")
}

func TestUnhandledEventChangesNothing(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", States: []S{{ID: "a", On: []On{{Event: "GO", Guard: no, Actions: logs("went")}}}}})
	before := text(t, r.step.Next)
	r.send("GO")
	equal(t, "handled", r.step.Handled, false)
	equal(t, "snapshot", text(t, r.step.Next), before)
}

func TestTargetsResolveAsInXState(t *testing.T) {
	t.Parallel()
	targets := map[string]string{
		"b":        "p.b.x", // sibling
		"b.x":      "p.b.x", // below a sibling
		".z":       "p.a.z", // child
		".y.u":     "p.a.y.u",
		"#q":       "q", // a unique ID
		"#b.x":     "p.b.x",
		"#p.b.x":   "p.b.x", // a path
		"#c.p.b":   "p.b.x", // a path from the chart's ID
		"#c":       "p.a.z",
		"#p.a.y":   "p.a.y.u",
		"  #q\n\t": "q",
	}
	for target, state := range targets {
		r := begin(t, Def{Initial: "p", On: []On{{Event: "KEEP", Target: ".q"}}, States: []S{
			{ID: "p", Initial: "a", States: []S{
				{ID: "a", Initial: "z", On: []On{{Event: "GO", Target: target}, {Event: "Y", Target: ".y"}, {Event: "B", Target: "b"}},
					States: []S{{ID: "z"}, {ID: "y", Initial: "u", States: []S{{ID: "u"}}}}},
				{ID: "b", Initial: "x", States: []S{{ID: "x"}}},
			}},
			{ID: "q"},
		}})
		got := r.send("GO").step.Next.State()[0]
		equal(t, "target "+target, got, state)
	}
}

func TestInternalSelfTransitionEntersNeitherSourceNorAncestors(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", Entry: logs("+root"), States: []S{{ID: "p", Initial: "a", After: []After{{Delay: 1}}, States: []S{
		{ID: "a", On: []On{{Event: "STAY", Target: "a", Actions: logs("stay")}}}}}}})
	r.is("p.a", "+root +p +a")
	r.send("STAY").is("p.a", "stay")
	equal(t, "timer", r.timer("p").ID, "1.0")
}

func TestUnknownOrDuplicateTargetsAreRejected(t *testing.T) {
	t.Parallel()
	for problem, def := range map[string]Def{
		`target "." is not a state`:                       {Initial: "a", On: []On{{Event: "GO", Target: "."}}, States: []S{{ID: "a"}}},
		`target "#" is not a state`:                       {Initial: "a", On: []On{{Event: "GO", Target: "#"}}, States: []S{{ID: "a"}}},
		`the targets "#p #p" cannot be active together`:   {Initial: "p", On: []On{{Event: "GO", Target: "#p #p"}}, States: []S{{ID: "p", Type: statechart.Parallel, States: []S{{ID: "a"}, {ID: "b"}}}}},
		`the targets ".p.a .p" cannot be active together`: {Initial: "p", On: []On{{Event: "GO", Target: ".p.a .p"}}, States: []S{{ID: "p", Type: statechart.Parallel, States: []S{{ID: "a"}, {ID: "b"}}}}},
	} {
		if _, err := statechart.Compile(traced(def)); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("got the error %v, want %q", err, problem)
		}
	}
}
