package asl

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Failure is an error of an execution. Error is the name that retriers and catchers match. Cause explains the error to
// people.
type Failure struct{ Error, Cause string }

// The error names of Step Functions itself.
const (
	ErrorAll               = "States.ALL" // a wildcard
	ErrorTaskFailed        = "States.TaskFailed"
	ErrorTimeout           = "States.Timeout"
	ErrorHeartbeatTimeout  = "States.HeartbeatTimeout"
	ErrorRuntime           = "States.Runtime"
	ErrorDataLimitExceeded = "States.DataLimitExceeded"
	ErrorNoChoiceMatched   = "States.NoChoiceMatched"
	ErrorIntrinsicFailure  = "States.IntrinsicFailure"
	ErrorResultPathMatch   = "States.ResultPathMatchFailure"
)

// delayMax is the maximum delay of a retry without MaxDelay.
const delayMax = 366 * 24 * time.Hour

// Runtime returns a failure that ends an execution regardless of its retriers and catchers.
func Runtime(format string, args ...any) *Failure {
	return &Failure{Error: ErrorRuntime, Cause: fmt.Sprintf(format, args...)}
}

// matches reports whether a list of error names matches a failure. According to "Handling errors in Step Functions
// workflows", States.ALL matches every error except States.DataLimitExceeded and States.Runtime. States.TaskFailed
// matches the same errors as States.ALL, except timeouts. Nothing matches States.Runtime. States.Timeout also matches a
// missed heartbeat.
func matches(names []string, failure *Failure) bool {
	timeout := failure.Error == ErrorTimeout || failure.Error == ErrorHeartbeatTimeout
	terminal := failure.Error == ErrorDataLimitExceeded
	switch {
	case failure.Error == ErrorRuntime:
		return false
	case slices.Contains(names, failure.Error):
		return true
	case slices.Contains(names, ErrorTimeout) && timeout:
		return true
	case slices.Contains(names, ErrorAll):
		return !terminal
	}
	return slices.Contains(names, ErrorTaskFailed) && !timeout && !terminal
}

// Retrier returns the index of the first retrier that matches a failure, or -1.
func (s *State) Retrier(failure *Failure) int {
	return slices.IndexFunc(s.Retry, func(r Retrier) bool { return matches(r.Errors, failure) })
}

// Catcher returns the first catcher that matches a failure, or nil.
func (s *State) Catcher(failure *Failure) *Catcher {
	i := slices.IndexFunc(s.Catch, func(c Catcher) bool { return matches(c.Errors, failure) })
	if i < 0 {
		return nil
	}
	return &s.Catch[i]
}

// Delay returns the wait before the next retry, in whole milliseconds. The argument `done` is the number of earlier
// retries. The wait is Interval × BackoffRate^done, at most MaxDelay.
func (r Retrier) Delay(done int) time.Duration {
	seconds := r.Interval * math.Pow(r.BackoffRate, float64(done))
	if r.MaxDelay > 0 {
		seconds = min(seconds, r.MaxDelay)
	}
	if seconds > delayMax.Seconds() {
		return delayMax
	}
	return time.Duration(math.Round(seconds*1000)) * time.Millisecond
}
