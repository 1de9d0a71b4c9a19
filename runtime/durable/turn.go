package durable

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// turn is one pass of one instance through the loop: what is stored, and what was changed
// since in memory.
type turn struct {
	loop    *Loop
	machine Machine
	// record is the stored record with the changes to come.
	record Record
	// instance is nil while nothing is stored and no event has started it.
	instance Instance
	// dirty says that record or instance differ from what is stored.
	dirty bool
	// birth is what the instance begins with if its parent starts it.
	birth *birth
	// finished says that a service, or the time that a timer gave it, has ended since the last
	// commit: that must be stored before another service starts, so that it never runs again.
	finished bool
	// ran says that a service has run in this turn and used up time of the process.
	ran bool
	// repeats says that the stored outbox may have been performed before.
	repeats bool
	// stored are the tokens of the stored record: the tasks that wait still, whatever becomes of the turn.
	stored []Token
	// answered says that the last commit has answers which are not given yet.
	answered bool
	// queue is that of the delivery in hand.
	queue string
	// received is how often the first delivery of the turn was received.
	received int
	// gaveUp says that effects failed for good, which is yet to be stored.
	gaveUp bool
	// owed is what the migration of the stored snapshot asks of the outside, which is yet to be stored;
	// migratedFrom is the version that it was stored by, 0 if that is the machine's or stored since.
	owed         []statechart.Effect
	migratedFrom int
	// armed are the stored timers, disarmed those among the former that are not waited for any more.
	armed, disarmed []statechart.Timer
	// unlogged are the transitions since the last commit, untold the events of which Observer.Applied has not heard.
	unlogged []Transition
	untold   []Applied
	// traces are those that the effects of this turn belong to, by their IDs.
	traces map[string]Trace
	// parks is how many deliveries were parked, or given up because their instance cannot go on.
	parks int
	// lost ends the turn, and nothing more of it is stored: the error of the commit before services that were to begin,
	// whose attempts would count although they never began, or that of revert.
	lost error
}

// examine decides what becomes of a delivery; for a poisoned one, reason says why.
func (t *turn) examine(d Delivery) (event statechart.Event, v verdict, reason error) {
	if d.SequenceNumber == "" {
		return event, poisoned, fmt.Errorf("expected a delivery of a FIFO queue, which has a sequence number, got none from %q", d.Queue)
	}
	if t.isApplied(d) {
		return event, skipped, nil
	}
	event, err := t.machine.Decode([]byte(d.Body))
	if isOwn(event.Type) {
		event, v, reason = t.examineOwn(d, event)
	} else {
		event, v, reason = t.examineEvent(d, event, err)
	}
	if v != applicable {
		return event, v, reason
	}
	token, err := tokenOf(d)
	switch {
	case err != nil:
		return event, poisoned, err
	case token != nil && t.loop.ports.Tokens == nil:
		return event, poisoned, errors.New("it hands over the token of a Step Functions task, and this consumer has no client that could answer: set Ports.Tokens")
	case token != nil && event.ID == "":
		// Whoever hands a token over twice means one event.
		event.ID = "task/" + token.Key
	}
	if event.ID != "" && slices.Contains(t.record.RecentEvents, event.ID) {
		return event, skipped, nil
	}
	if t.isSentAgain(d, event.ID) || t.isParkedTwice(d) {
		return event, skipped, nil
	}
	return event, applicable, nil
}

// examineEvent is examine for the events of charts, as Decode has read them.
func (t *turn) examineEvent(d Delivery, event statechart.Event, err error) (statechart.Event, verdict, error) {
	switch {
	case err != nil:
		return event, poisoned, err
	case event.Type == statechart.TimerEvent && (t.instance == nil || !t.isTimer(event.Timer, d.Body)):
		return event, skipped, nil
	case isEnd(t.machine, event.Type):
		return event, poisoned, fmt.Errorf("event type %q is %w: only the loop itself sends it", event.Type, ErrReserved)
	}
	err = t.checkAddressee(d.Body)
	if err == nil && t.instance == nil {
		err = t.checkBegins(event.Type)
	}
	if err != nil {
		return event, poisoned, err
	}
	return event, applicable, nil
}

