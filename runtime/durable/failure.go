package durable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// fate is the outcome of a delivery that failed.
type fate int

const (
	// retryIt retries the delivery after the backoff, or after the wait of a service's retry policy.
	retryIt fate = iota
	// retryAtOnce starts the turn again: another writer was faster.
	retryAtOnce
	// retryOneByOne starts the turn again with the first delivery alone, because the item cannot hold the outcome of
	// all deliveries together.
	retryOneByOne
	// retryAlone retries the delivery after the other groups of its batch, because it may kill the process.
	retryAlone
	// parkIt moves the delivery to the dead-letter queue.
	parkIt
)

// fate returns the outcome of a delivery that failed with an error.
//
//	failure                                            counts as a try     fate
//	the chart's code failed or panicked                yes                 retry with backoff, park after Config.AttemptsMax
//	user code began and the process died               yes                 alone after Config.AloneAfter, park after Config.AbandonedMax
//	AWS failed, throttled, timed out, answered late    no, see takeBack    retry with backoff
//	the invocation has too little time left            no                  retry with backoff, at once after progress
//	a service asks for a retry, a timer fired early    no                  retry after its wait
//	a limit is reached, or cannot be checked           no                  retry when a call may be free
//	another writer was faster                          no                  at once, Config.ConflictsMax times, then with backoff
//	another writer was faster, and the lease has ended no                  with backoff
//	another queue's event is settling the instance     no                  retry with backoff, for Config.SettlerWaitMax
//	the record does not fit                            no                  without its history, one by one, then park
//	the record cannot be read                          no                  retry with backoff, and an alarm
func (l *Loop) fate(err error, at standing) fate {
	var suspect *suspectError
	switch {
	case errors.As(err, &suspect):
		return retryAlone
	case errors.Is(err, errAbandoned), isChartError(err) && at.tries >= l.config.AttemptsMax:
		return parkIt
	case errors.Is(err, ErrConflict) && at.conflicts < l.config.ConflictsMax && !at.overtaken:
		return retryAtOnce
	case errors.Is(err, ErrUnstorable) && at.folded:
		return retryOneByOne
	case errors.Is(err, ErrUnstorable):
		return parkIt
	default:
		return retryIt
	}
}

// standing holds the inputs of Loop.fate besides the error.
type standing struct {
	// tries counts the tries so far, including this one.
	tries int
	// folded is set if the turn has, or may have, other deliveries.
	folded bool
	// conflicts is how often the turn has started again.
	conflicts int
	// overtaken is set if the lease has ended. The other writer then probably processes the same deliveries, and its
	// services may be running.
	overtaken bool
}

// isChartError reports whether a step failed because of the chart's own code or definition. ErrPayload means that the
// chart declares an event of the loop with a wrong payload type. Decode checks all other payloads before the step.
func isChartError(err error) bool {
	var step *statechart.StepError
	return errors.As(err, &step) || errors.Is(err, errEffect) || errors.Is(err, statechart.ErrEndless) ||
		errors.Is(err, statechart.ErrStalled) || errors.Is(err, statechart.ErrLimit) || errors.Is(err, statechart.ErrPayload)
}

// errAbandoned is wrapped by the error of a delivery if the process has died too often while it tried the delivery.
var errAbandoned = errors.New("the process died during the attempt")

// abandonedAdvice is the end of the message of an error that wraps errAbandoned.
const abandonedAdvice = "; find the cause in the log, fix it, then send the event again"

// retryError ends a turn. The delivery is retried after the wait, and the group stays locked. A retryError does not
// unwrap, so that the loop never mistakes a service's error for its own.
type retryError struct {
	wait time.Duration
	err  error
}

func (e *retryError) Error() string { return fmt.Sprintf("retrying in %v: %v", e.wait, e.err) }

// suspectError is returned by a turn that has done nothing yet and must run in another slot. It must run alone if a
// delivery may kill the process, and together with others if none may.
type suspectError struct{ suspicion int }

// unsuspected is the suspicion in the suspectError of a turn that need not run alone.
const unsuspected = -1

func (e *suspectError) Error() string { return "it must run in another slot" }

// suspicion returns 0 if the turn need not run alone. The turn must run alone after Config.AloneAfter deaths of the
// process, or if the next try of an event, or the next attempt of a service, is the last one. suspicion then returns
// the highest of these counts, at least 1.
func (t *turn) suspicion() (most int) {
	config := &t.loop.config
	for _, d := range t.deliveries {
		if d.ReceiveCount < 2 {
			continue
		}
		if count := attemptOf(t.draft.Record, d).Count; count >= config.AloneAfter || count+1 >= config.AbandonedMax {
			most = max(most, count, 1)
		}
	}
	if t.deliveries[0].ReceiveCount < 2 || t.draft.Instance == nil {
		return most
	}
	for _, invocation := range t.draft.Instance.Invocations() {
		work, err := t.draft.Instance.Prepare(invocation, statechart.Call{})
		if err == nil && invocation.Attempt+1 >= max(work.Retry.Attempts, 1) {
			most = max(most, invocation.Attempt, 1)
		}
	}
	return most
}

