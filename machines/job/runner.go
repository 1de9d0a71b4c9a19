package job

import (
	"context"
	"fmt"

	"github.com/settle-run/settle/runtime/statechart"
)

// RunnerLauncher launches self-hosted runners.
type RunnerLauncher interface {
	// Launch starts a runner for the job and returns without waiting for it to pick the job
	// up. Two calls with the same IdempotencyKey must launch one runner: an attempt is
	// repeated when its answer was lost. An error is retried by Config.LaunchRetry, unless
	// it is marked by statechart.Permanent.
	Launch(ctx context.Context, request Request) (Runner, error)
}

// Request asks for a runner.
type Request struct {
	// IdempotencyKey is the same in all attempts of one launch, and in no other launch.
	IdempotencyKey string
	// Job is the job that the runner is for. Its Labels are those the runner must have.
	Job WorkflowJob
	// Launch counts the launches for this job, from 1.
	Launch int
}

// Runner is a runner that was launched.
type Runner struct {
	// ID is the launcher's own name for it, such as an EC2 instance ID.
	ID string `json:"id,omitempty"`
}

// Relaunch is the payload of RELAUNCH: whoever sends it has waited long enough for the job to be picked
// up. It does at once what the chart does by itself after Config.PickUpTimeout: another runner is
// launched, or the job is given up.
type Relaunch struct {
	// Launch counts as Request.Launch does, and says which launch was in vain. One that is not the
	// last changes nothing: another runner is on its way already.
	Launch int `json:"launch"`
}

// Validate checks that the payload says which launch it is about.
func (r Relaunch) Validate() error {
	if r.Launch <= 0 {
		return fmt.Errorf("expected a positive launch, got %d", r.Launch)
	}
	return nil
}

func launchRunner(runners RunnerLauncher) statechart.Service[Context] {
	return statechart.ServiceFunc("launchRunner", func(ctx context.Context, c Context, call statechart.Call) (Runner, error) {
		return runners.Launch(ctx, Request{IdempotencyKey: call.Key, Job: c.Job, Launch: c.Launches + 1})
	})
}