// isTimer reports whether the instance waits for the timer. A timer of an earlier instance of
// the same name, deleted since, is told by its incarnation.
func (t *turn) isTimer(id, body string) bool {
	if incarnationOf(body) != t.incarnation() {
		return false
	}
	return slices.ContainsFunc(t.instance.Timers(), func(timer statechart.Timer) bool { return timer.ID == id })
}

// apply takes one macrostep in memory.
func (t *turn) apply(event statechart.Event) error {
	from, name, was := t.instance.State(), event.Type, t.instance.Status()
	for _, timer := range t.instance.Timers() {
		if event.Type == statechart.TimerEvent && timer.ID == event.Timer {
			name = "after " + timer.After
		}
	}
	effects, handled, err := t.instance.Apply(event)
	if err != nil {
		return err
	}
	for _, effect := range effects {
		if effect.Kind == statechart.ResolveWaits {
			t.answer(effect)
			continue
		}
		t.ask(effect)
		if effect.Kind == statechart.ParkEvent {
			head := eventHead(effect.Event)
			t.record.Error = &Failure{At: t.now(), Event: head.Type, Message: cut(effect.Message, failureMessageBytesMax)}
			// Sent again one day, it is to be applied, not taken for a repeat.
			t.record.RecentEvents = slices.DeleteFunc(slices.Clone(t.record.RecentEvents), func(id string) bool { return id != "" && id == head.ID })
		}
	}
	if handled {
		t.leaveOff()
	} else {
		t.record.Ignored++ // It has ended nothing, and a token that came with it may still be answered late.
	}
	t.releaseAliases()
	if was == statechart.Active {
		t.endAsChild()
	}
	transition := Transition{At: event.At.UTC().Truncate(time.Millisecond), Event: name, From: from, To: t.instance.State(), Ignored: !handled}
	t.record.History = last(append(t.record.History, transition), t.loop.config.HistoryMax)
	t.unlogged = append(t.unlogged, transition)
	t.dirty = true
	return nil
}

// ask puts an effect into the outbox, and notes what the instance has or waits for by it.
func (t *turn) ask(effect statechart.Effect) {
	effect = t.spawnable(effect)
	t.record.Outbox = append(t.record.Outbox, effect)
	switch effect.Kind {
	case statechart.ClaimAlias:
		t.rememberAlias(effect.Name)
	case statechart.StartExecution:
		t.await(effect)
	default:
	}
}

// eventHead returns the type of an event in its JSON form, and the producer's ID; what is no event has neither. A type that is
// longer than any event's is cut: it is as long as its sender likes, and goes to logs.
// Keys are compared exactly, as Decode does: into a struct, encoding/json would take "Type" for "type".
func eventHead(body json.RawMessage) (head struct{ Type, ID string }) {
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(body, &keys)
	_, _ = json.Unmarshal(keys["type"], &head.Type), json.Unmarshal(keys["$id"], &head.ID)
	head.Type = cut(head.Type, statechart.EventNameBytesMax)
	return head
}

// remember keeps a producer's event ID, by which a repeat of the event is recognised.
func (t *turn) remember(eventID string) {
	if eventID != "" {
		t.record.RecentEvents = last(append(t.record.RecentEvents, eventID), t.loop.config.RecentEventsMax)
	}
}

// commit stores record and instance in one conditional write, if anything has changed.
func (t *turn) commit(ctx context.Context) error {
	if !t.dirty || t.lost != nil {
		return t.lost
	}
	snapshot, err := t.storable()
	if err != nil {
		return err
	}
	next := t.record
	next.Revision++
	next.Snapshot, next.State, next.Status = snapshot, t.instance.State(), t.instance.Status()
	next.UpdatedAt = t.now()
	next.Outbox = t.pending()
	messages := t.messages()
	if retention := t.machine.Retention(); next.Status != statechart.Active && retention > 0 && next.ExpireAt.IsZero() {
		next.ExpireAt = next.UpdatedAt.Add(retention)
	}
	if err := t.loop.ports.Store.Commit(ctx, next); err != nil {
		return fmt.Errorf("storing %s: %w", next.Instance, err)
	}
	t.record, t.stored, t.dirty, t.finished = next, next.Tokens, false, false
	t.repeats = t.repeats || t.answered // Another process may have given the earlier answers since.
	t.answered = slices.ContainsFunc(next.Tokens, func(k Token) bool { return !waits(k) })
	t.disarm()
	if t.migratedFrom > 0 {
		t.loop.config.Logger.InfoContext(ctx, "migrated", "instance", next.Instance.String(), "from_version", t.migratedFrom,
			"to_version", t.machine.Version(), "revision", next.Revision)
	}
	t.owed, t.migratedFrom = nil, 0
	level := slog.LevelInfo
	if t.loop.config.Observer.Applied != nil {
		level = slog.LevelDebug
	}
	for _, done := range t.unlogged {
		t.loop.config.Logger.Log(ctx, level, "transition", "instance", next.Instance.String(), "event", done.Event,
			"from", done.From, "to", done.To, "ignored", done.Ignored, "revision", next.Revision)
	}
	t.unlogged = nil
	t.log(ctx, messages)
	t.tellCommitted(ctx)
	return nil
}

