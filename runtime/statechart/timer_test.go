package statechart_test

import (
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// waiting returns a chart whose state p has the given timers. AGAIN re-enters p, and OUT leaves p.
func waiting(after ...After) Def {
	return Def{Initial: "p", States: []S{
		{ID: "p", After: after, On: []On{{Event: "AGAIN", Target: "p", Reenter: true}, {Event: "OUT", Target: "q"}, {Event: "ADD", Actions: Do{add(1)}}}},
		{ID: "q", On: []On{{Event: "BACK", Target: "p"}}},
	}}
}

func TestTimerStartsOnEntryAndFiresOnce(t *testing.T) {
	t.Parallel()
	r := begin(t, waiting(After{Delay: time.Minute, Actions: logs("rang")}))
	equal(t, "effects", text(t, r.step.Effects), `[{"id":"1.0","kind":"schedule","timer":"1.0","at":"2026-01-02T03:05:05Z"}]`)
	timer := r.timer("p")
	equal(t, "timer", text(t, timer), `{"ID":"1.0","State":"p","After":"1m0s","At":"2026-01-02T03:05:05Z"}`)
	r.fire(timer).is("p", "+p rang")
	equal(t, "timers", len(r.step.Next.Timers), 0)
	r.fire(timer).is("p", "")
	equal(t, "handled", r.step.Handled, false)
}

func TestTimerIsCancelledOnExitAndRestartedOnReentry(t *testing.T) {
	t.Parallel()
	r := begin(t, waiting(After{Delay: time.Minute, Target: "q"}))
	first := r.timer("p")
	r.send("OUT")
	equal(t, "timers", len(r.step.Next.Timers), 0)
	r.now = r.now.Add(time.Hour)
	r.send("BACK")
	second := r.timer("p")
	equal(t, "ID", second.ID, "3.0")
	equal(t, "deadline", second.At, epoch.Add(time.Hour+time.Minute))
	r.send("AGAIN")
	equal(t, "ID after re-entry", r.timer("p").ID, "4.0")
	for _, stale := range []statechart.Timer{first, second} {
		r.fire(stale)
		equal(t, "handled", r.step.Handled, false)
	}
	r.fire(r.timer("p"))
	equal(t, "state", states(r), "q")
}

func TestTargetlessAndInternalTransitionsKeepTheTimer(t *testing.T) {
	t.Parallel()
	r := begin(t, waiting(After{Delay: time.Minute, Target: "q"}))
	r.now = r.now.Add(time.Second)
	r.send("ADD")
	equal(t, "ID", r.timer("p").ID, "1.0")
	equal(t, "deadline", r.timer("p").At, epoch.Add(time.Minute))
}

func TestEntriesOfOneDelayShareATimerAndAreTriedInOrder(t *testing.T) {
	t.Parallel()
	def := waiting(
		After{Delay: time.Minute, Guard: below(1), Actions: append(logs("first"), add(1))},
		After{ID: "1m0s", Delay: time.Minute, Target: "q", Actions: logs("second")},
		After{ID: "later", Delay: time.Hour, Actions: logs("later")},
	)
	r := begin(t, def)
	equal(t, "timers", len(r.step.Next.Timers), 2)
	r.fire(r.step.Next.Timers[0]).is("p", "+p first")
	r.send("AGAIN").fire(r.step.Next.Timers[0]).is("q", "-p +p -p second +q")
}

func TestTimersWithCollidingNamesAreDistinct(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "a", States: []S{{ID: "a", Initial: "b", After: []After{{ID: "b.c", Delay: minutes(1), Actions: logs("outer")}}, States: []S{
		{ID: "b", After: []After{{ID: "c", Delay: minutes(2), Actions: logs("inner")}}}}}}})
	inner := r.timer("a.b")
	r.fire(r.timer("a")).is("a.b", "+a +b outer")
	r.fire(inner).is("a.b", "inner")
}

func TestFiredTimerIsRemovedEvenIfNoGuardHolds(t *testing.T) {
	t.Parallel()
	r := begin(t, waiting(After{Delay: time.Minute, Target: "q", Guard: no}))
	timer := r.timer("p")
	r.fire(timer).is("p", "+p")
	equal(t, "handled", r.step.Handled, true)
	equal(t, "timers", len(r.step.Next.Timers), 0)
	equal(t, "steps", r.step.Next.Steps, 2)
}

