package command

import (
	"context"
	"math"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/settle-run/settle/runtime/statechart"
)

// watchBackoff is when a watch looks again after AWS has failed, longer than the SDK tries again.
var watchBackoff = statechart.RetryPolicy{Attempts: math.MaxInt, Interval: time.Second, Rate: 2, IntervalMax: 30 * time.Second}

// outlast takes the outcome of a look. What may pass it says, and returns when to look again; zero means that the look has not failed.
// What does not pass, and what fails the first look, is the watch's error.
func (w *watch) outlast(ctx context.Context, first bool, err error) (again time.Duration, lasting error) {
	switch {
	case err == nil && w.failures > 0:
		w.session.note("AWS answers again.")
		w.failures = 0
		return 0, nil
	case err == nil:
		return 0, nil
	case first || ctx.Err() != nil || !mayPass(err):
		return 0, err
	}
	w.failures++
	again, _ = watchBackoff.Next(w.failures)
	w.session.note("%s: %s; trying again in %v", w.session.name(), oneLine(err), again)
	return again, nil
}

// mayPass reports whether an error is one that the SDK itself would try again.
func mayPass(err error) bool { return retry.NewStandard().IsErrorRetryable(err) }
