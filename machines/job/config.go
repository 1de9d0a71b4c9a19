package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Config tunes the chart. The zero value is useful. A change does not affect timers that are already running.
type Config struct {
	// Labels selects the jobs that get runners: a job must have all of these labels. As on GitHub, case does not matter.
	// The chart follows other jobs without launching runners. Defaults to "self-hosted".
	Labels []string
	// PickUpTimeout is how long a launched runner may take to pick up the job, before another one is launched.
	// Defaults to 5 minutes.
	PickUpTimeout time.Duration
	// LaunchesMax limits the number of runners launched for one job. Defaults to 3.
	LaunchesMax int
	// TimeLimit is how long the job may be in progress, counted from the time at which the webhook in_progress is
	// applied. Defaults to 6 hours, GitHub's own limit for a job.
	TimeLimit time.Duration
	// LaunchTimeout limits one attempt to launch a runner. Defaults to 30 seconds.
	LaunchTimeout time.Duration
	// LaunchRetry is the retry policy for failed attempts. All attempts count as one launch. Defaults to 3 attempts,
	// 10 and 20 seconds apart.
	LaunchRetry statechart.RetryPolicy
}

func (c Config) withDefaults() Config {
	if len(c.Labels) == 0 {
		c.Labels = []string{"self-hosted"}
	}
	if c.PickUpTimeout == 0 {
		c.PickUpTimeout = 5 * time.Minute
	}
	if c.LaunchesMax == 0 {
		c.LaunchesMax = 3
	}
	if c.TimeLimit == 0 {
		c.TimeLimit = 6 * time.Hour
	}
	if c.LaunchTimeout == 0 {
		c.LaunchTimeout = 30 * time.Second
	}
	if c.LaunchRetry == (statechart.RetryPolicy{}) {
		c.LaunchRetry = statechart.RetryPolicy{Attempts: 3, Interval: 10 * time.Second}
	}
	return c
}

func (c Config) validate() error {
	switch {
	case slices.Contains(c.Labels, ""):
		return fmt.Errorf("job.Config: expected Labels without an empty label, got %q", c.Labels)
	case c.PickUpTimeout < 0:
		return fmt.Errorf("job.Config: expected a positive PickUpTimeout, got %v", c.PickUpTimeout)
	case c.LaunchesMax < 0:
		return fmt.Errorf("job.Config: expected a positive LaunchesMax, got %d", c.LaunchesMax)
	case c.TimeLimit < 0:
		return fmt.Errorf("job.Config: expected a positive TimeLimit, got %v", c.TimeLimit)
	case c.LaunchTimeout < 0:
		return fmt.Errorf("job.Config: expected a positive LaunchTimeout, got %v", c.LaunchTimeout)
	default:
		return nil
	}
}

// selects reports whether the job has all labels of the config.
func (c Config) selects(job WorkflowJob) bool {
	return !slices.ContainsFunc(c.Labels, func(label string) bool {
		return !slices.ContainsFunc(job.Labels, func(of string) bool { return strings.EqualFold(of, label) })
	})
}
