package durable

import (
	"context"

	"github.com/settle-run/settle/runtime/statechart"
)

// Timers that are due while an instance is unsettled.

// fireDue fires the timer with the earliest deadline, if it is due. While the instance is unsettled, no event reaches
// it through the queue, so its timers are served here. A later firing through the queue is stale. If the timer ends
// services, their attempts no longer count as tries of the delivery.
func (s *services) fireDue() (fired bool, err error) {
	timer, ok := s.turn.nextTimer()
	now := s.turn.loop.config.Now()
	if !ok || timer.At.After(now) {
		return false, nil
	}
	attempts := s.turn.serviceAttempts()
	s.unstored = true
	err = s.inChain(chainFrom(s.turn.derivedID(timer.ID)), func() error {
		return s.turn.step(statechart.Event{Type: statechart.TimerEvent, Timer: timer.ID, At: now}, "")
	})
	if ended := attempts - s.turn.serviceAttempts(); err == nil && ended > 0 {
		s.forgive(ended)
	}
	return true, err
}

// nextTimer returns the timer with the earliest deadline.
func (t *turn) nextTimer() (next statechart.Timer, ok bool) {
	for _, timer := range t.draft.Instance.Timers() {
		if !ok || timer.At.Before(next.At) {
			next, ok = timer, true
		}
	}
	return next, ok
}

// untilDue returns a context that ends when the next timer of the instance is due.
func (t *turn) untilDue(ctx context.Context) (context.Context, context.CancelFunc) {
	timer, ok := t.nextTimer()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timer.At.Sub(t.loop.config.Now()))
}