func TestDelayIsComputedFromTheContextAfterTheEntryActions(t *testing.T) {
	t.Parallel()
	def := waiting(After{ID: "backoff", Target: "q", DelayFunc: func(c trace, e Event) time.Duration { return time.Duration(c.N) * time.Second }})
	def.States[0].Entry = Do{add(5)}
	r := begin(t, def)
	equal(t, "deadline", r.timer("p").At, epoch.Add(5*time.Second))
	equal(t, "name", r.timer("p").After, "backoff")
	r.send("AGAIN")
	equal(t, "deadline", r.timer("p").At, epoch.Add(10*time.Second))
	r.fire(r.timer("p"))
	equal(t, "state", states(r), "q")
}

func TestAbsoluteDeadlineIsKeptInUTCToTheMillisecond(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("east", 2*60*60)
	at := time.Date(2027, 5, 6, 7, 8, 9, 123456789, zone)
	r := begin(t, waiting(After{ID: "due", Target: "q", At: func(trace, Event) time.Time { return at }}))
	equal(t, "deadline", r.timer("p").At.Format(time.RFC3339Nano), "2027-05-06T05:08:09.123Z")
	equal(t, "effect", r.step.Effects[0].At, r.timer("p").At)
	past := begin(t, waiting(After{ID: "due", At: func(trace, Event) time.Time { return epoch.Add(-time.Hour) }}))
	equal(t, "deadline in the past", past.step.Effects[0].At, epoch.Add(-time.Hour))
}

func TestTimersOfAncestorsOutliveTheirChildren(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", After: []After{{Delay: time.Hour, Target: ".q"}}, States: []S{
		{ID: "p", Initial: "a", After: []After{{Delay: time.Minute, Target: "q"}}, States: []S{
			{ID: "a", After: []After{{Delay: time.Second, Target: "b"}}}, {ID: "b", After: []After{{Delay: time.Second, Target: "a"}}}}},
		{ID: "q", On: []On{{Event: "BACK", Target: "p"}}},
	}})
	r.fire(r.timer("p.a"))
	equal(t, "timers", text(t, r.step.Next.Timers), `[{"ID":"1.0","State":"","After":"1h0m0s","At":"2026-01-02T04:04:05Z"},`+
		`{"ID":"1.1","State":"p","After":"1m0s","At":"2026-01-02T03:05:05Z"},{"ID":"2.0","State":"p.b","After":"1s","At":"2026-01-02T03:04:06Z"}]`)
	r.fire(r.timer("p"))
	equal(t, "timers", len(r.step.Next.Timers), 1)
	r.send("BACK").fire(r.timer(""))
	equal(t, "state", states(r), "q")
}

func TestTimerOfAStateLeftInTheSameMacrostepIsNotScheduled(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", States: []S{
		{ID: "p", Initial: "a", After: []After{{Delay: time.Minute, Target: "q"}}, States: []S{{ID: "a", Always: []On{{Target: "#q"}}}}},
		{ID: "q", After: []After{{Delay: time.Hour, Target: "p"}}},
	}})
	equal(t, "effects", text(t, r.step.Effects), `[{"id":"1.1","kind":"schedule","timer":"1.1","at":"2026-01-02T04:04:05Z"}]`)
	equal(t, "timers", len(r.step.Next.Timers), 1)
}

func TestTimerOfAnUnsettledStateIsServedInProcess(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", States: []S{
		{ID: "p", Invoke: []Invoke{service("", []On{{Target: "q"}}, []On{{Target: "q"}})}, After: []After{{Delay: time.Minute, Target: "late"}}},
		{ID: "q"}, {ID: "late"},
	}})
	equal(t, "effects", len(r.step.Effects), 0)
	equal(t, "deadline", r.timer("p").At, epoch.Add(time.Minute))
	call := r.step.Next.Services[0]
	r.fire(r.timer("p")).is("late", "+p -p +late")
	r.apply(call.Done(0)).is("late", "")
}

func TestTimerOfAnAncestorOfUnsettledStatesIsScheduled(t *testing.T) {
	t.Parallel()
	r := begin(t, Def{Initial: "p", States: []S{
		{ID: "p", Initial: "a", After: []After{{Delay: time.Minute, Target: "q"}},
			States: []S{{ID: "a", Invoke: []Invoke{service("", []On{{Target: "b"}}, []On{{Target: "b"}})}}, {ID: "b"}}},
		{ID: "q"},
	}})
	equal(t, "effects", len(r.step.Effects), 1)
	equal(t, "timer", r.step.Effects[0].Timer, r.timer("p").ID)
}

