package statecharttest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// attempt calls the service once. The call's context ends when the timeout has passed on the virtual clock, or when the
// instance no longer waits for the invocation. A later result does not count. As on a host, a panic is a failure.
//
// The result `failure` is the service's error. The result `err` is the chart's error if the chart fails on a timer that
// fires during the call.
func (p *Player[C]) attempt(invocation statechart.Invocation, service statechart.Service[C], timeout time.Duration) (result any, failure, err error) {
	p.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s := &sleeper[C]{player: p, key: invocation.Key, timeout: timeout, deadline: p.now.Add(timeout), cancel: cancel}
	defer func() {
		if r := recover(); r != nil {
			result, failure = nil, statechart.Panicked(r)
		}
		if ctx.Err() != nil {
			result, failure = nil, context.Cause(ctx)
		}
		err = s.err
	}()
	call := statechart.Call{Instance: p.config.Instance, Key: p.config.Instance + "/" + invocation.Key, Attempt: invocation.Attempt}
	result, failure = service.Run(context.WithValue(ctx, sleeperKey{}, s), p.snapshot.Context, call)
	return result, failure, nil
}

// sleeper lets the service of an attempt consume virtual time.
type sleeper[C any] struct {
	player *Player[C]
	key    string
	// deadline is the end of the timeout, if there is a timeout.
	timeout  time.Duration
	deadline time.Time
	cancel   context.CancelCauseFunc
	// err is the chart's error on a timer that fired during the attempt.
	err error
}

// sleep lets d pass, but at most the rest of the attempt's time.
func (s *sleeper[C]) sleep(d time.Duration) {
	until := s.player.now.Add(d)
	late := s.timeout > 0 && !until.Before(s.deadline)
	if late {
		until = s.deadline
	}
	s.err = s.player.elapse(until, s.key)
	switch {
	case s.err != nil || !s.player.awaits(s.key):
		s.cancel(context.Canceled)
	case late:
		s.cancel(fmt.Errorf("no answer within %v", s.timeout))
	}
}

type sleeperKey struct{}

// Sleep makes a fake service take time. It advances the player's virtual clock and fires the timers that become due. It
// returns the context's error early if the attempt's timeout has passed or the state was left. A service that waits for
// ctx.Done without Sleep blocks forever, because nothing else advances the clock.
func Sleep(ctx context.Context, d time.Duration) error {
	s, ok := ctx.Value(sleeperKey{}).(interface{ sleep(d time.Duration) })
	if !ok {
		return errors.New("sleeping: expected the context of a service called by a statecharttest.Player")
	}
	if ctx.Err() == nil {
		s.sleep(d)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
