package durable

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/plainjson"
	"github.com/settle-run/settle/runtime/statechart"
)

const (
	// deduplicationIDBytesMax is the longest MessageDeduplicationId (SQS API Reference, SendMessage).
	deduplicationIDBytesMax = 128
	// batchMax is the longest batch for Queue.SendBatch (SQS API Reference, SendMessageBatch) and for Config.Emit
	// (EventBridge API Reference, PutEvents).
	batchMax = 10
	// messageBytesMax limits a chart's log message. Longer messages are cut.
	messageBytesMax = 16 << 10
	// cancelAhead is the shortest remaining time at which the loop still cancels a timer. An unneeded timer with less time
	// left fires, and its firing does nothing.
	cancelAhead = 15 * time.Minute
)

// The kinds of the loop's own effects.
const (
	// heartbeat schedules the first heartbeat of a task, or the check for its timeout. Name is the token's key.
	heartbeat statechart.EffectKind = "heartbeat"
	// poll schedules the first poll of an execution. EventBridge reports the end of an execution only on a best-effort
	// basis. Name is the name of the execution.
	poll statechart.EffectKind = "poll"
	// refuseChild reports to the instance that a child cannot be spawned. Message is the reason.
	refuseChild statechart.EffectKind = "refuse"
	// notifyParent reports to the parent that the instance is done.
	notifyParent statechart.EffectKind = "end"
	// notifyStopped reports to the parent that an operator has ended the instance. Message is the reason.
	notifyStopped statechart.EffectKind = "end.stopped"
	// parkDelivery parks the delivery of a message. Event holds the message's instances.Place as JSON, Message the reason.
	parkDelivery statechart.EffectKind = "park.delivery"
	// forwardDelivery forwards the delivery of a message to the lane Name. Event holds the message's instances.Place as
	// JSON.
	forwardDelivery statechart.EffectKind = "forward.delivery"
	// endLaneMove sends the message that ends Record.Moving.
	endLaneMove statechart.EffectKind = "lane"
)

// effectKind says how to perform the effects of one kind. Exactly one of the fields `message`, `publish` and `perform`
// is set. Effects that send a message to an instance have the field `message`. Effects that one call performs together
// have `publish`. All other effects have `perform`.
type effectKind struct {
	message func(t *turn, effect statechart.Effect) (Message, error)
	// publish returns an error for each effect.
	publish func(t *turn, ctx context.Context, effects []statechart.Effect) []error
	perform func(t *turn, ctx context.Context, effect statechart.Effect) error
	// unneeded reports whether a commit may drop the effect. Nil means never.
	unneeded func(t *turn, effect statechart.Effect) bool
	// reports is set if performing the effect may send a message to the instance itself.
	reports bool
	// repeatable is set if a repeat is harmless within the retention of instances and messages: the receiver recognises
	// it, or it only sets a timer again. Then the next commit may clear the effect.
	repeatable bool
}

var effectKinds = map[statechart.EffectKind]effectKind{
	statechart.Schedule:       {perform: (*turn).scheduleTimer, unneeded: (*turn).isTimerUnneeded, repeatable: true},
	statechart.Send:           {message: (*turn).sendMessage, repeatable: true},
	statechart.SpawnInstance:  {message: (*turn).childMessage, repeatable: true},
	statechart.StopInstance:   {message: (*turn).childMessage, repeatable: true},
	refuseChild:               {message: (*turn).childMessage},
	notifyParent:              {message: (*turn).parentMessage},
	notifyStopped:             {message: (*turn).parentMessage},
	statechart.ClaimAlias:     {perform: (*turn).claim, reports: true},
	statechart.ReleaseAlias:   {perform: (*turn).releaseAlias},
	heartbeat:                 {perform: (*turn).scheduleFirstHeartbeat, unneeded: (*turn).isHeartbeatUnneeded},
	statechart.StartExecution: {perform: (*turn).startExecution, reports: true},
	poll:                      {perform: (*turn).scheduleFirstPoll, unneeded: (*turn).isPollUnneeded},
	statechart.EmitEvent:      {publish: (*turn).emit, unneeded: (*turn).isEmitUnneeded, reports: true},
	statechart.ParkEvent:      {perform: (*turn).parkDeferred},
	parkDelivery:              {perform: (*turn).parkDelivery},
	forwardDelivery:           {perform: (*turn).forwardDelivery},
	endLaneMove:               {perform: (*turn).sendLaneChange},
	// The loop logs a chart's message right after the commit, at most once. So the commit need not store the message.
	statechart.LogMessage: {perform: func(*turn, context.Context, statechart.Effect) error { return nil }, unneeded: func(*turn, statechart.Effect) bool { return true }},
}

