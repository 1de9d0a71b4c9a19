package durable

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

const (
	// failedDataBytesMax is the longest data that a failed effect keeps.
	failedDataBytesMax = 2 << 10
	// failedErrorBytesMax limits the error of a failed effect. failedErrorShortMax limits it in a full item: see shortOf.
	failedErrorBytesMax = 1 << 10
	failedErrorShortMax = 128
)

// failing is the body of failedEvent, which reports a failed effect to the chart. The message is sent before the item
// is written, so the item decides whether the report is valid.
type failing struct {
	Type        string `json:"type"`
	Effect      string `json:"effect"`
	Incarnation int64  `json:"$incarnation"`
}

// giveUpEffect records an effect that failed permanently.
func (t *turn) giveUpEffect(ctx context.Context, effect statechart.Effect, err error) error {
	awaited, ok := t.execution(t.executionName(effect.ID))
	if effect.Kind == statechart.StartExecution && ok && awaited.Refused != nil {
		// The chart receives this failure as the end of the execution. The next poll of the execution reports it.
		t.loop.config.Logger.WarnContext(ctx, "cannot report a refused execution; its next poll will report it", "instance", t.draft.Record.Instance.String(), "error", err)
		return nil
	}
	target, data := t.contentOf(effect)
	return t.giveUp(ctx, instances.FailedEffect{ID: effect.ID, Kind: effect.Kind, Target: target, Data: data, Chain: effect.Chain}, err)
}

// isPermanent reports whether the loop gives up on an effect after the error: at once if AWS refuses it, or after
// DeniedWaitMax if AWS denies it. The loop never gives up on parking or forwarding, because the event would be lost.
// Nor does it give up on the message that ends a move, because the move would not end without it. It gives up on a
// message that starts or stops a child, or reports its end, only if AWS refuses the message. Giving up on a denied one
// would leave a parent that waits forever, or a child without a parent.
func (t *turn) isPermanent(kind statechart.EffectKind, err error) bool {
	switch {
	case slices.Contains(neverGivenUp, kind):
		return false
	case errors.Is(err, ErrRefused):
		return true
	case !errors.Is(err, ErrDenied) || !endsByDenial(kind):
		return false
	}
	// An effect gets AttemptsMax tries even if the consumer was offline for DeniedWaitMax.
	since := t.draft.Record.DeniedSince
	return !since.IsZero() && t.loop.config.Now().Sub(since) >= t.loop.config.DeniedWaitMax && t.deliveries[0].ReceiveCount >= t.loop.config.AttemptsMax
}

// endsByDenial reports whether the loop gives up on an effect of the kind once AWS has denied it for DeniedWaitMax.
func endsByDenial(kind statechart.EffectKind) bool {
	return !slices.Contains(neverGivenUp, kind) && !slices.Contains(ofFamilies, kind)
}

// neverGivenUp lists the effects that the loop never gives up on.
var neverGivenUp = []statechart.EffectKind{statechart.ParkEvent, parkDelivery, forwardDelivery, endLaneMove}

// ofFamilies lists the effects that start or stop a child, or report its end or its refusal.
var ofFamilies = []statechart.EffectKind{statechart.SpawnInstance, statechart.StopInstance, notifyParent, notifyStopped, refuseChild}

// contentOf returns the target and the data of an effect.
func (t *turn) contentOf(effect statechart.Effect) (target string, data json.RawMessage) {
	for _, data = range []json.RawMessage{effect.Event, effect.Input} {
		if len(data) > 0 {
			break
		}
	}
	if len(data) == 0 && !effect.At.IsZero() {
		data, _ = json.Marshal(map[string]time.Time{"at": effect.At}) // A stored time always marshals.
	}
	if timer, ok := t.timer(effect.Timer); ok && effect.Kind == statechart.Schedule {
		return timer.After + " of " + timer.State, data
	}
	if token, ok := t.token(effect.Name); ok && effect.Kind == heartbeat {
		return token.Name, data
	}
	for _, target = range []string{effect.To, effect.Name, effect.Child, effect.Machine} {
		if target != "" {
			break
		}
	}
	return target, data
}

