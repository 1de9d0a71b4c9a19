package statechart_test

import (
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestAlwaysIsTakenAsSoonAsTheStateIsEntered(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", States: []S{
		{ID: "a", Always: []On{{Target: "b", Actions: logs("one")}}},
		{ID: "b", Always: []On{{Guard: no, Target: "a"}, {Target: "c", Actions: logs("two")}}},
		{ID: "c"},
	}})
	r.is("c", "+a -a one +b -b two +c")
}

func TestGuardedAlwaysIsTriedAfterEveryMicrostep(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", States: []S{
		{ID: "a", Tags: settled, Always: []On{{Guard: statechart.Not(below(2)), Target: "b"}}, On: []On{{Event: "ADD", Actions: Do{add(1)}}}},
		{ID: "b"},
	}})
	r.send("ADD").is("a", "+a")
	r.send("ADD").is("b", "-a +b")
}

func TestEventReadOnlyByAnAlwaysGuardIsHandled(t *testing.T) {
	t.Parallel()
	late := statechart.When("late", func(_ trace, e Event) bool { return e.At.After(epoch) })
	stop := statechart.When("stop", func(_ trace, e Event) bool { return e.Type == "STOP" })
	for _, guard := range []Guard{late, stop} {
		r := begin(t, Def{Initial: "a", Payloads: statechart.Payloads{"GO": statechart.NoPayload(), "STOP": statechart.NoPayload()}, States: []S{
			{ID: "a", Tags: settled, Always: []On{{Guard: guard, Target: "b", Actions: logs("always")}}},
			{ID: "b", After: []After{{Delay: minutes(1)}}},
		}})
		r.send("GO").is("a", "+a")
		equal(t, "handled", r.step.Handled, false)
		equal(t, "steps", r.step.Next.Steps, 1)
		r.now = r.now.Add(1)
		r.send("STOP").is("b", "-a always +b")
		equal(t, "handled", r.step.Handled, true)
		equal(t, "steps", r.step.Next.Steps, 2)
		equal(t, "effects", len(r.step.Effects), 1)
	}
}

func TestAlwaysOfADescendantPrecedesItsAncestors(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", States: []S{
		{ID: "p", Initial: "a", Always: []On{{Target: "q", Actions: logs("parent")}}, States: []S{
			{ID: "a", Always: []On{{Target: "b", Actions: logs("child")}}}, {ID: "b", Always: []On{{Guard: no, Target: "a"}}}}},
		{ID: "q"},
	}})
	r.is("q", "+p +a -a child +b -b -p parent +q")
}

func TestRegionsTakeTheirAlwaysTogether(t *testing.T) {
	t.Parallel()
	region := func(id string) S {
		return S{ID: id, Initial: "a", States: []S{{ID: "a", Always: []On{{Target: "b"}}}, {ID: "b"}}}
	}
	r := begin(t, Def{Parallel: true, States: []S{region("r1"), region("r2")}})
	r.is("r1.b r2.b", "+r1 +a +r2 +a -a -a +b +b")
}

func TestRaisedEventsAreHandledInOrderAfterEventlessTransitions(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", States: []S{
		{ID: "a", On: []On{{Event: "GO", Target: "b", Actions: Do{raise("ONE"), raise("TWO")}}}},
		{ID: "b", Always: []On{{Target: "c", Actions: logs("always")}}, On: []On{{Event: "ONE", Actions: logs("too early")}}},
		{ID: "c", On: []On{{Event: "ONE", Actions: append(logs("one"), raise("THREE"))}, {Event: "TWO", Actions: logs("two")}, {Event: "THREE", Actions: logs("three")}}},
	}})
	r.is("a", "+a")
	r.send("GO").is("c", "-a +b -b always +c one two three")
}

func TestUnhandledRaisedEventIsDropped(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", States: []S{{ID: "a", Entry: Do{raise("X"), raise("Y")}, On: []On{{Event: "Y", Actions: logs("y")}, {Event: "X", Guard: no, Target: "a"}}}}})
	r.is("a", "+a y")
	equal(t, "steps", r.step.Next.Steps, 1)
}

func TestRaiseWithCarriesItsPayloadAndTheTimeOfTheStep(t *testing.T) {
	t.Parallel()
	raised := statechart.RaiseWith("N", func(c trace, e Event) int { return c.N + len(e.Type) })
	take := statechart.Assign("take", func(c *trace, n int) { c.N = n })
	at := statechart.Assign("at", func(c *trace, e Event) { c.Log = append(c.Log, e.At.Format("15:04:05")) })
	chart := compile(t, Def{ID: "c", Version: 1, Initial: "a", Payloads: statechart.Payloads{"GO": statechart.NoPayload(), "N": statechart.InternalOf[int]()},
		States: []S{{ID: "a", Tags: settled, On: []On{{Event: "GO", Actions: Do{add(40), raised}}, {Event: "N", Actions: Do{take, at}}}}}})
	start, _ := chart.Start(statechart.Start{At: epoch})
	step, err := chart.Step(start.Next, Event{Type: "GO", At: epoch})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "payload", step.Next.Context.N, 42)
	equal(t, "time", step.Next.Context.Log[0], "03:04:05")
}

