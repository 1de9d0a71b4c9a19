package statechart_test

import (
	"slices"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestMisspeltTargetsGetASuggestion(t *testing.T) {
	t.Parallel()
	const fix = "name a sibling, a .child, or a #path.of.a.state"
	// nested returns a change that gives the state `next` the descendants a, b and deep.inner. The source of the
	// transition is next.a.
	nested := func(target string) func(*Def, *S, *S) {
		return func(_ *Def, _, next *S) {
			*next = S{ID: "next", Initial: "a", States: append(slices.Clone(children), S{ID: "deep", Initial: "inner", States: []S{{ID: "inner", Tags: settled}}})}
			next.States[0].On = []On{{Event: "GO", Target: target}}
		}
	}
	// `outside` is like nested, but the source of the transition is the state `wait`.
	outside := func(target string) func(*Def, *S, *S) {
		return func(d *Def, wait, next *S) {
			nested("deep")(d, wait, next)
			wait.On = append(wait.On, On{Event: "GO", Target: target})
		}
	}
	twins := func(d *Def, wait, next *S) {
		nested("deep")(d, wait, next)
		wait.On = append(wait.On, On{Event: "GO", Target: "a"})
		d.States = append(d.States, S{ID: "other", Initial: "a", States: children})
	}
	checkFlaws(t, []flaw{
		{"elsewhere", outside("b"), "wait", `on GO: target "b" is not a state (did you mean "#b"?)`, fix},
		{"elsewhere, nested", outside("deep.inner"), "wait", `on GO: target "deep.inner" is not a state (did you mean "#inner"?)`, fix},
		{"elsewhere, misspelt", outside("inerr"), "wait", `on GO: target "inerr" is not a state (did you mean "#inner"?)`, fix},
		{"an uncle", nested("wait"), "next.a", `on GO: target "wait" is not a state (did you mean "#wait"?)`, fix},
		{"sibling as a child", nested(".b"), "next.a", `on GO: target ".b" is not a state (did you mean "b"?)`, fix},
		{"misspelt sibling", nested("dep"), "next.a", `on GO: target "dep" is not a state (did you mean "deep"?)`, fix},
		{"wrong case", nested("Deep"), "next.a", `on GO: target "Deep" is not a state (did you mean "deep"?)`, fix},
		{"misspelt path", nested("deep.iner"), "next.a", `on GO: target "deep.iner" is not a state (did you mean "#inner"?)`, fix},
		{"two of them", twins, "wait", `on GO: target "a" is not a state (did you mean "#next.a" or "#other.a"?)`, fix},
		{"nothing similar", nested("elsewhere"), "next.a", `on GO: target "elsewhere" is not a state`, fix},
		{"short", nested("x"), "next.a", `on GO: target "x" is not a state`, fix},
		{"child of the root", func(d *Def, _, _ *S) { d.On = []On{{Event: "GO", Target: "wiat"}} }, "",
			`on GO: target "wiat" is not valid at the root, which has no siblings (did you mean ".wait"?)`, fix},
	})
}

func TestMisspeltNamesGetASuggestion(t *testing.T) {
	t.Parallel()
	declared := func(change func(wait, next *S)) func(*Def, *S, *S) {
		return func(d *Def, wait, next *S) {
			d.Payloads["VERIFY"] = statechart.NoPayload()
			next.On = []On{{Event: "VERIFY", Target: "wait"}}
			change(wait, next)
		}
	}
	internal := "declare it in Payloads, with InternalOf if it never comes from outside"
	checkFlaws(t, []flaw{
		{"event", declared(func(wait, _ *S) { wait.On = append(wait.On, On{Event: "VERFIY", Target: "next"}) }),
			"wait", `on VERFIY: the event type is undeclared (did you mean "VERIFY"?)`, "declare it in Payloads"},
		{"event in lower case", declared(func(wait, _ *S) { wait.On = append(wait.On, On{Event: "verify", Target: "next"}) }),
			"wait", `on verify: the event type is undeclared (did you mean "VERIFY"?)`, "declare it in Payloads"},
		{"raised", declared(func(wait, _ *S) { wait.Entry = Do{raise("VERIFI")} }), "", `raises the undeclared event type "VERIFI" (did you mean "VERIFY"?)`, internal},
		{"done event", declared(func(_, next *S) {
			*next = S{ID: "next", Initial: "f", States: []S{{ID: "f", Type: statechart.Final}}, On: []On{{Event: "done.state.nxt", Target: "wait"}, {Event: "VERIFY"}}}
		}), "next", `on done.state.nxt: the event type is undeclared (did you mean "done.state.next"?)`, "declare it in Payloads"},
		{"path of In", func(_ *Def, wait, next *S) {
			*next = S{ID: "next", Initial: "a", States: children}
			wait.On[0].Guard = statechart.In[trace]("b")
		}, "wait", `on GO: the guard In("b") does not name a state (did you mean "next.b"?)`, "use the path of a state, such as region.state"},
	})
}
