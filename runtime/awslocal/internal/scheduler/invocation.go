package scheduler

import (
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/wire"
)

// Retries of an invocation begin retryFirst after the first attempt and come twice as late
// each time, but never more than retryLast apart. AWS says only that it backs off
// exponentially; with these figures the default of 185 retries fits its default of 24 hours.
const (
	retryFirst = time.Second
	retryLast  = 8 * time.Minute
)

// Firing is one thing to do now.
type Firing struct {
	// ID is what Finish is told.
	ID uint64
	// Request is the input of SQS's SendMessage, as JSON. A queue of the account may be named
	// without the rest of its URL.
	Request []byte
}

// invocation is one occurrence of a schedule, from its first attempt until it has succeeded
// or is given up. It goes on with the target that it began with, even if the schedule is
// updated or deleted meanwhile: AWS does not say what it does then.
type invocation struct {
	serial      uint64
	key         string // of its schedule
	schedule    uint64 // the schedule's serial: another of the same key is not it
	target      *target
	scheduledAt time.Time
	beganAt     time.Time
	dueAt       time.Time // of the next attempt, or of that under way
	failed      int       // attempts
	// failure says why the invocation was given up: what remains is its dead letter.
	failure *failure
}

type failure struct {
	Code, Message string
	// Exhausted names the part of the retry policy that has run out.
	Exhausted string
}

// Advance begins the invocations, and the further attempts, whose time has come.
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

// begin begins an invocation of the schedule, which is no longer among what is due.
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

// fire hands the next attempt of an invocation, or its dead letter, to the caller.
func (m *Model) fire(i *invocation) {
	request := i.request
	if i.failure != nil {
		request = i.deadLetter
	}
	m.firings = append(m.firings, Firing{ID: i.serial, Request: request()})
}

// TakeFirings returns what the caller must do now, in order, and forgets it. Each must be
// reported to Finish; that may bring further ones. What was taken and not finished when the
// model was kept is handed out again by the model restored.
func (m *Model) TakeFirings() []Firing {
	firings := m.firings
	m.firings = nil
	return firings
}

// Finish reports how a firing went: nil is success. An attempt that failed is made again
// according to the retry policy, and if that has run out, the dead-letter queue, if there is
// one, is due a firing of its own. A dead letter that cannot be sent is lost, as with AWS.
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

// backoff returns the wait after as many attempts have failed, at least one.
func backoff(failed int) time.Duration {
	wait := retryFirst
	for range failed - 1 {
		if wait *= 2; wait >= retryLast {
			return retryLast
		}
	}
	return wait
}

// end forgets an invocation. If it was the last of its schedule, the schedule is complete,
// and deleted if it is to be; one that has been disabled meanwhile stays.
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
