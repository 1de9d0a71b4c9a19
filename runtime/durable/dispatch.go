package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// errNotInHand is returned for an effect that needs a delivery that this turn has not received. The effect waits for that
// delivery and does not block other effects.
var errNotInHand = errors.New("the delivery of the effect is not in hand")

// drain performs what an earlier turn left behind: unsent reports and the stored outbox.
func (t *turn) drain(ctx context.Context) error {
	if err := t.checkSettler(t.deliveries[0]); err != nil {
		return err
	}
	if err := t.resendReports(ctx); err != nil {
		return err
	}
	return t.dispatch(ctx, true)
}

// pending returns the drafted outbox without unneeded effects.
func (t *turn) pending() []statechart.Effect {
	return without(t.draft.Record.Outbox, func(e statechart.Effect) bool {
		unneeded := effectKinds[e.Kind].unneeded
		return unneeded != nil && unneeded(t, e)
	})
}

// left returns the pending work of the record, with the given effects as its outbox.
func (t *turn) left(outbox []statechart.Effect) Left {
	r := &t.draft.Record
	return Left{Outbox: outbox, Tokens: t.stored.Record.Tokens, Executions: r.Executions, FailedEffects: r.FailedEffects, DeniedSince: r.DeniedSince}
}

// hasProgress reports whether pending work was performed, or DeniedSince has changed.
func (t *turn) hasProgress(left Left) bool {
	was := &t.stored.Record
	return len(left.Outbox) < len(was.Outbox) || len(owed(left.Tokens)) < len(owed(was.Tokens)) || !left.DeniedSince.Equal(was.DeniedSince)
}

// performAll performs the effects of the stored outbox until an effect fails or the loop gives up on one. An effect
// that the loop has given up on must be stored as failed before a later send to the same receiver. Otherwise another
// turn might perform the effect after the later send, and the receiver would skip it as a duplicate. `rest` holds the
// effects that were not performed. `kept` holds effects that wait for another delivery.
func (t *turn) performAll(ctx context.Context) (rest, kept []statechart.Effect, err error) {
	rest = t.stored.Record.Outbox
	for begun := false; len(rest) > 0; begun = true {
		if begun && !t.loop.hasTime(ctx) {
			return rest, kept, &retryError{err: fmt.Errorf("%d effects of %s are left for the next invocation", len(rest), t.stored.Record.Instance)}
		}
		batch, messages, err := t.batch(rest)
		if err != nil {
			return rest, kept, fmt.Errorf("performing effect %s of %s: %w", rest[0].ID, t.stored.Record.Instance, err)
		}
		errs := t.observedPerform(ctx, batch, messages)
		var failed []statechart.Effect
		for i, effect := range batch {
			switch {
			case errs[i] == nil:
				t.draft.Record.DeniedSince = time.Time{} // DeniedSince belongs to the first effect of the outbox, and that is now another effect.
			case errors.Is(errs[i], errNotInHand):
				kept = append(kept, effect)
			default:
				failed = append(failed, effect)
				if err == nil {
					err = fmt.Errorf("performing effect %s of %s: %w", effect.ID, t.stored.Record.Instance, errs[i])
				}
			}
		}
		rest = slices.Concat(failed, rest[len(batch):])
		if err != nil || t.gaveUp() {
			return rest, kept, err
		}
	}
	return nil, kept, nil
}

// gaveUp reports whether the loop has given up on effects since the last write.
func (t *turn) gaveUp() bool {
	isStored := func(f instances.FailedEffect) bool {
		return slices.ContainsFunc(t.stored.Record.FailedEffects, func(other instances.FailedEffect) bool { return other.ID == f.ID })
	}
	failed := t.draft.Record.FailedEffects
	return len(failed) > 0 && !isStored(failed[len(failed)-1])
}

// batch returns the effects to perform together: one effect, or up to batchMax messages, or up to batchMax emitted
// events. All effects of a batch belong to one trace. No two messages go to the same instance: SQS may accept some
// messages of a batch and refuse others, and the order within an instance must hold. `messages` is empty if the first
// effect is not a message. `err` is the error of the first effect.
func (t *turn) batch(effects []statechart.Effect) (batch []statechart.Effect, messages []Message, err error) {
	trace := t.notes.traces[effects[0].ID]
	if effectKinds[effects[0].Kind].publish != nil {
		n := 1
		for n < min(len(effects), batchMax) && effects[n].Kind == effects[0].Kind && t.notes.traces[effects[n].ID] == trace {
			n++
		}
		return effects[:n], nil, nil
	}
	for i, effect := range effects {
		kind := effectKinds[effect.Kind]
		if kind.message == nil || i == batchMax || t.notes.traces[effect.ID] != trace {
			break
		}
		message, err := kind.message(t, effect)
		if err != nil && i == 0 {
			return effects[:1], nil, err
		}
		isAnother := func(other Message) bool { return other.To == message.To }
		if err != nil || slices.ContainsFunc(messages, isAnother) {
			return effects[:i], messages, nil //nolint:nilerr // batch returns this error once the effect is the first.
		}
		message.Body = withChain(message.Body, effect.Chain)
		messages = append(messages, message)
	}
	return effects[:max(len(messages), 1)], messages, nil
}

