package job_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// launchesMax limits the launches on each path.
const launchesMax = 2

// numbered is a stateless launcher: its runners are named after their launch.
type numbered struct{}

func (numbered) Launch(_ context.Context, request job.Request) (job.Runner, error) {
	return job.Runner{ID: fmt.Sprintf("i-%d", request.Launch)}, nil
}

// paths returns a chart and the events that reach all of its states: every webhook with every conclusion, an unknown
// conclusion, and a job with other labels.
func paths() (*statechart.Chart[job.Context], statecharttest.PathConfig[job.Context]) {
	known := job.WorkflowJob{RunID: 7, JobID: 42, Labels: []string{"self-hosted"}}
	elsewhere := job.WorkflowJob{RunID: 7, JobID: 42, Labels: []string{"ubuntu-latest"}}
	events := []statecharttest.Event{
		{Type: "waiting", Payload: known}, {Type: "queued", Payload: known},
		{Type: "queued", Payload: elsewhere, Name: "queued elsewhere"}, {Type: "in_progress", Payload: known},
	}
	for launch := range launchesMax {
		events = append(events, statecharttest.Event{Type: "RELAUNCH", Payload: job.Relaunch{Launch: launch + 1}, Name: fmt.Sprintf("RELAUNCH %d", launch+1)})
	}
	for _, conclusion := range []string{
		"success", "failure", "cancelled", "skipped", "timed_out", "action_required", "neutral", "stale", "startup_failure", "exploded",
	} {
		completed := known
		completed.Conclusion = conclusion
		events = append(events, statecharttest.Event{Type: "completed", Payload: completed, Name: "completed with " + conclusion})
	}
	return job.New(numbered{}, job.Config{LaunchesMax: launchesMax}), statecharttest.PathConfig[job.Context]{Events: events}
}

func TestEveryOutcomeCanBeReached(t *testing.T) {
	t.Parallel()
	chart, config := paths()
	final, err := statecharttest.FinalPaths(chart, config)
	if err != nil {
		t.Error(err)
	}
	for _, path := range final {
		end := path.Snapshot()
		if end.Status != statechart.Done {
			t.Errorf("expected the job to be over, it is in %v after\n%s", end.State(), path)
		}
	}
}

func TestOnEveryPathLaunchesAreLimitedAndTheOutputNamesTheOutcome(t *testing.T) {
	t.Parallel()
	var coverage statecharttest.Coverage
	chart, config := paths()
	config.Start.Coverage = &coverage
	config.Simple = true // Shortest paths miss transitions, because they never take a detour.
	config.Invariant = func(s statechart.Snapshot[job.Context]) error {
		if s.Context.Launches > launchesMax {
			return fmt.Errorf("expected at most %d launches, got %d", launchesMax, s.Context.Launches)
		}
		if s.Status != statechart.Done {
			return nil
		}
		var output job.Output
		if err := json.Unmarshal(s.Output, &output); err != nil {
			return err
		}
		if !slices.Equal(s.State(), []string{output.Outcome}) || output.Launches != s.Context.Launches {
			return fmt.Errorf("in %v after %d launches: expected a matching output, got %+v", s.State(), s.Context.Launches, output)
		}
		return nil
	}
	statecharttest.RunPaths(t, chart, config, nil)
	coverage.Require(t)
}