// storable returns the JSON form of the snapshot, if it has one that is not too large; its
// error wraps ErrUnstorable.
func (t *turn) storable() (json.RawMessage, error) {
	snapshot, err := t.instance.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("storing %s: %w: %w", t.record.Instance, ErrUnstorable, err)
	}
	if limit := t.loop.config.SnapshotBytesMax; len(snapshot) > limit {
		return nil, fmt.Errorf("storing %s: %w", t.record.Instance, &TooLargeError{Bytes: len(snapshot), BytesMax: limit})
	}
	return snapshot, nil
}

// pending returns the outbox, and what a migration asks for, without the timers that the instance no longer waits for, and
// without what is not kept in it: see log and emit.
func (t *turn) pending() []statechart.Effect {
	timers := t.instance.Timers()
	return slices.DeleteFunc(slices.Concat(t.owed, t.record.Outbox), func(e statechart.Effect) bool {
		if e.Kind == tend {
			token := t.token(e.Name)
			return token == nil || !waits(*token)
		}
		if e.Kind == watch {
			return t.execution(e.Name) == nil
		}
		return t.isNotKept(e) || e.Kind == statechart.Schedule && !slices.ContainsFunc(timers, func(timer statechart.Timer) bool { return timer.ID == e.Timer })
	})
}

// dispatch performs the effects of the stored outbox in order, then gives the answers that tasks wait
// for, and forgets both.
func (t *turn) dispatch(ctx context.Context) error {
	unanswered := slices.DeleteFunc(slices.Clone(t.record.Tokens), func(k Token) bool { return !waits(k) })
	if len(t.record.Outbox) == 0 && len(unanswered) == len(t.record.Tokens) {
		t.repeats = false
		return nil
	}
	for _, effect := range t.record.Outbox {
		if err := t.observedPerform(ctx, effect); err != nil {
			return fmt.Errorf("performing effect %s of %s: %w", effect.ID, t.record.Instance, err)
		}
	}
	if err := t.giveAnswers(ctx); err != nil {
		return err
	}
	left := Left{Tokens: unanswered, Executions: t.record.Executions}
	if err := t.clearOutbox(ctx, left); err != nil {
		return err
	}
	t.record.Outbox, t.record.Tokens, t.stored, t.repeats, t.answered = nil, unanswered, unanswered, false, false
	return nil
}

func (t *turn) now() time.Time { return t.loop.config.Now().UTC().Truncate(time.Millisecond) }

// failureMessageBytesMax is how much of the reason for parking an instance keeps: the message
// may quote the event, which may be larger than an item.
const failureMessageBytesMax = 2 << 10

// cut returns the text, or its beginning and an ellipsis if it is longer than that, as valid UTF-8.
func cut(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	return strings.ToValidUTF8(text[:bytesMax-len("…")], "") + "…"
}

// last returns the last n elements.
func last[E any](s []E, n int) []E {
	return slices.Clone(s[max(0, len(s)-n):])
}

// compareSequence compares two sequence numbers of a queue: decimal digits, of which SQS
// promises that they increase. The empty one is before all others.
func compareSequence(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// isChartError reports whether a chart's own code or definition made a step fail: no
// repetition of calls to AWS mends that.
func isChartError(err error) bool {
	var step *statechart.StepError
	return errors.As(err, &step) || errors.Is(err, errEffect) || errors.Is(err, statechart.ErrEndless) ||
		errors.Is(err, statechart.ErrStalled) || errors.Is(err, statechart.ErrLimit)
}
