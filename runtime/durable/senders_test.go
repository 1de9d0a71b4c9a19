package durable_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// noise returns n events with IDs, numbered from first.
func noise(first, n int) (bodies []string) {
	for i := range n {
		bodies = append(bodies, fmt.Sprintf(`{"type": "add", "item": "noise", "$id": "noise-%d"}`, first+i))
	}
	return bodies
}

// wantItem checks how often the item was applied to the instance.
func (w *world) wantItem(t *testing.T, id, item string, times int) {
	t.Helper()
	n := 0
	for _, line := range w.logOf(t, id) {
		if line == item {
			n++
		}
	}
	if n != times {
		t.Errorf("%q was applied %d times to %s, want %d", item, n, id, times)
	}
}

// The sender dies before it records its send. When it retries, the queue has forgotten the message and the receiver has
// forgotten its ID.
func TestASendTakesEffectOnceHoweverManyEventsCameInBetween(t *testing.T) {
	t.Parallel()
	for _, between := range []int{0, 51, 200} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.hook = faults(map[string]fault{"Send order/2 #2": dieAfter})
			w.post("order/1", telling("order/2", "ball"), telling("order/2", "bat"))
			w.invoke()
			w.post("order/2", noise(0, between)...)
			w.runFor(t, visibilityTimeout-time.Second) // This is longer than SQS remembers deduplication IDs.
			w.wantItem(t, "order/2", "ball", 1)
			w.run(t) // The loop drains the outbox, and so sends both messages again.
			if sent := w.counted("Send order/2"); sent != 4 {
				t.Errorf("want each sent twice, got %d sends", sent)
			}
			w.wantItem(t, "order/2", "ball", 1)
			w.wantItem(t, "order/2", "bat", 1)
			w.post("order/1", telling("order/2", "after"))
			w.run(t)
			w.wantItem(t, "order/2", "after", 1)
			if r := w.load("order/2"); fmt.Sprint(r.LastSends) != "map["+queueARN+":[{order/1@946684800000 4.0}]]" {
				t.Errorf("want one last send, of one sender, got %v", r.LastSends)
			}
		})
	}
}

// arrival is a message in a queue, from order/1 to order/2.
type arrival struct{ queue, number, id, deduplicationID, item string }

// arrive passes the messages to one invocation.
func (w *world) arrive(arrivals ...arrival) {
	var batch []durable.Delivery
	for _, a := range arrivals {
		eventID := "order/1@946684800000/" + a.id
		batch = append(batch, durable.Delivery{
			MessageID: a.queue + a.number, ReceiptHandle: a.queue + a.number, Queue: a.queue, Group: "order/2", SequenceNumber: a.number, ReceiveCount: 1,
			DeduplicationID: cmp.Or(a.deduplicationID, eventID), Body: fmt.Sprintf(`{"type": "add", "item": %q, "$id": %q}`, a.item, eventID),
		})
	}
	w.handle(batch, functionTimeout)
}

// An operator redrives a send after a later send of the same sender. The ID of the redriven send is lower, but the send
// was never applied.
func TestASendThatWasParkedIsAppliedWhenItIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.arrive(arrival{queue: "q", number: "1", id: "2.0", item: "invalid"}, arrival{queue: "q", number: "2", id: "3.0", item: "ball"})
		w.wantParked(t, [2]string{"2.0", "invalid item"})
		w.arrive(arrival{queue: "q", number: "3", id: "2.0", deduplicationID: "an operator's", item: "mended"})
		w.arrive(arrival{queue: "q", number: "4", id: "2.0", deduplicationID: "an operator's", item: "mended"})
		w.arrive(arrival{queue: "q", number: "5", id: "2.0", item: "the sender's own repeat"})
		w.wantLog(t, "order/2", "ball", "mended")
	})
}

func TestEachQueueHasItsOwnLastSends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.arrive(arrival{queue: "q2", number: "1", id: "10.0", item: "late in q2"})
		w.arrive(
			arrival{queue: "q1", number: "1", id: "9.2", item: "early in q1"},
			arrival{queue: "q1", number: "2", id: "9.0", item: "repeat in q1"},
			arrival{queue: "q1", number: "3", id: "10.0", item: "repeat over queues"}, // The ID identifies the duplicate.
			arrival{queue: "q1", number: "4", id: "9.10", item: "next in q1"},
		)
		w.arrive(arrival{queue: "q2", number: "2", id: "9.10", item: "repeat in q2"}) // Skipping this duplicate needs no write.
		w.wantLog(t, "order/2", "late in q2", "early in q1", "next in q1")
		if r := w.load("order/2"); r.Skipped != 2 {
			t.Errorf("want two skipped, got %d", r.Skipped)
		}
	})
}

