package statecharttest

import (
	"strings"
	"testing"

	"github.com/settle-run/settle/runtime/statechart"
)

// RunPaths finds the shortest paths of a chart, or, with PathConfig.Simple, the simple ones. It runs each path that no
// other path extends, in a subtest named after the path's last step:
//
//	launching -> queued via done.invoke.launching
//
// A [Player] runs the path with its usual checks. RunPaths calls the invariant and check, if they are set, at every
// step, including the start. A path ends at the first failure and prints the steps so far.
//
// RunPaths covers what the configuration makes reachable:
//
//   - RunPaths finds one shortest path to every reachable state. Two snapshots are the same state if their
//     PathConfig.Identity is equal. Shortest paths may not take every transition. Simple paths take more.
//   - A path tries only PathConfig.Events and EventsIn. By default these are all events of the chart without payloads, so
//     a guard that needs a payload does not hold.
//   - A service ends in each of PathConfig.Outcomes. By default, one path calls the service. In another, its last attempt
//     fails with ServiceError.Permanent false. If the chart tests Permanent, add an outcome with [statechart.Permanent].
//   - A child ends only in the outcomes that PathConfig.ChildOutcomes returns. Without this function no child ends, and
//     no path takes a transition on the end of a child.
//
// RunPaths does not fail if a state or a transition is never reached. Use PathConfig.Start.Coverage to find them, or
// FinalPaths for final states.
func RunPaths[C any](t *testing.T, chart *statechart.Chart[C], config PathConfig[C], check func(*testing.T, PathStep[C])) {
	t.Helper()
	find := ShortestPaths[C]
	if config.Simple {
		find = SimplePaths[C]
	}
	paths, err := find(chart, config)
	if err != nil {
		t.Fatalf("%v", explained(err))
	}
	coverage := config.Start.Coverage
	for _, path := range paths {
		if path.extended {
			continue
		}
		if coverage != nil {
			coverage.plan(1)
		}
		t.Run(path.Steps[len(path.Steps)-1].String(), func(t *testing.T) {
			runPath(t, chart, config, path, func(step PathStep[C]) {
				if check != nil {
					check(t, step)
				}
			})
			if coverage != nil {
				coverage.finish()
			}
		})
	}
}

func runPath[C any](tb testing.TB, chart *statechart.Chart[C], config PathConfig[C], path Path[C], check func(PathStep[C])) {
	tb.Helper()
	config = config.withDefaults(chart)
	reached := 0
	defer func() {
		if tb.Failed() {
			tb.Logf("on this path:\n%s", Path[C]{Steps: path.Steps[:reached+1]})
		}
	}()
	p := open(tb, chart, config.Start)
	for i, step := range path.Steps {
		reached = i
		if i > 0 {
			p.begin("")
			p.now = step.Event.At
			if _, err := p.step(step.Event); err != nil {
				tb.Fatalf("%s: %v", step, explained(err))
			}
		}
		if got, want := config.Identity(p.snapshot), config.Identity(step.Snapshot); got != want {
			tb.Fatalf("%s: gave a different result when run: expected %s, got %s in %s", step, want, got, strings.Join(p.snapshot.State(), ", "))
		}
		step.Snapshot, step.Effects, step.Microsteps = p.snapshot, p.effects, p.microsteps
		if config.Invariant != nil {
			if err := config.Invariant(step.Snapshot); err != nil {
				tb.Errorf("%s: %v", step, explained(err))
			}
		}
		check(step)
		if tb.Failed() {
			return
		}
	}
}
