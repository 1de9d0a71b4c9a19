package durable

import (
	"context"
	"slices"

	"github.com/settle-run/settle/runtime/statechart"
)

// MessageBytesMax is how much of a message that a chart logs is written; the rest is cut off.
const MessageBytesMax = 16 << 10

// isNotKept reports whether an effect is never stored in the outbox: a message to log, which is
// written right after the commit and at most once, so that it costs no second write; and an event to
// emit that nobody listens for.
func (t *turn) isNotKept(effect statechart.Effect) bool {
	return effect.Kind == statechart.LogMessage || effect.Kind == statechart.EmitEvent && t.loop.config.Emit == nil
}

// messages returns what the chart has asked to log since the last commit.
func (t *turn) messages() []statechart.Effect {
	return slices.DeleteFunc(slices.Clone(t.record.Outbox), func(e statechart.Effect) bool { return e.Kind != statechart.LogMessage })
}

// log writes what the chart has asked to log, once that is committed.
func (t *turn) log(ctx context.Context, messages []statechart.Effect) {
	for _, effect := range messages {
		t.loop.config.Logger.InfoContext(ctx, "chart log", "instance", t.record.Instance.String(),
			"effect", t.derivedID(effect.ID), "message", cut(effect.Message, MessageBytesMax))
	}
}

// emit shows an event to whoever listens. An outbox that was stored while somebody did is emptied
// all the same once nobody does.
func (t *turn) emit(ctx context.Context, id string, effect statechart.Effect) error {
	if t.loop.config.Emit == nil {
		return nil
	}
	return t.loop.config.Emit(ctx, t.record.Instance, id, effect.Event)
}
