package statechart_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/settle-run/settle/runtime/statechart"
)

// TestRandomChartsRunTheSameThroughJSON runs random events through random charts twice. The second run writes and
// restores every snapshot. Both runs must agree byte by byte and keep the invariants of snapshots.
func TestRandomChartsRunTheSameThroughJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		def := drawChart(t)
		chart, err := statechart.Compile(def)
		if err != nil {
			t.Fatalf("the generator drew a chart that does not compile: %v", err)
		}
		step, err := chart.Start(statechart.Start{Instance: "c/1", At: epoch})
		if err != nil {
			return // for example, a chart that stalls at the start
		}
		w := &watcher{t: t, def: def, active: map[string]bool{}, ids: map[string]bool{}}
		w.watch(statechart.Snapshot[trace]{}, step)
		snapshot := step.Next
		for i := 0; i < 25 && snapshot.Status == statechart.Active; i++ {
			event := drawEvent(t, snapshot, w)
			event.At = epoch.Add(minutes(i))
			before := text(t, snapshot)
			step, err := chart.Step(snapshot, event)
			restored, failure := chart.Restore([]byte(before))
			if failure != nil {
				t.Fatalf("a snapshot does not restore: %v\n%s", failure, before)
			}
			again, errAgain := chart.Step(restored, event)
			if fmt.Sprint(err) != fmt.Sprint(errAgain) {
				t.Fatalf("errors differ: %v and, through JSON, %v", err, errAgain)
			}
			if text(t, snapshot) != before {
				t.Fatalf("the step changed its snapshot from %s to %s", before, text(t, snapshot))
			}
			if got, want := text(t, again.Next)+text(t, again.Effects), text(t, step.Next)+text(t, step.Effects); got != want {
				t.Fatalf("event %s on %s: got through JSON\n%s\nwant\n%s", event.Type, before, got, want)
			}
			w.microsteps(chart, snapshot, event, step, err)
			if err == nil && step.Handled {
				w.watch(snapshot, step)
				w.deferred(snapshot, event, step.Next)
			}
			snapshot = step.Next
		}
	})
}

// drawEvent draws an event that a host may deliver. Outside events need a settled snapshot. Stale timers and results
// may come at any time.
func drawEvent(t *rapid.T, snapshot statechart.Snapshot[trace], w *watcher) Event {
	var events []Event
	if snapshot.Settled() {
		for typ := range w.def.Payloads {
			events = append(events, Event{Type: typ})
		}
	}
	for _, timer := range snapshot.Timers {
		events = append(events, Event{Type: statechart.TimerEvent, Timer: timer.ID})
	}
	for _, call := range snapshot.Services {
		events = append(events, call.Done(1), call.Failed(errPlanned), call.Done(2))
	}
	events = append(events, Event{Type: statechart.TimerEvent, Timer: "0.0"}, Event{Type: "done.invoke.s1", Invocation: "0.0"})
	sortEvents(events)
	return rapid.SampledFrom(events).Draw(t, "event")
}

// watcher checks every snapshot of an instance.
type watcher struct {
	t   *rapid.T
	def Def
	// active holds the IDs of the states that were entered and not left, according to the log.
	active map[string]bool
	// ids holds all derived IDs.
	ids    map[string]bool
	logged int
}

func (w *watcher) watch(before statechart.Snapshot[trace], step statechart.Step[trace]) {
	next := step.Next
	if next.Steps != before.Steps+1 {
		w.t.Fatalf("the count of steps goes from %d to %d", before.Steps, next.Steps)
	}
	w.replay(next)
	w.legal(next, w.def.States, w.def.Parallel, "")
	w.timers(before, step)
	for _, call := range next.Services {
		if !next.Matches(call.State) {
			w.t.Fatalf("service %s of %s, which is not active in %s", call.ID, call.State, next.Value())
		}
	}
	if !next.Settled() && len(next.Services) == 0 {
		w.t.Fatalf("unsettled without a service: %s", next.Value())
	}
}

// microsteps checks that a step with OnMicrostep, which disables the fast paths, gives the same result. The reported
// microsteps must match the log.
func (w *watcher) microsteps(chart *statechart.Chart[trace], before statechart.Snapshot[trace], event Event, step statechart.Step[trace], err error) {
	var reported []string
	stepper := chart.Stepper()
	stepper.OnMicrostep = func(m statechart.Microstep) {
		for _, action := range m.Actions {
			if action[0] == '+' || action[0] == '-' {
				reported = append(reported, action)
			}
		}
		if states := len(m.Exited) + len(m.Entered); states > 0 && len(m.Transitions) == 0 {
			w.t.Fatalf("a microstep without transitions: %+v", m)
		}
	}
	next := before
	effects, handled, errAgain := stepper.Step(&next, &event)
	if handled != step.Handled || fmt.Sprint(errAgain) != fmt.Sprint(err) || text(w.t, next)+text(w.t, effects) != text(w.t, step.Next)+text(w.t, step.Effects) {
		w.t.Fatalf("event %s on %s, with OnMicrostep: got %v %v\n%s%s\nwant %v %v\n%s%s", event.Type, text(w.t, before),
			handled, errAgain, text(w.t, next), text(w.t, effects), step.Handled, err, text(w.t, step.Next), text(w.t, step.Effects))
	}
	undone := slices.ContainsFunc(step.Effects, func(e statechart.Effect) bool { return e.Kind == statechart.ParkEvent })
	if err != nil || !step.Handled || undone {
		return // Rolled-back microsteps were reported too.
	}
	if log := step.Next.Context.Log[len(before.Context.Log):]; fmt.Sprint(log) != fmt.Sprint(reported) {
		w.t.Fatalf("microsteps have %d states, the log %d: %.500s, %.500s", len(reported), len(log), fmt.Sprint(reported), fmt.Sprint(log))
	}
}

