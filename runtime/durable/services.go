package durable

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/limits"
	"github.com/settle-run/settle/runtime/statechart"
)

// errOutOfTime is returned for services that still run at the deadline of the invocation.
var errOutOfTime = errors.New("the invocation has run out of time")

// A service that starts at most `promptly` after the loop was invoked counts as having the whole time of the
// invocation. If that time runs out, the service loses an attempt. A service that starts later loses none.
const promptly = time.Second

// services runs the services of one turn.
type services struct {
	turn     *turn
	delivery Delivery
	// ctx ends all attempts: at the end of the turn, or before the deadline of the process.
	ctx context.Context
	// running holds the attempts that have not ended, by the key of the invocation.
	running map[string]running
	// failed holds the errors of the invocations whose next attempt comes in a later turn.
	failed  map[string]error
	returns map[string]time.Time // when the calls that wait for a limit ask again, by the key of the invocation
	results chan result
	// unstored is set when a service has ended, or a timer has fired, since the last commit. The method start then
	// commits before it calls another service. Otherwise a crash would run the finished service again.
	unstored bool
	// chains holds the chains of the services that a timer has started, by the key of the invocation. All other services
	// belong to the chain of the delivery.
	chains map[string]instances.Chain
}

// running is an attempt that has not ended.
type running struct {
	began time.Time
	// cancel ends the context of the attempt; nil until the service is called.
	cancel context.CancelFunc
}

// result is the end of one attempt.
type result struct {
	invocation statechart.Invocation
	policy     statechart.RetryPolicy
	value      any
	err        error
	// waits is set if the attempt was cancelled because its place in a limit could not be renewed.
	waits *limits.WaitError
}

