package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/settle-run/settle/runtime/statechart"
)

// turn takes deliveries of one instance through the phases of run. It returns how many of them, counted from the first,
// are done: applied with their effects performed, skipped, or parked.
func (l *Loop) turn(ctx context.Context, deliveries []Delivery, under conditions) (done int, err error) {
	id, err := l.address(deliveries[0].Group)
	if err != nil {
		return l.parkAll(ctx, deliveries, fmt.Errorf("the group of the message: %w", err))
	}
	if t, ok := l.fromCache(ctx, id, deliveries); ok {
		if done, err = t.run(ctx, under); !errors.Is(err, errUnproved) {
			return done, err
		}
	}
	// Hydrate: one consistent read.
	t, err := l.hydrate(ctx, id, deliveries)
	if err != nil {
		return 0, err
	}
	return t.run(ctx, under)
}

// run takes the deliveries of a turn through the phases below. It folds them into one write. It writes more often only if
// services run or deliveries are repeats. The guarantees depend on the order of the phases.
func (t *turn) run(ctx context.Context, under conditions) (done int, err error) {
	deliveries := t.deliveries
	switch suspicion := t.suspicion(); {
	case under.slot == together && suspicion > 0:
		return 0, &suspectError{suspicion}
	case under.slot == first && suspicion == 0:
		return 0, &suspectError{unsuspected}
	}
	t.conditions = under
	t.reportLoaded(ctx)
	defer func() { t.reportHeld(ctx, err) }()

	// Drain the outbox that an earlier delivery left behind, unless another queue's event is settling the instance.
	if err := t.drain(ctx); err != nil {
		return 0, err
	}

	for done < len(deliveries) && err == nil {
		// Admit, apply and settle each delivery.
		var applied int
		applied, err = t.receiveAll(ctx, deliveries[done:])
		if errors.Is(err, errUnproved) {
			return done, err
		}

		// Commit the applied events, even if a later delivery failed.
		if err := t.commit(ctx); err != nil {
			if t.isUnproved() && (errors.Is(err, ErrConflict) || errors.Is(err, ErrUnstorable)) {
				return done, errUnproved
			}
			t.takeBack(ctx, deliveries[done:], err)
			return done, err
		}
		t.reportApplied(ctx)

		// Dispatch the effects, then clear the outbox.
		if err := t.dispatch(ctx, false); err != nil {
			return done, err
		}
		done += applied
	}
	t.cancelTimers(ctx)
	t.keepCopy(err)
	// Acknowledge: the caller acknowledges the deliveries that are done.
	return done, err
}

// receiveAll processes deliveries until one fails or ends the fold. It returns how many are done.
func (t *turn) receiveAll(ctx context.Context, deliveries []Delivery) (done int, err error) {
	for _, d := range deliveries {
		if done > 0 && len(t.draft.Record.Outbox) >= t.loop.config.OutboxMax {
			break
		}
		isDone, err := t.receive(ctx, d, done > 0)
		if isDone {
			done++
		}
		if errors.Is(err, errUnfold) || errors.Is(err, errUnproved) && done > 0 {
			break // The commit of the earlier deliveries comes first.
		} else if err != nil {
			return done, err
		}
	}
	return done, nil
}

// receive processes one delivery. It first settles the instance if an earlier delivery left it unsettled. Then it
// applies the event, skips it, or parks it. `done` reports whether the delivery may be acknowledged. An error ends the
// turn: the queue redelivers the later deliveries, and this one unless it is done. `folded` is set if other deliveries
// came before it in the turn.
func (t *turn) receive(ctx context.Context, d Delivery, folded bool) (done bool, err error) {
	if t.isUnproved() {
		defer t.needWrite(t.draft, &done, &err)
	}
	if done, err := t.fromOtherLane(d); done || err != nil {
		return done, err
	}
	t.chain = t.chainOf(d)
	stuck, err := t.observedResume(ctx, d)
	if err != nil {
		return false, err
	}
	if stuck {
		// The next delivery might kill the process before this one is acknowledged.
		return true, fmt.Errorf("%s cannot settle", t.draft.Record.Instance)
	}
	event, verdict, err := t.admit(ctx, d)
	switch verdict {
	case undecided:
		return false, err
	case skipped:
		if t.isUnproved() {
			return false, errUnproved
		}
		t.draft.Record.Skipped++ // The count is stored with the next event that is applied.
		t.logSkipped(ctx, d, event)
		if notify := t.loop.config.Observer.Skipped; notify != nil {
			notify(ctx, d)
		}
		return true, nil
	case poisoned:
		err := t.park(ctx, d, event.Type, err)
		return err == nil, err
	}
	replayed, err := t.replay(ctx, d, event)
	if replayed {
		return t.receive(ctx, d, folded)
	} else if err == nil {
		err = t.observedTry(ctx, d, event, folded)
	}
	return err == nil, err
}

