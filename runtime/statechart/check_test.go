package statechart_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

// flawed builds a valid chart in which GO leads from the state `wait` to the state `next`. It applies the test's change
// to the chart and returns it.
func flawed(change func(d *Def, wait, next *S)) Def {
	def := Def{ID: "c", Version: 1, Initial: "wait", Payloads: statechart.Payloads{"GO": statechart.NoPayload()}, States: []S{
		{ID: "wait", Tags: settled, On: []On{{Event: "GO", Target: "next"}}},
		{ID: "next", Tags: settled},
	}}
	if change != nil {
		change(&def, &def.States[0], &def.States[1])
	}
	return def
}

// children holds the settled child states a and b.
var children = []S{{ID: "a", Tags: settled, On: []On{{Event: "GO", Target: "b"}}}, {ID: "b", Tags: settled}}

// manyRegions returns a parallel state with n settled regions and a history state.
func manyRegions(n int) S {
	s := S{ID: "next", Type: statechart.Parallel, States: []S{{ID: "h", Type: statechart.DeepHistory}}}
	for i := range n {
		s.States = append(s.States, S{ID: fmt.Sprint("r", i), Tags: settled})
	}
	return s
}

type flaw struct {
	name                string
	change              func(d *Def, wait, next *S)
	state, problem, fix string
}

// checkFlaws expects exactly one finding for each flawed chart.
func checkFlaws(t *testing.T, flaws []flaw) {
	t.Helper()
	for _, c := range flaws {
		_, err := statechart.Compile(flawed(c.change))
		var failure *statechart.DefinitionError
		if !errors.As(err, &failure) {
			t.Errorf("%s: got %v, want a *DefinitionError", c.name, err)
			continue
		}
		if want := []statechart.Finding{{State: c.state, Problem: c.problem, Fix: c.fix}}; !slices.Equal(failure.Findings, want) {
			t.Errorf("%s: got\n%v\nwant\n%v", c.name, err, want)
		}
	}
}

func TestHeadOfAChartIsChecked(t *testing.T) {
	t.Parallel()
	const event = "use a name without '*' and spaces that does not begin with settle., done.state., done.invoke., error.invoke., done.child., error.child., error.execution"
	checkFlaws(t, []flaw{
		{"ID", func(d *Def, _, _ *S) { d.ID = "a.b" }, "", `has the ID "a.b"`, "use ASCII letters, digits, '-' and '_'"},
		{"no ID", func(d *Def, _, _ *S) { d.ID = "" }, "", `has the ID ""`, "use ASCII letters, digits, '-' and '_'"},
		{"version", func(d *Def, _, _ *S) { d.Version = 0 }, "", `has the version 0`, "count versions from 1"},
		{"states", func(d *Def, _, _ *S) { d.States, d.Initial = nil, "" }, "", `has no states`, "add States"},
		{"wildcard", func(d *Def, _, _ *S) { d.Payloads["a*"] = statechart.NoPayload() }, "", `declares the event type "a*"`, event},
		{"space", func(d *Def, _, _ *S) { d.Payloads["a b"] = statechart.NoPayload() }, "", `declares the event type "a b"`, event},
		{"empty", func(d *Def, _, _ *S) { d.Payloads[""] = statechart.NoPayload() }, "", `declares the event type ""`, event},
		{"reserved", func(d *Def, _, _ *S) { d.Payloads["settle.x"] = statechart.NoPayload() }, "", `declares the event type "settle.x"`, event},
		{"forgeable", func(d *Def, _, _ *S) { d.Payloads["done.invoke.x"] = statechart.NoPayload() }, "", `declares the event type "done.invoke.x"`, event},
		{"initial", func(d *Def, _, _ *S) { d.Initial = "wiat" }, "", `is compound but its Initial "wiat" is not one of its children (did you mean "wait"?)`, "set Initial to the ID of a child"},
		{"parallel", func(d *Def, _, _ *S) { d.Parallel = true }, "", `is parallel and has an Initial`, "remove Initial: all regions are entered"},
		{"states' number", func(d *Def, _, _ *S) {
			for i := range statechart.StatesMax {
				d.States = append(d.States, S{ID: fmt.Sprint("s", i), Tags: settled})
				d.States[0].On = append(d.States[0].On, On{Event: "GO", Target: fmt.Sprint("s", i)})
			}
			d.States, d.States[0].On = d.States[:statechart.StatesMax], d.States[0].On[:statechart.StatesMax-1]
		}, "", `has more than 4096 states`, "split it into several charts (StatesMax)"},
		{"transitions' number", func(d *Def, wait, next *S) {
			wait.After = make([]After, statechart.TransitionsMax-3)
			next.Children = []statechart.Child[trace]{{OnDone: make([]On, 1), OnError: make([]On, 1)}}
			d.On = make([]On, 1)
		}, "", `has 16385 transitions`, "use at most 16384, or split it into several charts (TransitionsMax)"},
		{"regions' number", func(_ *Def, _, next *S) { *next = manyRegions(statechart.RegionsMax + 1) }, "next",
			`has 257 regions that can be active at once`, "use at most 256, or move some into child instances (RegionsMax)"},
		{"inner regions' number", func(_ *Def, _, next *S) {
			*next = S{ID: "next", Type: statechart.Parallel, States: []S{manyRegions(statechart.RegionsMax), {ID: "one", Tags: settled}}}
		}, "next", `has 257 regions that can be active at once`, "use at most 256, or move some into child instances (RegionsMax)"},
	})
}

