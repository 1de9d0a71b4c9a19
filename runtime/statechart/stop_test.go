package statechart_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// stoppable returns a chart with a timer, a service and an error handler.
func stoppable(exit ...statechart.Action[trace]) Def {
	return Def{Initial: "p", States: []S{
		{ID: "p", Initial: "a", After: []After{{Delay: time.Hour}}, On: []On{{Event: statechart.ExecutionError}}, Exit: exit, States: []S{
			{ID: "a", Invoke: []Invoke{service("s", []On{{Target: "b"}}, []On{{Target: "b"}})}},
			{ID: "b"},
		}},
	}}
}

func TestStopRunsExitActionsAndEndsEverything(t *testing.T) {
	t.Parallel()
	send := statechart.SendTo("BYE", func(trace, Event) (string, any) { return "other/1", nil })
	r := begin(t, stoppable(send))
	r.is("p.a", "+p +a")
	step, err := r.chart.Stop(r.step.Next, epoch)
	if err != nil {
		t.Fatal(err)
	}
	before := r.step.Next
	r.step = step
	r.is("p.a", "-a -p")
	next := step.Next
	equal(t, "status", next.Status, statechart.Stopped)
	equal(t, "timers and services", len(next.Timers)+len(next.Services), 0)
	equal(t, "settled", next.Settled(), true)
	equal(t, "effects", text(t, step.Effects), `[{"id":"2.0","kind":"send","to":"other/1","event":{"type":"BYE"}}]`)
	r.apply(before.Services[0].Done(nil)).is("p.a", "")
	restored, err := r.chart.Restore([]byte(text(t, next)))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "restored", text(t, restored), text(t, next))
	again, err := r.chart.Stop(restored, epoch)
	equal(t, "stopped twice", err == nil && !again.Handled && again.Next.Steps == 2, true)
}

// The charts fail if any of their code runs.
func TestAnInstanceThatIsStoppedBeforeItStartsIsInItsInitialStates(t *testing.T) {
	t.Parallel()
	noContext := func(statechart.Start) trace { panic("no code should run") }
	initial := stoppable(failing)
	initial.Initial = "p.h"
	initial.States[0].Entry, initial.States[0].Children = Do{failing}, []statechart.Child[trace]{{Machine: "helper"}}
	initial.States[0].States = append(initial.States[0].States, S{ID: "h", Type: statechart.ShallowHistory, Target: "b", DefaultEntry: Do{failing}})
	for want, def := range map[string]Def{
		`"p.b"`: initial,
		`"p.r1.x" "p.r2"`: {Initial: "p", States: []S{{ID: "p", Type: statechart.Parallel, States: []S{
			{ID: "r1", Initial: "x", States: []S{{ID: "x", After: []After{{Delay: time.Hour}}}}}, {ID: "r2", Always: []On{{Guard: below(1)}}},
		}}}},
		`"end"`: {Initial: "end", States: []S{{ID: "end", Type: statechart.Final, Entry: Do{failing}}}},
	} {
		def.Context, def.Input = noContext, statechart.PayloadOf[trace]()
		chart := compile(t, traced(def))
		stopped := chart.Stopped()
		equal(t, "states", fmt.Sprintf("%q", stopped.State()), "["+want+"]")
		equal(t, "status", stopped.Status, statechart.Stopped)
		equal(t, "settled", stopped.Settled(), true)
		restored, err := chart.Restore([]byte(text(t, stopped)))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "restored", text(t, restored), text(t, stopped))
		again, err := chart.Stop(restored, epoch)
		equal(t, "stopped twice", err == nil && !again.Handled && again.Next.Steps == 1, true)
	}
	migrated, err := versioned(t, 2, wordsV2, guestV2{}, fromV1).Restore([]byte(text(t, versioned(t, 1, wordsV1, guestV1{"Ada Byron"}).Stopped())))
	equal(t, "migrated", err == nil && migrated.Matches("job.left.a") && migrated.Status == statechart.Stopped, true)
}

func TestFailedStopChangesNothing(t *testing.T) {
	t.Parallel()
	r := begin(t, stoppable(failing))
	before := text(t, r.step.Next)
	step, err := r.chart.Stop(r.step.Next, epoch)
	if !errors.Is(err, errPlanned) {
		t.Errorf("got the error %v, want the planned one", err)
	}
	equal(t, "snapshot", text(t, step.Next), before)
}

func TestExitActionsOfStopChangeTheirOwnContextAndSeeTheTime(t *testing.T) {
	t.Parallel()
	spoil := statechart.Assign("spoil", func(c *trace, e Event) { c.Log[0] = e.At.Format(time.TimeOnly) })
	r := begin(t, Def{Initial: "a", Context: func(statechart.Start) trace { return trace{Log: make([]string, 1, 10)} }, States: []S{{ID: "a", Exit: Do{spoil}}}})
	before := text(t, r.step.Next)
	stopped, err := r.chart.Stop(r.step.Next, epoch.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the snapshot", text(t, r.step.Next), before)
	equal(t, "the log", fmt.Sprint(stopped.Next.Context.Log), "[04:04:05 +a -a]")
}
