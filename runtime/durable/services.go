package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// errOutOfTime is the error of services that still run when the time of the process is up.
var errOutOfTime = errors.New("the time left to the process is up")

// services are the attempts that run for one turn.
type services struct {
	turn     *turn
	delivery Delivery
	// ctx ends all attempts: at the turn's end, or before the deadline of the process.
	ctx     context.Context
	running map[string]context.CancelFunc
	// failed are the invocations whose attempt failed in this turn and is to be repeated.
	failed  map[string]*retryError
	results chan result
	// unstored says that a service has ended, or a timer that limits it, since the last commit. That is stored before
	// another service starts, so that it never runs again.
	unstored bool
}

// result is the end of one attempt.
type result struct {
	invocation statechart.Invocation
	policy     statechart.RetryPolicy
	value      any
	err        error
}

// settle runs the services that the instance waits for, applies their ends, and goes on until the instance is settled. It stores
// the end of a service before the next event is applied, which may turn out unstorable. A service whose attempt failed and is to
// be retried ends the turn with a retryError once no other runs.
func (t *turn) settle(ctx context.Context, d Delivery) error {
	if t.draft.Instance.Settled() {
		return nil
	}
	limited, cancel := t.loop.withMargin(ctx)
	defer cancel()
	s := &services{turn: t, delivery: d, ctx: limited, running: map[string]context.CancelFunc{}, failed: map[string]*retryError{}, results: make(chan result)}
	for firings := 0; !t.draft.Instance.Settled(); {
		if fired, err := s.fireDue(); err != nil || fired {
			if err != nil {
				return err
			}
			if firings++; firings > statechart.MicrostepsMax {
				return fmt.Errorf("%w: %d timers of %s were due one after the other (MicrostepsMax); check those that are due on entry", statechart.ErrEndless, firings, t.draft.Record.Instance)
			}
			s.cancelLeft()
			continue
		}
		again, err := s.start(ctx)
		if err != nil {
			return err
		}
		if again {
			s.cancelLeft()
			continue
		}
		if len(s.running) == 0 {
			if retry := s.retry(); retry != nil {
				return retry
			}
			return fmt.Errorf("%w: %s is in %v with no service to run", statechart.ErrStalled, t.draft.Record.Instance, t.draft.Instance.State())
		}
		if err := s.wait(ctx); err != nil {
			return err
		}
		s.cancelLeft()
	}
	if !s.unstored {
		return nil
	}
	t.draft.Record.Attempts = without(t.draft.Record.Attempts, func(a Attempt) bool {
		return a.Queue == d.Queue || compareSequence(a.SequenceNumber, t.draft.Record.Watermark[a.Queue]) <= 0
	})
	return t.commit(ctx)
}

// withMargin ends the context's time early enough for the loop to store what became of its
// services.
func (l *Loop) withMargin(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, deadline.Add(-l.config.DeadlineMargin))
	}
	return context.WithCancel(ctx)
}

// start begins the attempts of the invocations that do not run yet. It reports whether the
// chart moved instead, because an invocation had no attempt left, or was one too many.
//
// Whatever a later delivery must know is stored first: the end of an earlier service, so that
// it never runs again; and, for a delivery that is a repeat, the count of the attempt about to
// begin, so that a service that kills the process uses up its attempts. The two are stored one
// after the other: a write that fails must neither lose the one nor count the other, which then
// never begins. Nothing begins in an instance that cannot be stored.
func (s *services) start(ctx context.Context) (moved bool, err error) {
	t := s.turn
	type ready struct {
		invocation statechart.Invocation
		work       Work
	}
	var next []ready
	counts := t.draft.Record.attempt(s.delivery)
	for _, invocation := range t.draft.Instance.Invocations() {
		if s.running[invocation.Key] != nil || s.failed[invocation.Key] != nil {
			continue
		}
		call := statechart.Call{Instance: t.draft.Record.Instance.String(), Key: t.derivedID(invocation.Key), Attempt: invocation.Attempt + 1}
		work, err := t.draft.Instance.Prepare(invocation, call)
		if err != nil {
			return false, err
		}
		if invocation.Attempt >= max(work.Retry.Attempts, 1) {
			return true, s.end(invocation.Failed(fmt.Errorf("the last of %d attempts did not come to an end", invocation.Attempt)))
		}
		if invocation.Attempt == 0 {
			if over := counts.Services >= t.loop.config.ServicesMax; over && len(next) == 0 {
				return true, s.refuse(invocation)
			} else if over {
				continue // Those before it go first, and are counted.
			}
			counts.Services++
		}
		next = append(next, ready{invocation, work})
	}
	if err := s.ctx.Err(); err != nil && len(next) > 0 {
		return false, fmt.Errorf("no time left to run services: %w", err)
	}
	if t.usedTime && slices.ContainsFunc(next, func(r ready) bool { return !s.hasTime(r.work.Timeout) }) {
		// A service is not to be cut off, and lose an attempt, for the time that another took.
		return false, &retryError{err: errors.New("too little time left for another service")}
	}
	if s.unstored {
		err = s.commit(ctx)
	} else if len(next) > 0 {
		_, err = t.storable()
	}
	if err != nil {
		return false, err
	}
	for i := range next {
		next[i].invocation.Attempt++
		t.draft.Instance = t.draft.Instance.WithAttempt(next[i].invocation.Key, next[i].invocation.Attempt)
		t.count(counts)
	}
	if len(next) > 0 && s.delivery.ReceiveCount > 1 {
		if err := s.commit(ctx); err != nil {
			return false, err
		}
	}
	for _, r := range next {
		s.run(r.invocation, r.work)
	}
	return false, nil
}