// giveUp records an effect that failed permanently. It reports the failure to the chart of an active instance if the
// effect starts a child, or if the chart declares statechart.CommunicationError. The write that clears the outbox
// stores the failed effect.
func (t *turn) giveUp(ctx context.Context, failed instances.FailedEffect, reason error) error {
	log := t.loop.config.Logger.With("instance", t.draft.Record.Instance.String(), "effect", t.derivedID(failed.ID), "kind", string(failed.Kind), "target", failed.Target)
	log.ErrorContext(ctx, "effect failed permanently", "error", reason)
	isIt := func(f *instances.FailedEffect) bool { return f.ID == failed.ID }
	if _, known := find(t.draft.Record.FailedEffects, isIt); known {
		return nil
	}
	failed.At, failed.Error, failed.DataBytes = t.now(), cut(reason.Error(), failedErrorBytesMax), len(failed.Data)
	if len(failed.Data) > failedDataBytesMax {
		failed.Data = nil
	}
	if t.draft.Instance.Status() == statechart.Active && (failed.Kind == statechart.SpawnInstance || t.declares(statechart.CommunicationError)) {
		failed.Report = instances.ReportSent
		err := t.sendReport(ctx, failed)
		if err != nil && !t.isPermanent(failed.Kind, err) {
			return err
		}
		if err != nil {
			log.ErrorContext(ctx, "cannot report a failed effect to the chart", "error", err)
			failed.Report = instances.ReportUnsent
		}
	}
	t.draft.Record.FailedEffects = bounded(append(slices.Clip(t.draft.Record.FailedEffects), failed), t.loop.config.FailedEffectsMax)
	return nil
}

// sendReport sends the message that reports a failed effect to the chart.
func (t *turn) sendReport(ctx context.Context, failed instances.FailedEffect) error {
	form := failing{Type: failedEvent, Effect: failed.ID, Incarnation: t.incarnation()}
	return t.loop.send(ctx, t.draft.Record.Instance, form, t.derivedID(failed.ID+".failed"), failed.Chain)
}

// resendReports sends the unsent reports again, and tries at least one in each call. If a send fails, resendReports
// logs a warning, and the turn continues without the remaining reports. The next commit stores the progress. If the
// invocation runs out of time, resendReports commits the progress itself and fails.
func (t *turn) resendReports(ctx context.Context) error {
	begun := false
	for _, failed := range t.draft.Record.FailedEffects {
		if failed.Report != instances.ReportUnsent {
			continue
		}
		if begun && !t.loop.hasTime(ctx) {
			return cmp.Or[error](t.commit(ctx), &retryError{err: errors.New("unsent reports are left for the next invocation")})
		}
		if err := t.sendReport(ctx, failed); err != nil {
			t.loop.config.Logger.WarnContext(ctx, "cannot report a failed effect to the chart, will retry", "instance", t.draft.Record.Instance.String(), "error", err)
			return nil
		}
		t.setReport(failed.ID, instances.ReportSent)
		t.changed()
		begun = true
	}
	return nil
}

// setReport updates the report of a failed effect.
func (t *turn) setReport(id string, report instances.Report) {
	t.draft.Record.FailedEffects = replaced(t.draft.Record.FailedEffects, func(f *instances.FailedEffect) bool { return f.ID == id }, func(f *instances.FailedEffect) { f.Report = report })
}

// applyFailed reports a failed effect to the chart, unless the chart has already received the report. It reports a
// failed start of a child as the end of the child.
func (t *turn) applyFailed(ctx context.Context, form failing) error {
	failed, ok := find(t.draft.Record.FailedEffects, func(f *instances.FailedEffect) bool { return f.ID == form.Effect })
	if !ok || failed.Report != instances.ReportSent && failed.Report != instances.ReportUnsent {
		return nil
	}
	var err error
	if failed.Kind == statechart.SpawnInstance {
		err = t.applyChildEnd(ctx, childEnd{Child: failed.ID, Status: childFailed, Message: failed.Error})
	} else {
		err = t.applyOwn(statechart.CommunicationError, struct {
			Type string `json:"type"`
			statechart.CommunicationFailure
		}{statechart.CommunicationError, statechart.CommunicationFailure{Effect: t.derivedID(failed.ID), Kind: failed.Kind, Target: failed.Target, Message: failed.Error}})
	}
	if err == nil {
		t.setReport(form.Effect, instances.ReportReceived)
		t.changed()
	}
	return err
}

// bounded drops the oldest failed effects beyond countMax, except the latest and those that the chart has yet to
// receive. If too many effects remain, it shortens the oldest of them.
func bounded(failed []instances.FailedEffect, countMax int) []instances.FailedEffect {
	excess, latest := len(failed)-countMax, failed[len(failed)-1].ID
	failed = slices.DeleteFunc(slices.Clone(failed), func(f instances.FailedEffect) bool {
		isDone := f.Report == "" || f.Report == instances.ReportReceived
		if excess > 0 && isDone && f.ID != latest {
			excess--
			return true
		}
		return false
	})
	for i := range max(0, excess) {
		failed[i] = shortOf(failed[i])
	}
	return failed
}

// shortOf returns a failed effect without its data and with a shorter error.
func shortOf(f instances.FailedEffect) instances.FailedEffect {
	f.Data, f.Error = nil, cut(f.Error, failedErrorShortMax)
	return f
}
