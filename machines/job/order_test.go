package job_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/settle-run/settle/machines/job"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// phases are the events of a job in chronological order.
var phases = []string{"waiting", "queued", "in_progress", "completed"}

// deliveries draws a sequence of a job's webhooks: a subset in any order, with some of them repeated.
func deliveries(t *rapid.T) []string {
	subset := rapid.SliceOfNDistinct(rapid.SampledFrom(phases), 1, len(phases), rapid.ID).Draw(t, "sent")
	repeats := rapid.SliceOfN(rapid.SampledFrom(subset), 0, 6).Draw(t, "repeated")
	return rapid.Permutation(slices.Concat(subset, repeats)).Draw(t, "delivered")
}

// payload returns the payload for the event of a phase. The name of the runner identifies the phase.
func payload(phase string) job.WorkflowJob {
	p := job.WorkflowJob{RunID: 7, JobID: 42, Labels: []string{"self-hosted"}, RunnerName: "seen in " + phase}
	if phase == "completed" {
		p.Conclusion = "success"
	}
	return p
}

// state returns the expected state of a job after an event of the phase.
func state(phase string) string {
	if phase == "completed" {
		return "success"
	}
	return phase
}

func furthest(events []string) string {
	return slices.MaxFunc(events, func(a, b string) int { return slices.Index(phases, a) - slices.Index(phases, b) })
}

func TestTheMostAdvancedWebhookDecidesInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := deliveries(t)
		runners := &launcher{outcomes: &statecharttest.Outcomes{}}
		p := statecharttest.Play(t, job.New(runners, job.Config{}), statecharttest.Config{})
		for i, event := range events {
			p.Send(event, payload(event))

			known := furthest(events[:i+1])
			if got, want := p.State(), state(known); got != want {
				t.Fatalf("after %v: expected %s, got %s", events[:i+1], want, got)
			}
			if got, want := p.Snapshot().Context.Job.RunnerName, "seen in "+known; got != want {
				t.Fatalf("after %v: expected the context to hold the job as %s, got %s", events[:i+1], want, got)
			}
		}
	})
}

func TestARunnerIsLaunchedOnceIfQueuedIsNewAndElseNever(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := deliveries(t)
		runners := &launcher{outcomes: &statecharttest.Outcomes{}}
		p := statecharttest.Play(t, job.New(runners, job.Config{}), statecharttest.Config{})
		for _, event := range events {
			p.Send(event, payload(event))
		}

		want := 0
		if k := slices.Index(events, "queued"); k >= 0 && slices.Index(phases, furthest(events[:k+1])) <= slices.Index(phases, "queued") {
			want = 1
		}
		if got := len(runners.requests); got != want {
			t.Fatalf("after %v: expected %d launches, got %d", events, want, got)
		}
		if got := p.Snapshot().Context.Launches; got != want {
			t.Fatalf("after %v: expected the context to count %d launches, got %d", events, want, got)
		}
	})
}

func TestAnEventOfAnEarlierPhaseIsIgnored(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := statecharttest.Play(t, job.New(&launcher{outcomes: &statecharttest.Outcomes{}}, job.Config{}), statecharttest.Config{})
		furthest := -1
		for _, event := range deliveries(t) {
			p.Send(event, payload(event))

			phase := slices.Index(phases, event)
			if got, want := p.Handled(), phase > furthest; got != want {
				t.Fatalf("%s after phase %d: expected handled to be %v, got %v", event, furthest, want, got)
			}
			furthest = max(furthest, phase)
		}
	})
}
