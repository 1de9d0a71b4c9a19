package durable_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

var childHash = regexp.MustCompile("-[0-9a-f]{32}")

// playFamily plays starts, ends and failures of children in a new world. Fault plan[n] hits the nth call, including
// calls of services and of Lambda's poller. playFamily returns the final state of every instance, and the calls.
func playFamily(t *testing.T, plan map[int]fault) (end, calls []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newFamily(t)
		w.latency = taking
		w.hook = func(call string) fault {
			calls = append(calls, call)
			f := plan[len(calls)]
			if strings.HasPrefix(call, "Serve ") && (f == failBefore || f == failAfter) {
				return none // A failure here would reach the chart and change the outcome.
			}
			return f
		}
		for _, events := range [][]string{
			{ship, `{"type":"tell","item":"fast"}`},          // The parent starts a child and sends it an event.
			{event("finish", "")},                            // The child ends.
			{event("ship", "second")}, {event("cancel", "")}, // The parent leaves the state that started the child.
			{event("ship", "heavy")},                      // The child rejects the input.
			{event("ship", "panic")},                      // The child's chart fails at its start.
			{`{"type":"both","to":"nobody"}`},             // No machine has this name.
			{`{"type":"both","to":"flash"}`},              // The child ends at once.
			{event("ship", "third")}, {event("doom", "")}, // The parent ends.
		} {
			w.post(boss1, events...)
			w.run(t)
		}
		end = append(end, w.problems()...)
		for _, p := range w.parked {
			end = append(end, fmt.Sprintf("parked %s of %s: %s", p.Body, p.Group, p.Reason))
		}
		for _, id := range slices.Sorted(maps.Keys(w.records)) {
			r := w.load(id)
			end = append(end, fmt.Sprintf("%s: %s %s, %d ignored, recent %d, error %v", id, r.Snapshot, r.Status, r.Ignored, len(recent(r)), r.Error))
		}
		// The name of a grandchild contains a hash of its parent's start time, and that time may differ between runs.
		for i, line := range end {
			end[i] = childHash.ReplaceAllString(line, "-hash")
		}
		slices.Sort(end)
	})
	return end, calls
}

func TestAFaultAtAnyCallOfAFamilyChangesNothing(t *testing.T) {
	t.Parallel()
	want, calls := playFamily(t, nil)
	if len(want) != 11 { // The instances: boss/1, three couriers with a radio each, two couriers that could not start, one flash, order/9.
		t.Fatalf("without faults: %d lines, %s", len(want), strings.Join(want, "\n"))
	}
	t.Logf("%d calls", len(calls))
	seen := map[string]int{}
	for n, call := range calls {
		seen[call]++
		t.Run(fmt.Sprintf("%s #%d", call, seen[call]), func(t *testing.T) {
			t.Parallel()
			for _, f := range []fault{failBefore, failAfter, dieBefore, dieAfter} {
				got, made := playFamily(t, map[int]fault{n + 1: f})
				if len(made) <= n || made[n] != call {
					t.Fatalf("%v: call %d differs from the run without faults", f, n+1)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%v at call %d (-without fault +with it):\n%s", f, n+1, diff)
				}
			}
		})
	}
}

// A process reads that boss/1 waits for the courier, and freezes before it stores the courier. A second process hosts a
// courier that fails at its start. boss/1 receives the failure and stops the courier. Then the first process wakes up.
func TestAStartThatAnotherProcessReportedAsFailedIsNotStored(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		failing := durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "courier", Version: 1, Initial: "boarding", Payloads: payloads(), Input: statechart.PayloadOf[errand](),
			Context: func(statechart.Start) basket { panic("unstartable") },
			States:  []chartState{{ID: "boarding", Tags: settled}},
		}), durable.MachineConfig{})
		sound := w.machines
		w.post(boss1, ship)
		w.invoke()
		van := w.van(t)
		w.hook = w.frozenBefore("Commit "+van, 1, func() {
			w.hook = nil
			time.Sleep(visibilityTimeout)
			w.host(t, w.boss(), failing, radio(), flash())
			w.run(t)
			w.wantState(t, boss1, "idle")
			w.machines = sound
		})
		w.invoke()
		w.run(t)
		if log := w.logOf(t, boss1); len(log) != 1 || !strings.HasPrefix(log[0], "lost courier: ") {
			t.Errorf("boss/1 logged %q, want the lost courier once", log)
		}
		if r := w.load(van); r.Status != statechart.Stopped {
			t.Errorf("the status of the courier is %q, its state %q: boss/1 does not wait for it", r.Status, r.State)
		}
		w.wantParked(t)
	})
}
