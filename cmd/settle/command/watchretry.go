package command

import (
	"context"
	"math"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/settle-run/settle/runtime/statechart"
)

// watchBackoff is the backoff after a read has failed in spite of the SDK's retries.
var watchBackoff = statechart.RetryPolicy{Attempts: math.MaxInt, Interval: time.Second, Rate: 2, IntervalMax: 30 * time.Second}

// handleError handles the error of a read. If it is temporary, handleError prints it and returns the time until the next
// attempt. It returns the error if it is permanent or if the first read failed. Zero values mean success.
func (w *watch) handleError(ctx context.Context, first bool, err error) (again time.Duration, lasting error) {
	switch {
	case err == nil && w.failures > 0:
		w.session.note("AWS answers again.")
		w.failures = 0
		return 0, nil
	case err == nil:
		return 0, nil
	case first || ctx.Err() != nil || !isTemporary(err):
		return 0, err
	}
	w.failures++
	again, _ = watchBackoff.Next(w.failures)
	w.session.note("%s: %s; trying again in %v", w.session.name(), oneLine(err), again)
	return again, nil
}

// isTemporary reports whether the SDK would retry the error.
func isTemporary(err error) bool { return retry.NewStandard().IsErrorRetryable(err) }
