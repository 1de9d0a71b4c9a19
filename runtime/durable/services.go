package durable

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// errOutOfTime is returned for services that still run at the deadline of the invocation.
var errOutOfTime = errors.New("the invocation has run out of time")

// promptly is how long after its begin an invocation still counts as having all its time for a service.
const promptly = time.Second

// services runs the services of one turn.
type services struct {
	turn     *turn
	delivery Delivery
	// ctx ends all attempts: at the end of the turn, or before the deadline of the process.
	ctx     context.Context
	running map[string]context.CancelFunc
	// failed holds the invocations whose attempt failed in this turn and will be retried.
	failed  map[string]*retryError
	results chan result
	// unstored is set when a service has ended, or its timer has fired, since the last commit. Commit before the next
	// service starts. Otherwise a crash would run the finished one again.
	unstored bool
}

// result is the end of one attempt.
type result struct {
	invocation statechart.Invocation
	policy     statechart.RetryPolicy
	value      any
	err        error
}

// settle runs the services of the instance and applies their results until the instance is settled. It stores the end
// of a service before the next event is applied, because that event may turn out unstorable. If an attempt fails and
// will be retried, settle returns a retryError once no other service runs.
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
	t.draft.Record.Attempts = without(t.draft.Record.Attempts, func(a instances.Attempt) bool {
		return a.Queue == d.Queue || compareSequence(a.SequenceNumber, t.draft.Record.Watermark[a.Queue]) <= 0
	})
	return t.commit(ctx)
}

// withMargin ends the context early enough for the loop to store the results of its services.
func (l *Loop) withMargin(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, deadline.Add(-l.config.DeadlineMargin))
	}
	return context.WithCancel(ctx)
}

// start begins the attempts of the invocations that are not running yet. moved reports that the chart took a step
// instead, because an invocation had no attempt left or exceeded Config.ServicesMax.
//
// It first stores the end of an earlier service, so that it never runs again. For a redelivery, it then stores the
// count of the next attempt, so that a service that kills the process uses up its attempts. These are two
// writes: if one write did both and failed, the end could be lost, or an attempt counted that never begins. No service
// begins in an instance that cannot be stored.
func (s *services) start(ctx context.Context) (moved bool, err error) {
	t := s.turn
	type ready struct {
		invocation statechart.Invocation
		work       Work
	}
	var next []ready
	counts := attemptOf(t.draft.Record, s.delivery)
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
			return true, s.end(invocation.Failed(fmt.Errorf("the last of %d attempts did not finish", invocation.Attempt)))
		}
		if invocation.Attempt == 0 {
			if over := counts.Services >= t.loop.config.ServicesMax; over && len(next) == 0 {
				return true, s.refuse(invocation)
			} else if over {
				continue // The ones before it go first, and count.
			}
			counts.Services++
		}
		next = append(next, ready{invocation, work})
	}
	if err := s.ctx.Err(); err != nil && len(next) > 0 {
		return false, fmt.Errorf("no time left to run services: %w", err)
	}
	if t.loop.config.Now().Sub(t.began) > promptly && slices.ContainsFunc(next, func(r ready) bool { return !s.hasTime(r.work.Timeout) }) {
		// A service must not be cut off, and lose an attempt, because another, a neighbour or AWS used up the time.
		err = errors.New("too little time left for another service")
		if s.unstored {
			err = &retryError{err: err} // At once: the instance has made progress.
		}
		return false, err
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

func (s *services) commit(ctx context.Context) error {
	s.unstored = false
	return s.turn.commit(ctx)
}

// refuse ends a service before it begins, because too many have begun since the instance was last settled.
func (s *services) refuse(invocation statechart.Invocation) error {
	t, counts := s.turn, attemptOf(s.turn.draft.Record, s.delivery)
	counts.Services++
	limit, refusals := t.loop.config.ServicesMax, t.loop.config.RefusalsMax
	if counts.Services > limit+refusals {
		return fmt.Errorf("%w: expected %s to settle within %d services (Config.ServicesMax), got to %v, which invokes %s, and %d refusals have not settled it; "+
			"fix the chart: let it wait in a settled state, with After, before it calls again", statechart.ErrEndless, t.draft.Record.Instance, limit, t.draft.Instance.State(), invocation.Service, refusals)
	}
	t.count(counts)
	err := fmt.Errorf("not called: expected at most %d services within one event (Config.ServicesMax), got another; let the chart wait in a settled state, with After, before it calls again", limit)
	t.loop.config.Logger.WarnContext(s.ctx, "service refused, too many have begun within one event", "instance", t.draft.Record.Instance.String(), "service", invocation.Service, "services_max", limit)
	return s.end(invocation.Failed(err))
}

// hasTime reports whether the process has enough time left for an attempt. An attempt without a timeout may use all
// that is left.
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
	s.running[invocation.Key] = cancel
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

// wait waits for the end of one attempt and applies it. It returns early when a timer is due.
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

// take applies the end of an attempt to the chart, or records that the attempt will be retried.
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
		// The chart cannot take the result, so the service has failed permanently.
		r.err = statechart.Permanent(err)
	}
	log := s.turn.loop.config.Logger.With("instance", s.turn.draft.Record.Instance.String(), "service", r.invocation.Service, "attempt", r.invocation.Attempt)
	wait, more := r.policy.Next(r.invocation.Attempt)
	if !more || statechart.IsPermanent(r.err) {
		log.WarnContext(s.ctx, "service failed permanently", "error", r.err)
		return s.end(r.invocation.Failed(r.err))
	}
	log.InfoContext(s.ctx, "service failed, will retry", "error", r.err, "wait", wait)
	s.failed[r.invocation.Key] = &retryError{wait: wait, err: r.err}
	return nil
}

