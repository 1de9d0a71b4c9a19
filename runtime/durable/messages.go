package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/internal/readjson"
	"github.com/settle-run/settle/runtime/statechart"
)

// The types of the runtime's own messages, and of its events for charts.
const (
	// WaitEvent is the type of an event that only passes the token of a task to the instance.
	WaitEvent = statechart.ReservedPrefix + "wait"
	// TokenExpired is the type of an event with the keys name and execution. A chart that declares the event receives
	// it when a waiting task has timed out or the execution of the task has ended.
	TokenExpired = "token.expired"

	heartbeatEvent  = statechart.ReservedPrefix + "token"
	expiredEvent    = statechart.ReservedPrefix + "token.expired"
	aliasTakenEvent = statechart.ReservedPrefix + "alias.taken"
	endedEvent      = statechart.ReservedPrefix + "execution.ended"
	pollEvent       = statechart.ReservedPrefix + "execution"
	startEvent      = statechart.ReservedPrefix + "start"
	stopEvent       = statechart.ReservedPrefix + "stop"
	childEvent      = statechart.ReservedPrefix + "child"
	failedEvent     = statechart.ReservedPrefix + "effect.failed"
	laneEvent       = statechart.ReservedPrefix + "lane"
	// replayEvent is not a message. In the history, it names the step that replay takes.
	replayEvent = statechart.ReservedPrefix + "replay"
)

// ownMessage is a message of the runtime itself. A message may be late or a duplicate, so apply checks the instance,
// not the message, to decide whether the message still counts.
type ownMessage struct {
	// check returns the verdict on a delivery of the message.
	check func(t *turn, d Delivery) (verdict, error)
	// apply applies the message. After an error, the draft is rolled back.
	apply func(t *turn, ctx context.Context, d Delivery) error
	// periodic is set for messages that repeat while they are needed. A periodic message that changes nothing needs no
	// write.
	periodic bool
}

// ownMessages holds the runtime's own messages, by type.
var ownMessages = map[string]ownMessage{
	WaitEvent:       {check: (*turn).checkWait, apply: func(*turn, context.Context, Delivery) error { return nil }},
	startEvent:      {check: (*turn).checkStart, apply: func(*turn, context.Context, Delivery) error { return nil }},
	stopEvent:       {check: (*turn).checkStop, apply: func(t *turn, _ context.Context, _ Delivery) error { return t.stop() }},
	heartbeatEvent:  {check: checkForm[heartbeatForm], apply: applyForm((*turn).heartbeat), periodic: true},
	pollEvent:       {check: checkForm[polling], apply: applyForm((*turn).pollExecution), periodic: true},
	childEvent:      {check: checkForm[childEnd], apply: applyForm((*turn).applyChildEnd), periodic: true},
	expiredEvent:    {check: checkForm[expired], apply: applyForm((*turn).applyExpired)},
	aliasTakenEvent: {check: checkForm[aliasTaken], apply: applyForm((*turn).applyAliasTaken)},
	endedEvent:      {check: checkForm[ended], apply: applyForm((*turn).applyEnded)},
	failedEvent:     {check: checkForm[failing], apply: applyForm((*turn).applyFailed)},
	laneEvent:       {check: checkForm[laneChange], apply: applyForm((*turn).changeLane)},
}

func isOwn(typ string) bool {
	_, ok := ownMessages[typ]
	return ok
}

// isInternal reports whether only the loop itself sends messages of the type.
func isInternal(typ string) bool { return isOwn(typ) && typ != WaitEvent }

func isPeriodic(typ string) bool { return ownMessages[typ].periodic }

// checkForm checks a message for an existing instance: its form and its incarnation.
func checkForm[F any](t *turn, d Delivery) (verdict, error) {
	var form F
	if err := readjson.Unmarshal([]byte(d.Body), &form); err != nil {
		return poisoned, fmt.Errorf("%w: %s, which only the loop itself sends: %w", statechart.ErrPayload, eventHead(json.RawMessage(d.Body)).Type, err)
	}
	if t.draft.Instance == nil || incarnationOf(d.Body) != t.incarnation() {
		return skipped, nil
	}
	return applicable, nil
}

// applyForm parses a message that checkForm has checked, and applies it.
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
		return fmt.Errorf("decoding %q as the chart declares it: %w", typ, err)
	}
	event.At = t.loop.config.Now()
	return t.step(event, string(body))
}

// applyNow applies an event without a message at the current time.
func (t *turn) applyNow(event statechart.Event) error {
	event.At = t.loop.config.Now()
	return t.step(event, "")
}

// incarnationOf returns the incarnation in a message of the loop itself: the time of creation of its instance, in
// milliseconds since 1970. It returns 0 if the message has none.
func incarnationOf(body string) int64 {
	var origin struct {
		Incarnation int64 `json:"$incarnation"`
	}
	_ = json.Unmarshal([]byte(body), &origin)
	return origin.Incarnation
}

// eventHead returns the type and the producer's ID of an event in JSON. Both are empty if the body is not an event.
// An overlong type is cut, because it goes to logs. Keys must match exactly, as in Decode: for a struct,
// encoding/json would accept "Type" for "type".
func eventHead(body json.RawMessage) (head struct{ Type, ID string }) {
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(body, &keys)
	_, _ = json.Unmarshal(keys["type"], &head.Type), json.Unmarshal(keys["$id"], &head.ID)
	head.Type = cut(head.Type, statechart.EventNameBytesMax)
	return head
}

// untilTimer returns the time left until the event's timer is due. It is zero or negative if the timer is due, and zero
// if the instance has no such timer or the event is no timer event. It is positive if the sender's clock is ahead of
// this process's clock.
func (t *turn) untilTimer(event statechart.Event) (early time.Duration) {
	if event.Type == statechart.TimerEvent {
		if timer, ok := t.timer(event.Timer); ok {
			return timer.At.Sub(t.loop.config.Now())
		}
	}
	return 0
}

// scheduleAgain skips a timer event that fires far too early, and schedules it again. A retry would keep the group
// locked until the timer is due.
func (t *turn) scheduleAgain(ctx context.Context, d Delivery, id string) error {
	t.loop.config.Logger.WarnContext(ctx, "timer fired far too early, scheduled again", "instance", d.Group, "message_id", d.MessageID, "timer", id)
	timer, ok := t.timer(id)
	if !ok {
		return nil
	}
	return t.schedule(ctx, timer.At, timerEvent{statechart.TimerEvent, id, t.incarnation()}, againID(d))
}

// declares reports whether the chart declares the event type.
func (t *turn) declares(typ string) bool { return slices.Contains(t.machine.Events(), typ) }
