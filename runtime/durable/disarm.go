package durable

import (
	"context"
	"slices"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// disarmWorth is how far away the firing of a timer must be for its cancelling to be worth a call. A
// firing that nobody waits for does nothing.
const disarmWorth = 15 * time.Minute

// disarm notes the timers that are not waited for any more once the record is stored.
func (t *turn) disarm() {
	timers := t.instance.Timers()
	for _, was := range t.armed {
		waitsStill := slices.ContainsFunc(timers, func(timer statechart.Timer) bool { return timer.ID == was.ID })
		if !waitsStill && was.At.Sub(t.loop.config.Now()) > disarmWorth {
			t.disarmed = append(t.disarmed, was)
		}
	}
	t.armed = slices.Clone(timers)
}

// cancelDisarmed cancels what nobody waits for. It is not kept in the outbox: what fails is logged, and
// fires in vain.
func (t *turn) cancelDisarmed(ctx context.Context) {
	for _, timer := range t.disarmed {
		if err := t.loop.ports.Timers.Cancel(ctx, shortened(t.derivedID(timer.ID))); err != nil {
			t.loop.config.Logger.WarnContext(ctx, "cancelling a timer failed, it will fire in vain", "instance", t.record.Instance.String(), "timer", timer.ID, "error", err)
		}
	}
	t.disarmed = nil
}
