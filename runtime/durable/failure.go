package durable

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// fate is what becomes of a delivery that failed.
type fate int

const (
	// retryIt brings the delivery back after the backoff, or after the wait that a service asks for.
	retryIt fate = iota
	// retryAtOnce begins the turn again: another writer was faster.
	retryAtOnce
	// retryOneByOne begins the turn again with the first delivery alone: together they cannot be stored.
	retryOneByOne
	// retryAlone takes the delivery once the other groups of its batch have finished: it may kill the process.
	retryAlone
	// parkIt moves the delivery to the dead-letter queue.
	parkIt
)

// fate decides what becomes of a delivery that failed with an error.
//
//	failure                                            counts as a try     fate
//	the chart's code failed or panicked                yes                 retry with backoff, park after Config.AttemptsMax
//	user code began and the process died               yes                 alone after Config.AloneAfter, park after Config.AbandonedMax
//	AWS failed, throttled, timed out, answered late    no                  retry with backoff
//	a service asks for a retry, a timer fired early    no                  retry after its wait
//	another writer was faster                          no                  at once, Config.ConflictsMax times, then with backoff
//	the record does not fit                            no                  one by one, without its history, then park
//	the record cannot be read                          no                  retry with backoff, and an alarm
func (l *Loop) fate(err error, at standing) fate {
	var suspect *suspectError
	switch {
	case errors.As(err, &suspect):
		return retryAlone
	case errors.Is(err, errAbandoned), isChartError(err) && at.tries >= l.config.AttemptsMax:
		return parkIt
	case errors.Is(err, ErrConflict) && at.conflicts < l.config.ConflictsMax:
		return retryAtOnce
	case errors.Is(err, ErrUnstorable) && at.folded:
		return retryOneByOne
	case errors.Is(err, ErrUnstorable):
		return parkIt
	default:
		return retryIt
	}
}

// standing is what the fate of a delivery depends on beside the error.
type standing struct {
	// tries are those counted, this one included.
	tries int
	// folded says that the turn has, or may have, other deliveries.
	folded bool
	// conflicts is how often the turn has begun again.
	conflicts int
}

// isChartError reports whether a chart's own code or definition made a step fail. Retrying a call to AWS does not help.
func isChartError(err error) bool {
	var step *statechart.StepError
	return errors.As(err, &step) || errors.Is(err, errEffect) || errors.Is(err, statechart.ErrEndless) ||
		errors.Is(err, statechart.ErrStalled) || errors.Is(err, statechart.ErrLimit)
}

// errAbandoned is wrapped by the error of a delivery of which too many tries came to no end.
var errAbandoned = errors.New("the process died while it was tried")

// abandonedAdvice says what to do about such a delivery.
const abandonedAdvice = "; find out in the log why the process died, mend that, then send the event again"

// retryError ends a turn whose delivery comes again after the wait, while its group stays locked. It does not unwrap: the
// service's error is none of the loop's.
type retryError struct {
	wait time.Duration
	err  error
}

func (e *retryError) Error() string { return fmt.Sprintf("retrying in %v: %v", e.wait, e.err) }

// suspectError ends a turn before it has begun: one of its deliveries may kill the process, and is processed alone.
type suspectError struct{ suspicion int }

func (e *suspectError) Error() string { return "it may kill the process" }

