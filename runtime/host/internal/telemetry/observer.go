package telemetry

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/tracing"
)

// Observer returns the observer for a loop.
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
	attributes := []slog.Attr{
		slog.String("instance", applied.Delivery.Group), slog.String("event", applied.Event), slog.Int64("revision", applied.Revision),
		slog.Any("from", applied.From), slog.Any("to", applied.To), slog.Float64("duration_ms", float64(applied.Duration.Microseconds())/1e3),
		slog.Int("attempts", applied.Attempts), slog.Bool("settled", applied.Settled), slog.String("message_id", applied.Delivery.MessageID),
	}
	if t.config.Payloads {
		attributes = append(attributes, slog.Any("payload", payloadOf(applied.Delivery.Body)))
	}
	t.config.Logger.LogAttrs(ctx, slog.LevelInfo, message, attributes...)
}

// parked only counts the event. The loop logs the reason.
func (t *Telemetry) parked(ctx context.Context, event durable.Parked) {
	invocationOf(ctx).count(parked)
	if t.config.Payloads {
		t.config.Logger.InfoContext(ctx, "payload of the parked event", append([]any{"instance", event.Delivery.Group, "event", event.Event, "message_id", event.Delivery.MessageID}, t.payloadAttr(event.Delivery)...)...)
	}
}

// retried counts the failed delivery and the deliveries behind it. For a standard queue, the method Each counts the
// failed messages instead. The loop logs the reason.
func (t *Telemetry) retried(ctx context.Context, event durable.Retried) {
	invocation := invocationOf(ctx)
	invocation.add(retried, 1+event.Behind)
	if event.Unreadable {
		invocation.add(unreadable, 1+event.Behind)
	}
}

func (t *Telemetry) loaded(ctx context.Context, loaded durable.Loaded) {
	invocation := invocationOf(ctx)
	invocation.age(unsettledAge, loaded.Unsettled)
	invocation.age(outboxAge, loaded.Outbox)
	// Several turns of an invocation may report the same backlog.
	if first := invocation.age(backlogAge, loaded.Backlog); first && loaded.Backlog > backlogLogged {
		t.config.Logger.WarnContext(ctx, "instance is behind, its events wait", "instance", loaded.Instance, "backlog_age_seconds", int(loaded.Backlog.Seconds()))
	}
}

// backlogLogged is the age above which a backlog is logged. It is the threshold of the alarm Backlog, so that the log
// names the instance behind each alarm.
const backlogLogged = time.Minute

// nearDeadline is a divisor: a task's deadline is near when less than a tenth of its timeout is left. No fixed time
// suits all tasks: five minutes are the whole timeout of some tasks, but only the last moment of others.
const nearDeadline = 10

// held reports a task that will time out soon. It ignores a task that has timed out, because its workflow has continued
// and the chart receives an event.
func (t *Telemetry) held(ctx context.Context, held durable.Held) {
	if held.Left > 0 && held.Left < held.Timeout/nearDeadline {
		invocationOf(ctx).deadline(held.Left)
	}
}

func (t *Telemetry) performed(ctx context.Context, performed durable.Performed) {
	t.config.Logger.DebugContext(ctx, "effect tried", "instance", performed.Instance, "effect", performed.ID, "kind", string(performed.Kind), "failed", performed.Err != nil)
}

// payloadAttr returns the payload as a log attribute if payloads are logged.
func (t *Telemetry) payloadAttr(delivery durable.Delivery) []any {
	if !t.config.Payloads {
		return nil
	}
	return []any{"payload", payloadOf(delivery.Body)}
}

// taskKey is the event key of a task and its token.
const taskKey = "$task"

// payloadOf returns the body of an event for the log, without task tokens. A body that is not a JSON object may contain
// a token anywhere and is not shown.
func payloadOf(body string) json.RawMessage {
	var keys map[string]json.RawMessage
	if json.Unmarshal([]byte(body), &keys) != nil {
		return json.RawMessage(`"[not a JSON object]"`)
	}
	if _, ok := keys[taskKey]; ok {
		keys[taskKey] = json.RawMessage(`"[secret]"`)
	}
	shown, err := json.Marshal(keys)
	if err != nil {
		return json.RawMessage(`"[not a JSON object]"`)
	}
	return shown
}

// FaultHandler returns a log handler that counts each line of level ERROR as a fault of the invocation in the line's
// context. It also counts lines that cannot be logged.
func FaultHandler(next slog.Handler) slog.Handler {
	return handler{next, func(ctx context.Context, record slog.Record) slog.Record {
		if record.Level >= slog.LevelError {
			invocationOf(ctx).count(faults)
		}
		return record
	}}
}

// LogHandler returns a log handler that adds the trace ID of the context to each line within a span.
func LogHandler(next slog.Handler) slog.Handler {
	return handler{next, func(ctx context.Context, record slog.Record) slog.Record {
		if trace := tracing.Of(ctx); len(trace.Parent) == len("00-")+32+len("-")+16+len("-01") {
			record = record.Clone()
			record.AddAttrs(slog.String("trace_id", trace.Parent[3:35]))
		}
		return record
	}}
}

// handler calls `on` for each record, and passes the returned record to the next handler.
type handler struct {
	slog.Handler
	on func(context.Context, slog.Record) slog.Record
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, record slog.Record) error {
	return h.Handler.Handle(ctx, h.on(ctx, record))
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attributes), h.on}
}

// WithGroup implements slog.Handler. A trace ID is added to the group.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name), h.on} }