// Each of 20 senders dies after its send. It sends again when SQS has forgotten the first copy and the receiver has seen
// all other senders. The receiver's item has room for two senders.
func TestASendIsAppliedOnceHoweverManySendersCameInBetween(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.SendersMax, w.config.RecentEventsMax = 2, 1
		const senders = 20
		want := make([]string, senders)
		died, sending := map[string]bool{}, ""
		w.hook = func(call string) fault {
			switch {
			case strings.HasPrefix(call, "Commit order/s"):
				sending = call
			case call == "Send order/2" && !died[sending]:
				died[sending] = true
				return dieAfter
			}
			return none
		}
		for i := range senders {
			want[i] = fmt.Sprint(i)
			w.post(fmt.Sprintf("order/s%d", i), telling("order/2", want[i]))
			w.invoke()
			w.invoke()
		}
		w.run(t)
		w.wantLog(t, "order/2", want...)
		if kept := w.load("order/2").LastSends[queueARN]; len(kept) > 4 || len(w.sends) < senders-4 || len(died) != senders {
			t.Errorf("%d senders in the item, %d in items of their own, %d died: want few, the rest, and all", len(kept), len(w.sends), len(died))
		}
	})
}

// The receiver's item has room for one sender. Two senders send late, so the receiver looks up their last sends. The commit
// that applies both sends fails.
func TestALateSendIsAppliedThoughItsFirstCommitFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.SendersMax = 1
		w.hook = faults(map[string]fault{"Send order/2 #1": dieBefore, "Send order/2 #2": dieBefore, "Commit order/2 #1": failBefore})
		for _, sender := range []string{"order/s0", "order/s1"} {
			w.post(sender, telling("order/2", sender))
			w.invoke()
		}
		w.run(t)
		w.wantItem(t, "order/2", "order/s0", 1)
		w.wantItem(t, "order/2", "order/s1", 1)
		if w.counted("LastSend order/2") == 0 {
			t.Error("the last sends were not looked up: the test proves nothing")
		}
	})
}

// The events have IDs in the form that instances use, but other deduplication IDs.
func TestProducersIDsHaveNoOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, id := range []string{"order/1@1/3.0", "order/1@1/2.0", "order/1@1/1.9", "a@b/c@1/1.0", "a@b/c@1/1.0", "x/y@z/1.0", "/@1/1.0", "3.0", "@/.", "order/1@1/3"} {
			w.post("order/2", fmt.Sprintf(`{"type": "add", "item": %q, "$id": %q}`, id, id))
		}
		w.run(t)
		w.wantLog(t, "order/2", "order/1@1/3.0", "order/1@1/2.0", "order/1@1/1.9", "a@b/c@1/1.0", "x/y@z/1.0", "/@1/1.0", "3.0", "@/.", "order/1@1/3")
		if r := w.load("order/2"); len(r.LastSends) > 0 {
			t.Errorf("want no sends, got %v", r.LastSends)
		}
	})
}

// An event is parked, and the process dies before it records the parking. The table stays unavailable until the
// dead-letter queue has forgotten the deduplication ID, so the event is parked twice.
func TestOfTwoParkedCopiesOneIsApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		from := instances.Place{Queue: "arn:aws:sqs:eu-west-1:123456789012:old.fifo", SequenceNumber: "7"}
		redrive := func(number int, from instances.Place, body string) {
			id := fmt.Sprintf("m-%d", number)
			w.handle([]durable.Delivery{{MessageID: id, ReceiptHandle: id, Queue: queueARN, Group: "order/1", SequenceNumber: fmt.Sprint(number),
				DeduplicationID: id, ReceiveCount: 1, Body: body, ParkedFrom: from}}, functionTimeout)
		}
		redrive(1, from, event("refuse", "ball")) // The first copy fails and is parked again. The second copy is applied.
		redrive(1, from, event("add", "ball"))
		for n, place := range []instances.Place{from, {Queue: from.Queue, SequenceNumber: "8"}, {Queue: "another", SequenceNumber: "7"}, from, {}} {
			redrive(n+2, place, event("add", fmt.Sprint("copy ", n)))
		}
		w.wantLog(t, "order/1", "ball", "copy 1", "copy 2", "copy 4")
	})
}
