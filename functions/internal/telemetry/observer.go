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
		Retried:   func(ctx context.Context, _ durable.Retried) { invocationOf(ctx).count(retried) },
		Committed: t.committed,
		Conflict:  func(ctx context.Context, _ string) { invocationOf(ctx).count(conflicts) },
		Skipped:   func(ctx context.Context, _ durable.Delivery) { invocationOf(ctx).count(skipped) },
		Loaded:    t.loaded,
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

func (t *Telemetry) committed(ctx context.Context, committed durable.Committed) {
	invocation := invocationOf(ctx)
	invocation.count(commits)
	invocation.deadline(committed.Deadline)
}

func (t *Telemetry) loaded(ctx context.Context, loaded durable.Loaded) {
	invocation := invocationOf(ctx)
	invocation.age(unsettledAge, loaded.Unsettled)
	invocation.age(outboxAge, loaded.Outbox)
	invocation.deadline(loaded.Deadline)
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
