package durable

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Observer hears of what a loop does. Each of its functions may be nil, and then costs nothing. They are called by the
// goroutines that do the work, several at once: they must not block, and must not change what they are given. The context
// is the one of Handle, or made of it by Begin.
type Observer struct {
	// Applied is told of an event once its outcome is stored.
	Applied func(ctx context.Context, applied Applied)
	// Parked is told of a delivery once it is in the dead-letter queue.
	Parked func(ctx context.Context, parked Parked)
	// Retried is told of a delivery that has failed and is to come again, with those behind it.
	Retried func(ctx context.Context, retried Retried)
	// Committed is told of a commit, of which an event may take several.
	Committed func(ctx context.Context, committed Committed)
	// Conflict is told of a turn that begins again because another writer was faster.
	Conflict func(ctx context.Context, instance string)
	// Skipped is told of a delivery that is passed over: its event was applied before, or is stale.
	Skipped func(ctx context.Context, delivery Delivery)
	// Loaded is told of what a turn finds stored of its instance.
	Loaded func(ctx context.Context, loaded Loaded)
	// Held is told of each task that a turn leaves waiting for the instance, and that has told when it times out.
	Held func(ctx context.Context, held Held)
	// Performed is told of an effect that was tried.
	Performed func(ctx context.Context, performed Performed)
	// Begin is called before an activity, which gets the context that it returns; end is called when the activity is over.
	Begin func(ctx context.Context, activity Activity) (_ context.Context, end func(err error))
}

// Applied is an event that was applied, and is stored.
type Applied struct {
	// Delivery is what has brought the event.
	Delivery Delivery
	// Event is its type; of a timer's firing, how the history names the timer.
	Event string
	// Revision is that of the record in which the outcome is stored first.
	Revision int64
	// From and To are the active atomic states before, and when the instance had settled; From is nil for an instance that
	// the event has begun.
	From, To []string
	// Attempts is how often the event was delivered, this time included.
	Attempts int
	// Duration is from the begin of this try until the instance had settled; 0 of the event that stops one that cannot settle.
	Duration time.Duration
	// Settled is false if a service is to be tried again: another delivery settles the instance, and is told of with Resumed.
	Settled bool
	// Resumed says that nothing was applied: before its own event, of which nothing is told here, the delivery has settled what an
	// earlier one left unsettled. Event is "resume" then, and Revision that of the record which is settled.
	Resumed bool
}

// Parked is a delivery that was parked.
type Parked struct {
	Delivery Delivery
	// Event is the type of the event, empty if the body has none, and cut if no event's type is so long.
	Event  string
	Reason error
}

// Retried is a delivery that comes again after Wait.
type Retried struct {
	Delivery Delivery
	// Behind is how many deliveries of its instance, of the same batch, come again only because they are behind it.
	Behind int
	Reason error
	Wait   time.Duration
	// Unreadable says that what is stored cannot be read, which only a person mends: no hosted version reads it, somebody has
	// edited it, or the table is denied.
	Unreadable bool
}

// Committed is a commit of an instance.
type Committed struct {
	Instance string
	Revision int64
	// Effects is how many are to be performed.
	Effects int
}

// Loaded is what a turn finds stored. The ages are zero where there is nothing to wait for.
type Loaded struct {
	Instance string
	Revision int64
	// Unsettled is how long the instance has made no step although it is unsettled.
	Unsettled time.Duration
	// Outbox is how long effects, or answers to tasks, have waited to be performed.
	Outbox time.Duration
}

// Held is a task that waits for an instance when a turn of it ends: none of its events has answered it, or the answer could not
// be given.
type Held struct {
	Instance string
	// Name is that of the token.
	Name string
	// Timeout is how long the task may wait in all, and Left how much of that is left: nothing, or less, if it has timed out.
	Timeout, Left time.Duration
}

// Performed is an effect that was tried: Err says how it has failed, if it has.
type Performed struct {
	Instance string
	ID       string
	Kind     statechart.EffectKind
	Err      error
}

// ActivityKind says what an Activity is.
type ActivityKind string

