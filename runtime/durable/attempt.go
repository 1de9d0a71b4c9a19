package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Attempts of services.

// hasTime reports whether the process has enough time left for an attempt. An attempt without a timeout may use all the
// remaining time.
func (s *services) hasTime(timeout time.Duration) bool {
	deadline, limited := s.ctx.Deadline()
	return !limited || deadline.Sub(s.turn.loop.config.Now()) >= timeout
}

// run performs one attempt in the background.
func (s *services) run(invocation statechart.Invocation, work Work) {
	var ctx context.Context
	var cancel context.CancelFunc
	if work.Timeout > 0 {
		ctx, cancel = context.WithTimeoutCause(s.ctx, work.Timeout, fmt.Errorf("no answer within %v", work.Timeout))
	} else {
		ctx, cancel = context.WithCancel(s.ctx)
	}
	s.running[invocation.Key] = running{began: s.running[invocation.Key].began, cancel: cancel}
	go func() {
		value, err := s.observedAttempt(ctx, invocation, work.Run)
		select {
		case s.results <- result{invocation, work.Retry, value, err}:
		case <-s.ctx.Done():
		}
	}()
}

// attempt calls a service. It returns when ctx is done, even if the service has not returned.
func attempt(ctx context.Context, run func(context.Context) (any, error)) (any, error) {
	type answer struct {
		value any
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				answers <- answer{err: statechart.Panicked(r)}
			}
		}()
		value, err := run(ctx)
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		if ctx.Err() != nil && errors.Is(a.err, ctx.Err()) {
			a.err = context.Cause(ctx)
		}
		return a.value, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// cutOff ends an attempt that ran out of time because another service, another group of the batch or AWS had used up
// the time. This attempt does not count.
func (s *services) cutOff(invocation statechart.Invocation) {
	s.forget(invocation.Key)
	s.turn.draft.Instance = s.turn.draft.Instance.WithAttempt(invocation.Key, invocation.Attempt-1)
	s.turn.changed()
	s.failed[invocation.Key] = &retryError{err: errOutOfTime}
}

// forget ends the context of an attempt and removes the attempt from `running`.
func (s *services) forget(key string) {
	if cancel := s.running[key].cancel; cancel != nil {
		cancel()
	}
	delete(s.running, key)
}

func (s *services) isRunning(invocation statechart.Invocation) bool {
	_, ok := s.running[invocation.Key]
	return ok
}