// commit stores the draft.
func (s *services) commit(ctx context.Context) error {
	s.unstored = false
	return s.turn.commit(ctx)
}

// refuse ends a service that has not begun, because too many have since the instance was last settled.
func (s *services) refuse(invocation statechart.Invocation) error {
	t, counts := s.turn, s.turn.draft.Record.attempt(s.delivery)
	counts.Services++
	limit, refusals := t.loop.config.ServicesMax, t.loop.config.RefusalsMax
	if counts.Services > limit+refusals {
		return fmt.Errorf("%w: expected %s to settle within %d services (Config.ServicesMax), got to %v, which invokes %s, and %d refusals have not settled it; "+
			"mend the chart: let it wait in a settled state, with After, before it calls again", statechart.ErrEndless, t.draft.Record.Instance, limit, t.draft.Instance.State(), invocation.Service, refusals)
	}
	t.count(counts)
	err := fmt.Errorf("not called: expected at most %d services within one event (Config.ServicesMax), got another; let the chart wait in a settled state, with After, before it calls again", limit)
	t.loop.config.Logger.WarnContext(s.ctx, "service refused, too many have begun within one event", "instance", t.draft.Record.Instance.String(), "service", invocation.Service, "services_max", limit)
	return s.end(invocation.Failed(err))
}

// hasTime reports whether the process has the time that an attempt may take. An attempt without
// a time-out of its own may take what there is.
func (s *services) hasTime(timeout time.Duration) bool {
	deadline, limited := s.ctx.Deadline()
	return !limited || deadline.Sub(s.turn.loop.config.Now()) >= timeout
}

// run performs one attempt beside the loop.
func (s *services) run(invocation statechart.Invocation, work Work) {
	var ctx context.Context
	var cancel context.CancelFunc
	if work.Timeout > 0 {
		ctx, cancel = context.WithTimeoutCause(s.ctx, work.Timeout, fmt.Errorf("no answer within %v", work.Timeout))
	} else {
		ctx, cancel = context.WithCancel(s.ctx)
	}
	s.running[invocation.Key] = cancel
	s.turn.usedTime = true
	go func() {
		value, err := s.observedAttempt(ctx, invocation, work.Run)
		select {
		case s.results <- result{invocation, work.Retry, value, err}:
		case <-s.ctx.Done():
		}
	}()
}

// attempt calls a service. It returns when ctx is done, even if the service does not.
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