// performBatch performs effects that batch returned, and returns an error for each. An effect that fails permanently
// is recorded and counts as performed.
func (t *turn) performBatch(ctx context.Context, effects []statechart.Effect, messages []Message) []error {
	errs := make([]error, len(effects))
	switch kind, ok := effectKinds[effects[0].Kind]; {
	case len(messages) == 1:
		_, errs[0] = t.loop.ports.Queue.Send(ctx, messages[0])
	case len(messages) > 1:
		errs = t.loop.ports.Queue.SendBatch(ctx, messages)
	case !ok:
		errs[0] = unknownEffectError{effects[0].Kind}
	case kind.publish != nil:
		errs = kind.publish(t, ctx, effects)
	default:
		errs[0] = kind.perform(t, ctx, effects[0])
	}
	for i, effect := range effects {
		if errs[i] != nil && t.isPermanent(effect.Kind, errs[i]) {
			errs[i] = t.giveUpEffect(ctx, effect, errs[i])
		}
	}
	return errs
}

// takeOver raises the revision before the turn repeats effects, in two cases. First: the outbox was left to an event
// that the queue may soon give up. After the write, the next event performs the outbox. Second: the execution of a task
// is unknown, so only the record shows whether another turn has answered the task. After the write, a turn that was
// frozen before its answer cannot mark the token as expired: see notifyExpired.
func (t *turn) takeOver(ctx context.Context) error {
	isBlind := func(k instances.Token) bool { return k.Execution == "" }
	isGivenUpSoon := t.stored.Record.IsLeft() && t.deliveries[0].ReceiveCount >= leftReceivesMax
	if !t.repeats || !isGivenUpSoon && !slices.ContainsFunc(owed(t.stored.Record.Tokens), isBlind) {
		return nil
	}
	return t.clear(ctx, t.left(t.stored.Record.Outbox))
}

// clear stores the remaining pending work of the record. The outbox must not block the instance, so clear shortens a
// record that does not fit into the item. It first drops the history, then shortens the reasons of refused executions
// and of failed effects, and last drops the oldest failed effects.
func (t *turn) clear(ctx context.Context, left Left) error {
	record := t.stored.Record
	record.Outbox, record.Tokens = left.Outbox, left.Tokens
	if !record.Owes() && !record.Kept {
		left.ExpireAt = t.expireAt(record)
	}
	clearing := func() error {
		return t.loop.ports.Store.ClearOutbox(ctx, record.Instance, record.Revision, left)
	}
	err := clearing()
	if errors.Is(err, ErrUnstorable) && len(record.History) > 0 {
		t.loop.config.Logger.WarnContext(ctx, "item is full, dropping its history", "instance", record.Instance.String(), "error", err)
		left.WithoutHistory = true
		err = clearing()
	}
	isRefused := func(e *instances.Execution) bool { return e.Refused != nil }
	if _, ok := find(left.Executions, isRefused); ok && errors.Is(err, ErrUnstorable) {
		left.Executions = replaced(left.Executions, isRefused, func(e *instances.Execution) {
			e.Refused = &instances.Refusal{Error: cut(e.Refused.Error, failedErrorShortMax)}
		})
		err = clearing()
	}
	for kept := len(left.FailedEffects); errors.Is(err, ErrUnstorable) && len(left.FailedEffects) > 0; kept /= 2 {
		t.loop.config.Logger.ErrorContext(ctx, "no room in the item for all failed effects, keeping less", "instance", record.Instance.String(), "error", err)
		left.FailedEffects = slices.Clone(left.FailedEffects[len(left.FailedEffects)-kept:])
		for i := range left.FailedEffects {
			left.FailedEffects[i] = shortOf(left.FailedEffects[i])
		}
		err = clearing()
	}
	if err != nil {
		return fmt.Errorf("clearing the outbox of %s: %w", record.Instance, err)
	}
	later := t.draft.Record.Outbox[len(t.stored.Record.Outbox):] // the effects of a migration, which are not stored yet
	for _, s := range []*state{&t.stored, &t.draft} {
		s.Record.Revision++
		s.Record.Outbox, s.Record.Tokens, s.Record.Executions = left.Outbox, left.Tokens, left.Executions
		s.Record.FailedEffects, s.Record.DeniedSince, s.Record.ExpireAt = left.FailedEffects, left.DeniedSince, left.ExpireAt
		if left.WithoutHistory {
			s.Record.History = nil
		}
	}
	t.draft.Record.Outbox = slices.Concat(left.Outbox, later)
	return nil
}
