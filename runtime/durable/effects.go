package durable

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/settle-run/settle/runtime/statechart"
)

// deduplicationIDBytesMax is the longest MessageDeduplicationId that SQS takes.
const deduplicationIDBytesMax = 128

// perform asks the outside for one effect, under its derived ID.
func (t *turn) perform(ctx context.Context, effect statechart.Effect) error {
	id := t.derivedID(effect.ID)
	message := Message{DeduplicationID: shortened(id)}
	switch effect.Kind {
	case statechart.Schedule:
		body, err := json.Marshal(timerEvent{Type: statechart.TimerEvent, Timer: effect.Timer, Incarnation: t.incarnation()})
		if err != nil {
			return err
		}
		message.To, message.Body = t.record.Instance, body
		return t.loop.ports.Timers.Schedule(ctx, effect.At, message)
	case statechart.SpawnInstance, statechart.StopInstance, refuseChild:
		return t.tellChild(ctx, effect)
	case tellParent:
		return t.tellParent(ctx, effect)
	case statechart.Send:
		if effect.Child != "" {
			return t.tellChild(ctx, effect)
		}
		to, err := ParseInstanceID(effect.To)
		if err != nil {
			return err
		}
		if message.Body, err = withID(effect.Event, id); err != nil {
			return err
		}
		message.To = to
		_, err = t.loop.ports.Queue.Send(ctx, message)
		return err
	case statechart.ClaimAlias:
		return t.claim(ctx, effect)
	case release:
		return t.loop.ports.Store.Release(ctx, effect.Name, t.record.Instance, t.record.CreatedAt, t.record.ExpireAt)
	case tend:
		return t.scheduleTending(ctx, effect.At, tending{Token: effect.Name})
	case statechart.StartExecution:
		return t.startExecution(ctx, effect)
	case watch:
		return t.scheduleWatch(ctx, effect.At, effect.Name, 0)
	case statechart.EmitEvent:
		return t.emit(ctx, id, effect)
	case statechart.ParkEvent:
		return t.loop.park(ctx, t.deferredDelivery(effect), errors.New(effect.Message))
	default:
		return unknownEffectError{effect.Kind}
	}
}

// unknownEffectError is an ErrUnreadable that another version of the runtime mends.
type unknownEffectError struct{ kind statechart.EffectKind }

// Error says what to do instead of mending the item.
func (e unknownEffectError) Error() string {
	return fmt.Sprintf("unreadable item, nothing is touched: this version of the runtime knows no effect of kind %q; deploy the version that has stored it", e.kind)
}

// Is makes an unknownEffectError an ErrUnreadable.
func (e unknownEffectError) Is(target error) bool { return target == ErrUnreadable }

// deferredDelivery makes a delivery of an event that the chart had deferred, and fails on, for the
// dead-letter queue. The queue that it came in has forgotten it; the instance stands for that, and
// the effect's ID for its sequence number.
func (t *turn) deferredDelivery(effect statechart.Effect) Delivery {
	return Delivery{
		MessageID: t.derivedID(effect.ID), Queue: t.derivedID("deferred"), Group: t.record.Instance.String(),
		SequenceNumber: effect.ID, SentAt: t.record.UpdatedAt, Body: string(effect.Event),
	}
}

// timerEvent is the body of the message by which a timer fires.
type timerEvent struct {
	Type  string `json:"type"`
	Timer string `json:"timer"`
	// Incarnation tells the instance from an earlier one of the same name: its creation, in
	// milliseconds since 1970.
	Incarnation int64 `json:"$incarnation"`
}

// withID adds the ID to an event by which its receiver recognises a repeat.
func withID(event json.RawMessage, id string) (json.RawMessage, error) {
	return withKey(event, "$id", id)
}

// derivedID makes an ID of the chart unique among all instances, past ones of the same name
// included.
func (t *turn) derivedID(id string) string {
	return fmt.Sprintf("%s@%d/%s", t.record.Instance, t.record.CreatedAt.UnixMilli(), id)
}

// shortened returns the ID, or its hash if the ID is longer than SQS takes.
func shortened(id string) string {
	if len(id) <= deduplicationIDBytesMax {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}