// nested returns a chain of n nested states. The innermost is settled.
func nested(n int) S {
	s := S{ID: "x", Tags: settled}
	for range n - 1 {
		s = S{ID: "x", Initial: "x", States: []S{s}}
	}
	return s
}

func TestShapeOfStatesIsChecked(t *testing.T) {
	t.Parallel()
	const name = "use a name without '.', '#', '/' and spaces"
	const leaf = "is final or history but has children, transitions, timers, services or deferred events"
	const plain = "remove them, or make it a plain state"
	flaws := []flaw{
		{"twice", func(d *Def, _, _ *S) { d.States = append(d.States, d.States[1]) }, "", `has two children with the ID "next"`, "give each its own ID"},
		{"twice below", func(_ *Def, _, next *S) {
			*next = S{ID: "next", Initial: "a", States: append(slices.Clone(children), S{ID: "a"})}
		}, "next", `has two children with the ID "a"`, "give each its own ID"},
		{"compound", func(_ *Def, _, next *S) { next.Tags, next.States = nil, children }, "next", `is compound but its Initial "" is not one of its children`, "set Initial to the ID of a child"},
		{"initial of none", func(_ *Def, _, next *S) { next.Initial = "a" }, "next", "has an Initial but no children", "remove it, or add States"},
		{"parallel", func(_ *Def, _, next *S) { *next = S{ID: "next", Type: statechart.Parallel} }, "next", "is parallel without regions", "add States"},
		{"only history", func(_ *Def, wait, next *S) {
			*next = S{ID: "next", Type: statechart.Parallel, States: []S{{ID: "h", Type: statechart.DeepHistory}}}
			wait.On[0].Target = "#h"
		}, "next", "is parallel without regions", "add States"},
		{"parallel initial", func(_ *Def, _, next *S) {
			*next = S{ID: "next", Type: statechart.Parallel, Initial: "a", States: children}
		}, "next", "is parallel and has an Initial", "remove Initial: all regions are entered"},
		{"final", func(_ *Def, _, next *S) {
			*next = S{ID: "next", Type: statechart.Final, On: []On{{Event: "GO"}}}
		}, "next", leaf, plain},
		{"history", func(d *Def, wait, _ *S) {
			d.States = append(d.States, S{ID: "h", Type: statechart.ShallowHistory, Always: []On{{}}})
			wait.On = append([]On{{Event: "GO", Guard: yes, Target: "h"}}, wait.On...)
		}, "h", leaf, plain},
		{"history's entry", func(d *Def, wait, _ *S) {
			d.States = append(d.States, S{ID: "h", Type: statechart.ShallowHistory, Entry: logs("x")})
			wait.On = append([]On{{Event: "GO", Guard: yes, Target: "h"}}, wait.On...)
		}, "h", "is history but has actions, tags or resolutions", "remove them: a history state is never active"},
		{"target", func(_ *Def, _, next *S) { next.Target = "wait" }, "next", "has a Target but is not a history state", "put the target into a transition"},
		{"output", func(_ *Def, _, next *S) { next.Output = output(1) }, "next", "has an Output but is not final", "move Output to a final state"},
		{"tag", func(_ *Def, _, next *S) {
			*next = S{ID: "next", Tags: settled, Initial: "a", States: children}
		}, "next", "is tagged settled but is not atomic", "tag the atomic states below it that may wait"},
		{"done of atomic", func(_ *Def, _, next *S) { next.OnDone = []On{{Target: "wait"}} }, "next", "has OnDone but no child that could be final", "add a final child, or move the transitions to an invocation's OnDone"},
		{"done of compound", func(_ *Def, _, next *S) {
			*next = S{ID: "next", Initial: "a", States: children, OnDone: []On{{Target: "wait"}}}
		}, "next", "has OnDone but no child that could be final", "add a final child, or move the transitions to an invocation's OnDone"},
		{"done of parallel", func(_ *Def, _, next *S) {
			*next = S{ID: "next", Type: statechart.Parallel, States: []S{{ID: "a", Type: statechart.Final}, {ID: "b", Tags: settled}}, OnDone: []On{{Target: "wait"}}}
		}, "next", "has OnDone but no child that could be final", "add a final child, or move the transitions to an invocation's OnDone"},
		{"deep", func(d *Def, wait, _ *S) {
			*wait = nested(statechart.NestingDepthMax + 1)
			d.States, d.Initial = d.States[:1], "x"
		}, strings.Repeat("x.", statechart.NestingDepthMax) + "x", "is nested 33 deep", "nest at most 32 deep (NestingDepthMax)"},
		{"endless", func(d *Def, _, _ *S) {
			itself := []S{{ID: "x", Initial: "x"}}
			itself[0].States = itself
			d.States, d.Initial = itself, "x"
		}, strings.Repeat("x.", statechart.NestingDepthMax) + "x", "is nested 33 deep", "nest at most 32 deep (NestingDepthMax)"},
	}
	for _, id := range []string{"", "a.b", "a b", "a#", "a/b", "a\tb", "a\u00a0b", "\xff"} {
		flaws = append(flaws, flaw{fmt.Sprintf("ID %q", id), func(d *Def, wait, _ *S) {
			wait.ID, d.Initial = id, id
		}, id, fmt.Sprintf("has the ID %q", id), name})
	}
	checkFlaws(t, flaws)
}

