package statechart_test

import (
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestInitialMayNameADeeperState(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p.b.y", States: []S{
		{ID: "p", Initial: "a", On: []On{{Event: "AGAIN", Target: "#p"}}, States: []S{
			{ID: "a"},
			{ID: "b", Initial: "x", States: []S{{ID: "x"}, {ID: "y"}}},
		}},
	}})
	r.is("p.b.y", "+p +b +y")
	r.send("AGAIN").is("p.a", "-y -b +a")
}

func TestInitialMayNameStatesOfSeveralRegions(t *testing.T) {
	t.Parallel()
	region := func(id string) S {
		return S{ID: id, Initial: "1", States: []S{{ID: "1"}, {ID: "2"}}}
	}
	r := begin(t, Def{Initial: "p.r.2 p.t.2", States: []S{
		{ID: "p", Type: statechart.Parallel, States: []S{region("r"), region("s"), region("t")}, On: []On{{Event: "GO", Target: "#s.2"}}},
	}})
	r.is("p.r.2 p.s.1 p.t.2", "+p +r +2 +s +1 +t +2")
}

func TestDefaultEntryRunsBetweenTheStateAndItsChildren(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", DefaultEntry: logs("root"), States: []S{
		{ID: "p", Initial: "a", DefaultEntry: logs("default"), States: []S{{ID: "a"}, {ID: "b"}}, On: []On{
			{Event: "NAMED", Target: ".b", Reenter: true},
			{Event: "DEFAULT", Target: "p", Reenter: true},
			{Event: "WITHIN", Target: "p"},
		}},
	}})
	r.is("p.a", "root +p default +a")
	r.send("NAMED").is("p.b", "-a -p +p +b")
	r.send("DEFAULT").is("p.a", "-b -p +p default +a")
	r.send("WITHIN").is("p.a", "-a +a")
}

func TestDefaultEntryOfHistoryRunsOnlyWithoutARecord(t *testing.T) {
	t.Parallel()
	def := playing(S{Type: statechart.ShallowHistory, Target: "b", DefaultEntry: logs("of-h")})
	def.Initial = "out"
	def.States[0].DefaultEntry = logs("of-p")
	r := begin(t, def)
	r.is("out", "+out")
	r.send("BACK").is("p.b.x", "-out back +p of-h +b +x")
	r.send("OUT", "BACK").is("p.b.x", "-x -b -p +out -out back +p +b +x")
}

func TestDefaultEntryOfHistoryRunsAfterItsParents(t *testing.T) {
	t.Parallel()
	def := playing(S{Type: statechart.ShallowHistory, Target: "a", DefaultEntry: logs("of-h")})
	def.States[0].Initial, def.States[0].DefaultEntry = "h", logs("of-p")
	r := begin(t, def)
	r.is("p.a", "+p of-p of-h +a")
	r.send("OUT", "FRESH").is("p.a", "-a -p +out -out +p of-p +a")
}

func TestInitialAndItsActionsAreChecked(t *testing.T) {
	t.Parallel()
	two := []S{{ID: "a"}, {ID: "b"}}
	for problem, def := range map[string]Def{
		`the targets "p.a p.b" cannot be active together`: {Initial: "p.a p.b", States: []S{{ID: "p", Initial: "a", States: two}}},
		`its Initial "p.c" is not one of its children`:    {Initial: "p.c", States: []S{{ID: "p", Initial: "a", States: two}}},
		`has DefaultEntry but no initial state`:           {Initial: "p", States: []S{{ID: "p", DefaultEntry: logs("x")}}},
		`the action "x" does nothing`:                     {Initial: "p", DefaultEntry: Do{{Name: "x"}}, States: []S{{ID: "p"}}},
	} {
		if _, err := statechart.Compile(traced(def)); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("got the error %v, want %q", err, problem)
		}
	}
}

func TestDefaultEntryDoesNotDependOnEarlierTransitions(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", States: []S{
		{ID: "p", Initial: "a", DefaultEntry: logs("default"), States: []S{{ID: "a"}, {ID: "b"}}, On: []On{
			{Event: "DEFAULT", Target: "p", Reenter: true},
			{Event: "NAMED", Target: ".b", Reenter: true},
		}},
	}})
	r.is("p.a", "+p default +a")
	r.send("NAMED").is("p.b", "-a -p +p +b")
}

func TestFailureInADefaultEntryNamesItsState(t *testing.T) {
	t.Parallel()
	def := playing(S{Type: statechart.ShallowHistory, Target: "a", DefaultEntry: Do{failing}})
	def.Initial = "out"
	begin(t, def).refuses(Event{Type: "BACK"}, errPlanned, `chart c, state "p.h", event "BACK": action failing: planned`)
	def = playing(S{Type: statechart.ShallowHistory, Target: "a"})
	def.Initial, def.States[0].DefaultEntry = "out", Do{failing}
	begin(t, def).refuses(Event{Type: "FRESH"}, errPlanned, `chart c, state "p", event "FRESH": action failing: planned`)
}
