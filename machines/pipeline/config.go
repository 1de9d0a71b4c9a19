package pipeline

import (
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Config tunes the chart. The zero value is useful. A change does not affect runs that have already started.
type Config struct {
	// EvaluationInterval is the wait between two evaluations, unless START sets one. Defaults to 5 minutes.
	EvaluationInterval time.Duration
	// EvaluationWindow is how long the run waits for the data, unless START sets it. Defaults to 1 hour.
	EvaluationWindow time.Duration
	// JobCheckInterval is the wait between two checks of the job, unless START sets one. Defaults to 1 minute.
	JobCheckInterval time.Duration
	// JobTimeLimit is how long the run waits for the job, unless START sets it. Defaults to 24 hours.
	JobTimeLimit time.Duration
	// TriggerRetry is the retry policy for failed attempts to start the job. The waits are timers, so they may be long.
	// Defaults to 5 attempts: 30, 60, 120 and 240 seconds apart.
	TriggerRetry statechart.RetryPolicy
	// ServiceTimeout limits one call of a service. Defaults to 10 seconds.
	ServiceTimeout time.Duration
	// ServiceRetry is the retry policy for failed calls of the other services. The waits delay the instance's next event.
	// Defaults to 4 attempts: 2, 4 and 8 seconds apart.
	ServiceRetry statechart.RetryPolicy
}

func (c Config) withDefaults() Config {
	for _, duration := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&c.EvaluationInterval, 5 * time.Minute},
		{&c.EvaluationWindow, time.Hour},
		{&c.JobCheckInterval, time.Minute},
		{&c.JobTimeLimit, 24 * time.Hour},
		{&c.ServiceTimeout, 10 * time.Second},
	} {
		if *duration.value == 0 {
			*duration.value = duration.standard
		}
	}
	if c.TriggerRetry == (statechart.RetryPolicy{}) {
		c.TriggerRetry = statechart.RetryPolicy{Attempts: 5, Interval: 30 * time.Second}
	}
	if c.ServiceRetry == (statechart.RetryPolicy{}) {
		c.ServiceRetry = statechart.RetryPolicy{Attempts: 4, Interval: 2 * time.Second}
	}
	return c
}

func (c Config) validate() error {
	for _, duration := range []struct {
		field string
		value time.Duration
	}{
		{"EvaluationInterval", c.EvaluationInterval},
		{"EvaluationWindow", c.EvaluationWindow},
		{"JobCheckInterval", c.JobCheckInterval},
		{"JobTimeLimit", c.JobTimeLimit},
	} {
		if duration.value < time.Second || duration.value%time.Second != 0 {
			return fmt.Errorf("pipeline.Config: expected %s in whole seconds, at least one, got %v", duration.field, duration.value)
		}
	}
	if c.ServiceTimeout < 0 {
		return fmt.Errorf("pipeline.Config: expected a positive ServiceTimeout, got %v", c.ServiceTimeout)
	}
	return nil
}