// deferred checks that deferred events keep their order. Each deferred event must have been deferred before or be the
// current event. At rest, an active state must defer each of these events.
func (w *watcher) deferred(before statechart.Snapshot[trace], event Event, next statechart.Snapshot[trace]) {
	var types []string
	for _, waiting := range before.Deferred {
		types = append(types, waiting.Type)
	}
	types = append(types, event.Type)
	for _, waiting := range next.Deferred {
		for len(types) > 0 && types[0] != waiting.Type {
			types = types[1:]
		}
		if len(types) == 0 {
			w.t.Fatalf("%v waits after %s, out of turn after %v", next.Deferred, event.Type, before.Deferred)
		}
		types = types[1:]
		if next.Status == statechart.Active && next.Settled() && !w.defers(next, w.def.States, "", waiting.Type) {
			w.t.Fatalf("%s waits in %s, where no state defers it", waiting.Type, next.Value())
		}
	}
}

// defers reports whether one of the states or their descendants is active and defers events of the type.
func (w *watcher) defers(next statechart.Snapshot[trace], states []S, path, typ string) bool {
	return slices.ContainsFunc(states, func(s S) bool {
		at := strings.TrimPrefix(path+"."+s.ID, ".")
		own := slices.ContainsFunc(s.Defer, func(d string) bool {
			prefix, partial := strings.CutSuffix(d, ".*")
			return d == typ || partial && (typ == prefix || strings.HasPrefix(typ, prefix+"."))
		})
		return next.Matches(at) && (own || w.defers(next, s.States, at, typ))
	})
}

// replay checks that only inactive states are entered and only active states are left.
func (w *watcher) replay(next statechart.Snapshot[trace]) {
	for _, entry := range next.Context.Log[w.logged:] {
		entered, id := entry[0] == '+', entry[1:]
		if w.active[id] == entered {
			w.t.Fatalf("%s out of turn in %v", entry, next.Context.Log[w.logged:])
		}
		w.active[id] = entered
	}
	w.logged = len(next.Context.Log)
}

func (w *watcher) legal(next statechart.Snapshot[trace], states []S, parallel bool, path string) {
	active, regions := 0, 0
	for _, s := range states {
		child := strings.TrimPrefix(path+"."+s.ID, ".")
		is := next.Matches(child)
		if !isHistory(s) {
			regions++
			if next.Status == statechart.Active && w.active[s.ID] != is {
				w.t.Fatalf("%s is active: %v, but by its actions: %v", child, is, w.active[s.ID])
			}
		} else if is {
			w.t.Fatalf("the history state %s is active", child)
		}
		if is {
			active++
			w.legal(next, s.States, s.Type == statechart.Parallel, child)
		} else {
			w.inactive(next, s.States, child)
		}
	}
	if want := map[bool]int{true: regions, false: min(1, regions)}[parallel]; active != want {
		w.t.Fatalf("%q has %d active children in %s, want %d", path, active, next.Value(), want)
	}
}

func (w *watcher) inactive(next statechart.Snapshot[trace], states []S, path string) {
	for _, s := range states {
		if next.Matches(path + "." + s.ID) {
			w.t.Fatalf("%s.%s is active, but %s is not", path, s.ID, path)
		}
		w.inactive(next, s.States, path+"."+s.ID)
	}
}

// timers checks that every timer belongs to an active state and is unique there. Each new timer must be scheduled or
// served in process. No ID may repeat.
func (w *watcher) timers(before statechart.Snapshot[trace], step statechart.Step[trace]) {
	fresh := map[string]bool{}
	for _, timer := range step.Next.Timers {
		fresh[timer.ID] = true
		if !step.Next.Matches(timer.State) {
			w.t.Fatalf("timer %s of %s, which is not active in %s", timer.ID, timer.State, step.Next.Value())
		}
	}
	for _, call := range step.Next.Services {
		fresh[call.Key] = true
	}
	if want := len(step.Next.Timers) + len(step.Next.Services); len(fresh) != want {
		w.t.Fatalf("%d timers and services have %d IDs", want, len(fresh))
	}
	for _, timer := range before.Timers {
		delete(fresh, timer.ID)
	}
	for _, call := range before.Services {
		delete(fresh, call.Key)
	}
	for _, effect := range step.Effects {
		if effect.Kind == statechart.ParkEvent {
			continue
		}
		if effect.ID != effect.Timer || !fresh[effect.ID] {
			w.t.Fatalf("effect %+v schedules no new timer", effect)
		}
	}
	for id := range fresh {
		if w.ids[id] || !strings.HasPrefix(id, fmt.Sprint(step.Next.Steps, ".")) {
			w.t.Fatalf("the ID %s comes twice or from another step than %d", id, step.Next.Steps)
		}
		w.ids[id] = true
	}
}
