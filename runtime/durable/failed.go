package durable

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// CommunicationError is the type of the event by which a chart that declares it hears of a FailedEffect; its
// payload is statechart.CommunicationFailure.
const CommunicationError = statechart.CommunicationError

// FailedEffect is an effect that will never be performed: it was refused for good, or for too long.
type FailedEffect struct {
	// ID is that of the effect; that of an answer to a task is made of the token's key.
	ID   string                `json:"id"`
	Kind statechart.EffectKind `json:"kind"`
	// At is when the loop gave it up.
	At time.Time `json:"at"`
	// Target is as in statechart.CommunicationFailure.
	Target string `json:"target,omitempty"`
	Error  string `json:"error"`
	// Data is the JSON of what was to be sent, put aside, answered or given to a workflow, or else the time that
	// was asked for; empty if that is longer than FailedDataBytesMax. DataBytes is its length either way.
	Data      json.RawMessage `json:"data,omitempty"`
	DataBytes int             `json:"data_bytes,omitempty"`
	// Report says how far the chart has been told; empty if it does not want to know.
	Report Report `json:"report,omitempty"`
}

// Report says how far a chart has been told of a failed effect.
type Report string

// The reports of a failed effect.
const (
	// ReportUnsent is that of a chart that cannot be told, because the queue refuses that too. Each event of
	// the instance tries it again.
	ReportUnsent Report = "unsent"
	// ReportSent is that of a chart that is about to hear of it; if it stays so, the event was parked.
	ReportSent Report = "sent"
	ReportTold Report = "told"
)

const (
	// FailedDataBytesMax is the longest data that is kept of one.
	FailedDataBytesMax = 2 << 10
	// failedErrorBytesMax is how much is kept of its error, and failedErrorShortMax where there are many.
	failedErrorBytesMax = 1 << 10
	failedErrorShortMax = 128
)

// failing is the body of failedEvent, which reports a failed effect to the chart. The item decides whether there is one, since
// the message is sent before the item is written.
type failing struct {
	Type        string `json:"type"`
	Effect      string `json:"effect"`
	Incarnation int64  `json:"$incarnation"`
}

// giveUpEffect records an effect that failed for good.
func (t *turn) giveUpEffect(ctx context.Context, effect statechart.Effect, err error) error {
	awaited, ok := t.execution(t.executionName(effect.ID))
	if effect.Kind == statechart.StartExecution && ok && awaited.Refused != nil {
		// The chart receives this as an end. The next poll of the execution reports it.
		t.loop.config.Logger.WarnContext(ctx, "reporting that an execution cannot be started failed, to be reported by its poll", "instance", t.draft.Record.Instance.String(), "error", err)
		return nil
	}
	target, data := t.contentOf(effect)
	return t.giveUp(ctx, FailedEffect{ID: effect.ID, Kind: effect.Kind, Target: target, Data: data}, err)
}

// isForGood reports whether an effect is given up after the error: at once if it is refused, and if it is
// denied, once that has lasted DeniedWaitMax. What is denied for
// parking is tried again and again, as it would be lost, and so is emitting, which is the host's own code.
func (t *turn) isForGood(kind statechart.EffectKind, err error) bool {
	switch {
	case kind == statechart.EmitEvent || errors.Is(err, errNotInHand):
		return false
	case errors.Is(err, ErrRefused):
		return true
	case kind == statechart.ParkEvent || kind == parkDelivery || !errors.Is(err, ErrDenied):
		return false
	}
	// A consumer that was offline meanwhile still gets AttemptsMax tries.
	since := t.draft.Record.DeniedSince
	return !since.IsZero() && t.loop.config.Now().Sub(since) >= t.loop.config.DeniedWaitMax && t.deliveries[0].ReceiveCount >= t.loop.config.AttemptsMax
}

// contentOf returns what an effect was to reach, and its data.
func (t *turn) contentOf(effect statechart.Effect) (target string, data json.RawMessage) {
	for _, data = range []json.RawMessage{effect.Event, effect.Input} {
		if len(data) > 0 {
			break
		}
	}
	if len(data) == 0 && !effect.At.IsZero() {
		data, _ = json.Marshal(map[string]time.Time{"at": effect.At}) // A time that is stored marshals.
	}
	if timer, ok := t.timer(effect.Timer); ok && effect.Kind == statechart.Schedule {
		return timer.After + " of " + timer.State, data
	}
	if token, ok := t.token(effect.Name); ok && effect.Kind == beat {
		return token.Name, data
	}
	for _, target = range []string{effect.To, effect.Name, effect.Child, effect.Machine} {
		if target != "" {
			break
		}
	}
	return target, data
}

