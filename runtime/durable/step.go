package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// begin starts an instance that does not exist yet. The first event's commit stores it.
func (t *turn) begin(ctx context.Context, d Delivery, child childStart) (err error) {
	if t.draft.Instance != nil {
		return nil
	}
	instance, effects, event := child.stopped, []statechart.Effect(nil), stopEvent
	if instance == nil {
		event = startEvent
		start := statechart.Start{Instance: t.draft.Record.Instance.String(), At: t.loop.config.Now(), Input: child.input}
		if instance, effects, err = t.machine.Start(start); err != nil {
			return err
		}
	}
	instance.Limit(t.loop.config.SnapshotBytesMax)
	t.draft.Instance = instance
	if parent := child.Parent; child.Type != "" {
		t.draft.Record.Parent = &parent
		// Only a child needs this line in its history. For other instances, the transition of the first event shows the
		// initial states.
		t.addHistory(instances.Transition{At: t.now(), Event: event, From: []string{}, To: instance.State()}, statechart.Event{Payload: child.input}, "")
	}
	// The keys of services contain this time. It is the time of the message, not of the try, so a second try has the
	// same keys.
	t.draft.Record.CreatedAt = d.SentAt.UTC().Truncate(timeUnit)
	t.joinLane(d)
	for _, effect := range effects {
		if effect.Kind != statechart.ResolveWaits { // No task waits for a new instance.
			t.ask(effect)
		}
	}
	t.endAsChild()
	return t.settle(ctx, d)
}

// step takes one macrostep of the chart. The body is the message from which the event was decoded, or empty.
func (t *turn) step(event statechart.Event, body string) error {
	draft := &t.draft
	from, was, name := draft.Instance.State(), draft.Instance.Status(), t.nameOf(event)
	next, effects, handled, err := draft.Instance.Apply(event)
	if err != nil {
		return err
	}
	draft.Instance = next
	for _, effect := range effects {
		t.ask(effect)
	}
	if handled {
		t.closeWaits()
	} else {
		draft.Record.Ignored++ // The chart did not change. answerLate may still answer a token of this event.
	}
	if was == statechart.Active {
		t.endAsChild()
	}
	t.addHistory(instances.Transition{At: event.At.UTC().Truncate(timeUnit), Event: name, From: from, To: next.State(), Ignored: !handled}, event, body)
	return nil
}

// nameOf returns the name of the event in the history: its type, or the delay of its timer.
func (t *turn) nameOf(event statechart.Event) string {
	if event.Type != statechart.TimerEvent {
		return event.Type
	}
	if timer, ok := t.timer(event.Timer); ok {
		return "after " + timer.After
	}
	return replayEvent
}

// addHistory appends a transition to the draft, with its event and the message of the event.
func (t *turn) addHistory(transition instances.Transition, event statechart.Event, body string) {
	t.draft.Record.History = appended(t.draft.Record.History, transition, t.loop.config.HistoryMax)
	t.draft.transitions = append(slices.Clip(t.draft.transitions), transition)
	if t.loop.config.Observer.Committed != nil {
		t.draft.events, t.draft.bodies = append(slices.Clip(t.draft.events), event), append(slices.Clip(t.draft.bodies), body)
	}
	t.changed()
}

// ask puts an effect of the chart into the outbox and updates the lists of things that the instance waits for or owns.
func (t *turn) ask(effect statechart.Effect) {
	effect = t.spawnable(effect)
	if effect.Kind == statechart.ResolveWaits {
		t.answer(effect)
		return
	}
	if effect.Kind == statechart.Send {
		effect.At = t.now() // See askedKey.
	}
	t.owe(effect)
	switch effect.Kind {
	case statechart.ClaimAlias:
		t.rememberAlias(effect.Name)
	case statechart.ReleaseAlias:
		t.forgetAlias(effect.Name)
	case statechart.StartExecution:
		t.await(effect)
	case statechart.ParkEvent:
		head := eventHead(effect.Event)
		t.draft.Record.Error = &instances.Failure{At: t.now(), Event: head.Type, Message: cut(effect.Message, failureMessageBytesMax)}
		// Forget the event, so that a redrive is applied and not skipped as a duplicate.
		t.draft.Record.RecentEvents = without(t.draft.Record.RecentEvents, func(known string) bool { return head.ID != "" && isRecent(known, head.ID) })
	default:
	}
}

// owe puts an effect into the outbox.
func (t *turn) owe(effect statechart.Effect) {
	if kind := effectKinds[effect.Kind]; t.chain.Origin != "" && (kind.message != nil || kind.reports) {
		effect.Chain = t.loop.nextHop(t.chain, t.draft.Record.Instance.String())
		t.keepChain()
	}
	t.draft.Record.Outbox = append(slices.Clip(t.draft.Record.Outbox), effect)
	t.changed()
}

// rollBack resets the draft to `before`, or to the last commit if the turn has committed since then. It keeps an
// instance whose services have run during its start.
func (t *turn) rollBack(d Delivery, before state) {
	if before.Instance == nil && attemptOf(t.draft.Record, d).Services > 0 {
		return
	}
	if before.Record.Revision == t.stored.Record.Revision {
		t.draft = before
	} else {
		t.draft = t.stored
	}
}

// errUnfold ends the fold before a delivery. A fold is a series of deliveries that share one commit. The turn commits
// the earlier deliveries, and then receives this one again.
var errUnfold = errors.New("a service waits until the events before it are stored")