// attemptOf returns the counts that the record has for the delivery's event.
func attemptOf(r instances.Record, d Delivery) instances.Attempt {
	isOf := func(a *instances.Attempt) bool { return a.Queue == d.Queue && a.SequenceNumber == d.SequenceNumber }
	if known, ok := find(r.Attempts, isOf); ok {
		return known
	}
	return instances.Attempt{Queue: d.Queue, SequenceNumber: d.SequenceNumber}
}

// count stores the counts of an event in the draft.
func (t *turn) count(attempt instances.Attempt) {
	attempts := without(t.draft.Record.Attempts, func(a instances.Attempt) bool { return a.Queue == attempt.Queue })
	if attempt.Count > 0 || attempt.Services > 0 {
		attempts = append(attempts, attempt)
	}
	t.draft.Record.Attempts = attempts
	t.changed()
}

// countTry counts a try of a redelivered event and stores the count before user code runs. If the process dies, the
// count stays. `counted` includes this try. The first delivery is not counted and costs no write, unless the chart's
// code fails: see account. An event that starts its instance is counted only after AttemptsMax receives, because no
// instance is stored if the chart fails on it. If `lazy` is set, the commit before the services start writes the count.
func (t *turn) countTry(ctx context.Context, d Delivery, begins, lazy bool) (counted int, err error) {
	attempt := attemptOf(t.draft.Record, d)
	if d.ReceiveCount <= 1 || begins && !t.exists() && d.ReceiveCount <= t.loop.config.AttemptsMax {
		return attempt.Count + 1, nil
	}
	before := t.draft
	attempt.Count++
	t.count(attempt)
	if lazy {
		return attempt.Count, nil
	}
	if err = t.commit(ctx); errors.Is(err, ErrUnstorable) {
		t.draft, t.broken, err = before, nil, nil // The item has no room for the count. The event may still fit.
	}
	return attempt.Count, err
}

// isServiceNext reports whether a service is the next user code of an unsettled instance. If so, the commit before the
// service starts also stores the count of the try.
func (t *turn) isServiceNext(d Delivery) bool {
	if timer, ok := t.nextTimer(); ok && !timer.At.After(t.loop.config.Now()) {
		return false
	}
	invocations := t.draft.Instance.Invocations()
	isFull := attemptOf(t.draft.Record, d).Services+len(invocations) > t.loop.config.ServicesMax
	for _, invocation := range invocations {
		work, err := t.draft.Instance.Prepare(invocation, statechart.Call{})
		if isNew := invocation.Attempt == 0; err != nil || isNew && isFull || invocation.Attempt >= max(work.Retry.Attempts, 1) {
			return false // The chart may have to handle an error first.
		}
	}
	return len(invocations) > 0
}

// serviceAttempts returns how many attempts the running services have had. The loop lets a service use up its attempts
// before it gives up on the event.
func (t *turn) serviceAttempts() (attempts int) {
	for _, invocation := range t.draft.Instance.Invocations() {
		attempts += invocation.Attempt
	}
	return attempts
}

// account corrects the count after a failed try that the process survived. If the chart's code failed on a first
// delivery, which was not counted, account counts it now. If anything else failed on a redelivery, account takes the
// count back. `before` is the draft before the try.
func (t *turn) account(d Delivery, before state, err error) {
	now, was := attemptOf(t.draft.Record, d), attemptOf(before.Record, d)
	switch isFirst := d.ReceiveCount <= 1; {
	case isWaiting(err) && t.draft.changes == before.changes+1 && t.stored.Record.Revision == before.Record.Revision && now.Count > was.Count:
		t.draft = before // Only the count has changed, and it is not stored. So a call that waits costs no write.
	case isChartError(err) && isFirst && t.draft.Instance != nil:
		now.Count++
		t.count(now)
	case !isChartError(err) && !isFirst && now.Count > was.Count:
		now.Count = was.Count
		t.count(now)
	}
}

