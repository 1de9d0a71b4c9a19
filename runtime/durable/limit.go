package durable

import (
	"context"
	"errors"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/limits"
	"github.com/settle-run/settle/runtime/statechart"
)

// Limits of services. A call that must wait is postponed like a retry, but uses up no attempt.

// ready is an attempt that is about to begin.
type ready struct {
	invocation statechart.Invocation
	work       Work
	// permit is nil if the service has no limit or the attempt has begun.
	permit *limits.Permit
}

// reserve reserves the calls of services with limits. It returns the attempts that may begin, and postpones the others.
// It removes the postponed attempts from the counts.
func (s *services) reserve(next []ready, counts *instances.Attempt) (reserved []ready) {
	for _, r := range next {
		if r.work.Limit != (statechart.Limit{}) {
			var err error
			if r.permit, err = s.turn.loop.ports.Limiter.Acquire(s.ctx, r.work.Limit, r.work.LimitKey); err != nil {
				s.postpone(r.invocation, err)
				if r.invocation.Attempt == 0 {
					counts.Services--
				}
				continue
			}
		}
		reserved = append(reserved, r)
	}
	return reserved
}

// release returns the permits of attempts that have not begun.
func release(next []ready) {
	for _, r := range next {
		if r.permit != nil {
			r.permit.Release()
		}
	}
}

// begin uses the permit. The caller must call `returned` when the service has returned.
func (r *ready) begin(ctx context.Context) (limited context.Context, returned func(), err error) {
	permit := r.permit
	if permit == nil {
		return ctx, func() {}, nil
	}
	r.permit = nil
	return permit.Start(ctx)
}

// postpone lets an attempt begin in a later turn, at the time that its limit gives. The wait is at least
// Backoff.Interval times the number of receives, up to Backoff.IntervalMax. So a message reaches the queue's 1,000
// receives only if its call is denied each time for about three days.
func (s *services) postpone(invocation statechart.Invocation, err error) {
	if s.isRunning(invocation) {
		s.cutOff(invocation)
	}
	config := &s.turn.loop.config
	first, _ := config.Backoff.Next(1)
	wait := first * time.Duration(min(max(s.delivery.ReceiveCount, 1), 1000))
	s.returns[invocation.Key] = config.Now().Add(min(wait, config.Backoff.IntervalMax))
	if waits := (&limits.WaitError{}); errors.As(err, &waits) && waits.Until.After(s.returns[invocation.Key]) {
		s.returns[invocation.Key] = waits.Until
	}
	s.failed[invocation.Key] = err
}

// isWaiting reports whether a turn ended because a limit is reached. It is false if the limit could not be checked.
func isWaiting(err error) bool {
	var retry *retryError
	var waits *limits.WaitError
	return errors.As(err, &retry) && errors.As(retry.err, &waits) && waits.Err == nil
}
