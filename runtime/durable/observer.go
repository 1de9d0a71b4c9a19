package durable

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/tracing"
)

// Observer receives the events of a loop. Nil functions are not called and cost nothing. The loop calls the functions
// from several goroutines at once. They must not block and must not change their arguments. The context is the
// context of Handle, or one that Begin derived from it.
type Observer struct {
	// Applied is called for an event once its outcome is stored.
	Applied func(ctx context.Context, applied Applied)
	// Parked is called for a delivery once it is in the dead-letter queue.
	Parked func(ctx context.Context, parked Parked)
	// Retried is called for a delivery that failed and will be retried with the deliveries behind it.
	Retried func(ctx context.Context, retried Retried)
	// Committed is called for each commit (an event may take several). A commit whose answer is lost is not reported.
	Committed func(ctx context.Context, committed Committed)
	// Conflict is called when a turn starts again because another writer was faster.
	Conflict func(ctx context.Context, instance string)
	// Skipped is called for a delivery whose event is a duplicate or stale.
	Skipped func(ctx context.Context, delivery Delivery)
	// Loaded is called when a turn has loaded its instance, and again if a cached copy of it proves stale.
	Loaded func(ctx context.Context, loaded Loaded)
	// Held is called when a turn ends, for each task that has a timeout and still waits.
	Held func(ctx context.Context, held Held)
	// Performed is called for an effect after each try.
	Performed func(ctx context.Context, performed Performed)
	// Begin is called before an activity and returns the activity's context. `end` is called after the activity.
	Begin func(ctx context.Context, activity tracing.Activity) (_ context.Context, end func(err error))
}

// Applied is an event that was applied and stored.
type Applied struct {
	// Delivery is the delivery of the event.
	Delivery Delivery
	// Event is the event's type. For a timer, it is the timer's name in the history.
	Event string
	// Revision is the first revision that contains the outcome.
	Revision int64
	// From and To are the active atomic states before and after. From is nil if the event started the instance.
	From, To []string
	// Attempts is how often the event was delivered, including this time.
	Attempts int
	// Duration is the time until the instance settled in this try; 0 for an event that stops a stuck instance.
	Duration time.Duration
	// Settled is false if a service will be retried. A later delivery is then reported with Resumed.
	Settled bool
	// Resumed is set if the delivery settled an instance that an earlier delivery left unsettled. Event is then "resume".
	Resumed bool
}

// Parked is a delivery that was parked.
type Parked struct {
	Delivery Delivery
	// Event is the type of the event. It is empty if the body has none, and truncated if it is too long.
	Event  string
	Reason error
}

// Retried is a delivery that is retried after Wait.
type Retried struct {
	Delivery Delivery
	// Behind is how many deliveries of the same instance and batch are retried only because they are behind this one.
	Behind int
	Reason error
	Wait   time.Duration
	// Unreadable is set if the item cannot be read. A person must repair it, deploy its version, or permit access.
	Unreadable bool
}

// Committed is a commit of an instance. Bodies may contain task tokens.
type Committed struct {
	Instance string
	Revision int64
	Effects  int // the number of effects in the outbox
	// Transitions are the steps that this commit stored, in order.
	Transitions []instances.Transition
	// Events are the events of Transitions, by index, and Bodies their messages, if any. Record is the stored record.
	Events []statechart.Event
	Bodies []string
	Record instances.Record
}

// Loaded is the stored instance at the start of a turn. Unsettled and Outbox are zero if nothing is waiting.
type Loaded struct {
	Instance string
	Revision int64
	// Unsettled is how long an unsettled instance has been without a step.
	Unsettled time.Duration
	// Outbox is how long effects, or answers to tasks, have been waiting.
	Outbox time.Duration
	// Backlog is how long the oldest new delivery has waited, if the batch is full of events of this instance.
	Backlog time.Duration
}

// Held is a task that still waits for an instance when a turn ends: no event has answered it, or the answer failed.
type Held struct {
	Instance string
	// Name is the name of the token.
	Name string
	// Timeout is the timeout of the task, Left the remaining time. Left is zero or negative if the task has timed out.
	Timeout, Left time.Duration
}

// Performed is an effect that was tried. Err is nil if it succeeded.
type Performed struct {
	Instance string
	ID       string
	Kind     statechart.EffectKind
	Err      error
}

func unobserved(error) {}

