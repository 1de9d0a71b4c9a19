package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/limits"
	"github.com/settle-run/settle/runtime/statechart"
)

// Attempts of services.

// errTooLittleTime is returned for a service that would lose an attempt because another service, another group or AWS
// used up the time.
var errTooLittleTime = errors.New("too little time left for another service")

// hasTime reports whether the process has enough time left for an attempt. An attempt without a timeout may use all the
// remaining time.
func (s *services) hasTime(timeout time.Duration) bool {
	deadline, limited := s.ctx.Deadline()
	return !limited || deadline.Sub(s.turn.loop.config.Now()) >= timeout
}

// run performs one attempt in the background.
func (s *services) run(r *ready) {
	invocation, work := r.invocation, r.work
	limited, returned, err := r.begin(s.ctx)
	if err != nil {
		s.postpone(invocation, err)
		return
	}
	var ctx context.Context
	var cancel context.CancelFunc
	if work.Timeout > 0 {
		ctx, cancel = context.WithTimeoutCause(limited, work.Timeout, fmt.Errorf("no answer within %v", work.Timeout))
	} else {
		ctx, cancel = context.WithCancel(limited)
	}
	s.running[invocation.Key] = running{began: s.running[invocation.Key].began, cancel: cancel}
	go func() {
		value, err := s.observedAttempt(ctx, invocation, func(ctx context.Context) (any, error) {
			defer returned()
			return work.Run(ctx)
		})
		var waits *limits.WaitError
		if err != nil {
			errors.As(context.Cause(ctx), &waits)
		}
		select {
		case s.results <- result{invocation, work.Retry, value, err, waits}:
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

// isLate reports whether the running attempt began late. If a late attempt runs out of time, it does not count.
func (s *services) isLate(invocation statechart.Invocation) bool {
	return s.running[invocation.Key].began.Sub(s.turn.began) > promptly
}

// cutOff ends an attempt that ran out of time because another service, another group of the batch or AWS had used up
// the time. This attempt does not count.
func (s *services) cutOff(invocation statechart.Invocation) {
	s.forget(invocation.Key)
	s.uncount(invocation)
	s.failed[invocation.Key] = errOutOfTime
}

// interrupt ends all attempts at the end of the turn. They do not count.
func (s *services) interrupt() {
	for _, invocation := range s.turn.draft.Instance.Invocations() {
		if s.isRunning(invocation) {
			s.forget(invocation.Key)
			s.uncount(invocation)
		}
	}
}

// uncount takes back the count of an attempt that has begun.
func (s *services) uncount(invocation statechart.Invocation) {
	t := s.turn
	t.draft.Instance = t.draft.Instance.WithAttempt(invocation.Key, invocation.Attempt-1, time.Time{})
	t.changed()
	if invocation.Attempt > 1 {
		return
	}
	counts := attemptOf(t.draft.Record, s.delivery)
	counts.Services--
	if !t.isApplied(s.delivery) {
		counts.Services = max(counts.Services, 1) // With a count of 0, settler would not see that this event settles the instance.
	}
	t.count(counts)
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

// settler returns the event that is settling the instance. isOther reports whether the event is from another queue than
// the delivery. The event's services may then be running in another process. If several events qualify, settler returns
// the last one in the list, which was the last to begin services.
func (t *turn) settler(d Delivery) (last instances.Attempt, isOther bool) {
	r := &t.draft.Record
	for _, a := range r.Attempts {
		if a.Services > 0 || a.SequenceNumber == r.Watermark[a.Queue] {
			last, isOther = a, a.Queue != d.Queue
		}
	}
	return last, isOther
}

// checkSettler returns an error while another queue's event is settling the instance. Any write of this turn, even one that
// clears the outbox, would discard that event's services.
func (t *turn) checkSettler(d Delivery) error {
	if t.draft.Instance == nil || t.draft.Instance.Settled() || t.loop.config.Now().Sub(t.stored.Record.UpdatedAt) >= t.loop.config.SettlerWaitMax {
		return nil
	}
	if other, ok := t.settler(d); ok {
		return fmt.Errorf("%s is being settled by message %s of %s", t.draft.Record.Instance, other.SequenceNumber, other.Queue)
	}
	return nil
}

// hasOtherQueue reports whether another queue feeds the instance too.
func (t *turn) hasOtherQueue(d Delivery) bool {
	for queue := range t.draft.Record.Watermark {
		if queue != d.Queue {
			return true
		}
	}
	return false
}

// takeBackMax limits the writes that takeBack tries.
const takeBackMax = 5

// takeBack takes back the counts of a turn whose commit failed although the process lives. AWS failures must not use up
// tries of events or attempts of services. takeBack reads the instance again, because the stored state is unknown. A
// write that timed out may still arrive, so takeBack raises the revision to make it conflict. If the table fails
// takeBackMax times, the try counts as a death of the process: the next process cannot distinguish the two.
func (t *turn) takeBack(ctx context.Context, deliveries []Delivery, cause error) {
	if !slices.ContainsFunc(deliveries, func(d Delivery) bool { return d.ReceiveCount > 1 }) {
		return
	}
	var err error
	var lost instances.Record // the record that another writer has replaced
	mayArrive := !errors.Is(cause, ErrConflict) && !errors.Is(cause, ErrUnstorable)
	wait := 50 * time.Millisecond
	for tries := 1; ; tries++ {
		var read instances.Record
		read, err = t.loop.takeBackOnce(ctx, t, deliveries, mayArrive, lost)
		if err == nil || errors.Is(err, ErrUnstorable) {
			return
		}
		if errors.Is(err, ErrConflict) {
			lost = read
		}
		if tries == takeBackMax || !pause(ctx, wait) {
			break
		}
		wait *= 2
	}
	t.loop.config.Logger.WarnContext(ctx, "cannot take back the count of a try, it counts as a death of the process", "instance", t.draft.Record.Instance.String(), "error", err)
}

// takeBackOnce takes back the counts of a failed turn, and returns the record that it has read. mayArrive says that a
// write of the turn may still arrive. `lost` is the record of an earlier call whose write conflicted, or zero.
//
// takeBackOnce changes nothing while another process may be settling the instance: a write would discard that process's
// services. Signs of such a process are an unsettled event from another queue, or a write since `lost` was read. An
// operator's write does not count.
func (l *Loop) takeBackOnce(ctx context.Context, failed *turn, deliveries []Delivery, mayArrive bool, lost instances.Record) (read instances.Record, err error) {
	t, err := l.hydrate(ctx, failed.draft.Record.Instance, deliveries)
	if err != nil || t.stored.Instance == nil {
		return lost, err
	}
	read = t.stored.Record
	if _, ok := t.settler(deliveries[0]); ok || lost.Revision > 0 && !isOperators(lost, read) {
		return read, nil
	}
	if mayArrive && t.stored.Record.Revision == failed.stored.Record.Revision {
		t.changed()
	}
	attempts := map[string]int{}
	if failed.loaded.Instance != nil {
		for _, invocation := range failed.loaded.Instance.Invocations() {
			attempts[invocation.Key] = invocation.Attempt
		}
	}
	begun := 0 // services whose first attempt is taken back
	for _, invocation := range t.draft.Instance.Invocations() {
		if !invocation.RetryAt.IsZero() {
			continue // The attempt has failed, and its end is stored.
		}
		if invocation.Attempt > attempts[invocation.Key] {
			t.draft.Instance = t.draft.Instance.WithAttempt(invocation.Key, invocation.Attempt-1, time.Time{})
			t.changed()
		}
		if invocation.Attempt == 1 && attempts[invocation.Key] == 0 {
			begun++
		}
	}
	for _, d := range deliveries {
		now, was := attemptOf(t.draft.Record, d), attemptOf(failed.loaded.Record, d)
		if now.Count <= was.Count && now.Services <= was.Services {
			continue
		}
		if now.Count > was.Count { // Progress may have reset the count.
			now.Count--
		}
		now.Services = max(now.Services-begun, was.Services)
		t.count(now)
	}
	return read, t.commit(ctx)
}

// isOperators reports whether the only write between two records of an instance is an operator's change.
func isOperators(before, after instances.Record) bool {
	last := func(r instances.Record) (last instances.Transition) {
		if n := len(r.History); n > 0 {
			last = r.History[n-1]
		}
		return last
	}
	was, is := last(before), last(after)
	return after.Revision == before.Revision+1 && is.By != "" && (was.By == "" || !is.At.Equal(was.At))
}

// pause waits and reports whether the context is still valid.
func pause(ctx context.Context, wait time.Duration) bool {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	<-waiting.Done()
	return ctx.Err() == nil
}
