package statechart_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestTimersAreChecked(t *testing.T) {
	t.Parallel()
	delayed := func(after ...After) func(*Def, *S, *S) {
		return func(_ *Def, wait, _ *S) { wait.After = after }
	}
	computed := func(trace, Event) time.Duration { return 1 }
	at := func(trace, Event) time.Time { return epoch }
	const ambiguous = "two entries share the ID but not a constant delay, so their timer is ambiguous"
	checkFlaws(t, []flaw{
		{"none", delayed(After{}), "wait", "after 0s: sets 0 of Delay, DelayFunc and At", "set exactly one"},
		{"two", delayed(After{ID: "x", Delay: 1, At: at}), "wait", "after x: sets 2 of Delay, DelayFunc and At", "set exactly one"},
		{"three", delayed(After{ID: "x", Delay: 1, At: at, DelayFunc: computed}), "wait", "after x: sets 3 of Delay, DelayFunc and At", "set exactly one"},
		{"negative", delayed(After{Delay: -1}), "wait", "after -1ns: the delay is negative", "use a positive delay"},
		{"no ID", delayed(After{DelayFunc: computed}), "wait", "after: a computed delay has no ID, so its timer is ambiguous", "set ID"},
		{"typed", delayed(After{Delay: 1, Actions: Do{statechart.Assign("keep", func(*trace, int) {})}}), "wait",
			"after 1ns: action keep expects int, but the event carries nothing", "use the type of the payload, or Event"},
	})
	for name, entries := range map[string][]After{
		"x":    {{ID: "x", Delay: 1}, {ID: "x", Delay: 2}},
		"y":    {{ID: "y", At: at}, {ID: "y", At: at}},
		"1m0s": {{Delay: time.Minute}, {ID: "1m0s", Delay: time.Hour}},
	} {
		_, err := statechart.Compile(flawed(delayed(entries...)))
		want := statechart.Finding{State: "wait", Problem: "after " + name + ": " + ambiguous, Fix: "give each its own ID"}
		var failure *statechart.DefinitionError
		if !errors.As(err, &failure) || !slices.Equal(failure.Findings, []statechart.Finding{want, want}) {
			t.Errorf("%s: got %v, want twice %v", name, err, want)
		}
	}
}

func TestEventsAndPayloadsAreChecked(t *testing.T) {
	t.Parallel()
	const declare, match = "declare it in Payloads", "use the type of the payload, or Event"
	number := statechart.When("large", func(trace, int) bool { return true })
	keep := statechart.Assign("keep", func(*trace, string) {})
	on := func(on On) func(*Def, *S, *S) {
		return func(d *Def, wait, _ *S) {
			d.Payloads["TEXT"], d.Payloads["NUMBER"] = statechart.PayloadOf[string](), statechart.PayloadOf[int]()
			wait.On = append(wait.On, on)
			if on.Event == "GO" {
				wait.On[0].Event = "TEXT"
			}
		}
	}
	invoke := func(invoke Invoke) func(*Def, *S, *S) {
		return func(_ *Def, _, next *S) { next.Tags, next.Invoke = nil, []Invoke{invoke} }
	}
	checkFlaws(t, []flaw{
		{"no event", on(On{Target: "next"}), "wait", "has a transition in On without an event", "name the event, or move the transition to Always"},
		{"undeclared", on(On{Event: "GONE"}), "wait", "on GONE: the event type is undeclared", declare},
		{"wildcard of none", on(On{Event: "gone.*"}), "wait", "on gone.*: the event type is undeclared", declare},
		{"malformed wildcard", on(On{Event: "G*"}), "wait", `on G*: the event type is undeclared (did you mean "GO"?)`, declare},
		{"done of none", on(On{Event: "done.state.wait"}), "wait", "on done.state.wait: the event type is undeclared", declare},
		{"error of none", on(On{Event: "error.platform"}), "wait", "on error.platform: the event type is undeclared", declare},
		{"raised", func(_ *Def, wait, _ *S) { wait.Entry = Do{raise("GONE"), raise("GO")} }, "", `raises the undeclared event type "GONE"`, "declare it in Payloads, with InternalOf if it never comes from outside"},
		{"action", on(On{Event: "NUMBER", Actions: Do{keep}}), "wait", "on NUMBER: action keep expects string, but the event carries int", match},
		{"action without", on(On{Event: "GO", Actions: Do{keep}}), "wait", "on GO: action keep expects string, but the event carries nothing", match},
		{"guard", on(On{Event: "TEXT", Guard: number}), "wait", "on TEXT: guard large expects int, but the event carries string", match},
		{"inner guard", on(On{Event: "TEXT", Guard: statechart.And(yes, statechart.Not(number))}), "wait", "on TEXT: guard large expects int, but the event carries string", match},
		{"wildcard's payload", on(On{Event: "*", Actions: Do{keep}}), "wait", "on *: action keep expects string, but the event carries nothing", match},
		{"service's result", invoke(service("", []On{{Target: "wait", Actions: Do{keep}}}, []On{{Target: "wait"}})), "next", "on done of call: action keep expects string, but the event carries int", match},
		{"service's error", invoke(service("", []On{{Target: "wait"}}, []On{{Target: "wait", Actions: Do{keep}}})), "next", "on error of call: action keep expects string, but the event carries statechart.ServiceError", match},
		{"output", func(_ *Def, _, next *S) {
			*next = S{ID: "next", Initial: "f", States: []S{{ID: "f", Type: statechart.Final}}, OnDone: []On{{Target: "wait", Actions: Do{keep}}}}
		}, "next", "on done: action keep expects string, but the event carries json.RawMessage", match},
		{"parallel's output", func(_ *Def, _, next *S) {
			*next = S{ID: "next", Type: statechart.Parallel, States: []S{{ID: "f", Type: statechart.Final}},
				OnDone: []On{{Target: "wait", Actions: Do{statechart.Assign("out", func(*trace, json.RawMessage) {})}}}}
		}, "next", "on done: action out expects json.RawMessage, but the event carries nothing", match},
	})
}

