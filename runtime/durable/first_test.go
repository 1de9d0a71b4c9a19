package durable_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// A delivery that kills no process is received for the seventh or eighth time. Its service takes nine seconds.
func TestAGroupThatKillsNoProcessDelaysNoOther(t *testing.T) {
	t.Parallel()
	for _, receives := range []int{7, 8} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.third["charge"] = lasting(9*time.Second, "charge ok")
			w.handle([]durable.Delivery{received(queueARN, "order/1", "1", event("add", "a"), 1)}, functionTimeout)
			began := time.Now()
			w.handle([]durable.Delivery{received(queueARN, "order/1", "2", event("charge", ""), receives), received(queueARN, "order/2", "3", event("add", "b"), 1)}, functionTimeout)
			if late := w.load("order/2").UpdatedAt.Sub(began); late > 0 {
				t.Errorf("receive %d: order/2 was stored after %v, want at once", receives, late)
			}
		})
	}
}

// A suspect group runs first, and its turn is split because its two events do not fit into the item together. After the
// first event, nothing in the group is suspect any more.
func TestAGroupThatIsNoLongerSuspectContinuesWhereItWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.AbandonedMax = 2 // Event 2 has one counted try, so its next try is the last.
		w.config.AloneAfter = 1
		w.handle([]durable.Delivery{received(queueARN, "order/1", "1", event("add", "a"), 1)}, functionTimeout)
		r := w.load("order/1")
		r.Revision++
		r.Attempts = []instances.Attempt{{Queue: queueARN, SequenceNumber: "2", Count: 1}}
		w.store(r)
		var skipped []string
		w.config.Observer.Skipped = func(_ context.Context, d durable.Delivery) { skipped = append(skipped, d.SequenceNumber) }
		commits := 0
		w.refuse = func(call string) error {
			if call == "Commit order/1" {
				if commits++; commits == 2 || commits == 3 { // The first commit counts the try. The second and the third would store both events.
					return &durable.TooLargeError{Bytes: 2, BytesMax: 1}
				}
			}
			return nil
		}
		batch := []durable.Delivery{
			received(queueARN, "order/1", "2", event("add", "b"), 8), received(queueARN, "order/1", "3", event("add", "c"), 1),
			received(queueARN, "order/2", "4", event("add", "d"), 1),
		}
		if failed := w.handle(batch, functionTimeout); len(failed) > 0 || len(skipped) > 0 {
			t.Errorf("failed %q, skipped %q; calls %q", failed, skipped, w.calls)
		}
		if items := w.load("order/1").Watermark[queueARN]; items != "3" || !slices.Contains(w.calls, "Commit order/2") {
			t.Errorf("want all applied, got watermark %s, calls %q", items, w.calls)
		}
	})
}