// unknownEffectError is an ErrUnreadable: a newer version of the runtime has stored the effect.
type unknownEffectError struct{ kind statechart.EffectKind }

// Error names the kind and the remedy.
func (e unknownEffectError) Error() string {
	return fmt.Sprintf("unreadable item, nothing was changed: this version of the runtime knows no effect of kind %q; deploy the version that stored it", e.kind)
}

// Is makes an unknownEffectError an ErrUnreadable.
func (e unknownEffectError) Is(target error) bool { return target == ErrUnreadable }

// message builds a message of the runtime to the instance itself, its parent or a child. It goes to the lane of this
// instance. The whole family shares the lane unless an operator has moved a member.
func (t *turn) message(to instances.ID, form any, id string) (Message, error) {
	body, err := json.Marshal(form)
	return Message{To: to, Body: body, DeduplicationID: shortened(id), Lane: t.ownLane()}, err
}

// schedule schedules a message of the runtime to the instance itself.
func (t *turn) schedule(ctx context.Context, at time.Time, form any, id string) error {
	message, err := t.message(t.draft.Record.Instance, form, t.derivedID(id))
	if err != nil {
		return err
	}
	return t.loop.ports.Timers.Schedule(ctx, at, message)
}

// sendMessage builds the message of a Send effect.
func (t *turn) sendMessage(effect statechart.Effect) (Message, error) {
	if effect.Child != "" {
		return t.childMessage(effect)
	}
	to, err := instances.ParseID(effect.To)
	if err != nil {
		return Message{}, err
	}
	id := t.derivedID(effect.ID)
	body, err := withKeys(effect.Event, map[string]any{"$id": id, askedKey: effect.At.UnixMilli()})
	message := Message{To: to, Body: body, DeduplicationID: shortened(id)}
	if parent := t.draft.Record.Parent; parent != nil && parent.Instance == to.String() {
		message.Lane = t.ownLane() // The end of the child must not overtake this message.
	}
	return message, err
}

// timerEvent is the body of a timer's message.
type timerEvent struct {
	Type  string `json:"type"`
	Timer string `json:"timer"`
	// Incarnation distinguishes the instance from an earlier one of the same name. It is the time of creation, in
	// milliseconds since 1970.
	Incarnation int64 `json:"$incarnation"`
}

func (t *turn) scheduleTimer(ctx context.Context, effect statechart.Effect) error {
	return t.schedule(ctx, effect.At, timerEvent{statechart.TimerEvent, effect.Timer, t.incarnation()}, effect.ID)
}

func (t *turn) isTimerUnneeded(effect statechart.Effect) bool {
	_, waits := t.timer(effect.Timer)
	return !waits
}

// unneededTimers returns the stored timers that the draft no longer has and that are worth cancelling.
func (t *turn) unneededTimers() (unneeded []statechart.Timer) {
	if t.stored.Instance == nil {
		return nil
	}
	for _, was := range t.stored.Instance.Timers() {
		if _, waits := t.timer(was.ID); !waits && was.At.Sub(t.loop.config.Now()) > cancelAhead {
			unneeded = append(unneeded, was)
		}
	}
	return unneeded
}

// cancelTimers cancels timers that are no longer needed. If a cancel fails, cancelTimers only logs a warning, because
// the firing will do nothing. If the invocation runs out of time, cancelTimers leaves the other timers scheduled, so
// that the deliveries can still be acknowledged.
func (t *turn) cancelTimers(ctx context.Context) {
	limited, cancel := t.loop.withMargin(ctx)
	defer cancel()
	for _, timer := range t.notes.cancels {
		if limited.Err() != nil {
			return
		}
		if err := t.loop.ports.Timers.Cancel(limited, shortened(t.derivedID(timer.ID))); err != nil {
			t.loop.config.Logger.WarnContext(ctx, "cannot cancel a timer; its firing will be ignored", "instance", t.draft.Record.Instance.String(), "timer", timer.ID, "error", err)
		}
	}
}

