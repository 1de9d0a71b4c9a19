package asl

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Failure is an error of an execution: a name to catch it by, and a cause to read.
type Failure struct{ Error, Cause string }

// The names of errors that Step Functions itself gives.
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

// delayMax is the longest delay of a retry that has no other limit.
const delayMax = 366 * 24 * time.Hour

// Runtime returns the failure that ends an execution whatever its retriers and catchers are.
func Runtime(format string, args ...any) *Failure {
	return &Failure{Error: ErrorRuntime, Cause: fmt.Sprintf(format, args...)}
}

// matches reports whether a list of error names is for a failure. "Handling errors in Step
// Functions workflows": States.ALL is for every error but States.DataLimitExceeded and
// States.Runtime; States.TaskFailed for every one of these but time-outs; States.Runtime is
// never retried or caught. States.Timeout is for a missed heartbeat too.
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

// Retrier returns the place of the first retrier that is for a failure, -1 if none is.
func (s *State) Retrier(failure *Failure) int {
	return slices.IndexFunc(s.Retry, func(r Retrier) bool { return matches(r.Errors, failure) })
}

// Catcher returns the first catcher that is for a failure, nil if none is.
func (s *State) Catcher(failure *Failure) *Catcher {
	i := slices.IndexFunc(s.Catch, func(c Catcher) bool { return matches(c.Errors, failure) })
	if i < 0 {
		return nil
	}
	return &s.Catch[i]
}

// Delay returns how long to wait before the retry after so many retries, to the millisecond:
// Interval × BackoffRate^done, at most MaxDelay.
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