func TestCodeIsChecked(t *testing.T) {
	t.Parallel()
	nothing := Do{{Name: "none"}}
	const action = `the action "none" does nothing`
	const fix = "make it with Assign, Raise or another constructor"
	checkFlaws(t, []flaw{
		{"entry", func(_ *Def, wait, _ *S) { wait.Entry = nothing }, "wait", "entry: " + action, fix},
		{"exit", func(d *Def, _, _ *S) { d.Exit = nothing }, "", "exit: " + action, fix},
		{"transition", func(_ *Def, wait, _ *S) { wait.On[0].Actions = nothing }, "wait", "on GO: " + action, fix},
		{"always", func(_ *Def, wait, _ *S) { wait.Always = []On{{Guard: no, Actions: nothing}} }, "wait", "always: " + action, fix},
		{"guard", func(_ *Def, wait, _ *S) { wait.On[0].Guard = Guard{Name: "none"} }, "wait", `on GO: the guard "none" tests nothing`, "make it with When or another constructor"},
		{"in", func(_ *Def, wait, _ *S) {
			wait.On[0].Guard = statechart.Or(no, statechart.Not(statechart.In[trace]("nxet")))
		}, "wait", `on GO: the guard In("nxet") does not name a state (did you mean "next"?)`, "use the path of a state, such as region.state"},
		{"service", func(_ *Def, _, next *S) {
			next.Tags, next.Invoke = nil, []Invoke{{OnDone: []On{{Target: "wait"}}, OnError: []On{{Target: "wait"}}}}
		}, "next", `invokes "next" without a service`, "set Service, for instance with ServiceFunc"},
	})
}

func TestLimitsAreChecked(t *testing.T) {
	t.Parallel()
	ends := []On{{Target: "wait"}}
	with := func(limit statechart.Limit, key func(trace) string) func(*Def, *S, *S) {
		return func(_ *Def, _, next *S) {
			invoke := service("", ends, ends)
			invoke.Limit, invoke.LimitKey = limit, key
			next.Tags, next.Invoke = nil, []Invoke{invoke}
		}
	}
	const name, figures = "use 1 to 80 ASCII letters, digits, '-' and '_'", "set a positive Rate, with or without Per, or a Concurrency of at most 1000, or both"
	checkFlaws(t, []flaw{
		{"no limit", with(statechart.Limit{}, func(trace) string { return "" }), "next", `invokes "next" with a LimitKey but no Limit`, "set Limit, or remove LimitKey"},
		{"no name", with(statechart.Limit{Rate: 1}, nil), "next", `invokes "next" with a limit of the name ""`, name},
		{"a slash", with(statechart.Limit{Name: "a/b", Rate: 1}, nil), "next", `invokes "next" with a limit of the name "a/b"`, name},
		{"no figures", with(statechart.Limit{Name: "bank"}, nil), "next", `invokes "next" with the limit {Name:bank Rate:0 Per:0s Concurrency:0}`, figures},
		{"no rate", with(statechart.Limit{Name: "bank", Per: time.Second, Concurrency: 1}, nil), "next", `invokes "next" with the limit {Name:bank Rate:0 Per:1s Concurrency:1}`, figures},
		{"negative", with(statechart.Limit{Name: "bank", Rate: -1, Concurrency: 1}, nil), "next", `invokes "next" with the limit {Name:bank Rate:-1 Per:0s Concurrency:1}`, figures},
		{"too many", with(statechart.Limit{Name: "bank", Concurrency: 1001}, nil), "next", `invokes "next" with the limit {Name:bank Rate:0 Per:0s Concurrency:1001}`, figures},
		{"two limits of one name", func(_ *Def, _, next *S) {
			one, two := service("one", ends, ends), service("two", ends, ends)
			one.Limit, two.Limit = statechart.Limit{Name: "bank", Rate: 1}, statechart.Limit{Name: "bank", Rate: 2}
			next.Tags, next.Invoke = nil, []Invoke{one, two}
		}, "next", `invokes "two" with the limit {Name:bank Rate:2 Per:0s Concurrency:0}, but another service declares {Name:bank Rate:1 Per:0s Concurrency:0}`, "declare the limit once, and use it in both services"},
	})
}

