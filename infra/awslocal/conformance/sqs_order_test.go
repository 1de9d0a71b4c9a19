package conformance_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/settle-run/settle/infra/awslocal"
)

func orderInGroup(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1", "a2", "a3", "a4", "a5")
	wantBodies(t, q.receive(upTo(10)), "a1", "a2", "a3", "a4", "a5")
}

func orderOneByOne(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	const each = 12
	groups := []string{"a", "b", "c"}
	for i := range each {
		for _, group := range groups {
			q.sendAll(fmt.Sprintf("%s%02d", group, i))
		}
	}
	got := map[string][]string{}
	for range each * len(groups) {
		messages := q.receive()
		want(t, "messages received", 1, len(messages))
		body := *messages[0].Body
		got[body[:1]] = append(got[body[:1]], body)
		q.delete(messages...)
	}
	for _, group := range groups {
		wantNumbered(t, group, each, got[group])
	}
	wantBodies(t, q.receive(upTo(10)))
}

// wantNumbered fails unless bodies holds the group's messages numbered 0 to each-1, in order.
func wantNumbered(t *testing.T, group string, each int, bodies []string) {
	t.Helper()
	var all []string
	for i := range each {
		all = append(all, fmt.Sprintf("%s%02d", group, i))
	}
	want(t, "group "+group, all, bodies)
}

func groupLock(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1", "a2", "b1")
	a1 := q.receiveOne("a1")
	b1 := q.receiveOne("b1", upTo(10))
	wantBodies(t, q.receive(upTo(10)))
	q.delete(b1)
	wantBodies(t, q.receive(upTo(10)))
	q.delete(a1)
	q.receiveOne("a2", upTo(10))
}

func groupLockBatch(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1", "a2", "a3")
	batch := q.receive(upTo(2))
	wantBodies(t, batch, "a1", "a2")
	wantBodies(t, q.receive(upTo(10)))
	q.delete(batch[0])
	wantBodies(t, q.receive(upTo(10)))
	q.delete(batch[1])
	q.delete(q.receiveOne("a3", upTo(10)))

	q.sendAll("b1", "b2")
	batch = q.receive(upTo(2))
	wantBodies(t, batch, "b1", "b2")
	q.setVisibility(batch[0], 0) // b1 is visible, and b2 is still in flight
	wantBodies(t, q.receive(upTo(10)))
	q.delete(batch[1])
	q.receiveOne("b1", upTo(10))
}

func scanLimit(t *testing.T, w *world) {
	limit := 120_000
	if w.virtual() { // a test of the model checks the default limit
		limit = 20
		w = inProcessWith(awslocal.Config{FIFOScanMessagesMax: limit})
	}
	q := w.fifo(t, nil)
	for i := range limit + 1 {
		q.sendAll(fmt.Sprint("a", i))
	}
	q.sendAll("b0")
	hot := q.receive(upTo(3), visible(600))
	wantBodies(t, hot, "a0", "a1", "a2")
	wantBodies(t, q.receive(upTo(10)))
	q.delete(hot[2]) // `limit` messages remain in front of b0, two of them in flight
	wantBodies(t, q.receive(upTo(10)))

	poll := q.poll(t.Context())
	deleted := time.Now()
	q.delete(hot[1])
	q.wantPolled(poll, deleted, "b0")
	q.delete(hot[0])
	wantBodies(t, q.receive(upTo(2)), "a3", "a4")
}

func concurrentConsumersGroupLock(t *testing.T, w *world) {
	const consumers, each = 8, 20
	q := w.fifo(t, nil)
	groups := []string{"a", "b", "c", "d", "e"}
	for i := range each {
		for _, group := range groups {
			q.sendAll(fmt.Sprintf("%s%02d", group, i))
		}
	}
	var mu sync.Mutex
	inFlight := map[string]bool{}
	order := map[string][]string{}
	consume := func() {
		for {
			messages, err := q.tryReceive(t.Context(), waiting(2))
			if err != nil {
				t.Error(err)
			}
			if len(messages) == 0 {
				return
			}
			body := *messages[0].Body
			group := body[:1]
			mu.Lock()
			if inFlight[group] {
				t.Errorf("%s is received while another message of its group is in flight", body)
			}
			inFlight[group] = true
			order[group] = append(order[group], body)
			mu.Unlock()

			time.Sleep(50 * time.Millisecond)

			mu.Lock()
			inFlight[group] = false
			mu.Unlock()
			if err := q.tryDelete(messages[0].ReceiptHandle); err != nil {
				t.Error(err)
			}
		}
	}
	var running sync.WaitGroup
	for range consumers {
		running.Go(consume)
	}
	running.Wait()
	for _, group := range groups {
		wantNumbered(t, group, each, order[group])
	}
}
