package telemetry

import (
	"context"
	"log/slog"

	"github.com/settle-run/settle/runtime/durable"
)

// FaultHandler returns a log handler that counts lines of level ERROR as faults of the invocation in their context. It
// also counts lines that cannot be logged.
func FaultHandler(next slog.Handler) slog.Handler { return faulty{next} }

type faulty struct{ slog.Handler }

// Handle counts a line of level ERROR.
func (h faulty) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelError {
		invocationOf(ctx).count(faults)
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs counts too.
func (h faulty) WithAttrs(attributes []slog.Attr) slog.Handler {
	return faulty{h.Handler.WithAttrs(attributes)}
}

// WithGroup counts too.
func (h faulty) WithGroup(name string) slog.Handler { return faulty{h.Handler.WithGroup(name)} }

// LogHandler returns a log handler that adds the trace ID of the context to each line.
func LogHandler(next slog.Handler) slog.Handler { return traced{next} }

type traced struct{ slog.Handler }

// Handle adds trace_id to a line within a span.
func (h traced) Handle(ctx context.Context, record slog.Record) error {
	if trace := durable.TraceOf(ctx); len(trace.Parent) == len("00-")+32+len("-")+16+len("-01") {
		record = record.Clone()
		record.AddAttrs(slog.String("trace_id", trace.Parent[3:35]))
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs adds the trace too.
func (h traced) WithAttrs(attributes []slog.Attr) slog.Handler {
	return traced{h.Handler.WithAttrs(attributes)}
}

// WithGroup adds the trace too, to the group.
func (h traced) WithGroup(name string) slog.Handler { return traced{h.Handler.WithGroup(name)} }
