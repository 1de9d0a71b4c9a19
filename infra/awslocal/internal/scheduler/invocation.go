package scheduler

import (
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/wire"
)

// The first retry of an invocation comes retryFirst after the first attempt. The interval doubles with each retry, up
// to retryLast. AWS documents only that it backs off exponentially. With these values, the default of 185 retries fits
// into the default maximum event age of 24 hours.
const (
	retryFirst = time.Second
	retryLast  = 8 * time.Minute
)

// Firing is an SQS request that is due.
type Firing struct {
	// ID identifies the firing in Finish.
	ID uint64
	// Request is the input of SQS's SendMessage, as JSON. QueueUrl may be a bare queue name.
	Request []byte
}

// invocation is one occurrence of a schedule, from its first attempt until it succeeds or the model gives up on it. It
// keeps its original target even if the schedule is updated or deleted in the meantime. AWS does not document this
// case.
type invocation struct {
	serial      uint64
	key         string // the key of the schedule
	schedule    uint64 // the schedule's serial, because a new schedule may reuse the key
	target      *target
	scheduledAt time.Time
	beganAt     time.Time
	dueAt       time.Time // time of the next or the current attempt
	failed      int       // number of failed attempts
	// failure is set once the model has given up on the invocation. Only its dead letter remains to be sent.
	failure *failure
}

type failure struct {
	Code, Message string
	// Exhausted names the part of the retry policy that is exhausted.
	Exhausted string
}

// Advance starts the invocations and retries that are due.
func (m *Model) Advance(now time.Time) {
	for {
		key, next, found := "", task{}, false
		for key, next = range m.due.From("") {
			found = !next.at.After(now)
			break
		}
		if !found {
			return
		}
		m.due.Delete(key)
		if next.schedule != nil {
			m.begin(now.UTC(), next.schedule)
		} else {
			m.fire(next.invocation)
		}
	}
}

// begin starts an invocation of the schedule. The caller must have removed the schedule from m.due.
func (m *Model) begin(now time.Time, s *schedule) {
	occurrence := s.timing.latest(s.next, now)
	i := &invocation{
		serial: m.nextSerial(), key: s.key(), schedule: s.serial, target: s.Target,
		scheduledAt: occurrence, beganAt: now, dueAt: now,
	}
	m.invocations[i.serial] = i
	s.open++
	s.next = s.timing.after(occurrence)
	m.arrange(s, "")
	m.touch(i)
	m.fire(i)
}

// fire queues the next attempt of an invocation, or its dead letter, as a Firing.
func (m *Model) fire(i *invocation) {
	request := i.request
	if i.failure != nil {
		request = i.deadLetter
	}
	m.firings = append(m.firings, Firing{ID: i.serial, Request: request()})
}

// TakeFirings returns the firings that the caller must perform, in order, and removes them. The caller must report each
// one to Finish, which may add new firings. After a restore, the next Advance adds unfinished firings again.
func (m *Model) TakeFirings() []Firing {
	firings := m.firings
	m.firings = nil
	return firings
}

// Finish reports the result of a firing. A nil err means success. A failed attempt is retried according to the retry
// policy. When the policy is exhausted, the dead letter becomes a new firing, if there is a dead-letter queue. A dead
// letter that cannot be sent is lost, as in AWS.
func (m *Model) Finish(now time.Time, id uint64, err *wire.Error) {
	i, ok := m.invocations[id]
	if !ok {
		return
	}
	if err == nil || i.failure != nil {
		m.end(i)
		return
	}
	i.failed++
	policy := i.target.RetryPolicy
	retryAt := now.UTC().Add(backoff(i.failed))
	age := time.Duration(*policy.MaximumEventAgeInSeconds) * time.Second
	exhausted := ""
	switch {
	case i.failed > *policy.MaximumRetryAttempts:
		exhausted = "MaximumRetryAttempts"
	case retryAt.After(i.beganAt.Add(age)):
		exhausted = "MaximumEventAgeInSeconds"
	}
	switch {
	case exhausted == "":
		i.dueAt = retryAt
		m.due.Set(dueKey(i.dueAt, i.serial), task{at: i.dueAt, invocation: i})
		m.touch(i)
	case i.target.DeadLetterConfig == nil:
		m.end(i)
	default:
		i.failure = newFailure(err, exhausted)
		i.dueAt = now.UTC()
		m.touch(i)
		m.fire(i)
	}
}

func newFailure(err *wire.Error, exhausted string) *failure {
	f := &failure{Code: err.Code, Message: err.Message, Exhausted: exhausted}
	if err.QueryCode != "" {
		f.Code = err.QueryCode
	}
	if f.Message == "" {
		f.Message = f.Code
	}
	return f
}

// backoff returns the wait after this many failed attempts (at least one).
func backoff(failed int) time.Duration {
	wait := retryFirst
	for range failed - 1 {
		if wait *= 2; wait >= retryLast {
			return retryLast
		}
	}
	return wait
}

// end removes an invocation. If the schedule has no other invocation in progress and no further occurrence,
// ActionAfterCompletion applies. Its value DELETE deletes the schedule, unless a caller has disabled the schedule in
// the meantime.
func (m *Model) end(i *invocation) {
	delete(m.invocations, i.serial)
	m.touch(i)
	s, ok := m.schedules.Get(i.key)
	if !ok || s.serial != i.schedule {
		return
	}
	s.open--
	if s.open == 0 && s.complete() && s.ActionAfterCompletion == "DELETE" && s.State == "ENABLED" {
		m.removeSchedule(s)
	}
}
