package durable

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// abandonedAdvice says what to do about an event whose tries all came to no end.
const abandonedAdvice = "; see in the log whether the process died, or AWS was out of reach; mend that, then send the event again"

// try applies the delivery's event and settles the instance. An event that the chart fails on
// is parked after AttemptsMax tries, one that kills the process after AbandonedMax.
func (t *turn) try(ctx context.Context, d Delivery, event statechart.Event) error {
	tried := d.ReceiveCount - 1
	if early := t.untilTimer(event); early > timerEarlyMax {
		return t.scheduleAgain(ctx, d, event.Timer)
	} else if early > 0 {
		return &retryError{wait: early, err: errors.New("the timer has fired before its time")}
	}
	t.birth = nil
	if event.Type == startEvent {
		if over, err := t.admit(ctx, d); over || err != nil {
			return err
		}
	}
	err := t.begin(ctx, d)
	if err == nil && t.finished {
		err = t.commit(ctx) // Before the event, which may turn out unstorable: the instance would be left unsettled.
	}
	if err == nil {
		tried, err = t.mark(ctx, d)
	}
	if err == nil && tried >= t.loop.config.AbandonedMax {
		return t.park(ctx, d, event.Type, fmt.Errorf("tried %d times, and no try came to an end%s", tried, abandonedAdvice))
	}
	if err == nil {
		event.At = t.loop.config.Now()
		err = t.take(ctx, d, event)
	}
	switch {
	case t.lost != nil:
		return t.lost
	case err == nil && (event.Type == tendEvent || event.Type == watchEvent || event.Type == childEvent) && !t.dirty:
		return nil // It has changed nothing, and may come again: no write for it.
	case err == nil:
		t.pass(d)
		t.rememberSend(d, event.ID)
		if t.remember(event.ID); event.ID == "" && !isOwn(event.Type) && event.Type != statechart.TimerEvent {
			t.remember(d.parkedID())
		}
		return t.settle(ctx, d)
	case isChartError(err) && tried+1 >= t.loop.config.AttemptsMax:
		if event.Type != startEvent { // Of that, the parent hears, and it is not parked.
			err = fmt.Errorf("%w; mend the chart, then send the event again", err)
		}
		return t.park(ctx, d, event.Type, err)
	default:
		t.forgetBeginning()
		return fmt.Errorf("applying %q to %s: %w", event.Type, t.record.Instance, err)
	}
}

// take applies the delivery's event, and keeps the token that it hands over. On an error nothing
// has changed.
func (t *turn) take(ctx context.Context, d Delivery, event statechart.Event) error {
	token, err := tokenOf(d)
	if err != nil {
		return err
	}
	before, snapshot := *t, json.RawMessage(nil)
	if token != nil { // Whether it can be answered shows when the event is applied.
		if snapshot, err = t.instance.Snapshot(); err != nil {
			return fmt.Errorf("applying an event that hands over a token to %s: %w: %w", t.record.Instance, ErrUnstorable, err)
		}
	}
	t.hold(token)
	if isOwn(event.Type) {
		err = t.applyTold(ctx, d, event)
	} else {
		err = t.apply(event)
	}
	if err == nil && token != nil {
		err = t.answerLate(token, event)
	}
	if err != nil && token != nil {
		return cmp.Or(t.revert(before, snapshot), err)
	} else if err != nil { // Of the chart itself; it has not moved.
		was := before.record
		t.record.Tokens, t.record.Outbox, t.record.Aliases, t.record.Executions, t.dirty = was.Tokens, was.Outbox, was.Aliases, was.Executions, before.dirty
		return err
	}
	t.leaveOff()
	return nil
}

// untilTimer returns how long it is until the timer whose firing the event is may fire, by the
// clock of this process; the clock that sent it may be ahead.
func (t *turn) untilTimer(event statechart.Event) time.Duration {
	if event.Type != statechart.TimerEvent {
		return 0
	}
	for _, timer := range t.instance.Timers() {
		if timer.ID == event.Timer {
			return timer.At.Sub(t.loop.config.Now())
		}
	}
	return 0
}

// timerEarlyMax is how early a timer's firing may be for the difference of two clocks. One that is earlier was not sent by
// the loop, and is not to lock its group until it is due. It is longer than the five minutes for which SQS drops the next
// firing as a repeat of this one (SQS Developer Guide, "Exactly-once processing").
const timerEarlyMax = 6 * time.Minute

// scheduleAgain lets an early firing pass, and makes sure that another comes in time.
func (t *turn) scheduleAgain(ctx context.Context, d Delivery, timer string) error {
	t.loop.config.Logger.WarnContext(ctx, "timer has fired long before its time, scheduled again", "instance", d.Group, "message_id", d.MessageID, "timer", timer)
	for _, waiting := range t.instance.Timers() {
		if waiting.ID == timer {
			return t.perform(ctx, statechart.Effect{ID: timer, Kind: statechart.Schedule, Timer: timer, At: waiting.At})
		}
	}
	return nil
}

// begin starts an instance that does not exist yet. It is stored with its first event.
func (t *turn) begin(ctx context.Context, d Delivery) error {
	if t.instance != nil {
		return nil
	}
	start := statechart.Start{Instance: t.record.Instance.String(), At: t.loop.config.Now()}
	if t.birth != nil {
		start.Input = t.birth.input
	}
	instance, effects, err := t.machine.Start(start)
	if err != nil {
		return err
	}
	t.adopt(instance)
	if t.birth != nil {
		t.record.Parent = &t.birth.parent
	}
	// The keys of services contain this time: that of the message, not of this try, so that
	// the key is the same when the first try is cut off and nothing of it was stored.
	t.record.CreatedAt = d.SentAt.UTC().Truncate(time.Millisecond)
	for _, effect := range effects {
		if effect.Kind != statechart.ResolveWaits { // Nobody waits for an instance that is new.
			t.ask(effect)
		}
	}
	t.endAsChild()
	return t.settle(ctx, d)
}

