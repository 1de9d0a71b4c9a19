package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

func (t *turn) try(ctx context.Context, d Delivery, event statechart.Event) error {
	tried := d.ReceiveCount - 1
	if early := t.untilTimer(event); early > 0 {
		return &retryError{wait: early, err: errors.New("the timer has fired before its time")}
	}
	t.birth = nil
	if event.Type == startEvent {
		if over, err := t.admit(ctx, d); over || err != nil {
			return err
		}
	}
	err := t.begin(ctx, d)
	if err == nil {
		tried, err = t.mark(ctx, d)
	}
	if err == nil && tried >= t.loop.config.AbandonedMax {
		return t.park(ctx, d, event.Type, fmt.Errorf("tried %d times, and no try came to an end", tried))
	}
	if err == nil {
		event.At = t.loop.config.Now()
		err = t.take(ctx, d, event)
	}
	switch {
	case err == nil && (event.Type == tendEvent || event.Type == watchEvent || event.Type == childEvent) && !t.dirty:
		return nil // It has changed nothing, and may come again: no write for it.
	case err == nil:
		t.pass(d)
		t.remember(event.ID)
		t.rememberSend(d, event.ID)
		t.remember(d.parkedID())
		return t.settle(ctx, d)
	case isChartError(err) && tried+1 >= t.loop.config.AttemptsMax:
		return t.park(ctx, d, event.Type, err)
	default:
		if t.record.Revision == 0 && !t.dirty {
			// The instance has begun for this event alone and is not stored: its effects are
			// not to be performed.
			t.record.Outbox, t.record.Executions = nil, nil
		}
		return fmt.Errorf("applying %q to %s: %w", event.Type, t.record.Instance, err)
	}
}

func (t *turn) take(ctx context.Context, d Delivery, event statechart.Event) error {
	token, err := tokenOf(d)
	if err != nil {
		return err
	}
	tokens, outbox, aliases, executions, dirty := t.record.Tokens, t.record.Outbox, t.record.Aliases, t.record.Executions, t.dirty
	t.hold(token)
	if isOwn(event.Type) {
		err = t.applyTold(ctx, d, event)
	} else {
		err = t.apply(event)
	}
	if err == nil && token != nil {
		err = t.answerLate(token, event)
	}
	if err != nil {
		t.record.Tokens, t.record.Outbox, t.record.Aliases, t.record.Executions, t.dirty = tokens, outbox, aliases, executions, dirty
		return err
	}
	t.answerEnded()
	return nil
}

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

func (t *turn) adopt(instance Instance) {
	t.instance = instance
	if l, ok := instance.(limited); ok {
		l.Limit(t.loop.config.SnapshotBytesMax)
	}
}

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
		return true, t.park(ctx, d, "", fmt.Errorf("settling %s: tried %d times, and no try came to an end", t.record.Instance, tried))
	}
	if err == nil {
		err = t.settle(ctx, d)
	}
	if isChartError(err) && tried+1 >= t.loop.config.AttemptsMax {
		return true, t.park(ctx, d, "", fmt.Errorf("settling %s: %w", t.record.Instance, err))
	}
	return false, err
}

func (t *turn) mark(ctx context.Context, d Delivery) (tried int, err error) {
	isFirst := t.record.Revision == 0 && !t.dirty
	if d.ReceiveCount <= 1 || isFirst && d.ReceiveCount <= t.loop.config.AttemptsMax {
		return max(d.ReceiveCount-1, 0), nil
	}
	attempt := Attempt{Queue: d.Queue, SequenceNumber: d.SequenceNumber, Count: 1}
	if last := t.record.Attempt; last != nil && last.Queue == d.Queue && last.SequenceNumber == d.SequenceNumber {
		attempt.Count = last.Count + 1
	}
	t.record.Attempt = &attempt
	t.dirty = true
	return attempt.Count, t.commit(ctx)
}

func (t *turn) pass(d Delivery) {
	if compareSequence(d.SequenceNumber, t.record.Watermark[d.Queue]) > 0 {
		if t.record.Watermark == nil {
			t.record.Watermark = map[string]string{}
		}
		t.record.Watermark[d.Queue] = d.SequenceNumber
	}
	t.record.Attempt = nil
	t.dirty = true
}

func (t *turn) park(ctx context.Context, d Delivery, eventType string, reason error) error {
	if t.stopStuck(d) {
		return nil
	}
	if t.isApplied(d) {
		t.loop.config.Logger.ErrorContext(ctx, "event was applied, but its instance cannot go on", "instance", d.Group, "message_id", d.MessageID, "reason", reason)
	} else if err := t.loop.park(ctx, d, reason); err != nil {
		return err
	}
	if t.record.Revision == 0 && !t.dirty {
		// What has begun for this event alone goes with it, effects included.
		t.instance, t.record = nil, Record{Instance: t.record.Instance}
	}
	if t.instance != nil {
		t.record.Error = &Failure{At: t.now(), Event: eventType, Message: cut(reason.Error(), failureMessageBytesMax)}
		t.pass(d)
	}
	return nil
}

func (t *turn) isApplied(d Delivery) bool {
	return d.SequenceNumber != "" && compareSequence(d.SequenceNumber, t.record.Watermark[d.Queue]) <= 0
}
