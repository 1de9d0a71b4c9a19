package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Loop applies the deliveries of a FIFO queue to the instances of its machines. It keeps no
// state between calls and is safe for concurrent use.
type Loop struct {
	machines *Machines
	ports    Ports
	config   Config
}

// New returns a loop over the given machines and ports.
func New(machines *Machines, ports Ports, config Config) (*Loop, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	if err := startable(machines, ports.Executions); err != nil {
		return nil, err
	}
	return &Loop{machines: machines, ports: ports, config: config}, nil
}

// Handle takes one batch of deliveries through the loop: groups concurrently, the deliveries
// of a group in order. It returns the message IDs of the deliveries that must be delivered
// again, in the order of the batch; all others are done with.
func (l *Loop) Handle(ctx context.Context, deliveries []Delivery) (failed []string) {
	var order []string
	groups := map[string][]Delivery{}
	for _, d := range deliveries {
		if _, known := groups[d.Group]; !known {
			order = append(order, d.Group)
		}
		groups[d.Group] = append(groups[d.Group], d)
	}
	again := make([][]Delivery, len(order))
	finished := make(chan []Delivery, len(order))
	var wait sync.WaitGroup
	for i, group := range order {
		wait.Go(func() {
			again[i] = l.handleGroup(ctx, groups[group])
			// What comes again are the last ones, which lock the group as long as they are hidden.
			finished <- groups[group][:len(groups[group])-len(again[i])]
		})
	}
	if l.ports.Acknowledger != nil && len(order) > 1 {
		l.acknowledgeEarly(ctx, len(order), finished)
	}
	wait.Wait()
	isAgain := map[string]bool{}
	for _, group := range again {
		for _, d := range group {
			isAgain[d.MessageID] = true
		}
	}
	for _, d := range deliveries {
		if isAgain[d.MessageID] {
			failed = append(failed, d.MessageID)
		}
	}
	return failed
}

// handleGroup takes the deliveries of one group through the loop and returns those that must
// be delivered again, which it has hidden for the time to wait: the first that failed, and all behind it.
func (l *Loop) handleGroup(ctx context.Context, deliveries []Delivery) []Delivery {
	rest := deliveries
	log := l.config.Logger.With("instance", deliveries[0].Group)
	for conflicts, fold := 0, len(deliveries); len(rest) > 0; {
		done, err := guarded(func() (int, error) { return l.observedTurn(ctx, rest[:min(fold, len(rest))]) })
		if errors.Is(err, ErrUnstorable) && fold == 1 {
			done, err = guarded(func() (int, error) { return l.parkUnstorable(ctx, rest[0], err) })
		}
		rest = rest[done:]
		switch {
		case err == nil || len(rest) == 0:
		case errors.Is(err, ErrConflict) && conflicts < l.config.ConflictsMax:
			conflicts++
			log.InfoContext(ctx, "beginning again", "error", err)
			if told := l.config.Observer.Conflict; told != nil {
				told(ctx, rest[0].Group)
			}
		case errors.Is(err, ErrUnstorable) && fold > 1:
			// Which of the folded events it was shows when they go one by one.
			fold = 1
		default:
			l.delay(ctx, rest, err)
			return rest
		}
	}
	return nil
}

// delay hides deliveries that failed: as long as the retry policy of a service asks, or else
// as the back-off does.
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
	if told := l.config.Observer.Retried; told != nil {
		told(ctx, Retried{Delivery: rest[0], Behind: len(rest) - 1, Reason: reason, Wait: wait, Unreadable: unreadable})
	}
	_, err := guarded(func() (int, error) { return 0, l.ports.Queue.Delay(ctx, rest, wait) })
	if err != nil {
		log.WarnContext(ctx, "delaying failed, the visibility time-out will do", "error", err)
	}
}