// mustUnfold reports whether a service is about to start behind earlier events of the fold that are not done. Those
// events might not fit into the item together with the service's result, and the service would then run again. `before`
// is the draft before the event that started the service.
func (t *turn) mustUnfold(before state) bool {
	isStored := before.Record.Revision != t.stored.Record.Revision || before.changes == t.stored.changes
	return !t.draft.Instance.Settled() && (!isStored || isPending(before.Record))
}

// storable returns the JSON form of the drafted snapshot if it can be stored. Its error wraps ErrUnstorable.
func (t *turn) storable() (json.RawMessage, error) {
	id := t.draft.Record.Instance
	snapshot, err := t.draft.Instance.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("storing %s: %w: %w", id, ErrUnstorable, err)
	}
	if limit := t.loop.config.SnapshotBytesMax; len(snapshot) > limit {
		return nil, fmt.Errorf("storing %s: %w", id, &TooLargeError{Bytes: len(snapshot), BytesMax: limit})
	}
	return snapshot, nil
}

// storably keeps the result of `change` only if the result can be stored. Otherwise it restores the draft and returns
// an error: the error of `change`, or one that wraps ErrUnstorable.
func (t *turn) storably(change func() error) error {
	_, err := t.storable()
	before := t.draft
	if err == nil {
		err = change()
	}
	if err == nil {
		_, err = t.storable()
	}
	if err != nil {
		t.draft = before
	}
	return err
}

// logCommitted logs the committed transitions and the chart's own messages.
func (t *turn) logCommitted(ctx context.Context, transitions []instances.Transition, logged []statechart.Effect) {
	log, id := t.loop.config.Logger, t.stored.Record.Instance.String()
	level := slog.LevelInfo
	if observer := t.loop.config.Observer; observer.Applied != nil || observer.Committed != nil {
		level = slog.LevelDebug
	}
	for _, done := range transitions {
		log.Log(ctx, level, "transition", "instance", id, "event", done.Event, "from", done.From, "to", done.To, "ignored", done.Ignored, "revision", t.stored.Record.Revision)
	}
	for _, effect := range logged {
		log.InfoContext(ctx, "chart log", "instance", id, "effect", t.derivedID(effect.ID), "message", cut(effect.Message, messageBytesMax))
	}
}

// logSkipped logs why a delivery is skipped. Skipping a delivery never loses an event. Redeliveries, late timers and
// late messages of the runtime are normal, so they appear only in a debug log.
func (t *turn) logSkipped(ctx context.Context, d Delivery, event statechart.Event) {
	level, reason := slog.LevelInfo, "duplicate skipped, an event with its ID was already applied"
	switch {
	case t.isApplied(d):
		level, reason = slog.LevelDebug, "redelivery skipped, its event was already applied"
	case event.Type == statechart.TimerEvent || isOwn(event.Type):
		level, reason = slog.LevelDebug, "message skipped, the instance no longer waits for it"
	}
	t.loop.config.Logger.Log(ctx, level, reason, "instance", d.Group, "message_id", d.MessageID)
}

// isTimer reports whether the instance waits for the timer. The incarnation distinguishes it from a timer of an
// earlier instance of the same name.
func (t *turn) isTimer(id, body string) bool {
	if incarnationOf(body) != t.incarnation() {
		return false
	}
	_, waits := t.timer(id)
	return waits
}

// isApplied reports whether the delivery's event was applied or parked.
func (t *turn) isApplied(d Delivery) bool { return isAppliedIn(t.draft.Record, d) }

func isAppliedIn(r instances.Record, d Delivery) bool {
	return d.SequenceNumber != "" && instances.CompareSequence(d.SequenceNumber, r.Watermark[d.Queue]) <= 0
}

// advanced returns the watermarks with the watermark of the place's queue raised to the place, if it is lower. It does
// not change its argument.
func advanced(watermarks map[string]string, place instances.Place) map[string]string {
	if instances.CompareSequence(place.SequenceNumber, watermarks[place.Queue]) <= 0 {
		return watermarks
	}
	watermarks = maps.Clone(watermarks)
	if watermarks == nil {
		watermarks = map[string]string{}
	}
	watermarks[place.Queue] = place.SequenceNumber
	return watermarks
}

// pass advances the watermark to the delivery, whose event was applied, parked or forwarded.
func (t *turn) pass(d Delivery) {
	record := &t.draft.Record
	record.Watermark = advanced(record.Watermark, d.place())
	record.Forwarded = advanced(record.Forwarded, d.Forwarding.From)
	record.Attempts = without(record.Attempts, func(a instances.Attempt) bool {
		return a.Queue == d.Queue || instances.CompareSequence(a.SequenceNumber, record.Watermark[a.Queue]) <= 0
	})
	if t.draft.Instance != nil { // Otherwise the commit of a later event stores the watermark.
		t.changed()
	}
}

// cut shortens the text to at most bytesMax bytes of valid UTF-8, ellipsis included.
func cut(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:bytesMax-len("…")], "") + "…"
}

// load reads a record. A denied read counts as unreadable: retries do not help.
func (l *Loop) load(ctx context.Context, id instances.ID) (instances.Record, error) {
	record, err := l.ports.Store.Load(ctx, id)
	if errors.Is(err, ErrDenied) {
		err = deniedReadError{err}
	}
	return record, err
}

// deniedReadError is an ErrUnreadable for a table that denies the read. The item itself may be fine.
type deniedReadError struct{ error }

// Is makes a deniedReadError an ErrUnreadable.
func (deniedReadError) Is(target error) bool { return target == ErrUnreadable }

// Unwrap returns the store's error.
func (e deniedReadError) Unwrap() error { return e.error }
