package job_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// launcher is a fake that records its requests.
type launcher struct {
	outcomes *statecharttest.Outcomes
	requests []job.Request
}

func (l *launcher) Launch(ctx context.Context, request job.Request) (job.Runner, error) {
	l.requests = append(l.requests, request)
	if err := l.outcomes.Next(ctx); err != nil {
		return job.Runner{}, err
	}
	return job.Runner{ID: fmt.Sprintf("i-%d", len(l.requests))}, nil
}

// newLauncher returns a launcher whose calls have the given outcomes. See statecharttest.Outcomes.
func newLauncher(t *testing.T, outcomes ...string) *launcher {
	t.Helper()
	parsed, err := statecharttest.NewOutcomes(outcomes...)
	if err != nil {
		t.Fatal(err)
	}
	return &launcher{outcomes: parsed}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	statecharttest.RunScripts(t, "testdata", func(setup *statecharttest.Setup) *statechart.Chart[job.Context] {
		return job.New(&launcher{outcomes: setup.Outcomes("launch")}, job.Config{})
	}).Require(t)
}

var queued = job.WorkflowJob{RunID: 7, JobID: 42, Repository: "octo-org/web", InstallationID: 9, Labels: []string{"self-hosted", "gpu"}}

func TestEveryLaunchHasItsOwnIdempotencyKeyAndItsAttemptsShareIt(t *testing.T) {
	t.Parallel()
	runners := newLauncher(t, "fail", "ok", "hang", "ok")
	p := statecharttest.Play(t, job.New(runners, job.Config{}), statecharttest.Config{Instance: "job/run-7-job-42"})
	p.Send("queued", queued)
	p.Advance(5 * time.Minute)

	var got []string
	for _, r := range runners.requests {
		got = append(got, fmt.Sprintf("launch %d under %s", r.Launch, r.IdempotencyKey))
	}
	want := []string{
		"launch 1 under job/run-7-job-42/2.0", "launch 1 under job/run-7-job-42/2.0",
		"launch 2 under job/run-7-job-42/4.0", "launch 2 under job/run-7-job-42/4.0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("launches (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(queued, runners.requests[3].Job); diff != "" {
		t.Errorf("job of the last request (-want +got):\n%s", diff)
	}
}

// TestRunnersAreLaunchedForJobsWithAllLabels sends the event queued with the labels of a job.
func TestRunnersAreLaunchedForJobsWithAllLabels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, labels []string
		launches     int
	}{
		{nil, []string{"self-hosted"}, 1},
		{nil, []string{"linux", "Self-Hosted"}, 1},
		{nil, []string{"ubuntu-latest"}, 0},
		{nil, nil, 0},
		{[]string{"linux", "GPU"}, []string{"self-hosted", "linux", "gpu"}, 1},
		{[]string{"linux", "GPU"}, []string{"self-hosted", "linux"}, 0},
		{[]string{"linux", "GPU"}, []string{"self-hosted", "gpus", "linux"}, 0},
	} {
		runners := newLauncher(t)
		p := statecharttest.Play(t, job.New(runners, job.Config{Labels: c.want}), statecharttest.Config{})
		p.Send("queued", job.WorkflowJob{RunID: 7, JobID: 42, Labels: c.labels})
		if got := len(runners.requests); got != c.launches {
			t.Errorf("Labels %q, a job with %q: expected %d launches, got %d in %s", c.want, c.labels, c.launches, got, p.State())
		}
	}
}

func TestConfigTunesTheChart(t *testing.T) {
	t.Parallel()
	runners := newLauncher(t, "fail")
	p := statecharttest.Play(t, job.New(runners, job.Config{
		PickUpTimeout: time.Minute, LaunchesMax: 2, TimeLimit: time.Hour, LaunchRetry: statechart.RetryPolicy{Attempts: 2, Interval: time.Second},
	}), statecharttest.Config{})
	p.Send("queued", queued)
	p.Advance(2*time.Minute - time.Second)
	if got, calls := p.State(), len(runners.requests); got != "queued" || calls != 3 {
		t.Errorf("before the second timeout: expected queued after 3 calls, got %s after %d", got, calls)
	}
	p.Advance(time.Second)
	if got := p.State(); got != "not_picked_up" {
		t.Errorf("after the second timeout: expected not_picked_up, got %s", got)
	}
}

func TestInvalidConfigPanicsBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]job.Config{
		`job.Config: expected Labels without an empty label, got ["gpu" ""]`: {Labels: []string{"gpu", ""}},
		"job.Config: expected a positive PickUpTimeout, got -1s":             {PickUpTimeout: -time.Second},
		"job.Config: expected a positive LaunchesMax, got -1":                {LaunchesMax: -1},
		"job.Config: expected a positive TimeLimit, got -1s":                 {TimeLimit: -time.Second},
		"job.Config: expected a positive LaunchTimeout, got -1s":             {LaunchTimeout: -time.Second},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != want {
					t.Errorf("expected the panic %q, got %q", want, got)
				}
			}()
			job.New(newLauncher(t), config)
		}()
	}
}

func TestEveryWebhookMayStartAnInstanceButRELAUNCHMayNot(t *testing.T) {
	t.Parallel()
	chart := job.New(newLauncher(t), job.Config{})
	started := map[string]bool{}
	for _, typ := range job.StartedBy {
		started[typ] = true
	}
	events := append(chart.Events(), "settle.wait") // a workflow may also be first
	events = slices.DeleteFunc(events, func(typ string) bool { return typ == "RELAUNCH" })
	for _, typ := range events {
		if !started[typ] {
			t.Errorf("the chart accepts %q, but StartedBy does not name it", typ)
		}
	}
	if len(job.StartedBy) != len(events) {
		t.Errorf("expected StartedBy to be %v, got %v", events, job.StartedBy)
	}
}

func TestOutputHasTheOutcomeAndGitHubsConclusion(t *testing.T) {
	t.Parallel()
	p := statecharttest.Play(t, job.New(newLauncher(t), job.Config{}), statecharttest.Config{})
	p.Send("queued", queued)
	completed := queued
	completed.Conclusion, completed.RunnerName, completed.HTMLURL = "exploded", "i-1", "https://github.com/octo-org/web/actions/runs/7/job/42"
	p.Send("completed", completed)

	var got job.Output
	if err := json.Unmarshal(p.Snapshot().Output, &got); err != nil {
		t.Fatal(err)
	}
	want := job.Output{Outcome: "other", Conclusion: "exploded", Launches: 1, RunnerName: "i-1", HTMLURL: completed.HTMLURL}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