// The kinds of activities. A turn has events and effects in it, an event has services.
const (
	// TurnActivity is one pass of an instance through the loop. Its Trace is that of the first delivery.
	TurnActivity ActivityKind = "turn"
	// EventActivity is one event, until its instance has settled: Name is its type, Trace that of its delivery.
	EventActivity ActivityKind = "event"
	// ServiceActivity is one attempt of a service: Name is the service's.
	ServiceActivity ActivityKind = "service"
	// EffectActivity is the performing of one effect: Name is its kind.
	EffectActivity ActivityKind = "effect"
)

// Activity is work that begins and ends.
type Activity struct {
	Kind     ActivityKind
	Instance string
	Name     string
	Attempt  int
	Trace    Trace
}

// Trace is the place of a message in a distributed trace. A loop takes the trace of each delivery to Begin; Queue and
// Timers send on the one that the context has.
type Trace struct {
	// Parent is a W3C traceparent.
	Parent string
	// AWS is the trace header of X-Ray, as SQS has it in AWSTraceHeader.
	AWS string
}

type traceKey struct{}

// WithTrace returns a context whose messages belong to the trace.
func WithTrace(ctx context.Context, trace Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, trace)
}

// TraceOf returns the trace of the context, the zero value if it has none.
func TraceOf(ctx context.Context) Trace {
	trace, _ := ctx.Value(traceKey{}).(Trace)
	return trace
}

func unobserved(error) {}

// begin is Observer.Begin, if there is one.
func (l *Loop) begin(ctx context.Context, activity Activity) (context.Context, func(error)) {
	if l.config.Observer.Begin == nil {
		return ctx, unobserved
	}
	return l.config.Observer.Begin(ctx, activity)
}

// errPanicked is what an activity ends with that panics.
var errPanicked = errors.New("panic")

// during does the work of an activity and ends that, also if the work panics.
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

// observedTurn is turn, as an activity.
func (l *Loop) observedTurn(ctx context.Context, deliveries []Delivery, slot slot) (done int, err error) {
	if l.config.Observer.Begin == nil {
		return l.turn(ctx, deliveries, slot)
	}
	ctx, end := l.begin(ctx, Activity{Kind: TurnActivity, Instance: deliveries[0].Group, Trace: deliveries[0].Trace})
	err = during(end, func() error {
		done, err = l.turn(ctx, deliveries, slot)
		return err
	})
	return done, err
}

// observedTry is try, as an activity.
func (t *turn) observedTry(ctx context.Context, d Delivery, event statechart.Event) error {
	observer := &t.loop.config.Observer
	if observer.Applied == nil && observer.Begin == nil {
		_, err := t.try(ctx, d, event)
		return err
	}
	begun, name := t.loop.config.Now(), event.Type
	var from []string
	if t.draft.Instance != nil {
		from, name = t.draft.Instance.State(), t.nameOf(event)
	}
	ctx, end := t.loop.begin(ctx, Activity{Kind: EventActivity, Instance: d.Group, Name: name, Attempt: d.ReceiveCount, Trace: d.Trace})
	var applied bool
	err := during(end, func() (err error) {
		applied, err = t.try(ctx, d, event)
		return err
	})
	t.traceEffects(ctx)
	if applied && t.draft.Instance != nil && t.isApplied(d) {
		t.notes.applied = append(t.notes.applied, Applied{
			Delivery: d, Event: name, From: from, To: t.draft.Instance.State(), Attempts: d.ReceiveCount,
			Duration: t.loop.config.Now().Sub(begun), Settled: err == nil,
		})
		t.tellStored(ctx)
	}
	return err
}

// resumeName is what the settling of an instance is told as that an earlier delivery left unsettled.
const resumeName = "resume"

// observedResume is resume, told of if there was something to settle.
func (t *turn) observedResume(ctx context.Context, d Delivery) (parked bool, err error) {
	if t.draft.Instance == nil || t.draft.Instance.Settled() || t.loop.config.Observer.Applied == nil && t.loop.config.Observer.Begin == nil {
		return t.resume(ctx, d)
	}
	begun, from := t.loop.config.Now(), t.draft.Instance.State()
	ctx, end := t.loop.begin(ctx, Activity{Kind: EventActivity, Instance: d.Group, Name: resumeName, Attempt: d.ReceiveCount, Trace: d.Trace})
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
		t.tellStored(ctx)
	}
	return parked, err
}

