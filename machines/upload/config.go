package upload

import (
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Config tunes the chart. The zero value is useful. A change does not affect timers that are already running.
type Config struct {
	// Window is how long the files of a month are accepted, including corrections. The window starts with the first file,
	// or with the first workflow that waits for a file. Defaults to 14 days.
	Window time.Duration
	// ProcessTimeout limits one attempt to process a file. The Lambda function that runs the services needs a longer
	// timeout. Defaults to 30 seconds.
	ProcessTimeout time.Duration
	// ProcessRetry is the retry policy for failed attempts. Defaults to 3 attempts, 10 and 20 seconds apart.
	ProcessRetry statechart.RetryPolicy
}

func (c Config) withDefaults() Config {
	if c.Window == 0 {
		c.Window = 14 * 24 * time.Hour
	}
	if c.ProcessTimeout == 0 {
		c.ProcessTimeout = 30 * time.Second
	}
	if c.ProcessRetry == (statechart.RetryPolicy{}) {
		c.ProcessRetry = statechart.RetryPolicy{Attempts: 3, Interval: 10 * time.Second}
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Window < 0:
		return fmt.Errorf("upload.Config: expected a positive Window, got %v", c.Window)
	case c.ProcessTimeout < 0:
		return fmt.Errorf("upload.Config: expected a positive ProcessTimeout, got %v", c.ProcessTimeout)
	default:
		return nil
	}
}
