package sfncallback

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/denial"
)

// Client is the part of the Step Functions client that a Callback uses. *sfn.Client implements it.
type Client interface {
	SendTaskSuccess(context.Context, *sfn.SendTaskSuccessInput, ...func(*sfn.Options)) (*sfn.SendTaskSuccessOutput, error)
	SendTaskFailure(context.Context, *sfn.SendTaskFailureInput, ...func(*sfn.Options)) (*sfn.SendTaskFailureOutput, error)
	SendTaskHeartbeat(context.Context, *sfn.SendTaskHeartbeatInput, ...func(*sfn.Options)) (*sfn.SendTaskHeartbeatOutput, error)
	GetExecutionHistory(context.Context, *sfn.GetExecutionHistoryInput, ...func(*sfn.Options)) (*sfn.GetExecutionHistoryOutput, error)
}

// Callback implements durable.Tokens. It is safe for concurrent use.
type Callback struct{ client Client }

var _ durable.Tokens = (*Callback)(nil)

// New returns a Callback that calls through the client.
func New(client Client) *Callback { return &Callback{client: client} }

// Answer ends the task's wait. An earlier call may have succeeded, or the network may have delivered a call twice. So
// if the task is no longer waiting, Answer reads the execution's history to decide whether this answer ended it.
// Without token.Execution, there is no history. Answer then succeeds if an earlier call may have succeeded. `repeat`
// reports such a call before this one. Answer returns durable.ErrExpired if something else ended the task, or wraps
// durable.ErrRefused or durable.ErrDenied. ErrDenied also means that the history does not show how the task ended.
// After any other error, the task may or may not be answered.
func (c *Callback) Answer(ctx context.Context, token instances.Token, answer instances.Answer, repeat bool) error {
	isFinal := func(err error) bool { return isOver(err) || isPermanent(err) }
	unsure, err := attempt(ctx, isFinal, func(once func(*sfn.Options)) error { return c.send(ctx, token, answer, once) })
	switch {
	case err == nil:
		return nil
	case isOver(err) && !isInvalid(err) && (repeat || unsure || token.Execution != ""):
		return c.reconcile(ctx, token, answer)
	case isOver(err):
		return fmt.Errorf("%w: %w", durable.ErrExpired, err)
	default:
		return fmt.Errorf("answering the task %s: %w", token.Name, classify(err))
	}
}

// send makes one call.
func (c *Callback) send(ctx context.Context, token instances.Token, answer instances.Answer, once func(*sfn.Options)) error {
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

// Heartbeat reports that the task is still in progress. It fails with durable.ErrExpired if the task no longer waits.
func (c *Callback) Heartbeat(ctx context.Context, token instances.Token) error {
	_, err := c.client.SendTaskHeartbeat(ctx, &sfn.SendTaskHeartbeatInput{TaskToken: aws.String(token.Value.Reveal())})
	switch {
	case err == nil:
		return nil
	case isOver(err):
		return fmt.Errorf("%w: %w", durable.ErrExpired, err)
	default:
		return fmt.Errorf("sending a heartbeat for the task %s: %w", token.Name, err)
	}
}

// isOver reports whether Step Functions has no waiting task for the token.
func isOver(err error) bool {
	var timedOut *types.TaskTimedOut
	var gone *types.TaskDoesNotExist
	return errors.As(err, &timedOut) || errors.As(err, &gone) || isInvalid(err)
}

// isInvalid reports whether Step Functions never issued the token. The token of a closed task is still valid (Step
// Functions API Reference, SendTaskSuccess). So no earlier call has answered a task with an invalid token, and no
// history shows it.
func isInvalid(err error) bool {
	var invalid *types.InvalidToken
	return errors.As(err, &invalid)
}

// classify wraps durable.ErrRefused or durable.ErrDenied around an error that a retry cannot fix (Step Functions API
// Reference, SendTaskSuccess, GetExecutionHistory and "Common errors"). It returns every other error unchanged.
func classify(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch code := api.ErrorCode(); {
	case code == "InvalidOutput", code == "ValidationException":
		return fmt.Errorf("%w: %w", durable.ErrRefused, err)
	case denial.Is(code):
		return fmt.Errorf("%w: %w", durable.ErrDenied, err)
	default:
		return err
	}
}

// isPermanent reports whether a retry cannot fix the error.
func isPermanent(err error) bool {
	classified := classify(err)
	return errors.Is(classified, durable.ErrRefused) || errors.Is(classified, durable.ErrDenied)
}
