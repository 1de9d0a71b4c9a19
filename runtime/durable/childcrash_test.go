package durable_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

var childHash = regexp.MustCompile("-[0-9a-f]{32}")

// playFamily has a parent and its children live through all that becomes of children, in a world of its own. The nth
// call, those of services and of Lambda's poller included, meets the fault of that number. It returns what every
// instance has come to, and the calls.
func playFamily(t *testing.T, plan map[int]fault) (end, calls []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newFamily(t)
		w.latency = taking
		w.hook = func(call string) fault {
			calls = append(calls, call)
			f := plan[len(calls)]
			if strings.HasPrefix(call, "Serve ") && (f == failBefore || f == failAfter) {
				return none // That a service fails, the chart may see.
			}
			return f
		}
		for _, events := range [][]string{
			{ship, `{"type":"tell","item":"fast"}`},          // A child is started, and told something;
			{event("finish", "")},                            // it is done.
			{event("ship", "second")}, {event("cancel", "")}, // Its state is left.
			{event("ship", "heavy")},                      // It cannot be started.
			{event("ship", "panic")},                      // Its chart cannot start.
			{`{"type":"both","to":"nobody"}`},             // Nobody hosts it.
			{`{"type":"both","to":"flash"}`},              // It is done at once.
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
		// The names of grandchildren contain when a child began.
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
	if len(want) != 9 { // boss/1, three couriers with a radio each, one flash, order/9
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
					t.Fatalf("%v: call %d is another than without faults", f, n+1)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%v at call %d (-without fault +with it):\n%s", f, n+1, diff)
				}
			}
		})
	}
}