func TestWaitingIsChecked(t *testing.T) {
	t.Parallel()
	ends := []On{{Target: "wait"}}
	calling := []Invoke{service("", ends, ends)}
	const untag, tag = "remove the tag, or invoke the service from an unsettled state", "tag it settled if it waits for the outside world"
	const stuck = "is unsettled, and no service or Always moves it on"
	checkFlaws(t, []flaw{
		{"settled invokes", func(_ *Def, _, next *S) { next.Invoke = calling }, "next", `is settled, but "next" invokes the service "call"`, untag},
		{"parent invokes", func(_ *Def, _, next *S) {
			*next = S{ID: "next", Invoke: calling, Initial: "a", States: []S{{ID: "a", Tags: settled}}}
		}, "next.a", `is settled, but "next" invokes the service "call"`, untag},
		{"settled moves", func(_ *Def, _, next *S) { next.Always = ends }, "next", `is settled, but "next" has an unguarded Always transition`, "remove the tag, or guard the transition"},
		{"unsettled waits", func(_ *Def, _, next *S) { next.Tags = nil }, "next", stuck, tag},
		{"unsettled waits for an event", func(_ *Def, wait, _ *S) { wait.Tags = nil }, "wait", stuck, tag},
		{"unsettled waits for time", func(_ *Def, _, next *S) { next.Tags, next.After = nil, []After{{Delay: 1}} }, "next", stuck, tag},
		{"timer of none", func(_ *Def, _, next *S) {
			next.Tags, next.After, next.Always = nil, []After{{Delay: 1}}, ends
		}, "next", "is unsettled and has a timer but no service", "tag it settled, or invoke the service that the timer limits"},
		{"event that cannot come", func(_ *Def, _, next *S) {
			next.Tags, next.Invoke, next.On = nil, calling, []On{{Event: "GO"}}
		}, "next", `is unsettled, so the event "GO" cannot reach it`, "handle the event in a settled state, or tag this state if it invokes no service"},
		{"no done", func(_ *Def, _, next *S) { next.Tags, next.Invoke = nil, []Invoke{service("", nil, ends)} }, "next", "invokes call without OnDone", "add a transition to OnDone"},
		{"no error", func(_ *Def, _, next *S) { next.Tags, next.Invoke = nil, []Invoke{service("", ends, nil)} }, "next", "invokes call without OnError", "add a transition to OnError"},
		{"one ID twice", func(_ *Def, _, next *S) {
			guarded := []On{{Guard: yes, Target: "wait"}}
			next.Tags, next.Invoke = nil, []Invoke{service("x", guarded, guarded), service("x", ends, ends)}
		}, "next", `uses the invocation ID "x", and "next" may use it at the same time`, "give each invocation its own ID"},
		{"one ID at two levels", func(_ *Def, _, next *S) {
			out := []On{{Target: "#wait"}}
			*next = S{ID: "next", Initial: "a", Invoke: []Invoke{service("x", ends, ends)}, States: []S{{ID: "a", Invoke: []Invoke{service("x", out, out)}}}}
		}, "next.a", `uses the invocation ID "x", and "next" may use it at the same time`, "give each invocation its own ID"},
		{"one ID in two regions", func(_ *Def, _, next *S) {
			region := func(id string) S {
				return S{ID: id, Invoke: []Invoke{service("x", []On{{Target: "#wait"}}, []On{{Target: "#wait"}})}}
			}
			*next = S{ID: "next", Type: statechart.Parallel, States: []S{region("r1"), region("r2")}}
		}, "next.r2", `uses the invocation ID "x", and "next.r1" may use it at the same time`, "give each invocation its own ID"},
		{"unreachable", func(_ *Def, wait, _ *S) { wait.On[0].Target = "" }, "next", "is unreachable", "add a transition to it, or remove it"},
		{"unreachable with all below", func(_ *Def, wait, next *S) {
			*next = S{ID: "next", Initial: "a", States: children}
			wait.On[0].Target = ""
		}, "next", "is unreachable", "add a transition to it, or remove it"},
	})
}