// emitError is an error of Config.Emit, reduced to its text and its class. This keeps the loop from mistaking an error
// of the host for an error of another port.
type emitError struct {
	text  string
	class error // ErrRefused, ErrDenied or nil
}

// Error returns the text.
func (e emitError) Error() string { return e.text }

// Unwrap returns the class.
func (e emitError) Unwrap() error { return e.class }

// emit passes events to Config.Emit, if that is set.
func (t *turn) emit(ctx context.Context, effects []statechart.Effect) []error {
	errs := make([]error, len(effects))
	if t.loop.config.Emit == nil {
		return errs
	}
	events := slices.Clone(effects)
	for i := range events {
		events[i].ID = t.derivedID(events[i].ID)
	}
	results := t.loop.config.Emit(ctx, t.draft.Record.Instance, events)
	for i := range errs {
		switch {
		case len(results) != len(errs):
			errs[i] = fmt.Errorf("expected Config.Emit to return %d errors, one for each event, got %d", len(errs), len(results))
		case errors.Is(results[i], ErrRefused):
			errs[i] = emitError{results[i].Error(), ErrRefused}
		case errors.Is(results[i], ErrDenied):
			errs[i] = emitError{results[i].Error(), ErrDenied}
		case results[i] != nil:
			errs[i] = emitError{text: results[i].Error()}
		}
	}
	return errs
}

func (t *turn) isEmitUnneeded(statechart.Effect) bool { return t.loop.config.Emit == nil }

// parkDeferred parks a deferred event on which the chart's code fails. The queue no longer has the event's message, so
// the parked delivery names the instance as its queue and the effect's ID as its sequence number.
func (t *turn) parkDeferred(ctx context.Context, effect statechart.Effect) error {
	return t.loop.park(ctx, Delivery{
		MessageID: t.derivedID(effect.ID), Queue: t.derivedID("deferred"), Group: t.draft.Record.Instance.String(),
		SequenceNumber: effect.ID, SentAt: t.draft.Record.UpdatedAt, Body: string(effect.Event),
	}, errors.New(effect.Message))
}

// parkDelivery parks a delivery after the commit that stored this decision.
func (t *turn) parkDelivery(ctx context.Context, effect statechart.Effect) error {
	return t.withDelivery(ctx, effect, func(d Delivery) error {
		return t.loop.park(ctx, d, errors.New(effect.Message), t.stored.Record.Tokens...)
	})
}

// withDelivery calls `do` with the delivery that an effect is about. It fails with errNotInHand if the turn has not
// received that delivery. It does nothing if the message is gone.
func (t *turn) withDelivery(ctx context.Context, effect statechart.Effect, do func(Delivery) error) error {
	var place instances.Place
	if err := json.Unmarshal(effect.Event, &place); err != nil {
		return err
	}
	for _, d := range t.deliveries {
		switch {
		case d.Queue != place.Queue:
		case d.SequenceNumber == place.SequenceNumber:
			return do(d)
		case instances.CompareSequence(d.SequenceNumber, place.SequenceNumber) > 0:
			// A FIFO queue delivers a later message only once the earlier one is gone. So the queue itself has moved
			// the earlier message to its dead-letter queue or dropped it.
			t.loop.config.Logger.WarnContext(ctx, "the message of an effect is already gone from the queue", "instance", d.Group, "effect", effect.Kind, "sequence_number", place.SequenceNumber)
			return nil
		}
	}
	return errNotInHand
}

// withKeys adds keys to an event.
func withKeys(event json.RawMessage, keys map[string]any) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(event, &fields); err != nil {
		return nil, err
	}
	for key, value := range keys {
		text, err := plainjson.Marshal(value)
		if err != nil {
			return nil, err
		}
		fields[key] = text
	}
	return plainjson.Marshal(fields)
}

// shortened returns the ID, or its hash if the ID is too long for SQS.
func shortened(id string) string {
	if len(id) <= deduplicationIDBytesMax {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}
