package job

import (
	"context"
	"fmt"

	"github.com/settle-run/settle/runtime/statechart"
)

// RunnerLauncher launches self-hosted runners.
type RunnerLauncher interface {
	// Launch starts a runner for the job and returns without waiting until the runner picks up the job. Two calls with the
	// same IdempotencyKey must launch one runner: an attempt is repeated if its response was lost. A failed attempt is
	// retried under Config.LaunchRetry, unless its error is marked with statechart.Permanent.
	Launch(ctx context.Context, request Request) (Runner, error)
}

// Request is a request for a runner.
type Request struct {
	// IdempotencyKey is the same for all attempts of one launch. No other launch has it.
	IdempotencyKey string
	// Job is the job that the runner is for. The runner must have the job's Labels.
	Job WorkflowJob
	// Launch counts the launches for this job, from 1.
	Launch int
}

// Runner is a launched runner.
type Runner struct {
	// ID is the launcher's ID for the runner, such as an EC2 instance ID.
	ID string `json:"id,omitempty"`
}

// Relaunch is the payload of RELAUNCH, which stops waiting for a runner to pick up the job. It does immediately what
// the chart does after Config.PickUpTimeout: it launches another runner, or gives up the job.
type Relaunch struct {
	// Launch is the number of the launch to replace, like Request.Launch. If it is not the last launch, the event
	// changes nothing: another runner is already starting.
	Launch int `json:"launch"`
}

// Validate checks that the payload names a launch.
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