// traceEffects notes the trace of the context for the effects that have none yet: what has just been tried has asked for them.
func (t *turn) traceEffects(ctx context.Context) {
	trace := TraceOf(ctx)
	if trace == (Trace{}) {
		return
	}
	for _, effect := range t.draft.Record.Outbox {
		if _, known := t.notes.traces[effect.ID]; known {
			continue
		}
		if t.notes.traces == nil {
			t.notes.traces = map[string]Trace{}
		}
		t.notes.traces[effect.ID] = trace
	}
}

// observedPerform is performBatch, with an activity for each effect, in the trace of the step that has asked for it.
func (t *turn) observedPerform(ctx context.Context, batch []statechart.Effect, messages []Message) []error {
	observer := &t.loop.config.Observer
	if observer.Begin == nil && observer.Performed == nil {
		return t.performBatch(ctx, batch, messages)
	}
	instance, within := t.draft.Record.Instance.String(), ctx
	ends := make([]func(error), len(batch))
	for i, effect := range batch {
		within, ends[i] = t.loop.begin(ctx, Activity{Kind: EffectActivity, Instance: instance, Name: string(effect.Kind), Trace: t.notes.traces[effect.ID]})
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

// tell tells of the events that are stored by now.
func (t *turn) tell(ctx context.Context) {
	if told := t.loop.config.Observer.Applied; told != nil {
		for _, applied := range t.notes.applied {
			applied.Revision = t.draft.Record.Revision
			told(ctx, applied)
		}
	}
	t.notes.applied = nil
}

// tellStored is tell if all changes are stored already.
func (t *turn) tellStored(ctx context.Context) {
	if !t.dirty() {
		t.tell(ctx)
	}
}

// tellCommitted tells of a commit, and of what it has stored.
func (t *turn) tellCommitted(ctx context.Context) {
	if told := t.loop.config.Observer.Committed; told != nil {
		told(ctx, Committed{Instance: t.stored.Record.Instance.String(), Revision: t.stored.Record.Revision, Effects: len(t.stored.Record.Outbox)})
	}
	t.tell(ctx)
}

// tellLoaded tells of what is stored of an instance.
func (t *turn) tellLoaded(ctx context.Context) {
	told := t.loop.config.Observer.Loaded
	if told == nil || t.stored.Record.Revision == 0 {
		return
	}
	loaded := Loaded{Instance: t.stored.Record.Instance.String(), Revision: t.stored.Record.Revision}
	now := t.loop.config.Now()
	if !t.stored.Instance.Settled() {
		// A retry that leaves a mark writes the record, and is no step. Until the first one, the instance is where it has begun.
		stepped := t.stored.Record.CreatedAt
		for _, transition := range slices.Backward(t.stored.Record.History) {
			if !transition.Ignored {
				stepped = transition.At
				break
			}
		}
		loaded.Unsettled = max(now.Sub(stepped), 0)
	}
	if t.stored.Record.Owes() {
		loaded.Outbox = max(now.Sub(t.stored.Record.UpdatedAt), 0)
	}
	told(ctx, loaded)
}

// tellHeld tells of the tasks that wait for the instance when its turn has ended with the error. If another writer was faster, what
// is stored is not known, and the turn begins again.
func (t *turn) tellHeld(ctx context.Context, err error) {
	told := t.loop.config.Observer.Held
	if told == nil || errors.Is(err, ErrConflict) {
		return
	}
	now := t.loop.config.Now()
	for _, token := range t.stored.Record.Tokens {
		if token.TimeoutSeconds <= 0 {
			continue
		}
		timeout := time.Duration(token.TimeoutSeconds) * time.Second
		told(ctx, Held{Instance: t.stored.Record.Instance.String(), Name: token.Name, Timeout: timeout, Left: token.EnteredAt.Add(timeout).Sub(now)})
	}
}

// observedAttempt is attempt, as an activity.
func (s *services) observedAttempt(ctx context.Context, invocation statechart.Invocation, run func(context.Context) (any, error)) (any, error) {
	loop := s.turn.loop
	if loop.config.Observer.Begin == nil {
		return attempt(ctx, run)
	}
	ctx, end := loop.begin(ctx, Activity{
		Kind: ServiceActivity, Instance: s.delivery.Group, Name: invocation.Service, Attempt: invocation.Attempt,
	})
	value, err := attempt(ctx, run)
	end(err)
	return value, err
}