// suspicion returns how many tries of a delivery in hand came to no end, if they are enough to process it alone: Config.AloneAfter,
// or all but the last that it has. Zero means that it is not under suspicion.
func (t *turn) suspicion() (most int) {
	config := &t.loop.config
	for _, d := range t.deliveries {
		if d.ReceiveCount < 2 {
			continue
		}
		if count := t.draft.Record.attempt(d).Count; count >= config.AloneAfter || count+1 >= config.AbandonedMax {
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

// attempt returns what is counted of the delivery's event.
func (r Record) attempt(d Delivery) Attempt {
	isOf := func(a *Attempt) bool { return a.Queue == d.Queue && a.SequenceNumber == d.SequenceNumber }
	if known, ok := find(r.Attempts, isOf); ok {
		return known
	}
	return Attempt{Queue: d.Queue, SequenceNumber: d.SequenceNumber}
}

// count records what is counted of a queue's event.
func (t *turn) count(attempt Attempt) {
	attempts := without(t.draft.Record.Attempts, func(a Attempt) bool { return a.Queue == attempt.Queue })
	if attempt.Count > 0 || attempt.Services > 0 {
		attempts = append(attempts, attempt)
	}
	t.draft.Record.Attempts = attempts
	t.changed()
}

// countTry stores that user code is about to run for a redelivered event, and returns how many tries are counted, this one
// included. If the process dies, the count stays. The first delivery is not counted and costs no write, unless the chart's
// code fails: see failTry. An event that begins its instance is counted only after AttemptsMax receives: if the chart
// fails on it, no instance is stored. lazy leaves the write to the one before services start.
func (t *turn) countTry(ctx context.Context, d Delivery, begins, lazy bool) (counted int, err error) {
	attempt := t.draft.Record.attempt(d)
	if d.ReceiveCount <= 1 || begins && !t.exists() && d.ReceiveCount <= t.loop.config.AttemptsMax {
		return attempt.Count + 1, nil
	}
	attempt.Count++
	t.count(attempt)
	if lazy {
		return attempt.Count, nil
	}
	return attempt.Count, t.commit(ctx)
}

// account corrects the count of a try that has failed while the process lives. The count of a first delivery, which was not
// stored, is stored now if the chart's code has failed. Otherwise that of a redelivery is taken back. before is the draft before
// the try.
func (t *turn) account(d Delivery, before state, err error) {
	now, was := t.draft.Record.attempt(d), before.Record.attempt(d)
	switch isFirst := d.ReceiveCount <= 1; {
	case isChartError(err) && isFirst && t.draft.Instance != nil:
		now.Count++
		t.count(now)
	case !isChartError(err) && !isFirst && now.Count > was.Count:
		now.Count = was.Count
		t.count(now)
	}
}

// takeBackMax is how often takeBack tries to write.
const takeBackMax = 5

// takeBack drops the counts of a turn whose commit failed although the process lives: failures of AWS use up neither tries of
// events nor attempts of services. loaded is what the turn had found. The instance is read again, since nobody knows what is
// stored.
func (t *turn) takeBack(ctx context.Context, loaded state, deliveries []Delivery) {
	if errors.Is(t.broken, ErrUnstorable) || !slices.ContainsFunc(deliveries, func(d Delivery) bool { return d.ReceiveCount > 1 }) {
		return
	}
	wait := 50 * time.Millisecond
	for range takeBackMax {
		err := t.loop.takeBackOnce(ctx, t.draft.Record.Instance, loaded, deliveries)
		if err == nil || errors.Is(err, ErrConflict) {
			return
		}
		t.loop.config.Logger.WarnContext(ctx, "taking back the count of a try failed", "instance", t.draft.Record.Instance.String(), "error", err)
		if !pause(ctx, wait) {
			return
		}
		wait *= 2
	}
}

func (l *Loop) takeBackOnce(ctx context.Context, id InstanceID, loaded state, deliveries []Delivery) error {
	t, err := l.hydrate(ctx, id, deliveries)
	if err != nil || t.stored.Instance == nil {
		return err
	}
	for _, d := range deliveries {
		if now, was := t.draft.Record.attempt(d), loaded.Record.attempt(d); now.Count > was.Count {
			now.Count--
			t.count(now)
		}
	}
	attempts := map[string]int{}
	if loaded.Instance != nil {
		for _, invocation := range loaded.Instance.Invocations() {
			attempts[invocation.Key] = invocation.Attempt
		}
	}
	for _, invocation := range t.draft.Instance.Invocations() {
		if invocation.Attempt > attempts[invocation.Key] {
			t.draft.Instance = t.draft.Instance.WithAttempt(invocation.Key, invocation.Attempt-1)
			t.changed()
		}
	}
	return t.commit(ctx)
}

// pause waits and reports whether the context is still good.
func pause(ctx context.Context, wait time.Duration) bool {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	<-waiting.Done()
	return ctx.Err() == nil
}

// failTry decides about a delivery whose event could not be applied. before is the draft before the try.
func (t *turn) failTry(ctx context.Context, d Delivery, event statechart.Event, before state, counted int, err error) error {
	t.rollBack(d, before)
	if t.loop.fate(err, standing{tries: counted, folded: true}) != parkIt {
		t.account(d, before, err)
		return fmt.Errorf("applying %q to %s: %w", event.Type, t.draft.Record.Instance, err)
	}
	if event.Type == statechart.TimerEvent || isOwn(event.Type) && errors.Is(err, errAbandoned) && event.Type != startEvent {
		return t.postpone(ctx, d, event.Type, err)
	}
	if isChartError(err) && event.Type != startEvent { // A start is not parked: its parent is notified.
		err = fmt.Errorf("%w; mend the chart, then send the event again", err)
	}
	return t.park(ctx, d, event.Type, err)
}

// rollBack drops the changes since the draft was as given, but for those that are stored already. An instance whose services
// have run to begin it is kept too.
func (t *turn) rollBack(d Delivery, before state) {
	if before.Instance == nil && t.draft.Record.attempt(d).Services > 0 {
		return
	}
	if before.Record.Revision == t.stored.Record.Revision {
		t.draft = before
	} else {
		t.draft = t.stored
	}
}

// retriesKey counts how often a message of the runtime was postponed.
const retriesKey = "$retries"

// postpone schedules a message of the runtime again and lets the events behind it go on. Nobody would send it a second
// time, so it is never parked.
func (t *turn) postpone(ctx context.Context, d Delivery, eventType string, reason error) error {
	var form struct {
		Retries int `json:"$retries"`
	}
	if err := statechart.ReadJSON([]byte(d.Body), &form); err != nil {
		return t.park(ctx, d, eventType, err)
	}
	wait := t.loop.config.PostponeMin << min(form.Retries, 20)
	wait = min(wait, t.loop.config.PostponeMax)
	body, err := withKeys(json.RawMessage(d.Body), map[string]any{retriesKey: form.Retries + 1})
	if err != nil {
		return t.park(ctx, d, eventType, err)
	}
	message := Message{To: t.draft.Record.Instance, Body: body, DeduplicationID: shortened(t.derivedID("again/" + d.place().key()))}
	if err := t.loop.ports.Timers.Schedule(ctx, t.loop.config.Now().Add(wait), message); err != nil {
		return fmt.Errorf("scheduling a message of %s again: %w", t.draft.Record.Instance, err)
	}
	t.loop.config.Logger.ErrorContext(ctx, "message of the runtime cannot be applied, scheduled again", "instance", d.Group, "message_id", d.MessageID, "type", eventType, "wait", wait, "error", reason)
	t.draft.Record.Error = &Failure{At: t.now(), Event: eventType, Message: cut(reason.Error(), failureMessageBytesMax)}
	t.pass(d)
	return nil
}

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

// park decides that a delivery goes to the dead-letter queue. The decision is stored first, as an effect: a turn that was
// frozen and applies the same event then fails to commit, so that an event is never both applied and parked. Without an
// instance nothing can be stored, and the delivery is parked at once. A delivery whose event is applied already, on an
// instance that cannot settle after it, is not parked: its redrive would apply it twice.
func (t *turn) park(ctx context.Context, d Delivery, eventType string, reason error) error {
	if t.stopStuck(d) {
		return nil
	}
	switch {
	case t.isApplied(d):
		t.loop.config.Logger.ErrorContext(ctx, "event was applied, but its instance cannot settle", "instance", d.Group, "message_id", d.MessageID, "reason", reason)
	case t.draft.Instance == nil:
		if err := t.loop.park(ctx, d, reason); err != nil {
			return err
		}
	default:
		place, err := json.Marshal(d.place())
		if err != nil {
			return err
		}
		t.owe(statechart.Effect{ID: "park." + d.place().key(), Kind: parkDelivery, Event: place, Message: cut(reason.Error(), failureMessageBytesMax)})
	}
	if t.draft.Instance != nil {
		t.draft.Record.Error = &Failure{At: t.now(), Event: eventType, Message: cut(reason.Error(), failureMessageBytesMax)}
	}
	t.pass(d)
	return nil
}

// pass advances the watermark beyond the delivery: its event is applied, or parked.
func (t *turn) pass(d Delivery) {
	record := &t.draft.Record
	if compareSequence(d.SequenceNumber, record.Watermark[d.Queue]) > 0 {
		watermark := map[string]string{d.Queue: d.SequenceNumber}
		for queue, number := range record.Watermark {
			if queue != d.Queue {
				watermark[queue] = number
			}
		}
		record.Watermark = watermark
	}
	record.Attempts = without(record.Attempts, func(a Attempt) bool {
		return a.Queue == d.Queue || compareSequence(a.SequenceNumber, record.Watermark[a.Queue]) <= 0
	})
	if t.draft.Instance != nil { // Without one, it is stored with the instance that a later event creates.
		t.changed()
	}
}

// park moves a delivery to the dead-letter queue, or notifies the parent if it is the start of a child.
func (l *Loop) park(ctx context.Context, d Delivery, reason error) error {
	head := eventHead(json.RawMessage(d.Body))
	if head.Type == startEvent {
		if form, err := readToChild(d.Body); err == nil {
			return l.failStart(ctx, d, form.Parent, reason)
		}
	}
	if err := l.failParked(ctx, d, reason); err != nil {
		return fmt.Errorf("failing the task of message %s of %s: %w", d.MessageID, d.Group, err)
	}
	if err := l.ports.Queue.Park(ctx, d, reason.Error()); err != nil {
		return fmt.Errorf("parking message %s of %s: %w", d.MessageID, d.Group, err)
	}
	l.config.Logger.ErrorContext(ctx, "event parked", "instance", d.Group, "message_id", d.MessageID, "reason", reason)
	if notify := l.config.Observer.Parked; notify != nil {
		notify(ctx, Parked{Delivery: d, Event: head.Type, Reason: reason})
	}
	return nil
}

// parkAll parks deliveries whose group leads to no machine.
func (l *Loop) parkAll(ctx context.Context, deliveries []Delivery, reason error) (done int, err error) {
	for i, d := range deliveries {
		if err := l.park(ctx, d, reason); err != nil {
			return i, err
		}
	}
	return len(deliveries), nil
}

// parkUnstorable parks an event whose outcome cannot be stored, on a fresh reading of its instance. What the turn had stored
// before it failed stays, and its effects are performed.
func (l *Loop) parkUnstorable(ctx context.Context, d Delivery, reason error) (done int, err error) {
	id, err := l.address(d.Group)
	if err != nil {
		return 0, err
	}
	t, err := l.hydrate(ctx, id, []Delivery{d})
	if err != nil {
		return 0, err
	}
	if err := t.dispatch(ctx, true); err != nil {
		return 0, err
	}
	event, v, why := t.admit(ctx, d)
	if v == poisoned {
		reason = why
	}
	if v == skipped && !t.isApplied(d) {
		return 1, nil // The duplicate is not what cannot be stored. The instance owes something else, and says so with its next event.
	}
	if err := t.park(ctx, d, event.Type, reason); err != nil {
		return 0, err
	}
	err = t.commit(ctx)
	if errors.Is(err, ErrUnstorable) {
		// The record is so full that the decision does not fit either. Retrying would block the group for ever.
		l.config.Logger.ErrorContext(ctx, "the instance cannot show why an event was parked", "instance", d.Group, "error", err)
		if !t.stored.Record.isApplied(d) {
			err = l.park(ctx, d, reason)
		} else {
			err = nil
		}
	} else if err == nil {
		err = t.dispatch(ctx, false)
	}
	if err != nil {
		return 0, err
	}
	return 1, nil
}

// shed returns the record without what is only kept for people to read. ok is false if it has nothing of that.
func shed(record Record) (smaller Record, ok bool) {
	ok = len(record.History) > 0
	record.History = nil
	failed := slices.Clone(record.FailedEffects)
	for i := range failed {
		if f := &failed[i]; f.Report == "" || f.Report == ReportTold {
			ok = ok || len(f.Data) > 0 || len(f.Error) > failedErrorShortMax
			*f = f.short()
		}
	}
	record.FailedEffects = failed
	return record, ok
}

// delay hides deliveries that failed: for as long as the retry policy of a service asks, or else for the backoff.
func (l *Loop) delay(ctx context.Context, rest []Delivery, reason error) {
	wait, _ := l.config.Backoff.Next(max(rest[0].ReceiveCount, 1))
	var retry *retryError
	if errors.As(reason, &retry) {
		wait = retry.wait
	}
	log := l.config.Logger.With("instance", rest[0].Group, "message_id", rest[0].MessageID)
	unreadable := errors.Is(reason, ErrUnreadable) || errors.Is(reason, statechart.ErrUnreadable)
	level, message := slog.LevelWarn, "delivery failed, to be tried again"
	var denied deniedReadError
	switch {
	case errors.As(reason, &denied):
		level, message = slog.LevelError, "table may not be read, nothing is touched" // This and the next, only a person can mend.
	case unreadable:
		level, message = slog.LevelError, "stored item is unreadable, nothing is touched"
	}
	log.Log(ctx, level, message, "error", reason, "wait", wait, "receive_count", rest[0].ReceiveCount)
	if notify := l.config.Observer.Retried; notify != nil {
		notify(ctx, Retried{Delivery: rest[0], Behind: len(rest) - 1, Reason: reason, Wait: wait, Unreadable: unreadable})
	}
	_, err := guarded(func() (int, error) { return 0, l.ports.Queue.Delay(ctx, rest, wait) })
	if err != nil {
		log.WarnContext(ctx, "delaying failed, the visibility time-out will do", "error", err)
	}
}

// deniedReadError is an ErrUnreadable that no item is to blame for, in the store's own words.
type deniedReadError struct{ error }

// Is makes a deniedReadError an ErrUnreadable.
func (deniedReadError) Is(target error) bool { return target == ErrUnreadable }

// Unwrap returns the store's error.
func (e deniedReadError) Unwrap() error { return e.error }

// place returns where the delivery's message is.
func (d Delivery) place() Place { return Place{Queue: d.Queue, SequenceNumber: d.SequenceNumber} }

// key is a short form of the place.
func (p Place) key() string {
	queue := sha256.Sum256([]byte(p.Queue))
	return hex.EncodeToString(queue[:8]) + "/" + p.SequenceNumber
}
