package enrich

import (
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Config tunes the chart. The zero value is useful. A change does not affect deadlines that are already set.
type Config struct {
	// Wait is how long callbacks are accepted, counted from ENRICH. Defaults to 30 minutes.
	Wait time.Duration
	// Grace is the time from the end of Wait until the chart gives up. A callback that the gateway accepts at the last
	// moment must reach the instance within this time. Defaults to 1 minute.
	Grace time.Duration
	// SubmitTimeout limits one attempt to submit. Defaults to 30 seconds.
	SubmitTimeout time.Duration
	// SubmitRetry is the retry policy for failed attempts. Defaults to 3 attempts, 10 and 20 seconds apart.
	SubmitRetry statechart.RetryPolicy
}

func (c Config) withDefaults() Config {
	if c.Wait == 0 {
		c.Wait = 30 * time.Minute
	}
	if c.Grace == 0 {
		c.Grace = time.Minute
	}
	if c.SubmitTimeout == 0 {
		c.SubmitTimeout = 30 * time.Second
	}
	if c.SubmitRetry == (statechart.RetryPolicy{}) {
		c.SubmitRetry = statechart.RetryPolicy{Attempts: 3, Interval: 10 * time.Second}
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Wait < time.Second:
		return fmt.Errorf("enrich.Config: expected a Wait of at least 1s, got %v", c.Wait)
	case c.Grace < 0:
		return fmt.Errorf("enrich.Config: expected a positive Grace, got %v", c.Grace)
	case c.SubmitTimeout < 0:
		return fmt.Errorf("enrich.Config: expected a positive SubmitTimeout, got %v", c.SubmitTimeout)
	default:
		return nil
	}
}