// failTry handles a delivery whose event could not be applied. `before` is the draft before the try.
func (t *turn) failTry(ctx context.Context, d Delivery, event statechart.Event, before state, counted int, err error) error {
	t.rollBack(d, before)
	if t.loop.fate(err, standing{tries: counted, folded: true}) != parkIt {
		t.account(d, before, err)
		return fmt.Errorf("applying %q to %s: %w", event.Type, t.draft.Record.Instance, err)
	}
	_, err = t.giveUpEvent(ctx, d, event, err)
	return err
}

// giveUpDelivery gives up on a delivery that was not admitted yet, because its instance cannot settle or cannot be
// stored. It skips a duplicate or a stale message. `why` has the same meaning as in giveUpEvent.
func (t *turn) giveUpDelivery(ctx context.Context, d Delivery, reason error) (why, err error) {
	isStuck := t.draft.Instance != nil && !t.draft.Instance.Settled()
	event, v, err := t.admit(ctx, d)
	switch {
	case v == undecided:
		return nil, err
	case v == poisoned:
		event, reason = statechart.Event{}, err
	case v != skipped:
	case isStuck && event.Type == startEvent: // The start message created this child, which cannot settle.
	case isStuck && event.Type == statechart.TimerEvent && incarnationOf(d.Body) == 0:
		event = statechart.Event{} // An operator sent this event to resume the instance. Parking the event shows the reason.
	case !t.isApplied(d):
		return nil, nil // The next event reports the reason.
	}
	return t.giveUpEvent(ctx, d, event, reason)
}

// giveUpEvent parks an event, or postpones a message of the runtime that must not be parked. If the draft cannot be
// stored, the caller must park the event with the reason `why`. If `why` is nil, the caller parks nothing.
func (t *turn) giveUpEvent(ctx context.Context, d Delivery, event statechart.Event, reason error) (why, err error) {
	if t.stopStuck(d) {
		return reason, nil
	}
	if event.Type == laneEvent {
		t.againLaneChange(d) // postpone would send it through Timers, perhaps to another lane.
		return nil, nil
	}
	if event.Type == statechart.TimerEvent || isOwn(event.Type) && errors.Is(reason, errAbandoned) && event.Type != startEvent {
		return nil, t.postpone(ctx, d, event.Type, reason)
	}
	if isChartError(reason) && event.Type != startEvent { // A start message with this error is not parked: the parent receives the error.
		reason = fmt.Errorf("%w; fix the chart, then send the event again", reason)
	}
	if !t.isApplied(d) {
		why = reason
	}
	return why, t.park(ctx, d, event.Type, reason)
}

// delay hides failed deliveries for the wait of a service's retry policy, or for the backoff.
func (l *Loop) delay(ctx context.Context, rest []Delivery, reason error) {
	wait, _ := l.config.Backoff.Next(max(rest[0].ReceiveCount, 1))
	var retry *retryError
	if errors.As(reason, &retry) {
		wait = retry.wait
	}
	log := l.config.Logger.With("instance", rest[0].Group, "message_id", rest[0].MessageID)
	unreadable := errors.Is(reason, ErrUnreadable) || errors.Is(reason, statechart.ErrUnreadable)
	level, message := slog.LevelWarn, "delivery failed, will retry"
	var denied deniedReadError
	switch {
	case errors.As(reason, &denied):
		level, message = slog.LevelError, "cannot read the table, nothing was changed" // Only a person can fix a denied read or an unreadable item.
	case unreadable:
		level, message = slog.LevelError, "stored item is unreadable, nothing was changed"
	}
	if isWaiting(reason) {
		level, message = slog.LevelInfo, "a call waits for its limit"
	}
	log.Log(ctx, level, message, "error", reason, "wait", wait, "receive_count", rest[0].ReceiveCount)
	_, err := guarded(func() (int, error) {
		if notify := l.config.Observer.Retried; notify != nil && !isWaiting(reason) {
			notify(ctx, Retried{Delivery: rest[0], Behind: len(rest) - 1, Reason: reason, Wait: wait, Unreadable: unreadable})
		}
		return 0, l.ports.Queue.Delay(ctx, rest, wait)
	})
	if err != nil {
		log.WarnContext(ctx, "cannot delay a retry; it follows after the visibility timeout", "error", err)
	}
}

// doubling returns a wait that doubles with each repeat, from `low` to `high`. The number of repeats may have any
// value, because a message may be forged.
func doubling(low, high time.Duration, repeats int) time.Duration {
	policy := statechart.RetryPolicy{Attempts: math.MaxInt, Interval: low, IntervalMax: high}
	wait, _ := policy.Next(1 + min(max(repeats, 0), 64))
	return wait
}

// hasTime reports whether the invocation has time left before the loop's margin.
func (l *Loop) hasTime(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return !limited || deadline.Sub(l.config.Now()) > l.config.DeadlineMargin
}