// adopt takes the instance in hand.
func (t *turn) adopt(instance Instance) {
	t.instance = instance
	if l, ok := instance.(limited); ok {
		l.Limit(t.loop.config.SnapshotBytesMax)
	}
}

// resume settles an instance that was stored unsettled. A delivery that cannot settle it in
// AttemptsMax tries that the chart fails on is parked, and so is one of which AbandonedMax tries
// came to no end; tries that are attempts of a service count for its RetryPolicy instead. It
// reports whether the delivery was parked, which leaves the instance unsettled unless the delivery stops it.
func (t *turn) resume(ctx context.Context, d Delivery) (parked bool, err error) {
	if t.instance == nil || t.instance.Settled() {
		return false, nil
	}
	tried, err := t.mark(ctx, d)
	attempts := 0
	for _, invocation := range t.instance.Invocations() {
		attempts += invocation.Attempt
	}
	if err == nil && tried >= t.loop.config.AbandonedMax+attempts {
		return true, t.park(ctx, d, "", fmt.Errorf("settling %s: tried %d times, and no try came to an end%s", t.record.Instance, tried, abandonedAdvice))
	}
	if err == nil {
		err = t.settle(ctx, d)
	}
	if isChartError(err) && tried+1 >= t.loop.config.AttemptsMax {
		return true, t.park(ctx, d, "", fmt.Errorf("settling %s: %w", t.record.Instance, err))
	}
	return false, err
}

// mark stores that a redelivered event is about to be tried, and returns how often it was
// tried before, as far as is known. First deliveries leave no mark and cost no write. The
// event that would start an instance leaves none either until it was received AttemptsMax
// times: if the chart fails on it, no instance is to come of that.
func (t *turn) mark(ctx context.Context, d Delivery) (tried int, err error) {
	isFirst := t.record.Revision == 0 && !t.dirty
	if d.ReceiveCount <= 1 || isFirst && d.ReceiveCount <= t.loop.config.AttemptsMax {
		return max(d.ReceiveCount-1, 0), nil
	}
	attempt := t.attempt(d)
	attempt.Count++
	t.count(attempt)
	t.dirty = true
	return attempt.Count, t.commit(ctx)
}

// attempt returns what is counted of the delivery's event so far.
func (t *turn) attempt(d Delivery) Attempt {
	if last := t.attemptAt(d.Queue); last != nil && last.SequenceNumber == d.SequenceNumber {
		return *last
	}
	return Attempt{Queue: d.Queue, SequenceNumber: d.SequenceNumber}
}

// attemptAt returns what is counted of the event that the queue has come to, nil if nothing is.
func (t *turn) attemptAt(queue string) *Attempt {
	for i, attempt := range t.record.Attempts {
		if attempt.Queue == queue {
			return &t.record.Attempts[i]
		}
	}
	return nil
}

// count notes what is counted of a queue's event. The list is made anew: copies of the record share the old one.
func (t *turn) count(attempt Attempt) {
	t.record.Attempts = slices.DeleteFunc(slices.Clone(t.record.Attempts), func(a Attempt) bool { return a.Queue == attempt.Queue })
	t.record.Attempts = append(t.record.Attempts, attempt)
}

// forgetAttempts ends the counting of the delivery's event, and of those of other queues that are done with.
func (t *turn) forgetAttempts(d Delivery) {
	t.record.Attempts = slices.DeleteFunc(slices.Clone(t.record.Attempts), func(a Attempt) bool {
		return a.Queue == d.Queue || compareSequence(a.SequenceNumber, t.record.Watermark[a.Queue]) <= 0
	})
}

// pass notes that the delivery is done with: applied or parked.
func (t *turn) pass(d Delivery) {
	if compareSequence(d.SequenceNumber, t.record.Watermark[d.Queue]) > 0 {
		if t.record.Watermark == nil {
			t.record.Watermark = map[string]string{}
		}
		t.record.Watermark[d.Queue] = d.SequenceNumber
	}
	t.forgetAttempts(d)
	t.dirty = t.dirty || t.instance != nil // Without one, it is stored with the instance that a later event begins.
}

// park moves the delivery to the dead-letter queue, then lets the instance show why. A delivery
// whose event is applied already, on an instance that cannot settle after it, is not moved:
// moved back to the queue one day, it would be applied twice.
func (t *turn) park(ctx context.Context, d Delivery, eventType string, reason error) error {
	if t.stopStuck(d) {
		return nil
	}
	t.parks++
	if t.isApplied(d) {
		t.loop.config.Logger.ErrorContext(ctx, "event was applied, but its instance cannot go on", "instance", d.Group, "message_id", d.MessageID, "reason", reason)
	} else if err := t.loop.park(ctx, d, reason); err != nil {
		t.forgetBeginning()
		return err
	}
	t.forgetBeginning()
	if t.instance != nil {
		t.record.Error = &Failure{At: t.now(), Event: eventType, Message: cut(reason.Error(), failureMessageBytesMax)}
	}
	t.pass(d)
	return nil
}

// forgetBeginning forgets an instance that has begun for an event which is not applied, and of which nothing is
// stored: its effects are not to be performed.
func (t *turn) forgetBeginning() {
	if t.record.Revision == 0 && !t.dirty {
		t.instance, t.record = nil, Record{Instance: t.record.Instance}
	}
}

// isApplied reports whether the delivery's event is in the snapshot, or was parked.
func (t *turn) isApplied(d Delivery) bool {
	return d.SequenceNumber != "" && compareSequence(d.SequenceNumber, t.record.Watermark[d.Queue]) <= 0
}