// guarded is the given function with a panic of this package's own code, or of a port's, as
// its error: on a FIFO queue a crash would block every group of the batch.
func guarded(fn func() (int, error)) (done int, err error) {
	defer func() {
		if r := recover(); r != nil {
			done, err = 0, statechart.Panicked(r)
		}
	}()
	return fn()
}

// turn is the loop: it takes deliveries of one instance from the queue to the acknowledgement
// and returns how many of them, from the first on, are done with: applied and their effects
// performed, skipped, or parked. Deliveries of one turn are folded: one read, and one write
// unless services run or deliveries are repeats.
func (l *Loop) turn(ctx context.Context, deliveries []Delivery) (done int, err error) {
	id, err := l.address(deliveries[0].Group)
	if err != nil {
		return l.parkAll(ctx, deliveries, fmt.Errorf("the group of the message: %w", err))
	}

	// Hydrate: one consistent read.
	t, err := l.hydrate(ctx, id)
	if err != nil {
		return 0, err
	}
	t.received = deliveries[0].ReceiveCount
	t.tellLoaded(ctx)
	defer func() { t.tellHeld(ctx, err) }()
	t.resendReports(ctx)

	// Drain the outbox that an abandoned delivery left behind.
	if err := t.dispatch(ctx); err != nil {
		return 0, err
	}

	applied := 0
	for _, d := range deliveries {
		done, takeErr := t.receive(ctx, d)
		if done {
			applied++
		}
		if err = takeErr; err != nil {
			break
		}
	}

	// Commit what was applied, even if a later delivery failed.
	if commitErr := t.commit(ctx); commitErr != nil {
		return 0, commitErr
	}
	t.tell(ctx)

	// Dispatch the effects, then clear the outbox.
	if dispatchErr := t.dispatch(ctx); dispatchErr != nil {
		return 0, dispatchErr
	}

	t.cancelDisarmed(ctx)

	// Acknowledge.
	return applied, err
}

// receive takes one delivery: it settles what an earlier one left unsettled, and then applies the event, passes it over, or parks it.
// done says that the delivery need not come again. An error ends the turn: those behind it must.
func (t *turn) receive(ctx context.Context, d Delivery) (done bool, err error) {
	t.queue = d.Queue

	// Settle what an abandoned delivery left unsettled, before any other event.
	parked, err := t.observedResume(ctx, d)
	if err != nil {
		return false, err
	}
	if parked {
		// To try the next one now could kill the process before this one is acknowledged.
		return true, fmt.Errorf("%s cannot settle", t.record.Instance)
	}

	// Skip what was applied already; park what can never be applied.
	event, verdict, reason := t.examine(d)
	switch verdict {
	case skipped:
		t.record.Skipped++ // Stored with the next event that is applied.
		t.loop.config.Logger.InfoContext(ctx, "event skipped, it was applied before or is stale", "instance", d.Group, "message_id", d.MessageID)
		if told := t.loop.config.Observer.Skipped; told != nil {
			told(ctx, d)
		}
		return true, nil
	case poisoned:
		err := t.park(ctx, d, event.Type, reason)
		return err == nil, err
	}

	// Store the end of a service before the next event, which may turn out unstorable.
	if t.finished {
		if err := t.commit(ctx); err != nil {
			return false, err
		}
	}

	// Settle: apply the event and run the services until only the outside can go on.
	err = t.observedTry(ctx, d, event)
	return err == nil, err
}

