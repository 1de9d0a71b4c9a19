package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// FailedEffectsMax is how many failed effects an instance keeps, beside those that its chart has yet to
	// hear of: the latest.
	FailedEffectsMax = 10
	// FailedDataBytesMax is the longest data that is kept of one.
	FailedDataBytesMax = 2 << 10
	// failedErrorBytesMax is how much is kept of its error, and failedErrorShortMax where there are many.
	failedErrorBytesMax = 1 << 10
	failedErrorShortMax = 128
)

// failedEvent asks the loop to tell the chart of a failed effect. The item says whether there is one: the
// message alone says nothing, for it is sent before the item is written.
const failedEvent = statechart.ReservedPrefix + "effect.failed"

// failing is the body of failedEvent.
type failing struct {
	Type        string `json:"type"`
	Effect      string `json:"effect"`
	Incarnation int64  `json:"$incarnation"`
}

// performOrGiveUp performs an effect. One that fails for good is noted, and the outbox goes on.
func (t *turn) performOrGiveUp(ctx context.Context, effect statechart.Effect) error {
	err := t.perform(ctx, effect)
	if err == nil || !t.isForGood(effect.Kind, err) {
		return err
	}
	if awaited := t.execution(t.executionName(effect.ID)); effect.Kind == statechart.StartExecution && awaited != nil && awaited.Refused != nil {
		// The chart is to hear of it as of an end. What looks after the execution will tell it.
		t.loop.config.Logger.WarnContext(ctx, "telling that an execution cannot be started failed, to be told later", "instance", t.record.Instance.String(), "error", err)
		return nil
	}
	target, data := t.contentOf(effect)
	return t.giveUp(ctx, FailedEffect{ID: effect.ID, Kind: effect.Kind, Target: target, Data: data}, err)
}

// isForGood reports whether an effect is given up after the error: at once if it is refused, and if it is
// denied, once that has lasted DeniedWaitMax since the effect was stored. What is denied for
// parking is tried again and again, as it would be lost, and so is emitting, which is the host's own code.
func (t *turn) isForGood(kind statechart.EffectKind, err error) bool {
	switch {
	case kind == statechart.EmitEvent:
		return false
	case errors.Is(err, ErrRefused):
		return true
	case kind == statechart.ParkEvent || !errors.Is(err, ErrDenied):
		return false
	}
	// Whoever was switched off meanwhile tries a few times all the same.
	return t.loop.config.Now().Sub(t.record.UpdatedAt) >= t.loop.config.DeniedWaitMax && t.received >= t.loop.config.AttemptsMax
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
	for _, timer := range t.instance.Timers() {
		if effect.Kind == statechart.Schedule && timer.ID == effect.Timer {
			return timer.After + " of " + timer.State, data
		}
	}
	if token := t.token(effect.Name); effect.Kind == tend && token != nil {
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
	log := t.loop.config.Logger.With("instance", t.record.Instance.String(), "effect", t.derivedID(failed.ID), "kind", string(failed.Kind), "target", failed.Target)
	log.ErrorContext(ctx, "effect failed for good", "error", reason)
	if t.failedEffect(failed.ID) != nil {
		return nil
	}
	failed.At, failed.Error, failed.DataBytes = t.now(), cut(reason.Error(), failedErrorBytesMax), len(failed.Data)
	if len(failed.Data) > FailedDataBytesMax {
		failed.Data = nil
	}
	if t.instance.Status() == statechart.Active && slices.Contains(t.machine.Events(), CommunicationError) {
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
	t.record.FailedEffects = bounded(append(slices.Clip(t.record.FailedEffects), failed))
	t.gaveUp = true
	return nil
}

// sendReport asks for the event by which the chart is told.
func (t *turn) sendReport(ctx context.Context, id string) error {
	form := failing{Type: failedEvent, Effect: id, Incarnation: t.incarnation()}
	return t.loop.send(ctx, t.record.Instance, form, t.derivedID(id+".failed"))
}

// resendReports tries again what the queue has refused. That it does again holds nothing up.
func (t *turn) resendReports(ctx context.Context) {
	for i := range t.record.FailedEffects {
		if t.record.FailedEffects[i].Report != ReportUnsent {
			continue
		}
		if err := t.sendReport(ctx, t.record.FailedEffects[i].ID); err != nil {
			t.loop.config.Logger.WarnContext(ctx, "telling the chart that an effect failed for good failed again", "instance", t.record.Instance.String(), "error", err)
			return
		}
		t.record.FailedEffects = slices.Clone(t.record.FailedEffects)
		t.record.FailedEffects[i].Report = ReportSent // Stored with the next event; until then it is sent again, which does nothing.
	}
}

// failedEffect returns the failed effect with the ID, nil if there is none.
func (t *turn) failedEffect(id string) *FailedEffect {
	for i := range t.record.FailedEffects {
		if t.record.FailedEffects[i].ID == id {
			return &t.record.FailedEffects[i]
		}
	}
	return nil
}

// applyFailed tells the chart of a failed effect, if the item has one that it has not heard of.
func (t *turn) applyFailed(body string) error {
	var form failing
	if err := json.Unmarshal([]byte(body), &form); err != nil {
		return err
	}
	failed := t.failedEffect(form.Effect)
	if failed == nil || failed.Report != ReportSent && failed.Report != ReportUnsent {
		return nil
	}
	err := t.applyOwn(CommunicationError, struct {
		Type string `json:"type"`
		statechart.CommunicationFailure
	}{CommunicationError, statechart.CommunicationFailure{Effect: t.derivedID(failed.ID), Kind: failed.Kind, Target: failed.Target, Message: failed.Error}})
	if err != nil {
		return err
	}
	t.record.FailedEffects = slices.Clone(t.record.FailedEffects)
	t.failedEffect(form.Effect).Report = ReportTold
	t.dirty = true
	return nil
}

// bounded returns the failed effects without the oldest, as far as the chart does not have to hear of them;
// those that are too many all the same are kept short.
func bounded(failed []FailedEffect) []FailedEffect {
	excess := len(failed) - FailedEffectsMax
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

// clearOutbox stores that the outbox is done with, and what failed for good in the same write. If the item has no
// room for that, it keeps less of it: the outbox must not block the instance.
func (t *turn) clearOutbox(ctx context.Context, left Left) error {
	if t.gaveUp {
		left.FailedEffects = t.record.FailedEffects
	}
	clearing := func() error { return t.loop.ports.Store.ClearOutbox(ctx, t.record.Instance, t.record.Revision, left) }
	err := clearing()
	for tries := 0; errors.Is(err, ErrUnstorable) && len(left.FailedEffects) > 0; tries++ {
		t.loop.config.Logger.ErrorContext(ctx, "the instance has no room to show all that failed for good", "instance", t.record.Instance.String(), "error", err)
		left.FailedEffects = last(left.FailedEffects, len(left.FailedEffects)/2)
		for i := range left.FailedEffects {
			left.FailedEffects[i] = left.FailedEffects[i].short()
		}
		t.record.FailedEffects = left.FailedEffects
		err = clearing()
	}
	if err != nil {
		return fmt.Errorf("clearing the outbox of %s: %w", t.record.Instance, err)
	}
	t.gaveUp = false
	return nil
}
