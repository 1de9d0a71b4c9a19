package statechart_test

import (
	"errors"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

// As in XState, an eventless transition that changes nothing is taken once for each event.
func TestAlwaysThatChangesNothingIsTakenOnce(t *testing.T) {
	t.Parallel()
	note := statechart.Log(func(trace, Event) string { return "hot" })
	for name, always := range map[string]On{
		"guarded":          {Guard: yes, Actions: Do{note}},
		"unguarded":        {Actions: Do{note}},
		"without actions":  {},
		"to itself":        {Target: "a", Actions: Do{note}},
		"with a timer":     {Target: "a", Reenter: true, Actions: Do{note, statechart.Cancel[trace]("x")}},
		"of another state": {Target: ".a", Actions: Do{note}},
	} {
		def := Def{ID: "c", Version: 1, Initial: "a", Payloads: statechart.Payloads{"GO": statechart.NoPayload()}, States: []S{
			{ID: "a", Tags: settled, Always: []On{always}, After: []After{{Delay: minutes(1), Actions: logs("late")}}, On: []On{{Event: "GO"}}}}}
		if always.Target == ".a" {
			def.Always, def.States[0].Always = def.States[0].Always, nil
		}
		r := &run{t: t, chart: compile(t, def), now: epoch}
		step, err := r.chart.Start(statechart.Start{At: r.now})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r.step = step
		for range 2 {
			notes := 0
			for _, effect := range r.step.Effects {
				if effect.Kind == statechart.LogMessage {
					notes++
				}
			}
			equal(t, name+": notes", notes, len(always.Actions[:min(1, len(always.Actions))]))
			equal(t, name+": timers", len(r.step.Next.Timers), 1)
			r.send("GO")
		}
	}
}

// silent completes a definition whose states have no actions of their own.
func silent(states ...S) Def {
	idle := S{ID: "idle", Tags: settled, On: []On{{Event: "GO", Target: states[0].ID}, {Event: "BACK", Target: "#h"}}}
	return Def{ID: "c", Version: 1, Initial: "idle", States: append([]S{idle}, states...),
		Payloads: statechart.Payloads{"GO": statechart.NoPayload(), "ADD": statechart.NoPayload(), "BACK": statechart.NoPayload()}}
}

// The eventless transitions of a parent choose the active child by guards, like a router in XState.
func TestAlwaysOfAParentChoosesAChild(t *testing.T) {
	t.Parallel()
	high := statechart.Not(below(2))
	for name, always := range map[string][]On{
		"guards":      {{Guard: high, Target: ".high"}, {Guard: below(2), Target: ".low"}},
		"a last else": {{Guard: high, Target: ".high"}, {Target: ".low"}},
	} {
		def := silent(S{ID: "route", Initial: "high", Always: always, On: []On{{Event: "ADD", Actions: Do{add(1)}}}, States: []S{{ID: "high", Tags: settled}, {ID: "low", Tags: settled}}})
		def.States[0].On = def.States[0].On[:1]
		r := &run{t: t, chart: compile(t, def), now: epoch}
		r.step, _ = r.chart.Start(statechart.Start{At: epoch})
		equal(t, name, states(r.send("GO")), "route.low")
		equal(t, name, states(r.send("ADD")), "route.low")
		equal(t, name, states(r.send("ADD")), "route.high")
	}
}

// A raised event does not count as a change. The chart handles the event, and then tests the guards again.
func TestAlwaysThatOnlyRaisesLetsTheEventPass(t *testing.T) {
	t.Parallel()
	begin(t, Def{Initial: "a", States: []S{
		{ID: "a", Tags: settled, Always: []On{{Guard: below(3), Actions: Do{raise("X")}}}, On: []On{{Event: "X", Actions: append(logs("x"), add(1))}}},
	}}).is("a", "+a x x x")
}

func TestAlwaysThatChangesSomethingIsEndless(t *testing.T) {
	t.Parallel()
	of := func(actions ...statechart.Action[trace]) []S {
		return []S{{ID: "a", Tags: settled, Children: []statechart.Child[trace]{{ID: "k", Machine: "m"}}, Always: []On{{Guard: yes, Actions: actions}}}}
	}
	inside := func(t On, states ...S) []S {
		t.Guard = yes
		return []S{{ID: "p", Initial: "x", Always: []On{t}, States: states}}
	}
	x, h := S{ID: "x", Tags: settled}, S{ID: "h", Type: statechart.DeepHistory}
	for name, states := range map[string][]S{
		"assign":         of(statechart.Assign("same", func(*trace, Event) {})),
		"update":         of(statechart.Update("same", func(*trace) {})),
		"try":            of(statechart.TryAssign("same", func(*trace, Event) error { return nil })),
		"enqueue":        of(statechart.EnqueueActions("same", func(*trace, Event, statechart.Enqueue) error { return nil })),
		"stop a child":   of(statechart.StopChild[trace]("k")),
		"raise":          of(raise("GO")),
		"entry action":   inside(On{Target: ".x"}, S{ID: "x", Tags: settled, Entry: Do{add(1)}}),
		"start a child":  inside(On{Target: ".x"}, S{ID: "x", Tags: settled, Children: []statechart.Child[trace]{{Machine: "m"}}}),
		"service":        inside(On{Target: ".x"}, S{ID: "x", Invoke: []Invoke{service("", []On{{Target: "y"}}, []On{{Target: "y"}})}}, S{ID: "y", Tags: settled}),
		"record history": inside(On{Target: "p", Reenter: true}, x, h),
		"configuration":  {{ID: "a", Tags: settled, Always: []On{{Guard: yes, Target: "b"}}}, {ID: "b", Tags: settled, Always: []On{{Guard: yes, Target: "a"}}}},
	} {
		def := silent(states...)
		if name != "record history" {
			def.States[0].On = def.States[0].On[:1]
		}
		chart := compile(t, def)
		start, err := chart.Start(statechart.Start{At: epoch})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := chart.Step(start.Next, Event{Type: "GO", At: epoch}); !errors.Is(err, statechart.ErrEndless) {
			t.Errorf("%s: got the error %v, want ErrEndless", name, err)
		}
	}
}

func TestSettledStatesThatCannotRestAreFound(t *testing.T) {
	t.Parallel()
	const fix = "remove the tag, or guard the transition"
	leaves := []S{{ID: "x", Tags: settled}, {ID: "y", Tags: settled}}
	within := func(always ...On) func(*Def, *S, *S) {
		return func(_ *Def, _, next *S) { *next = S{ID: "next", Initial: "x", Always: always, States: leaves} }
	}
	checkFlaws(t, []flaw{
		{"leaves", func(_ *Def, _, next *S) { next.Always = []On{{Target: "wait"}} }, "next", `is settled, but "next" has an unguarded Always transition`, fix},
		{"assigns", func(_ *Def, _, next *S) { next.Always = []On{{Actions: Do{add(1)}}} }, "next", `is settled, but "next" has an unguarded Always transition`, fix},
		{"assigns on entry", func(_ *Def, _, next *S) { next.Entry, next.Always = Do{add(1)}, []On{{Target: "next", Reenter: true}} },
			"next", `is settled, but "next" has an unguarded Always transition`, fix},
		{"raises", func(def *Def, _, next *S) {
			def.Payloads["R"] = statechart.Internal()
			next.On, next.Always = append(next.On, On{Event: "R"}), []On{{Actions: Do{raise("R")}}}
		}, "next", `is settled, but "next" has an unguarded Always transition`, fix},
		{"records history", func(_ *Def, _, next *S) {
			*next = S{ID: "next", Initial: "x", Always: []On{{Target: "#next.h", Reenter: true}}, States: append([]S{{ID: "h", Type: statechart.ShallowHistory}}, leaves[0])}
		}, "next.x", `is settled, but "next" has an unguarded Always transition`, fix},
		{"to another child", within(On{Guard: yes, Target: ".y"}, On{Target: ".y"}), "next.x", `is settled, but "next" has an unguarded Always transition`, fix},
	})
	for name, change := range map[string]func(*Def, *S, *S){
		"changes nothing": func(_ *Def, _, next *S) { next.Always = []On{{}} },
		"router":          within(On{Guard: yes, Target: ".x"}, On{Target: ".y"}),
		"to history": func(_ *Def, _, next *S) {
			*next = S{ID: "next", Initial: "x", Always: []On{{Target: ".h"}}, States: append([]S{{ID: "h", Type: statechart.ShallowHistory}}, leaves[0])}
		},
	} {
		if _, err := statechart.Compile(flawed(change)); err != nil {
			t.Errorf("%s: expected no finding, got %v", name, err)
		}
	}
}