func TestGuardsCombine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		guard Guard
		holds bool
	}{
		{"(yes and no)", statechart.And(yes, no), false},
		{"(no and yes)", statechart.And(no, yes), false},
		{"(yes and yes)", statechart.And(yes, yes), true},
		{"()", statechart.And[trace](), true},
		{"(no or yes)", statechart.Or(no, yes), true},
		{"(yes or no)", statechart.Or(yes, no), true},
		{"(no or no)", statechart.Or(no, no), false},
		{"not no", statechart.Not(no), true},
		{"not yes", statechart.Not(yes), false},
		{"(in p.r2.y and not in p.r2.x)", statechart.And(statechart.In[trace]("p.r2.y"), statechart.Not(statechart.In[trace]("p.r2.x"))), true},
		{"in p.r2", statechart.In[trace]("p.r2"), true},
		{"", Guard{}, true},
	} {
		equal(t, "name", c.guard.Name, c.name)
		r := begin(t, Def{Initial: "p", States: []S{{ID: "p", Type: statechart.Parallel, States: []S{
			{ID: "r1", Initial: "a", States: []S{{ID: "a", On: []On{{Event: "GO", Guard: c.guard, Target: "b"}}}, {ID: "b"}}},
			{ID: "r2", Initial: "x", States: []S{{ID: "x", On: []On{{Event: "Y", Target: "y"}}}, {ID: "y"}}},
		}}}})
		r.send("Y", "GO")
		equal(t, "guard "+c.name, r.step.Next.Matches("p.r1.b"), c.holds)
	}
}

func TestGuardReadsThePayload(t *testing.T) {
	t.Parallel()
	type amount struct{ Cents int }
	large := statechart.When("large", func(_ trace, a amount) bool { return a.Cents > 100 })
	chart := compile(t, Def{ID: "c", Version: 1, Initial: "a", Payloads: statechart.Payloads{"PAY": statechart.PayloadOf[amount]()},
		States: []S{{ID: "a", Tags: settled, On: []On{{Event: "PAY", Guard: statechart.Not(large), Actions: logs("small")}, {Event: "PAY", Guard: large, Actions: logs("large")}}}}})
	start, _ := chart.Start(statechart.Start{At: epoch})
	for cents, want := range map[int]string{100: "small", 101: "large"} {
		step, err := chart.Step(start.Next, Event{Type: "PAY", Payload: amount{cents}})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "taken", step.Next.Context.Log[0], want)
	}
}

func TestEventDescriptorsMatchByToken(t *testing.T) {
	t.Parallel()
	events := []string{"mouse", "mouse.up", "mouse.up.left", "mouseless", "key"}
	for descriptor, want := range map[string]string{
		"*":          "mouse mouse.up mouse.up.left mouseless key",
		"mouse.*":    "mouse mouse.up mouse.up.left",
		"mouse.up.*": "mouse.up mouse.up.left",
		"mouse":      "mouse",
		"mouse.up":   "mouse.up",
	} {
		def := Def{Initial: "a", Payloads: statechart.Payloads{}, States: []S{{ID: "a", On: []On{{Event: descriptor,
			Actions: Do{statechart.Assign("see", func(c *trace, e Event) { c.Log = append(c.Log, e.Type) })}}}}}}
		for _, event := range events {
			def.Payloads[event] = statechart.NoPayload()
		}
		r := begin(t, def)
		r.is("a", "+a")
		r.send(events...).is("a", want)
	}
}

func TestWildcardMatchesDoneEventsButNotTimers(t *testing.T) {
	t.Parallel()
	anything := []On{{Event: "*", Target: "q", Actions: logs("any")}}
	r := begin(t, Def{Initial: "p", States: []S{{ID: "p", Initial: "f", On: anything, States: []S{{ID: "f", Type: statechart.Final}}}, {ID: "q"}}})
	r.is("q", "+p +f -f -p any +q")
	r = begin(t, Def{Initial: "p", States: []S{{ID: "p", On: anything, After: []After{{Delay: 1, Target: "x"}}}, {ID: "x"}, {ID: "q"}}})
	r.fire(r.timer("p")).is("x", "+p -p +x")
}

func TestWildcardDoesNotMatchStaleEvents(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", On: []On{{Event: "*", Actions: logs("any")}}, States: []S{{ID: "a"}}})
	r.apply(Event{Type: statechart.TimerEvent, Timer: "0.0"})
	r.apply(Event{Type: "done.invoke.a", Invocation: "0.0"}).is("a", "+a")
}

func TestContextGuardAcceptsAnyEvent(t *testing.T) {
	t.Parallel()
	positive := statechart.If("positive", func(c trace) bool { return c.N > 0 })
	r := begin(t, Def{Initial: "a", States: []S{{ID: "a", On: []On{
		{Event: "GO", Guard: statechart.And(Guard{}, positive), Actions: logs("positive")}, {Event: "GO", Actions: logs("zero")}, {Event: "ADD", Actions: Do{add(1)}}}}}})
	r.is("a", "+a").send("GO").is("a", "zero").send("ADD", "GO").is("a", "positive")
}

func TestDescriptorNextToAPrefixMatchesOnlyItsType(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", Payloads: statechart.Payloads{"mouse.up": statechart.NoPayload(), "key.up": statechart.NoPayload()}, States: []S{
		{ID: "a", On: []On{{Event: "mouse", Actions: logs("mouse")}, {Event: "key.*", Actions: logs("key")}}}}})
	r.is("a", "+a").send("mouse.up").is("a", "").send("mouse", "key.up").is("a", "mouse key")
}

func TestWildcardIsNotAnEventlessTransition(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", States: []S{
		{ID: "a", On: []On{{Event: "*", Guard: yes, Actions: logs("any")}, {Event: "GO", Actions: logs("never")}}, Tags: settled, Always: []On{{Guard: enough, Target: "b", Actions: logs("always")}}},
		{ID: "b"},
	}, On: []On{{Event: "ADD", Actions: Do{add(1)}}}})
	r.is("a", "+a").send("GO", "ADD").is("a", "any any")
}