// retry returns the error that ends the turn if an attempt will be retried, else nil. Its wait is the longest of the
// failed attempts, so that no service is called too soon. It does not exceed the time until the next timer, because
// timers of an unsettled instance are served only during a turn.
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

// end applies the end of a service. It resets the count of the delivery's tries, but not of its services.
func (s *services) end(event statechart.Event) error {
	if err := s.turn.applyNow(event); err != nil {
		return err
	}
	s.unstored = true
	s.forgive(math.MaxInt)
	return nil
}

// forgive lowers the count of the delivery's tries.
func (s *services) forgive(tries int) {
	t := s.turn
	if counts, ok := find(t.draft.Record.Attempts, func(a *instances.Attempt) bool { return a.Queue == s.delivery.Queue }); ok {
		counts.Count = max(counts.Count-tries, 0)
		t.count(counts)
	}
}

func (s *services) awaited(key string) bool {
	_, ok := find(s.turn.draft.Instance.Invocations(), func(i *statechart.Invocation) bool { return i.Key == key })
	return ok
}

// cancelLeft cancels the attempts of states that the chart has left.
func (s *services) cancelLeft() {
	for key, cancel := range s.running {
		if !s.awaited(key) {
			cancel()
			delete(s.running, key)
		}
	}
}

// fireDue fires the timer that is due first. While the instance is unsettled, no event reaches it through the queue,
// so its timers are served here. A later firing through the queue is stale. The attempts of services that the timer ends
// no longer count as tries of the delivery.
func (s *services) fireDue() (fired bool, err error) {
	timer, ok := s.turn.nextTimer()
	now := s.turn.loop.config.Now()
	if !ok || timer.At.After(now) {
		return false, nil
	}
	attempts := s.turn.serviceAttempts()
	s.unstored = true
	err = s.turn.step(statechart.Event{Type: statechart.TimerEvent, Timer: timer.ID, At: now})
	if ended := attempts - s.turn.serviceAttempts(); err == nil && ended > 0 {
		s.forgive(ended)
	}
	return true, err
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

// untilDue returns a context that ends when the next timer of the instance is due.
func (t *turn) untilDue(ctx context.Context) (context.Context, context.CancelFunc) {
	timer, ok := t.nextTimer()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timer.At.Sub(t.loop.config.Now()))
}