// address finds the instance that a message group belongs to, if its machine is hosted.
func (l *Loop) address(group string) (InstanceID, error) {
	id, err := ParseInstanceID(group)
	if err != nil {
		return InstanceID{}, err
	}
	_, err = l.machines.Lookup(id.Machine)
	return id, err
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

// parkUnstorable parks an event whose outcome cannot be stored, on a fresh reading of its
// instance. What the turn had stored before it failed stays, and its effects are performed.
func (l *Loop) parkUnstorable(ctx context.Context, d Delivery, reason error) (done int, err error) {
	id, err := l.address(d.Group)
	if err != nil {
		return 0, err
	}
	t, err := l.hydrate(ctx, id)
	if err != nil {
		return 0, err
	}
	t.received = d.ReceiveCount
	event, v, _ := t.examine(d)
	if v == skipped && !t.isApplied(d) {
		// A repeat is not what cannot be stored: the instance owes something else, and says so with what comes next.
		if err := t.dispatch(ctx); err != nil {
			return 0, err
		}
		return 1, nil
	}
	if err := t.park(ctx, d, event.Type, reason); err != nil {
		return 0, err
	}
	if err := t.commit(ctx); errors.Is(err, ErrUnstorable) {
		// The record is so full that the reason does not fit either. The event is parked, that
		// must do: to fail now would park it again and again, and block its group.
		l.config.Logger.ErrorContext(ctx, "the instance cannot show why an event was parked", "instance", d.Group, "error", err)
	} else if err != nil {
		return 0, err
	}
	if err := t.dispatch(ctx); err != nil {
		return 0, err
	}
	return 1, nil
}

// park moves a delivery to the dead-letter queue, or tells the parent if it is the start of a child.
func (l *Loop) park(ctx context.Context, d Delivery, reason error) error {
	if eventHead(json.RawMessage(d.Body)).Type == startEvent {
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
	if told := l.config.Observer.Parked; told != nil {
		told(ctx, Parked{Delivery: d, Event: eventHead(json.RawMessage(d.Body)).Type, Reason: reason})
	}
	return nil
}

// hydrate reads an instance, in the hands of the machine that carries it on; a new one is the current
// version's. What cannot be read is not touched.
func (l *Loop) hydrate(ctx context.Context, id InstanceID) (*turn, error) {
	record, err := l.load(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("hydrating %s: %w", id, err)
	}
	t := &turn{loop: l, record: record, stored: record.Tokens}
	// Whoever has stored this may have performed it too.
	t.repeats = true
	if record.Revision == 0 {
		t.machine, err = l.machines.Lookup(id.Machine)
		return t, err
	}
	machine, instance, err := l.machines.Restore(record)
	if err != nil {
		return nil, fmt.Errorf("hydrating %s: %w", id, err)
	}
	t.machine = machine
	t.adopt(instance)
	t.armed = slices.Clone(t.instance.Timers())
	var settles bool
	t.owed, t.migratedFrom, settles = owedTo(record.Snapshot, machine, instance)
	t.dirty = len(t.owed) > 0 || settles // Even if all deliveries turn out repeats: no other may come.
	return t, nil
}

// load reads a record. A table that is not to be read is unreadable too: no time mends it.
func (l *Loop) load(ctx context.Context, id InstanceID) (Record, error) {
	record, err := l.ports.Store.Load(ctx, id)
	if errors.Is(err, ErrDenied) {
		err = deniedReadError{err}
	}
	return record, err
}

// deniedReadError is an ErrUnreadable that no item is to blame for, and that says so in the store's own words.
type deniedReadError struct{ error }

// Is makes a deniedReadError an ErrUnreadable.
func (deniedReadError) Is(target error) bool { return target == ErrUnreadable }

// Unwrap returns the store's error.
func (e deniedReadError) Unwrap() error { return e.error }

// verdict says what becomes of a delivery.
type verdict int

const (
	// applicable deliveries are applied to the instance.
	applicable verdict = iota
	// skipped deliveries were applied before, or are stale.
	skipped
	// poisoned deliveries can never be applied.
	poisoned
)

// retryError ends a turn whose service is to be tried again: the delivery is hidden for the
// time to wait, and its group stays locked. It does not unwrap: whatever the service's error
// is, it is none of the loop's.
type retryError struct {
	wait time.Duration
	err  error
}

func (e *retryError) Error() string { return fmt.Sprintf("retrying in %v: %v", e.wait, e.err) }