// resume settles an instance that was stored unsettled. `stuck` reports that the instance cannot settle, so the loop
// has given up on the delivery.
func (t *turn) resume(ctx context.Context, d Delivery) (stuck bool, err error) {
	if t.draft.Instance == nil || t.draft.Instance.Settled() {
		return false, nil
	}
	before := t.draft
	counted, err := t.countTry(ctx, d, false, t.isServiceNext(d))
	if err == nil && counted > t.loop.config.AbandonedMax+t.serviceAttempts() {
		err = fmt.Errorf("%w, %d times%s", errAbandoned, counted-1, abandonedAdvice)
	} else if err == nil {
		err = t.settle(ctx, d)
	}
	if err == nil || t.broken != nil {
		return false, err
	}
	if t.loop.fate(err, standing{tries: counted, folded: true}) != parkIt {
		t.account(d, before, err)
		return false, err
	}
	_, err = t.giveUpDelivery(ctx, d, fmt.Errorf("settling %s: %w", t.draft.Record.Instance, err))
	return true, err
}

// try applies the delivery's event and settles the instance. `applied` is false if the event was parked, postponed,
// or no longer needed.
func (t *turn) try(ctx context.Context, d Delivery, event statechart.Event, folded bool) (applied bool, err error) {
	if early := t.untilTimer(event); early > t.loop.config.TimerEarlyMax {
		return false, t.scheduleAgain(ctx, d, event.Timer)
	} else if early > 0 {
		return false, &retryError{wait: early, err: errors.New("the timer fired early")}
	}
	var start childStart
	if event.Type == startEvent || event.Type == stopEvent && t.draft.Instance == nil {
		if start, err = t.readChildStart(ctx, d); start.Type == "" || err != nil {
			return false, err
		}
	}
	before, isUnstored := t.draft, !t.exists()
	begins := before.Instance == nil
	counted, err := t.applyCounted(ctx, d, event, start)
	// ReceiveCount is not the number of tries: Lambda may receive a message and throttle the function (Lambda Developer
	// Guide, "Using Lambda with Amazon SQS"). The loop cannot store a count for an instance that does not exist yet. So
	// it tries an event that starts an instance AttemptsMax times here before it parks the event.
	for tries := 1; begins && isChartError(err) && attemptOf(t.draft.Record, d).Services == 0 && d.ReceiveCount >= t.loop.config.AttemptsMax && tries < t.loop.config.AttemptsMax; tries++ {
		t.rollBack(d, before)
		counted, err = t.applyCounted(ctx, d, event, start)
	}
	if begins && isChartError(err) && !t.exists() {
		counted = d.ReceiveCount
	}
	switch {
	case t.broken != nil:
		return false, t.broken
	case err != nil:
		return false, t.failTry(ctx, d, event, before, counted, err)
	case folded && t.mustUnfold(before):
		t.rollBack(d, before)
		t.account(d, before, nil)
		return false, errUnfold
	case isPeriodic(event.Type) && !t.dirty() && d.ReceiveCount <= 1:
		return true, nil // The message is periodic, has changed nothing, and has left no count. So it needs no write.
	}
	t.pass(d)
	t.remember(d, event, isUnstored)
	before = t.draft
	if err = t.settle(ctx, d); err != nil && t.broken == nil {
		t.account(d, before, err)
	}
	return true, err
}