// begin calls Observer.Begin, if it is set.
func (l *Loop) begin(ctx context.Context, activity tracing.Activity) (context.Context, func(error)) {
	if l.config.Observer.Begin == nil {
		return ctx, unobserved
	}
	return l.config.Observer.Begin(ctx, activity)
}

// errPanicked is the error of an activity that panics.
var errPanicked = errors.New("panic")

// during does the work of an activity, then calls `end`, even if the work panics.
func during(end func(error), work func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			end(errPanicked)
			panic(r)
		}
		end(err)
	}()
	return work()
}

// observedTurn runs Loop.turn as an activity.
func (l *Loop) observedTurn(ctx context.Context, deliveries []Delivery, under conditions) (done int, err error) {
	if l.config.Observer.Begin == nil {
		return l.turn(ctx, deliveries, under)
	}
	ctx, end := l.begin(ctx, tracing.Activity{Kind: tracing.Turn, Instance: deliveries[0].Group, Trace: deliveries[0].Trace})
	err = during(end, func() error {
		done, err = l.turn(ctx, deliveries, under)
		return err
	})
	return done, err
}

// observedTry runs turn.try as an activity.
func (t *turn) observedTry(ctx context.Context, d Delivery, event statechart.Event, folded bool) error {
	observer := &t.loop.config.Observer
	if observer.Applied == nil && observer.Begin == nil {
		_, err := t.try(ctx, d, event, folded)
		return err
	}
	begun, name := t.loop.config.Now(), event.Type
	var from []string
	if t.draft.Instance != nil {
		from, name = t.draft.Instance.State(), t.nameOf(event)
	}
	ctx, end := t.loop.begin(ctx, tracing.Activity{Kind: tracing.Event, Instance: d.Group, Name: name, Attempt: d.ReceiveCount, Trace: d.Trace})
	var applied bool
	err := during(end, func() (err error) {
		applied, err = t.try(ctx, d, event, folded)
		return err
	})
	t.traceEffects(ctx)
	if applied && t.draft.Instance != nil && t.isApplied(d) {
		t.notes.applied = append(t.notes.applied, Applied{
			Delivery: d, Event: name, From: from, To: t.draft.Instance.State(), Attempts: d.ReceiveCount,
			Duration: t.loop.config.Now().Sub(begun), Settled: err == nil,
		})
		t.reportStored(ctx)
	}
	return err
}

// resumeName is the name of the event that observedResume reports.
const resumeName = "resume"

// observedResume runs turn.resume, as an activity if the instance is unsettled.
func (t *turn) observedResume(ctx context.Context, d Delivery) (parked bool, err error) {
	if t.draft.Instance == nil || t.draft.Instance.Settled() || t.loop.config.Observer.Applied == nil && t.loop.config.Observer.Begin == nil {
		return t.resume(ctx, d)
	}
	begun, from := t.loop.config.Now(), t.draft.Instance.State()
	ctx, end := t.loop.begin(ctx, tracing.Activity{Kind: tracing.Event, Instance: d.Group, Name: resumeName, Attempt: d.ReceiveCount, Trace: d.Trace})
	err = during(end, func() error {
		parked, err = t.resume(ctx, d)
		return err
	})
	t.traceEffects(ctx)
	if err == nil && !parked {
		t.notes.applied = append(t.notes.applied, Applied{
			Delivery: d, Event: resumeName, From: from, To: t.draft.Instance.State(), Attempts: d.ReceiveCount,
			Duration: t.loop.config.Now().Sub(begun), Settled: true, Resumed: true,
		})
		t.reportStored(ctx)
	}
	return parked, err
}

// traceEffects records the trace of the context for new effects in the outbox.
func (t *turn) traceEffects(ctx context.Context) {
	trace := tracing.Of(ctx)
	if trace == (tracing.Trace{}) {
		return
	}
	for _, effect := range t.draft.Record.Outbox {
		if _, known := t.notes.traces[effect.ID]; known {
			continue
		}
		if t.notes.traces == nil {
			t.notes.traces = map[string]tracing.Trace{}
		}
		t.notes.traces[effect.ID] = trace
	}
}