func TestCyclesOfUnguardedAlwaysAreFound(t *testing.T) {
	t.Parallel()
	moving := func(id, target string) S { return S{ID: id, Always: []On{{Target: target}}} }
	add := func(states ...S) func(*Def, *S, *S) {
		return func(d *Def, _, next *S) {
			*next = S{ID: "next", Tags: settled, On: []On{{Event: "GO", Target: states[0].ID}}}
			d.States = append(d.States, states...)
		}
	}
	is := func(cycle string) string { return "is part of a cycle of unguarded Always transitions: " + cycle }
	const fix = "guard one of the transitions"
	checkFlaws(t, []flaw{
		{"two", add(moving("a", "b"), moving("b", "a")), "a", is(`"a" -> "b" -> "a"`), fix},
		{"itself", add(moving("a", "a")), "a", is(`"a" -> "a"`), fix},
		{"targetless", add(moving("a", "")), "a", is(`"a" -> "a"`), fix},
		{"through a default", add(moving("a", "p"), S{ID: "p", Initial: "x", States: []S{moving("x", "#a")}}), "a", is(`"a" -> "p" -> "a"`), fix},
		{"through the root", func(d *Def, _, _ *S) {
			d.Initial, d.States[0], d.States[1].On = "b", moving("b", "#c"), []On{{Event: "GO", Target: "b"}}
			d.On = []On{{Event: "GO", Target: ".next"}}
		}, "", is(`the chart -> the chart`), fix},
		{"of a region", add(S{ID: "p", Type: statechart.Parallel, States: []S{{ID: "r", Tags: settled}, {ID: "q", Initial: "x", States: []S{moving("x", "y"), moving("y", "x")}}}}),
			"p.q.x", is(`"p.q.y" -> "p.q.x" -> "p.q.y"`), fix},
		{"out of a region and back", add(S{ID: "p", Type: statechart.Parallel, States: []S{{ID: "r", Tags: settled}, moving("q", "#b")}}, moving("b", "p")),
			"p", `never rests once entered: unguarded Always transitions of its regions follow each other without end, for instance in "p.r" and "p.q"`, fix},
		{"of the parent", add(S{ID: "p", Initial: "x", Always: []On{{Target: ".y"}}, States: []S{{ID: "x", Always: []On{{Guard: no}}}, {ID: "y", Always: []On{{Guard: no}}}}}),
			"p.y", is(`"p.y" -> "p.y"`), fix},
	})
}

func TestRaisedPayloadsFitTheirDeclaration(t *testing.T) {
	t.Parallel()
	const fix = "raise it with RaiseWith and the declared type, or change the declaration"
	text := func(trace, Event) string { return "" }
	for problem, action := range map[string]statechart.Action[trace]{
		`raises "N" with nothing, but Payloads declares int`:       raise("N"),
		`raises "N" with string, but Payloads declares int`:        statechart.RaiseWith("N", text),
		`raises "BARE" with string, but Payloads declares nothing`: statechart.RaiseWith("BARE", text),
		"": statechart.RaiseWith("N", func(trace, Event) int { return 1 }),
	} {
		for place, change := range map[string]func(*S, *Def){
			"entry":  func(s *S, _ *Def) { s.Entry = Do{action} },
			"on GO":  func(s *S, _ *Def) { s.On[0].Actions = Do{action} },
			"always": func(s *S, _ *Def) { s.Always = []On{{Guard: no, Actions: Do{action}}} },
		} {
			def := Def{ID: "c", Version: 1, Initial: "a", Payloads: statechart.Payloads{"GO": statechart.NoPayload(), "N": statechart.InternalOf[int](), "BARE": statechart.Internal()},
				States: []S{{ID: "a", Tags: settled, On: []On{{Event: "GO"}}}}}
			change(&def.States[0], &def)
			_, err := statechart.Compile(def)
			if problem == "" {
				equal(t, place, err, nil)
				continue
			}
			var findings *statechart.DefinitionError
			if !errors.As(err, &findings) || len(findings.Findings) != 1 || findings.Findings[0] != (statechart.Finding{State: "a", Problem: place + ": " + problem, Fix: fix}) {
				t.Errorf("%s: got %v, want %s", place, err, problem)
			}
		}
	}
}