func TestTargetsAreChecked(t *testing.T) {
	t.Parallel()
	const fix = "name a sibling, a .child, or a #path.of.a.state"
	to := func(target string) func(*Def, *S, *S) {
		return func(_ *Def, wait, _ *S) { wait.On = append(wait.On, On{Event: "GO", Target: target}) }
	}
	// twins returns a change that makes `next` a parallel state with two regions. The children of both regions have the
	// same IDs, and each region has a history state.
	twins := func(target string) func(*Def, *S, *S) {
		return func(_ *Def, wait, next *S) {
			region := func(id string) S {
				return S{ID: id, Initial: "a", States: append(slices.Clone(children), S{ID: "h" + id, Type: statechart.DeepHistory, Target: "a"})}
			}
			*next = S{ID: "next", Type: statechart.Parallel, States: []S{region("r1"), region("r2")}}
			wait.On = []On{{Event: "GO", Target: "#hr1 #hr2"}, {Event: "GO", Target: target}}
		}
	}
	const apart = "name states of different regions of one parallel state"
	checkFlaws(t, []flaw{
		{"sibling", to("nxet"), "wait", `on GO: target "nxet" is not a state (did you mean "next"?)`, fix},
		{"child", to(".next"), "wait", `on GO: target ".next" is not a state (did you mean "next"?)`, fix},
		{"dot", to("."), "wait", `on GO: target "." is not a state`, fix},
		{"ID", to("#nxet"), "wait", `on GO: target "#nxet" is not a state (did you mean "next"?)`, fix},
		{"no ID", to("#"), "wait", `on GO: target "#" is not a state`, fix},
		{"path", to("#c.nxet"), "wait", `on GO: target "#c.nxet" is not a state (did you mean "next"?)`, fix},
		{"root", func(d *Def, _, _ *S) { d.On = []On{{Event: "GO", Target: "next"}} }, "",
			`on GO: target "next" is not valid at the root, which has no siblings (did you mean ".next"?)`, fix},
		{"ambiguous", twins("#a"), "wait", `on GO: target "#a" is ambiguous: it may be next.r1.a or next.r2.a`, fix},
		{"one region", twins("next.r1.a next.r1.b"), "wait", `on GO: the targets "next.r1.a next.r1.b" cannot be active together`, apart},
		{"ancestor", twins("next next.r1.b"), "wait", `on GO: the targets "next next.r1.b" cannot be active together`, apart},
		{"twice", twins("next.r1.b next.r1.b"), "wait", `on GO: the targets "next.r1.b next.r1.b" cannot be active together`, apart},
		{"history beside", twins("next.r1.b #hr1"), "wait", `on GO: the targets "next.r1.b #hr1" cannot be active together`, apart},
		{"history of them all", func(_ *Def, wait, next *S) {
			*next = S{ID: "next", Type: statechart.Parallel, States: []S{{ID: "h", Type: statechart.DeepHistory}, {ID: "r", Tags: settled}}}
			wait.On[0].Target = "next.r next.h"
		}, "wait", `on GO: the targets "next.r next.h" cannot be active together`, apart},
		{"always", func(_ *Def, _, next *S) { next.Always = []On{{Guard: yes, Target: "x"}} }, "next", `always: target "x" is not a state`, fix},
		{"after", func(_ *Def, _, next *S) { next.After = []After{{Delay: 1, Target: "x"}} }, "next", `after 1ns: target "x" is not a state`, fix},
		{"default", func(_ *Def, wait, next *S) {
			*next = S{ID: "next", Initial: "a", States: append(slices.Clone(children), S{ID: "h", Type: statechart.DeepHistory, Target: "x"})}
			wait.On[0].Target = "next.h"
		}, "next.h", `default: target "x" is not a state`, fix},
		{"default outside", func(_ *Def, wait, next *S) {
			*next = S{ID: "next", Initial: "a", States: append(slices.Clone(children), S{ID: "h", Type: statechart.DeepHistory, Target: "#wait"})}
			wait.On[0].Target = "next.h"
		}, "next.h", `default: target "#wait" is outside the history state's parent`, "name a sibling or a state below one"},
		{"own default", func(_ *Def, wait, next *S) {
			*next = S{ID: "next", Initial: "h", States: append(slices.Clone(children), S{ID: "h", Type: statechart.DeepHistory})}
			wait.On[0].Target = "next.h"
			wait.On = append([]On{{Event: "GO", Guard: yes, Target: "next.a"}}, wait.On...)
		}, "next.h", "is its own default", "set Target to a state that is not history"},
	})
}