// settle runs the services of the instance and applies their results until the instance is settled. It stores the end
// of a service before the next event is applied, because the outcome of that event may not be storable. If an attempt
// fails and will be retried, settle returns a retryError once no other service runs.
func (t *turn) settle(ctx context.Context, d Delivery) error {
	if t.draft.Instance.Settled() {
		return nil
	}
	limited, cancel := t.loop.withMargin(ctx)
	defer cancel()
	s := &services{turn: t, delivery: d, ctx: limited, running: map[string]running{}, failed: map[string]error{}, returns: map[string]time.Time{}, results: make(chan result), chains: map[string]instances.Chain{}}
	defer s.interrupt()
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
		return a.Queue == d.Queue || instances.CompareSequence(a.SequenceNumber, t.draft.Record.Watermark[a.Queue]) <= 0
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

// start begins the attempts of the invocations that are not running yet. `moved` reports that the chart took a step
// instead, because an invocation had no attempt left or exceeded Config.ServicesMax.
//
// start first stores the end of an earlier service, so that the earlier service never runs again. For a redelivery, it
// then stores the count of the next attempt, so that a service that kills the process uses up its attempts. These are
// two writes: if one write did both and failed, the end could be lost, or the count could include an attempt that never
// begins. A new instance is stored before its first attempt is counted: takeBack can correct only an instance that
// exists. No service begins in an instance that cannot be stored. If another queue feeds the instance too, start also
// writes at a first delivery: the consumer of that queue must see that this event is settling the instance.
func (s *services) start(ctx context.Context) (moved bool, err error) {
	t := s.turn
	var next []ready
	defer func() { release(next) }()
	var held error // the reason why a service must not begin in this turn
	counts := attemptOf(t.draft.Record, s.delivery)
	for _, invocation := range t.draft.Instance.Invocations() {
		if s.isRunning(invocation) || s.failed[invocation.Key] != nil {
			continue
		}
		if invocation.RetryAt.After(t.loop.config.Now()) { // A timer or another queue has woken the instance.
			s.failed[invocation.Key] = fmt.Errorf("the next attempt of %s is not due yet", invocation.Service)
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
		if invocation.Attempt == 0 && counts.Services >= t.loop.config.ServicesMax {
			if len(next) == 0 {
				return true, s.refuse(invocation)
			}
			continue // The services collected in `next` run first. A later call of start refuses this service.
		}
		if err := s.hold(invocation, work); err != nil {
			held = err
			continue
		}
		if invocation.Attempt == 0 {
			counts.Services++
		}
		next = append(next, ready{invocation: invocation, work: work})
	}
	if len(next) > 0 && t.isUnproved() {
		return false, errUnproved
	}
	if err := s.ctx.Err(); err != nil && (len(next) > 0 || held != nil) {
		return false, fmt.Errorf("no time left to run services: %w", err)
	}
	next = s.reserve(next, &counts)
	isOver := held != nil && len(next) == 0 && len(s.running) == 0
	if s.unstored && errors.Is(held, errTooLittleTime) {
		held = &retryError{err: held} // Retry at once: the instance has made progress.
	}
	isRedelivery := s.delivery.ReceiveCount > 1
	if (len(next) > 0 || isOver) && isRedelivery && !t.exists() {
		t.changed()
		s.unstored = true
	}
	if s.unstored {
		err = s.commit(ctx)
	} else if len(next) > 0 {
		_, err = t.storable()
	}
	if err == nil && isOver {
		err = held
	}
	if err != nil {
		return false, err
	}
	if len(next) > 0 && !t.isApplied(s.delivery) {
		counts.Services = max(counts.Services, 1) // The event may take over the service of another queue's event: see settler.
	}
	for i := range next {
		next[i].invocation.Attempt++
		t.draft.Instance = t.draft.Instance.WithAttempt(next[i].invocation.Key, next[i].invocation.Attempt, time.Time{})
		t.count(counts)
		s.running[next[i].invocation.Key] = running{began: t.loop.config.Now()}
	}
	if len(next) > 0 && (isRedelivery || t.hasOtherQueue(s.delivery)) {
		if err := s.commit(ctx); errors.Is(err, ErrUnstorable) {
			t.broken = nil // The item has no room for the count. The result may still fit. See countTry.
		} else if err != nil {
			return false, err
		}
	}
	for i := range next {
		s.run(&next[i])
	}
	return false, nil
}

// hold returns an error if an attempt must not begin now, because it might be lost through no fault of the service.
func (s *services) hold(invocation statechart.Invocation, work Work) error {
	t := s.turn
	if t.loop.config.Now().Sub(t.began) > promptly && !s.hasTime(work.Timeout) {
		return errTooLittleTime
	}
	if s.delivery.ReceiveCount > 1 && t.slot == together && invocation.Attempt+1 >= max(work.Retry.Attempts, 1) {
		return &suspectError{1}
	}
	return nil
}

// commit stores the draft. For a first delivery, it does not count the attempts that have not ended, because another
// group may kill the process. The stored Attempt then shows only that the event is settling the instance.
func (s *services) commit(ctx context.Context) error {
	s.unstored = false
	t := s.turn
	if s.delivery.ReceiveCount > 1 || len(s.running) == 0 {
		return t.commit(ctx)
	}
	counted, attempts := t.draft.Instance, t.draft.Record.Attempts
	for _, invocation := range counted.Invocations() {
		if s.isRunning(invocation) {
			s.uncount(invocation)
		}
	}
	isOfQueue := func(a instances.Attempt) bool { return a.Queue == s.delivery.Queue }
	t.draft.Record.Attempts = append(without(t.draft.Record.Attempts, isOfQueue), attemptOf(t.draft.Record, s.delivery))
	err := t.commit(ctx)
	t.draft.Instance, t.draft.Record.Attempts = counted, attempts
	t.changed()
	return err
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

// wait waits for the end of one attempt and applies it. It returns early when a timer is due.
func (s *services) wait(ctx context.Context) error {
	due, cancel := s.turn.untilDue(s.ctx)
	defer cancel()
	select {
	case r := <-s.results:
		if r.waits != nil && s.isRunning(r.invocation) {
			s.postpone(r.invocation, r.waits)
			return nil
		}
		if r.err != nil && s.isLate(r.invocation) && !s.hasTime(1) {
			s.cutOff(r.invocation) // At the end of the invocation, the service has returned an error of its own.
			return nil
		}
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
		if !s.isRunning(invocation) {
			continue
		}
		work, err := s.turn.draft.Instance.Prepare(invocation, statechart.Call{})
		if err != nil {
			return err
		}
		if s.isLate(invocation) {
			s.cutOff(invocation)
		} else if err := s.take(result{invocation: invocation, policy: work.Retry, err: errOutOfTime}); err != nil {
			return err
		}
	}
	return nil
}

// take applies the end of an attempt to the chart, or records that the attempt will be retried.
func (s *services) take(r result) error {
	s.forget(r.invocation.Key)
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
	s.failed[r.invocation.Key] = r.err
	s.turn.draft.Instance = s.turn.draft.Instance.WithAttempt(r.invocation.Key, r.invocation.Attempt, s.turn.now().Add(wait))
	s.turn.changed()
	return nil
}

// retry returns the error that ends the turn if an attempt will be retried, else nil. The wait ends when the first
// retry or the next timer is due: timers of an unsettled instance are served only during a turn.
func (s *services) retry() error {
	var retry *retryError
	now := s.turn.loop.config.Now()
	for _, invocation := range s.turn.draft.Instance.Invocations() {
		wait := max(invocation.RetryAt.Sub(now), s.returns[invocation.Key].Sub(now), 0)
		if err := s.failed[invocation.Key]; err != nil && (retry == nil || wait < retry.wait) {
			retry = &retryError{wait: wait, err: err}
		}
	}
	if retry == nil {
		return nil
	}
	if timer, ok := s.turn.nextTimer(); ok {
		retry.wait = min(retry.wait, max(timer.At.Sub(now), 0))
	}
	return retry
}

// end applies the end of a service. It resets the count of the delivery's tries, but not the count of its services.
func (s *services) end(event statechart.Event) error {
	chain, ok := s.chains[event.Invocation]
	if !ok {
		chain = s.turn.chain
	}
	if err := s.inChain(chain, func() error { return s.turn.applyNow(event) }); err != nil {
		return err
	}
	s.unstored = true
	s.forgive(math.MaxInt)
	return nil
}

// inChain takes a step. The messages that it sends and the services that it starts belong to the chain.
func (s *services) inChain(chain instances.Chain, step func() error) error {
	ofDelivery, before := s.turn.chain, s.turn.draft.Instance.Invocations()
	s.turn.chain = chain
	err := step()
	s.turn.chain = ofDelivery
	for _, started := range s.turn.draft.Instance.Invocations() {
		isStarted := func(i statechart.Invocation) bool { return i.Key == started.Key }
		if chain.Origin != ofDelivery.Origin && !slices.ContainsFunc(before, isStarted) {
			s.chains[started.Key] = chain
		}
	}
	return err
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
	for key := range s.running {
		if !s.awaited(key) {
			s.forget(key)
		}
	}
}