// observedPerform runs performBatch with an activity for each effect, in the trace of the step that requested it.
func (t *turn) observedPerform(ctx context.Context, batch []statechart.Effect, messages []Message) []error {
	observer := &t.loop.config.Observer
	if observer.Begin == nil && observer.Performed == nil {
		return t.performBatch(ctx, batch, messages)
	}
	instance, within := t.draft.Record.Instance.String(), ctx
	ends := make([]func(error), len(batch))
	for i, effect := range batch {
		within, ends[i] = t.loop.begin(ctx, tracing.Activity{Kind: tracing.Effect, Instance: instance, Name: string(effect.Kind), Trace: t.notes.traces[effect.ID]})
	}
	var errs []error
	_ = during(func(err error) {
		for i, end := range ends {
			if err == nil {
				end(errs[i])
			} else {
				end(err)
			}
		}
	}, func() error {
		errs = t.performBatch(within, batch, messages)
		return nil
	})
	if observer.Performed != nil {
		for i, effect := range batch {
			observer.Performed(ctx, Performed{Instance: instance, ID: effect.ID, Kind: effect.Kind, Err: errs[i]})
		}
	}
	return errs
}

// reportApplied reports the stored events to the observer.
func (t *turn) reportApplied(ctx context.Context) {
	if notify := t.loop.config.Observer.Applied; notify != nil {
		for _, applied := range t.notes.applied {
			applied.Revision = t.draft.Record.Revision
			notify(ctx, applied)
		}
	}
	t.notes.applied = nil
}

// reportStored calls reportApplied if all changes are already stored.
func (t *turn) reportStored(ctx context.Context) {
	if !t.dirty() {
		t.reportApplied(ctx)
	}
}

// reportCommitted reports a commit and its events to the observer.
func (t *turn) reportCommitted(ctx context.Context, transitions []instances.Transition, events []statechart.Event, bodies []string) {
	if notify := t.loop.config.Observer.Committed; notify != nil {
		record := t.stored.Record
		notify(ctx, Committed{Instance: record.Instance.String(), Revision: record.Revision, Effects: len(record.Outbox), Transitions: transitions, Events: events, Bodies: bodies, Record: record})
	}
	t.reportApplied(ctx)
}

// reportLoaded reports the loaded instance to the observer.
func (t *turn) reportLoaded(ctx context.Context) {
	notify := t.loop.config.Observer.Loaded
	if notify == nil || t.stored.Record.Revision == 0 {
		return
	}
	loaded := Loaded{Instance: t.stored.Record.Instance.String(), Revision: t.stored.Record.Revision}
	now := t.loop.config.Now()
	if !t.stored.Instance.Settled() {
		// A commit that only counts a try is not a step, so the age counts from the last step in the history. Before
		// the first step, it counts from the creation of the instance.
		stepped := t.stored.Record.CreatedAt
		for _, transition := range slices.Backward(t.stored.Record.History) {
			if !transition.Ignored {
				stepped = transition.At
				break
			}
		}
		loaded.Unsettled = max(now.Sub(stepped), 0)
	}
	if record := t.stored.Record; record.Owes() || len(record.Outbox) > 0 && isAppliedIn(record, t.deliveries[0]) {
		loaded.Outbox = max(now.Sub(t.stored.Record.UpdatedAt), 0)
	}
	if since := t.backlogSince(); !since.IsZero() {
		loaded.Backlog = max(now.Sub(since), 0)
	}
	notify(ctx, loaded)
}

// reportHeld reports the waiting tasks to the observer when a turn has ended with the error. After a conflict it does
// nothing: the stored state is unknown, and the turn starts again.
func (t *turn) reportHeld(ctx context.Context, err error) {
	notify := t.loop.config.Observer.Held
	if notify == nil || errors.Is(err, ErrConflict) {
		return
	}
	now := t.loop.config.Now()
	for _, token := range t.stored.Record.Tokens {
		if token.TimeoutSeconds <= 0 || token.Expired {
			continue
		}
		timeout := time.Duration(token.TimeoutSeconds) * time.Second
		notify(ctx, Held{Instance: t.stored.Record.Instance.String(), Name: token.Name, Timeout: timeout, Left: token.EnteredAt.Add(timeout).Sub(now)})
	}
}

// observedAttempt runs the function attempt as an activity.
func (s *services) observedAttempt(ctx context.Context, invocation statechart.Invocation, run func(context.Context) (any, error)) (any, error) {
	loop := s.turn.loop
	if loop.config.Observer.Begin == nil {
		return attempt(ctx, run)
	}
	ctx, end := loop.begin(ctx, tracing.Activity{
		Kind: tracing.Service, Instance: s.delivery.Group, Name: invocation.Service, Attempt: invocation.Attempt,
	})
	value, err := attempt(ctx, run)
	end(err)
	return value, err
}