func TestSendIsOrderedAmongTheEffects(t *testing.T) {
	t.Parallel()
	send := statechart.SendTo("HELLO", func(c trace, e Event) (string, any) {
		return "other/1", map[string]any{"from": e.Type, "n": c.N}
	})
	bare := statechart.SendTo("BYE", func(trace, Event) (string, any) { return "other/2", nil })
	r := begin(t, Def{Initial: "a", States: []S{
		{ID: "a", Exit: Do{send}, On: []On{{Event: "GO", Target: "b", Actions: Do{add(1), bare}}}},
		{ID: "b", Entry: Do{send}, After: []After{{Delay: time.Minute, Target: "a"}}},
	}})
	r.send("GO")
	equal(t, "effects", text(t, r.step.Effects), `[`+
		`{"id":"2.0","kind":"send","to":"other/1","event":{"from":"GO","n":0,"type":"HELLO"}},`+
		`{"id":"2.1","kind":"send","to":"other/2","event":{"type":"BYE"}},`+
		`{"id":"2.2","kind":"send","to":"other/1","event":{"from":"GO","n":1,"type":"HELLO"}},`+
		`{"id":"2.3","kind":"schedule","timer":"2.3","at":"2026-01-02T03:05:05Z"}]`)
}

func TestTimersThatEndWithinTheStepHaveNoEffects(t *testing.T) {
	t.Parallel()
	rounds := statechart.EffectsMax + 10
	r := begin(t, traced(Def{Initial: "a", States: []S{
		{ID: "a", On: []On{{Event: "GO", Target: "b"}}},
		{ID: "b", After: []After{{Delay: time.Hour, Target: "a"}}, Always: []On{{Target: "b", Reenter: true, Guard: below(rounds), Actions: Do{add(1)}}}, Tags: settled},
	}}))
	r.send("GO")
	equal(t, "rounds", r.step.Next.Context.N, rounds)
	equal(t, "timers", len(r.step.Next.Timers), 1)
	equal(t, "effects", len(r.step.Effects), 1)
	equal(t, "timer", r.step.Effects[0].Timer, r.step.Next.Timers[0].ID)
}

func TestEveryTimerOfAStateHasItsOwnTransition(t *testing.T) {
	t.Parallel()
	for at, want := range []string{"one", "two", "three"} {
		r := begin(t, waiting(After{Delay: 1, Actions: logs("one")}, After{Delay: 2, Actions: logs("two")}, After{ID: "x", Delay: 3, Actions: logs("three")}))
		r.is("p", "+p").fire(r.step.Next.Timers[at]).is("p", want)
		equal(t, "timers left", len(r.step.Next.Timers), 2)
	}
}

func TestDeadlinesOfTheYearsZeroTo9999AreStored(t *testing.T) {
	t.Parallel()
	for year, stored := range map[int]bool{-1: false, 0: true, 9999: true, 10000: false} {
		at := time.Date(year, 6, 7, 8, 9, 10, 0, time.UTC)
		def := waiting(After{ID: "at", At: func(trace, Event) time.Time { return at }})
		def.Initial = "q"
		r := begin(t, def)
		if !stored {
			r.refuses(Event{Type: "BACK"}, nil, `chart c, state "p", event "BACK": delay at: expected a deadline in the years 0 to 9999, got `+at.String())
			continue
		}
		r.send("BACK")
		written := text(t, r.step.Next)
		restored, err := r.chart.Restore([]byte(written))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "restored", text(t, restored), written)
		equal(t, "deadline", restored.Timers[0].At, at)
	}
}

func TestFiringDoesNotChangeTheCallersEvent(t *testing.T) {
	t.Parallel()
	r := begin(t, waiting(After{Delay: time.Minute, Actions: logs("rang")}))
	event := Event{Type: statechart.TimerEvent, Timer: r.timer("p").ID, At: epoch, Payload: 7}
	given, snapshot := event, r.step.Next
	if _, handled, err := r.chart.Stepper().Step(&snapshot, &event); !handled || err != nil {
		t.Fatalf("handled %v, error %v", handled, err)
	}
	equal(t, "event", event, given)
}
