package sfncallback

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
)

// triesMax is the number of calls that one attempt makes. tryInterval is the pause after the first call. It doubles
// after each call.
const (
	triesMax    = 3
	tryInterval = 100 * time.Millisecond
)

// attempt repeats a call that has side effects. It stops if the call succeeds, if isFinal accepts the call's error, or
// after triesMax calls. It returns the last error. `unsure` reports whether an earlier call may have taken effect
// although it failed. A silent retry of the SDK would hide such a call. So `call` must pass `once` to the SDK, to turn
// off the SDK's retries.
func attempt(ctx context.Context, isFinal func(error) bool, call func(once func(*sfn.Options)) error) (unsure bool, err error) {
	once := func(o *sfn.Options) { o.RetryMaxAttempts, o.Retryer = 1, aws.NopRetryer{} }
	for try := 1; ; try++ {
		err = call(once)
		if err == nil || isFinal(err) || try == triesMax {
			return unsure, err
		}
		unsure = unsure || !isThrottled(err)
		if ended := wait(ctx, tryInterval<<(try-1)); ended != nil {
			return unsure, errors.Join(ended, err)
		}
	}
}

// wait pauses for d. It returns nil, or the cause if ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	pause, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-pause.Done()
	return context.Cause(ctx)
}

// isThrottled reports whether Step Functions rejected the call before it took effect.
func isThrottled(err error) bool {
	throttled := retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}
	return throttled.IsErrorThrottle(err) == aws.TrueTernary
}