func TestCompileReturnsAllFindings(t *testing.T) {
	t.Parallel()
	_, err := statechart.Compile(Def{ID: "c!", Initial: "a", Payloads: statechart.Payloads{"GO": statechart.NoPayload(), "settle.x": statechart.NoPayload()}, States: []S{
		{ID: "a", Tags: settled, Output: output(1), On: []On{{Event: "GO", Target: "z"}, {Event: "STOP", Target: "b"}}},
		{ID: "b", Invoke: []Invoke{service("", nil, nil)}, Always: []On{{Guard: statechart.In[trace]("y"), Target: "x"}}},
		{ID: "b"},
	}})
	const want = `chart "c!": 11 findings:
  the chart has the ID "c!": use ASCII letters, digits, '-' and '_'
  the chart has the version 0: count versions from 1
  the chart declares the event type "settle.x": use a name without '*' and spaces that does not begin with settle., done.state., done.invoke., error.invoke., done.child., error.child., error.execution
  state "a" has an Output but is not final: move Output to a final state
  the chart has two children with the ID "b": give each its own ID
  state "a" on GO: target "z" is not a state: name a sibling, a .child, or a #path.of.a.state
  state "b" always: target "x" is not a state: name a sibling, a .child, or a #path.of.a.state
  state "a" on STOP: the event type is undeclared: declare it in Payloads
  state "b" always: the guard In("y") does not name a state: use the path of a state, such as region.state
  state "b" invokes call without OnDone: add a transition to OnDone
  state "b" invokes call without OnError: add a transition to OnError`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestMustPanicsWithTheFindings(t *testing.T) {
	t.Parallel()
	defer func() {
		var failure *statechart.DefinitionError
		if err, ok := recover().(error); !ok || !errors.As(err, &failure) || failure.Chart != "c" {
			t.Errorf("got the panic %v, want a *DefinitionError of chart c", err)
		}
	}()
	statechart.Must(flawed(func(d *Def, _, _ *S) { d.Version = -1 }))
}

func TestMissingCodeIsFound(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*S){
		"assign":    func(s *S) { s.Entry = Do{statechart.Assign[trace, Event]("missing", nil)} },
		"try":       func(s *S) { s.Entry = Do{statechart.TryAssign[trace, int]("missing", nil)} },
		"update":    func(s *S) { s.Entry = Do{statechart.Update[trace]("missing", nil)} },
		"enqueue":   func(s *S) { s.Entry = Do{statechart.EnqueueActions[trace, Event]("missing", nil)} },
		"if":        func(s *S) { s.On = []On{{Event: "GO", Guard: statechart.If[trace]("missing", nil)}} },
		"when":      func(s *S) { s.On = []On{{Event: "GO", Guard: statechart.When[trace, Event]("missing", nil)}} },
		"try when":  func(s *S) { s.On = []On{{Event: "GO", Guard: statechart.TryWhen[trace, int]("missing", nil)}} },
		"service":   func(s *S) { s.Invoke = []Invoke{{Service: statechart.ServiceFunc[trace, int]("missing", nil)}} },
		"type 99":   func(s *S) { s.Type = 99 },
		"no target": func(s *S) { s.On = []On{{Event: "GO", Target: " "}} },
	} {
		def := Def{ID: "c", Version: 1, Initial: "a", Payloads: statechart.Payloads{"GO": statechart.NoPayload()}, States: []S{{ID: "a", Tags: settled}}}
		change(&def.States[0])
		if _, err := statechart.Compile(def); err == nil {
			t.Errorf("%s: got no finding", name)
		}
	}
}
