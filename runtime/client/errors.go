package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

// A program can distinguish these errors with errors.Is. Each returned error also wraps its cause.
var (
	// ErrNotFound is returned if the instance has no record.
	ErrNotFound = errors.New("no such instance")
	// ErrUnknownAlias is returned if no instance has had the alias.
	ErrUnknownAlias = dynamostore.ErrNoAlias
	// ErrInvalid is returned if no instance would ever accept the event, or if an argument is wrong. Nothing is queued.
	ErrInvalid = errors.New("invalid")
	// ErrIDReused is returned if another event with the same ID was sent to the instance. Nothing is queued.
	ErrIDReused = dynamostore.ErrIDReused
	// ErrDenied is returned if a permission is missing, or if the queue or the table does not exist.
	ErrDenied = durable.ErrDenied
	// ErrBehind is returned if the instance's backlog is older than its machine allows
	// (durable.MachineConfig.BacklogAgeMax). Nothing is queued. The error is a *BehindError.
	ErrBehind = producer.ErrBehind
	// ErrUnavailable is returned if AWS throttles, does not answer or fails. The event may or may not be queued: call
	// the method again with the same arguments, after a while. The event takes effect once, unless you use Distinct.
	ErrUnavailable = errors.New("temporarily unavailable")
	// ErrUnreadable is returned if the client's machines cannot read the stored instance.
	ErrUnreadable = errors.New("unreadable instance")
	// ErrParked is returned if the consumer has moved the event to the dead-letter queue. The error contains the reason,
	// which may quote the event.
	ErrParked = producer.ErrParked
	// ErrUnreachable is returned if the instance has ended and will never reach the condition.
	ErrUnreachable = producer.ErrUnreachable
)

// BehindError is returned by Send for an instance with a backlog that is too old. The client does not retry: call Send
// again with the same arguments after RetryAfter.
type BehindError = producer.BehindError

// final lists the errors that `classified` returns unchanged.
var final = []error{ErrNotFound, ErrUnknownAlias, ErrInvalid, ErrIDReused, ErrDenied, ErrBehind, ErrUnreadable, ErrParked, ErrUnreachable}

// invalid lists the causes of ErrInvalid.
var invalid = []error{
	instances.ErrID, durable.ErrUnknownMachine, durable.ErrReserved, durable.ErrRefused, statechart.ErrNotAnEvent,
	statechart.ErrUndeclared, statechart.ErrPayload, producer.ErrTooLarge, producer.ErrEventID, producer.ErrCondition,
}

// unreadable lists the causes of ErrUnreadable.
var unreadable = []error{durable.ErrUnreadable, statechart.ErrUnreadable}

// classified wraps an error in one of this package's errors. It does not wrap an error of AWS that a retry cannot fix.
func classified(err error) error {
	var refusal smithy.APIError
	switch {
	case isAny(err, final):
		return err
	case isAny(err, invalid):
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	case isAny(err, unreadable):
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	case errors.As(err, &refusal) && refusal.ErrorFault() == smithy.FaultClient && !retry.NewStandard().IsErrorRetryable(err):
		return err
	default:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
}

// ofWait classifies the error of a wait. If the context has ended, it returns the error unchanged.
func ofWait(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return classified(err)
}

func isAny(err error, targets []error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
