package sfncallback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/runtime/durable"
)

// Client is the part of the Step Functions client that a Callback uses; *sfn.Client has it.
type Client interface {
	SendTaskSuccess(context.Context, *sfn.SendTaskSuccessInput, ...func(*sfn.Options)) (*sfn.SendTaskSuccessOutput, error)
	SendTaskFailure(context.Context, *sfn.SendTaskFailureInput, ...func(*sfn.Options)) (*sfn.SendTaskFailureOutput, error)
	SendTaskHeartbeat(context.Context, *sfn.SendTaskHeartbeatInput, ...func(*sfn.Options)) (*sfn.SendTaskHeartbeatOutput, error)
	GetExecutionHistory(context.Context, *sfn.GetExecutionHistoryInput, ...func(*sfn.Options)) (*sfn.GetExecutionHistoryOutput, error)
}

// triesMax is how often one Answer calls Step Functions before it leaves the rest to its caller, and
// tryInterval the wait after the first; it doubles.
const (
	triesMax    = 3
	tryInterval = 100 * time.Millisecond
)

// Callback implements durable.Tokens. It is safe for concurrent use.
type Callback struct{ client Client }

var _ durable.Tokens = (*Callback)(nil)

// New returns a Callback that calls through the client.
func New(client Client) *Callback { return &Callback{client: client} }

// Answer ends the wait of the task. If the task does not wait any more, the history of the execution decides
// whether it was our answer that it has got: an earlier call may have taken effect, or the network may have
// made one twice. If the token came without its execution, it counts as ours if repeat says that one may
// have. Fails with durable.ErrExpired, or wraps durable.ErrRefused or durable.ErrDenied; any other error leaves open
// whether the task was answered.
func (c *Callback) Answer(ctx context.Context, token durable.Token, answer durable.Answer, repeat bool) error {
	for try := 1; ; try++ {
		err := c.send(ctx, token, answer)
		switch {
		case err == nil:
			return nil
		case isOver(err) && (repeat || token.Execution != ""):
			return c.reconcile(ctx, token, answer)
		case isOver(err):
			return fmt.Errorf("%w: %w", durable.ErrExpired, err)
		case isForGood(err):
			return fmt.Errorf("answering the task %s: %w", token.Name, classify(err))
		case !isThrottled(err):
			repeat = true // It may have taken effect all the same.
		}
		if try == triesMax {
			return fmt.Errorf("answering the task %s: %w", token.Name, err)
		}
		if ended := wait(ctx, tryInterval<<(try-1)); ended != nil {
			return fmt.Errorf("answering the task %s: %w", token.Name, errors.Join(ended, err))
		}
	}
}

// wait returns after the given time with nil, or with the cause when ctx ends before.
func wait(ctx context.Context, d time.Duration) error {
	pause, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-pause.Done()
	return context.Cause(ctx)
}

// send makes one call. The SDK must not repeat it: of a repeat that finds the task over, nobody could
// tell why.
func (c *Callback) send(ctx context.Context, token durable.Token, answer durable.Answer) error {
	once := func(o *sfn.Options) { o.RetryMaxAttempts, o.Retryer = 1, aws.NopRetryer{} }
	if answer.Error != "" {
		_, err := c.client.SendTaskFailure(ctx, &sfn.SendTaskFailureInput{
			TaskToken: aws.String(token.Value.Reveal()), Error: &answer.Error, Cause: &answer.Cause,
		}, once)
		return err
	}
	_, err := c.client.SendTaskSuccess(ctx, &sfn.SendTaskSuccessInput{
		TaskToken: aws.String(token.Value.Reveal()), Output: aws.String(string(answer.Output)),
	}, once)
	return err
}

// Heartbeat tells that the task is still worked on. Fails with durable.ErrExpired.
func (c *Callback) Heartbeat(ctx context.Context, token durable.Token) error {
	_, err := c.client.SendTaskHeartbeat(ctx, &sfn.SendTaskHeartbeatInput{TaskToken: aws.String(token.Value.Reveal())})
	switch {
	case err == nil:
		return nil
	case isOver(err):
		return fmt.Errorf("%w: %w", durable.ErrExpired, err)
	default:
		return fmt.Errorf("beating the heart of the task %s: %w", token.Name, err)
	}
}

// isOver reports whether Step Functions says that no task waits under the token.
func isOver(err error) bool {
	var timedOut *types.TaskTimedOut
	var gone *types.TaskDoesNotExist
	var invalid *types.InvalidToken
	return errors.As(err, &timedOut) || errors.As(err, &gone) || errors.As(err, &invalid)
}

// classify wraps durable.ErrRefused or durable.ErrDenied around an answer that no time mends (Step Functions API
// Reference, SendTaskSuccess, GetExecutionHistory and "Common errors"), and leaves every other error as it is.
func classify(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode() {
	case "InvalidOutput", "ValidationException":
		return fmt.Errorf("%w: %w", durable.ErrRefused, err)
	case "AccessDeniedException", "KmsAccessDeniedException", "KmsInvalidStateException":
		return fmt.Errorf("%w: %w", durable.ErrDenied, err)
	default:
		return err
	}
}

// isForGood reports whether no time mends the error.
func isForGood(err error) bool {
	classified := classify(err)
	return errors.Is(classified, durable.ErrRefused) || errors.Is(classified, durable.ErrDenied)
}

// isThrottled reports whether Step Functions has refused a call before it took effect.
func isThrottled(err error) bool {
	throttled := retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}
	return throttled.IsErrorThrottle(err) == aws.TrueTernary
}
