package durable_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// The queue was deleted and created again under its name, so its sequence numbers begin anew.
func TestANewQueueDeliversToRearmedInstances(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"order/1", "order/ended"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			deliver := func(number, typ, item string) {
				w.handle([]durable.Delivery{received("a", id, number, event(typ, item), 1)}, functionTimeout)
			}
			deliver("7", "add", "start") // The instance remembers its first event by its number.
			deliver("500", "add", "before")
			if id == "order/ended" {
				deliver("600", "finish", "")
			}
			deliver("7", "add", "lost")
			skipped := w.load(id)
			record, err := durable.Rearm(w.machines, skipped, time.Now(), "a")
			if err != nil || record.Revision != skipped.Revision+1 || len(record.Watermark) != 0 {
				t.Fatalf("got %+v and %v, want the next revision without a watermark", record, err)
			}
			w.store(record)
			w.commit(record)
			deliver("7", "add", "after")
			if got := w.load(id); got.Watermark["a"] != "7" {
				t.Errorf("got the watermark %v, want that the event of the new queue is applied", got.Watermark)
			}
			if id == "order/1" {
				w.wantLog(t, id, "start", "before", "after")
			}
		})
	}
}

// The backup was taken after the receiver applied a send, and before the sender cleared its outbox. So the sender repeats the
// send through the queue of another Region.
func TestANewQueueRepeatsNoSend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sent := func(queue, id, item string) {
			d := received(queue, "order/2", "1"+id, fmt.Sprintf(`{"type": "add", "item": %q, "$id": "order/1@7/%s.0"}`, item, id), 1)
			d.DeduplicationID = fmt.Sprintf("order/1@7/%s.0", id)
			w.handle([]durable.Delivery{d}, functionTimeout)
		}
		sent("old", "3", "three")
		record, err := durable.Rearm(w.machines, w.load("order/2"), time.Now(), "new")
		if err != nil {
			t.Fatal(err)
		}
		w.store(record)
		w.commit(record)
		sent("new", "3", "three again")
		sent("new", "4", "four")
		w.wantLog(t, "order/2", "three", "four")
	})
}

// The event was parked from the old queue and redriven once. The dead-letter queue outlives the old queue, so an
// operator can redrive the event again.
func TestANewQueueRepeatsNoParkedEventOfAnotherQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		redriven := func(queue, number string) {
			d := received(queue, "order/1", number, event("add", "parked"), 1)
			d.ParkedFrom = instances.Place{Queue: "old", SequenceNumber: "3"}
			w.handle([]durable.Delivery{d}, functionTimeout)
		}
		w.handle([]durable.Delivery{received("old", "order/1", "5", event("add", "start"), 1)}, functionTimeout)
		redriven("old", "9")
		record, err := durable.Rearm(w.machines, w.load("order/1"), time.Now(), "new")
		if err != nil {
			t.Fatal(err)
		}
		w.store(record)
		w.commit(record)
		redriven("new", "1")
		w.wantLog(t, "order/1", "start", "parked")
	})
}

// The record names an event of a lost queue as the one that settles the instance, and as one to park. No queue will
// deliver this event again.
func TestANewQueueWaitsForNoEventOfALostOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "x"))
		w.run(t)
		stored := w.load("order/1")
		stored.Attempts = []instances.Attempt{{Queue: "old", SequenceNumber: "9", Count: 1, Services: 1}}
		stored.Outbox = []statechart.Effect{{ID: "park.9", Kind: "park.delivery", Event: json.RawMessage(`{"Queue": "old", "SequenceNumber": "9"}`)}}
		sends := []instances.LastSend{{Sender: "order/7@1", ID: "2.0"}, {Sender: "order/8@1", ID: "1.0"}}
		stored.LastSends = map[string][]instances.LastSend{"old": sends, "older": {{Sender: "order/7@1", ID: "1.0"}}}
		record, err := durable.Rearm(w.machines, stored, time.Now(), "new")
		if err != nil || len(record.Attempts) != 0 || len(record.Outbox) != 0 || !slices.Equal(record.LastSends["new"], sends) || len(record.LastSends) != 1 {
			t.Errorf("got %+v and %v, want only the last sends, for the new queue", record, err)
		}
	})
}

// The instance was stored between the two services that run at its start, so it has no watermark yet.
func TestANewQueueEndsTheWaitForAnEventOfTheLostOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "a"))
		w.run(t)
		record := w.load("order/1")
		record.Watermark, record.Attempts = nil, []instances.Attempt{{Queue: "lost", SequenceNumber: "7", Services: 1}}
		rearmed, err := durable.Rearm(w.machines, record, time.Now(), "new")
		if err != nil || len(rearmed.Attempts) != 0 {
			t.Errorf("got %+v and %v, want no attempts", rearmed.Attempts, err)
		}
	})
}