// wait takes the end of one attempt, or returns when a timer is due.
func (s *services) wait(ctx context.Context) error {
	due, cancel := s.turn.untilDue(s.ctx)
	defer cancel()
	select {
	case r := <-s.results:
		return s.take(r)
	case <-due.Done():
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.ctx.Err() == nil {
		return nil // A timer is due.
	}
	for _, invocation := range s.turn.draft.Instance.Invocations() {
		if s.running[invocation.Key] == nil {
			continue
		}
		work, err := s.turn.draft.Instance.Prepare(invocation, statechart.Call{})
		if err != nil {
			return err
		}
		if err := s.take(result{invocation: invocation, policy: work.Retry, err: errOutOfTime}); err != nil {
			return err
		}
	}
	return nil
}

// take feeds the end of an attempt back into the chart, or notes that it is to be repeated.
func (s *services) take(r result) error {
	if cancel := s.running[r.invocation.Key]; cancel != nil {
		cancel()
		delete(s.running, r.invocation.Key)
	}
	if !s.awaited(r.invocation.Key) {
		return nil
	}
	if r.err == nil {
		err := s.turn.storably(func() error { return s.end(r.invocation.Done(r.value)) })
		if !isChartError(err) && !errors.Is(err, ErrUnstorable) {
			return err
		}
		// The chart cannot take the result: to the chart, the service has failed.
		r.err = statechart.Permanent(err)
	}
	log := s.turn.loop.config.Logger.With("instance", s.turn.draft.Record.Instance.String(), "service", r.invocation.Service, "attempt", r.invocation.Attempt)
	wait, more := r.policy.Next(r.invocation.Attempt)
	if !more || statechart.IsPermanent(r.err) {
		log.WarnContext(s.ctx, "service failed for good", "error", r.err)
		return s.end(r.invocation.Failed(r.err))
	}
	log.InfoContext(s.ctx, "service failed, to be tried again", "error", r.err, "wait", wait)
	s.failed[r.invocation.Key] = &retryError{wait: wait, err: r.err}
	return nil
}

// retry returns the error that ends the turn if an attempt is to be repeated, else nil. The
// wait is the longest that a policy asks for, so that no service is called again too soon, but
// not longer than until the next timer: nothing else brings an unsettled instance back.
func (s *services) retry() error {
	var retry *retryError
	for _, invocation := range s.turn.draft.Instance.Invocations() {
		if failed := s.failed[invocation.Key]; failed != nil && (retry == nil || failed.wait > retry.wait) {
			retry = failed
		}
	}
	if retry == nil {
		return nil
	}
	if timer, ok := s.turn.nextTimer(); ok {
		left := max(timer.At.Sub(s.turn.loop.config.Now()), 0)
		return &retryError{wait: min(retry.wait, left), err: retry.err}
	}
	return retry
}

// end applies the end of a service. The tries of the delivery are counted anew from there, its services are not.
func (s *services) end(event statechart.Event) error {
	t := s.turn
	if err := t.applyNow(event); err != nil {
		return err
	}
	s.unstored = true
	if counts, ok := find(t.draft.Record.Attempts, func(a *Attempt) bool { return a.Queue == s.delivery.Queue }); ok {
		counts.Count = 0
		t.count(counts)
	}
	return nil
}

func (s *services) awaited(key string) bool {
	for _, invocation := range s.turn.draft.Instance.Invocations() {
		if invocation.Key == key {
			return true
		}
	}
	return false
}

// cancelLeft ends the attempts of invocations whose state was left.
func (s *services) cancelLeft() {
	for key, cancel := range s.running {
		if !s.awaited(key) {
			cancel()
			delete(s.running, key)
		}
	}
}

// fireDue applies the timer that is due first, if it is. While the instance is unsettled no event
// reaches it through the queue, so its timers are served here; a firing that comes through
// the queue later is stale.
func (s *services) fireDue() (fired bool, err error) {
	timer, ok := s.turn.nextTimer()
	if now := s.turn.loop.config.Now(); ok && !timer.At.After(now) {
		s.unstored = true
		return true, s.turn.step(statechart.Event{Type: statechart.TimerEvent, Timer: timer.ID, At: now})
	}
	return false, nil
}

// nextTimer returns the timer that is due first.
func (t *turn) nextTimer() (next statechart.Timer, ok bool) {
	for _, timer := range t.draft.Instance.Timers() {
		if !ok || timer.At.Before(next.At) {
			next, ok = timer, true
		}
	}
	return next, ok
}

// isServiceNext reports whether the next user code of an unsettled instance is a service: its start stores the count of a try.
func (t *turn) isServiceNext() bool {
	if timer, ok := t.nextTimer(); ok && !timer.At.After(t.loop.config.Now()) {
		return false
	}
	invocations := t.draft.Instance.Invocations()
	for _, invocation := range invocations {
		work, err := t.draft.Instance.Prepare(invocation, statechart.Call{})
		if err != nil || invocation.Attempt == 0 || invocation.Attempt >= max(work.Retry.Attempts, 1) {
			return false // The chart may have to handle an error first.
		}
	}
	return len(invocations) > 0
}

// untilDue returns a context that is done when the next timer of the instance is due.
func (t *turn) untilDue(ctx context.Context) (context.Context, context.CancelFunc) {
	timer, ok := t.nextTimer()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timer.At.Sub(t.loop.config.Now()))
}
