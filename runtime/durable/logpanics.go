package durable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/settle-run/settle/runtime/statechart"
)

// panicValueBytesMax limits the panic value in a log line.
const panicValueBytesMax = 1 << 10

// LogPanics returns a handler for Config.Logger. It adds the stack trace to a log line with a statechart.PanicError, as
// "stack". If `values` is true, it adds the panic value as "panic", which may contain event data.
func LogPanics(next slog.Handler, values bool) slog.Handler { return panicLog{next, values} }

type panicLog struct {
	slog.Handler
	values bool
}

// Handle implements slog.Handler.
func (h panicLog) Handle(ctx context.Context, record slog.Record) error {
	var panicked *statechart.PanicError
	record.Attrs(func(attribute slog.Attr) bool {
		if attribute.Value.Kind() != slog.KindAny {
			return true
		}
		err, ok := attribute.Value.Any().(error)
		return !ok || !errors.As(err, &panicked)
	})
	if panicked != nil {
		record = record.Clone()
		if h.values {
			value := fmt.Sprint(panicked.Value)
			record.AddAttrs(slog.String("panic", strings.ToValidUTF8(value[:min(len(value), panicValueBytesMax)], "")))
		}
		record.AddAttrs(slog.Any("stack", panicked.Stack))
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h panicLog) WithAttrs(attributes []slog.Attr) slog.Handler {
	return panicLog{h.Handler.WithAttrs(attributes), h.values}
}

// WithGroup implements slog.Handler.
func (h panicLog) WithGroup(name string) slog.Handler {
	return panicLog{h.Handler.WithGroup(name), h.values}
}
