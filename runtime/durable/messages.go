package durable

import (
	"context"
	"encoding/json"

	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// The types of the messages that the runtime sends to itself. Charts do not see them.
const (
	// WaitEvent is the type of an event that only hands over a task's token.
	WaitEvent = statechart.ReservedPrefix + "wait"
	// TokenExpired is the type of the event that a chart receives, if it declares it, when a task that
	// waited for it has timed out or its execution has ended: {"name", "execution"}.
	TokenExpired = "token.expired"

	beatEvent       = statechart.ReservedPrefix + "token"
	expiredEvent    = statechart.ReservedPrefix + "token.expired"
	aliasTakenEvent = statechart.ReservedPrefix + "alias.taken"
	endedEvent      = statechart.ReservedPrefix + "execution.ended"
	pollEvent       = statechart.ReservedPrefix + "execution"
	startEvent      = statechart.ReservedPrefix + "start"
	stopEvent       = statechart.ReservedPrefix + "stop"
	childEvent      = statechart.ReservedPrefix + "child"
	failedEvent     = statechart.ReservedPrefix + "effect.failed"
)

// ownMessage is a message of the runtime itself. All may come again, and late: apply looks at the instance, not at the
// message, to decide whether it still counts.
type ownMessage struct {
	// check decides what becomes of the delivery of a message.
	check func(t *turn, d Delivery) (verdict, error)
	// apply applies the message. On an error the draft is rolled back.
	apply func(t *turn, ctx context.Context, d Delivery) error
	// periodic messages come again as long as they are needed. One that changes nothing needs no write.
	periodic bool
}

// ownMessages are all of them, by type.
var ownMessages = map[string]ownMessage{
	WaitEvent:       {check: (*turn).checkWait, apply: func(*turn, context.Context, Delivery) error { return nil }},
	startEvent:      {check: (*turn).checkStart, apply: func(*turn, context.Context, Delivery) error { return nil }},
	stopEvent:       {check: (*turn).checkStop, apply: func(t *turn, _ context.Context, _ Delivery) error { return t.stop() }},
	beatEvent:       {check: checkForm[beating], apply: applyForm((*turn).heartbeat), periodic: true},
	pollEvent:       {check: checkForm[polling], apply: applyForm((*turn).pollExecution), periodic: true},
	childEvent:      {check: checkForm[childEnd], apply: applyForm((*turn).applyChildEnd), periodic: true},
	expiredEvent:    {check: checkForm[expired], apply: applyForm((*turn).applyExpired)},
	aliasTakenEvent: {check: checkForm[aliasTaken], apply: applyForm((*turn).applyAliasTaken)},
	endedEvent:      {check: checkForm[ended], apply: applyForm((*turn).applyEnded)},
	failedEvent:     {check: checkForm[failing], apply: applyForm((*turn).applyFailed)},
}

func isOwn(typ string) bool {
	_, ok := ownMessages[typ]
	return ok
}

func isPeriodic(typ string) bool { return ownMessages[typ].periodic }

// checkForm checks a message for an instance that exists: its form, and that it was made for this incarnation.
func checkForm[F any](t *turn, d Delivery) (verdict, error) {
	var form F
	if err := statechart.ReadJSON([]byte(d.Body), &form); err != nil {
		return poisoned, fmt.Errorf("%w: %s, which only the loop itself sends: %w", statechart.ErrPayload, eventHead(json.RawMessage(d.Body)).Type, err)
	}
	if t.draft.Instance == nil || incarnationOf(d.Body) != t.incarnation() {
		return skipped, nil
	}
	return applicable, nil
}

// applyForm reads a message that checkForm has checked, and applies it.
func applyForm[F any](apply func(*turn, context.Context, F) error) func(*turn, context.Context, Delivery) error {
	return func(t *turn, ctx context.Context, d Delivery) error {
		var form F
		if err := json.Unmarshal([]byte(d.Body), &form); err != nil {
			return err
		}
		return apply(t, ctx, form)
	}
}

// checkWait checks WaitEvent.
func (t *turn) checkWait(d Delivery) (verdict, error) {
	token, err := tokenOf(d)
	switch {
	case err == nil && token == nil:
		err = fmt.Errorf("%w: expected %s to have the key %s", errTask, WaitEvent, taskKey)
	case err == nil && t.draft.Instance == nil:
		err = t.checkBegins(WaitEvent)
	}
	if err != nil {
		return poisoned, err
	}
	return applicable, nil
}

// applyOwn applies an event that the loop itself makes, if the chart declares it.
func (t *turn) applyOwn(typ string, form any) error {
	if !t.declares(typ) {
		return nil
	}
	body, err := json.Marshal(form)
	if err != nil {
		return err
	}
	event, err := t.machine.Decode(body)
	if err != nil {
		return fmt.Errorf("the chart's own form of %q: %w", typ, err)
	}
	return t.applyNow(event)
}

// applyNow applies an event at the time of the clock.
func (t *turn) applyNow(event statechart.Event) error {
	event.At = t.loop.config.Now()
	return t.step(event)
}

// incarnationOf returns the creation of the instance that a message of the loop's own was made for, in milliseconds since
// 1970, or 0.
func incarnationOf(body string) int64 {
	var origin struct {
		Incarnation int64 `json:"$incarnation"`
	}
	_ = json.Unmarshal([]byte(body), &origin)
	return origin.Incarnation
}

// eventHead returns the type of an event in its JSON form and the producer's ID; both are empty if it is no event. A type longer
// than any event's is cut, since it goes to logs. Keys are compared exactly, as Decode does: encoding/json would take "Type"
// for "type" in a struct.
func eventHead(body json.RawMessage) (head struct{ Type, ID string }) {
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(body, &keys)
	_, _ = json.Unmarshal(keys["type"], &head.Type), json.Unmarshal(keys["$id"], &head.ID)
	head.Type = cut(head.Type, statechart.EventNameBytesMax)
	return head
}

// untilTimer returns how long it is until the timer whose firing the event is may fire. Zero if it may. The clock that sent it
// may be ahead of this process's.
func (t *turn) untilTimer(event statechart.Event) (early time.Duration) {
	if event.Type == statechart.TimerEvent {
		if timer, ok := t.timer(event.Timer); ok {
			return timer.At.Sub(t.loop.config.Now())
		}
	}
	return 0
}

// scheduleAgain skips a firing that is too early to keep its group locked until then, and makes sure that another comes in time.
func (t *turn) scheduleAgain(ctx context.Context, d Delivery, id string) error {
	t.loop.config.Logger.WarnContext(ctx, "timer has fired long before its time, scheduled again", "instance", d.Group, "message_id", d.MessageID, "timer", id)
	timer, ok := t.timer(id)
	if !ok {
		return nil
	}
	return t.scheduleTimer(ctx, statechart.Effect{ID: id, Timer: id, At: timer.At})
}

// declares reports whether the chart takes events of the type.
func (t *turn) declares(typ string) bool { return slices.Contains(t.machine.Events(), typ) }
