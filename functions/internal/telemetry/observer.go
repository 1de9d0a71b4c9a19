package telemetry

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/settle-run/settle/runtime/durable"
)

// Observer returns what a loop tells of itself to.
func (t *Telemetry) Observer() durable.Observer {
	if t == nil {
		return durable.Observer{}
	}
	observer := durable.Observer{
		Applied:   t.applied,
		Parked:    t.parked,
		Retried:   t.retried,
		Committed: func(ctx context.Context, _ durable.Committed) { invocationOf(ctx).count(commits) },
		Conflict:  func(ctx context.Context, _ string) { invocationOf(ctx).count(conflicts) },
		Skipped:   func(ctx context.Context, _ durable.Delivery) { invocationOf(ctx).count(skipped) },
		Loaded:    t.loaded,
		Held:      t.held,
		Performed: t.performed,
	}
	if t.exporter != nil {
		observer.Begin = t.begin
	}
	return observer
}

func (t *Telemetry) applied(ctx context.Context, applied durable.Applied) {
	message := "event applied"
	if applied.Resumed {
		message = "instance settled"
	} else {
		invocationOf(ctx).count(events)
	}
	if !t.config.Logger.Enabled(ctx, slog.LevelInfo) {
		return
	}
	attributes := []any{
		"instance", applied.Delivery.Group, "event", applied.Event, "revision", applied.Revision, "from", applied.From, "to", applied.To,
		"duration_ms", float64(applied.Duration.Microseconds()) / 1e3, "attempts", applied.Attempts, "settled", applied.Settled,
		"message_id", applied.Delivery.MessageID,
	}
	t.config.Logger.InfoContext(ctx, message, append(attributes, t.asked(applied.Delivery)...)...)
}

// parked counts: the loop itself has logged the reason.
func (t *Telemetry) parked(ctx context.Context, told durable.Parked) {
	invocationOf(ctx).count(parked)
	if t.config.Payloads {
		t.config.Logger.InfoContext(ctx, "payload of the parked event", append([]any{"instance", told.Delivery.Group, "event", told.Event, "message_id", told.Delivery.MessageID}, t.asked(told.Delivery)...)...)
	}
}

// retried counts what comes again, as Each does: the delivery that has failed and those behind it. The loop itself has logged the reason.
func (t *Telemetry) retried(ctx context.Context, told durable.Retried) {
	invocation := invocationOf(ctx)
	invocation.add(retried, 1+told.Behind)
	if told.Unreadable {
		invocation.add(unreadable, 1+told.Behind)
	}
}

func (t *Telemetry) loaded(ctx context.Context, loaded durable.Loaded) {
	invocation := invocationOf(ctx)
	invocation.age(unsettledAge, loaded.Unsettled)
	invocation.age(outboxAge, loaded.Outbox)
}

// nearDeadline is the part of a task's time that is left when its deadline is near: a tenth. What that is in seconds is the
// workflow's to say: to some five minutes are the whole of it, to others the last moment of a week.
const nearDeadline = 10

// held tells of a task that is about to time out. One that has is not told: its workflow goes on without, and the chart hears of it.
func (t *Telemetry) held(ctx context.Context, held durable.Held) {
	if held.Left > 0 && held.Left < held.Timeout/nearDeadline {
		invocationOf(ctx).deadline(held.Left)
	}
}

func (t *Telemetry) performed(ctx context.Context, performed durable.Performed) {
	t.config.Logger.DebugContext(ctx, "effect tried", "instance", performed.Instance, "effect", performed.ID, "kind", string(performed.Kind), "failed", performed.Err != nil)
}

// asked returns the payload, which a line has only if that is asked for.
func (t *Telemetry) asked(delivery durable.Delivery) []any {
	if !t.config.Payloads {
		return nil
	}
	return []any{"payload", payloadOf(delivery.Body)}
}

// taskKey is the key of an event under which a task's token is.
const taskKey = "$task"

// payloadOf returns the body of an event as the log shows it: without the token of a task. What is no JSON object may hold one
// anywhere, and is not shown.
func payloadOf(body string) json.RawMessage {
	var keys map[string]json.RawMessage
	if json.Unmarshal([]byte(body), &keys) != nil {
		return json.RawMessage(`"[no JSON object]"`)
	}
	if _, ok := keys[taskKey]; ok {
		keys[taskKey] = json.RawMessage(`"[secret]"`)
	}
	shown, err := json.Marshal(keys)
	if err != nil {
		return json.RawMessage(`"[no JSON object]"`)
	}
	return shown
}