// applyCounted starts the instance if it does not exist, counts the try, and applies the event. `counted` is the number
// of tries, including this one.
func (t *turn) applyCounted(ctx context.Context, d Delivery, event statechart.Event, start childStart) (counted int, err error) {
	begins := t.draft.Instance == nil
	if err := t.begin(ctx, d, start); err != nil {
		return 0, err
	}
	if counted, err = t.countTry(ctx, d, begins, false); err != nil {
		return counted, err
	}
	if counted > t.loop.config.AbandonedMax {
		return counted, fmt.Errorf("%w, %d times%s", errAbandoned, counted-1, abandonedAdvice)
	}
	event.At = t.loop.config.Now()
	return counted, t.apply(ctx, d, event)
}

// apply applies the delivery's event and keeps its task token, if it has one. After an error, the draft is unchanged,
// unless the turn is broken.
func (t *turn) apply(ctx context.Context, d Delivery, event statechart.Event) (err error) {
	before := t.draft
	defer func() {
		if err != nil && t.broken == nil {
			t.draft = before
		}
	}()
	token, err := tokenOf(d)
	if err != nil {
		return err
	}
	t.hold(token, event.ID)
	if own, ok := ownMessages[event.Type]; ok {
		err = own.apply(t, ctx, d)
	} else {
		err = t.step(event, d.Body)
	}
	if err == nil && token != nil {
		err = t.answerLate(token, event)
	}
	if err == nil {
		t.closeWaits()
	}
	return err
}

// commit stores the draft in one conditional write. Without changes it does nothing.
func (t *turn) commit(ctx context.Context) error {
	if t.broken != nil || !t.dirty() {
		return t.broken
	}
	snapshot, err := t.storable()
	if err == nil {
		err = t.spillSends(ctx)
	}
	if err != nil {
		t.broken = err
		return err
	}
	next := t.next(snapshot)
	err = t.loop.ports.Store.Commit(ctx, next)
	if errors.Is(err, ErrUnstorable) {
		t.loop.config.Logger.WarnContext(ctx, "item is full, dropping its history", "instance", next.Instance.String(), "error", err)
		next = shed(next)
		err = t.loop.ports.Store.Commit(ctx, next)
	}
	if err != nil {
		t.broken = err
		return err
	}
	logged := without(t.draft.Record.Outbox, func(e statechart.Effect) bool { return e.Kind != statechart.LogMessage })
	t.notes.cancels = append(t.notes.cancels, t.unneededTimers()...)
	transitions, events, bodies := t.draft.transitions, t.draft.events, t.draft.bodies
	t.draft.Record, t.draft.transitions, t.draft.events, t.draft.bodies = next, nil, nil, nil
	t.stored = t.draft
	t.reportCommitted(ctx, transitions, events, bodies)
	t.logCommitted(ctx, transitions, logged)
	return nil
}

// dispatch performs the effects of the stored outbox in order, then answers the waiting tasks. If an effect fails or
// the invocation runs out of time, dispatch stores its progress. It may leave the outbox in the item: see leaves.
// `repeats` is set if an earlier turn may have performed the effects already.
func (t *turn) dispatch(ctx context.Context, repeats bool) error {
	if !isPending(t.stored.Record) {
		return nil
	}
	t.repeats = repeats
	if err := t.takeOver(ctx); err != nil {
		return err
	}
	rest, kept, err := t.performAll(ctx)
	left := t.left(append(kept, rest...))
	if err == nil && len(rest) == 0 {
		left.Tokens, err = t.giveAnswers(ctx)
		left.FailedEffects, left.Executions, left.DeniedSince = t.draft.Record.FailedEffects, t.draft.Record.Executions, t.draft.Record.DeniedSince
	}
	if errors.Is(err, ErrDenied) && left.DeniedSince.IsZero() && (len(rest) == 0 || endsByDenial(rest[0].Kind)) {
		left.DeniedSince = t.now()
	}
	if t.leaves(left, err) {
		return err
	}
	if t.hasProgress(left) {
		if clearErr := t.clear(ctx, left); clearErr != nil {
			return clearErr
		}
	}
	if err == nil && len(rest) > 0 {
		return t.dispatch(ctx, repeats)
	}
	return err
}
