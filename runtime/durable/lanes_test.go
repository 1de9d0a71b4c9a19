package durable_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// Package explore covers short schedules of lanes. These tests cover schedules that are too long for it.

// Forward only records the call.
func (p *process) Forward(ctx context.Context, d durable.Delivery, lane string) error {
	call := "Forward to " + lane
	if d.ParkedFrom != (instances.Place{}) {
		call += ", parked from " + d.ParkedFrom.Queue
	}
	return p.call(ctx, call, d.Group, func() error { return nil })
}

// inLanes returns a world with the lanes main, which is queue a, and bulk, which is queue b. order/1 belongs to bulk.
func inLanes(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.config.Lanes = map[string]string{"bulk": "b"}
	w.handle([]durable.Delivery{received("b", "order/1", "1", event("add", "x"), 1)}, functionTimeout)
	if lane := w.load("order/1").HomeLane(); lane != "bulk" {
		t.Fatalf("order/1 belongs to %s, want the lane of its first event", lane)
	}
	return w
}

// TestTheEndOfAMoveFollowsForwardedMessages begins a move while a message is still to be forwarded to the old lane. The
// message that ends the move waits for the forwarded one.
func TestTheEndOfAMoveFollowsForwardedMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := inLanes(t)
		w.refuse = func(call string) error {
			if strings.HasPrefix(call, "Forward") {
				return errors.New("SQS fails")
			}
			return nil
		}
		astray := []durable.Delivery{received("a", "order/1", "1", event("add", "y"), 1)}
		w.handle(astray, functionTimeout)
		w.refuse = nil
		w.operate(t, "order/1", instances.Operation{Kind: instances.ChangeLane, Lane: instances.MainLane})
		w.calls = nil
		w.handle([]durable.Delivery{received("b", "order/1", "2", event("add", "z"), 1)}, functionTimeout)
		if slices.Contains(w.calls, "Send order/1") {
			t.Errorf("the end of the move was sent before the forwarded message: %q", w.calls)
		}
		w.handle(astray, functionTimeout)
		forwarded, ended := slices.Index(w.calls, "Forward to bulk order/1"), slices.Index(w.calls, "Send order/1")
		if forwarded < 0 || ended < forwarded {
			t.Errorf("calls: %q, want the forwarding and then the end of the move", w.calls)
		}
	})
}

// TestOnlyItsOwnMessageEndsAMove delivers the message of an earlier move, and then the right one.
func TestOnlyItsOwnMessageEndsAMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := inLanes(t)
		w.operate(t, "order/1", instances.Operation{Kind: instances.ChangeLane, Lane: instances.MainLane})
		record := w.load("order/1")
		w.wantRefused(t, "order/1", instances.Operation{Kind: instances.ChangeLane, Lane: "bulk"}, instances.ErrInUse, "is moving")
		w.calls = nil
		w.operate(t, "order/1", instances.Operation{Kind: instances.ChangeLane, Lane: instances.MainLane})
		w.handle([]durable.Delivery{received("b", "order/1", "2", event("add", "y"), 1)}, functionTimeout)
		if !slices.Contains(w.calls, "Send order/1") {
			t.Errorf("the repeated command asks for no second message: %q", w.calls)
		}
		end := func(place string, number int64) string {
			body := fmt.Sprintf(`{"type":"settle.lane","$incarnation":%d,"number":%d}`, record.CreatedAt.UnixMilli(), number)
			w.handle([]durable.Delivery{received("b", "order/1", place, body, 1)}, functionTimeout)
			return w.load("order/1").HomeLane()
		}
		body := fmt.Sprintf(`{"type":"settle.lane","$incarnation":%d,"number":%d}`, record.CreatedAt.UnixMilli(), record.Moving.Number)
		w.handle([]durable.Delivery{received("a", "order/1", "1", body, 1)}, functionTimeout)
		if !slices.Contains(w.calls, "Forward to bulk order/1") || w.load("order/1").Moving == nil {
			t.Errorf("the message arrives in the new lane after a redrive, want it forwarded to the lane bulk: %q", w.calls)
		}
		if lane := end("3", record.Moving.Number-1); lane != "bulk" {
			t.Errorf("the message of an earlier move moves order/1 to %s", lane)
		}
		if lane := end("4", record.Moving.Number); lane != instances.MainLane || w.load("order/1").Moving != nil {
			t.Errorf("order/1 belongs to %s, want %s", lane, instances.MainLane)
		}
	})
}

// TestAMoveToAnUnknownLaneIsDropped moves an instance to a lane that no queue has.
func TestAMoveToAnUnknownLaneIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := inLanes(t)
		w.operate(t, "order/1", instances.Operation{Kind: instances.ChangeLane, Lane: "blk"})
		record := w.load("order/1")
		w.handle([]durable.Delivery{received("a", "order/1", "1", event("add", "y"), 1)}, functionTimeout)
		if !slices.Contains(w.calls, "Forward to bulk order/1") {
			t.Errorf("calls: %q, want an event from another lane forwarded to the present lane", w.calls)
		}
		body := fmt.Sprintf(`{"type":"settle.lane","$incarnation":%d,"number":%d}`, record.CreatedAt.UnixMilli(), record.Moving.Number)
		w.handle([]durable.Delivery{received("b", "order/1", "2", body, 1)}, functionTimeout)
		if record := w.load("order/1"); record.HomeLane() != "bulk" || record.Moving != nil {
			t.Errorf("order/1 belongs to %s, moving: %v; want it to stay in bulk", record.HomeLane(), record.Moving)
		}
	})
}

// TestAnEndedInstanceThatWasMovingIsRearmed restores an instance that an operator stopped during its move.
func TestAnEndedInstanceThatWasMovingIsRearmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := inLanes(t)
		w.operate(t, "order/1", instances.Operation{Kind: instances.ChangeLane, Lane: instances.MainLane})
		w.operate(t, "order/1", instances.Operation{Kind: instances.Stop})
		record := w.load("order/1")
		record.Outbox = nil
		rearmed, err := durable.Rearm(w.machines, record, time.Now(), "")
		if err != nil {
			t.Fatal(err)
		}
		if len(rearmed.Outbox) != 1 || rearmed.Outbox[0].Kind != "lane" {
			t.Errorf("got the effects %+v, want the end of the move", rearmed.Outbox)
		}
	})
}

// TestAForwardedRedeliveryMayHaveBeenParked forwards a message that another process may have parked before its instance
// existed.
func TestAForwardedRedeliveryMayHaveBeenParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := inLanes(t)
		w.handle([]durable.Delivery{received("a", "order/1", "1", event("add", "y"), 2)}, functionTimeout)
		if !slices.Contains(w.calls, "Forward to bulk, parked from a order/1") {
			t.Errorf("calls: %q, want the copy to name the place of the message", w.calls)
		}
	})
}