// giveUp notes an effect that failed for good, to be stored when the outbox is cleared, and has the chart hear
// of it if it wants to.
func (t *turn) giveUp(ctx context.Context, failed FailedEffect, reason error) error {
	log := t.loop.config.Logger.With("instance", t.draft.Record.Instance.String(), "effect", t.derivedID(failed.ID), "kind", string(failed.Kind), "target", failed.Target)
	log.ErrorContext(ctx, "effect failed for good", "error", reason)
	isIt := func(f *FailedEffect) bool { return f.ID == failed.ID }
	if _, known := find(t.draft.Record.FailedEffects, isIt); known {
		return nil
	}
	failed.At, failed.Error, failed.DataBytes = t.now(), cut(reason.Error(), failedErrorBytesMax), len(failed.Data)
	if len(failed.Data) > FailedDataBytesMax {
		failed.Data = nil
	}
	if t.draft.Instance.Status() == statechart.Active && t.declares(CommunicationError) {
		failed.Report = ReportSent
		err := t.sendReport(ctx, failed.ID)
		if err != nil && !t.isForGood("", err) {
			return err
		}
		if err != nil {
			log.ErrorContext(ctx, "telling the chart that an effect failed for good failed too", "error", err)
			failed.Report = ReportUnsent
		}
	}
	t.draft.Record.FailedEffects = bounded(append(slices.Clip(t.draft.Record.FailedEffects), failed), t.loop.config.FailedEffectsMax)
	return nil
}

// sendReport asks for the event by which the chart is told.
func (t *turn) sendReport(ctx context.Context, id string) error {
	form := failing{Type: failedEvent, Effect: id, Incarnation: t.incarnation()}
	return t.loop.send(ctx, t.draft.Record.Instance, form, t.derivedID(id+".failed"))
}

// resendReports sends the reports again that the queue has refused. Another refusal holds nothing up.
func (t *turn) resendReports(ctx context.Context) {
	for _, failed := range t.draft.Record.FailedEffects {
		if failed.Report != ReportUnsent {
			continue
		}
		if err := t.sendReport(ctx, failed.ID); err != nil {
			t.loop.config.Logger.WarnContext(ctx, "reporting to the chart that an effect failed for good failed again", "instance", t.draft.Record.Instance.String(), "error", err)
			return
		}
		t.setReport(failed.ID, ReportSent) // Stored with the next event; until then it is sent again, which does nothing.
	}
}

// setReport notes how far the chart has been told of a failed effect.
func (t *turn) setReport(id string, report Report) {
	t.draft.Record.FailedEffects = replaced(t.draft.Record.FailedEffects, func(f *FailedEffect) bool { return f.ID == id }, func(f *FailedEffect) { f.Report = report })
}

// applyFailed reports a failed effect to the chart, if the item has one that the chart has not received.
func (t *turn) applyFailed(_ context.Context, form failing) error {
	failed, ok := find(t.draft.Record.FailedEffects, func(f *FailedEffect) bool { return f.ID == form.Effect })
	if !ok || failed.Report != ReportSent && failed.Report != ReportUnsent {
		return nil
	}
	err := t.applyOwn(CommunicationError, struct {
		Type string `json:"type"`
		statechart.CommunicationFailure
	}{CommunicationError, statechart.CommunicationFailure{Effect: t.derivedID(failed.ID), Kind: failed.Kind, Target: failed.Target, Message: failed.Error}})
	if err == nil {
		t.setReport(form.Effect, ReportTold)
		t.changed()
	}
	return err
}

// bounded returns the failed effects without the oldest, as far as the chart does not have to hear of them;
// those that are too many all the same are kept short.
func bounded(failed []FailedEffect, countMax int) []FailedEffect {
	excess := len(failed) - countMax
	failed = slices.DeleteFunc(slices.Clone(failed), func(f FailedEffect) bool {
		isDone := f.Report == "" || f.Report == ReportTold
		if excess > 0 && isDone {
			excess--
			return true
		}
		return false
	})
	for i := range max(0, excess) {
		failed[i] = failed[i].short()
	}
	return failed
}

// short is the failed effect without what takes room.
func (f FailedEffect) short() FailedEffect {
	f.Data, f.Error = nil, cut(f.Error, failedErrorShortMax)
	return f
}
