package conformance_test

import (
	"context"
	"errors"
	"testing"
	"time"
)

func longpollWakeOnSend(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	poll := q.poll(t.Context())
	time.Sleep(time.Second)
	q.sendAll("a1")
	q.wantPolled(poll, time.Now(), "a1")
}

func longpollWakeOnDelete(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1", "a2")
	a1 := q.receiveOne("a1")
	poll := q.poll(t.Context())
	time.Sleep(time.Second)
	q.delete(a1)
	q.wantPolled(poll, time.Now(), "a2")
}

func longpollWakeOnExpiry(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1", "a2")
	q.receiveOne("a1", visible(3))
	received := time.Now()
	q.wantPolled(q.poll(t.Context()), received.Add(3*time.Second), "a1", "a2")
}

func longpollWakeOnVisibility0(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1")
	a1 := q.receiveOne("a1")
	poll := q.poll(t.Context())
	time.Sleep(time.Second)
	q.setVisibility(a1, 0)
	q.wantPolled(poll, time.Now(), "a1")
}

func longpollEmpty(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	for _, seconds := range []int32{0, 3} {
		start := time.Now()
		wantBodies(t, q.receive(waiting(seconds)))
		w.wantAt(t, "the answer", time.Now(), start.Add(time.Duration(seconds)*time.Second))
	}
}

func longpollParallel(t *testing.T, w *world) {
	const parked = 20
	idle, busy := w.fifo(t, nil), w.fifo(t, nil)
	ctx, hangUp := context.WithCancel(t.Context())
	var polls []<-chan polled
	start := time.Now()
	for range parked {
		poll := make(chan polled, 1)
		go func() {
			messages, err := idle.tryReceive(ctx, waiting(20))
			poll <- polled{messages, err, time.Now()}
		}()
		polls = append(polls, poll)
	}
	w.settle()
	before := time.Now()
	busy.sendAll("a1")
	busy.receiveOne("a1", waiting(20))
	w.wantAt(t, "sent and received", time.Now(), before)
	for _, poll := range polls {
		select {
		case p := <-poll:
			t.Fatalf("a long poll on the idle queue came back after %v: %v, %v", p.at.Sub(start), bodies(p.messages), p.err)
		default:
		}
	}
	hangUp()
	for _, poll := range polls {
		<-poll
	}
}

func longpollClientGone(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	ctx, hangUp := context.WithCancel(t.Context())
	gone := q.poll(ctx)
	next := q.poll(t.Context())
	hangUp()
	if w.remote { // In process, the test sends while the cancelled poll may still be waiting.
		w.settle()
	}
	sent := time.Now()
	q.sendAll("a1")
	if p := <-gone; !errors.Is(p.err, context.Canceled) {
		t.Fatalf("the poll that was cancelled got %v and %v, want context.Canceled", bodies(p.messages), p.err)
	}
	p := <-next
	must(t, "the next poll", p.err)
	wantBodies(t, p.messages, "a1")
	w.wantAt(t, "the next poll", p.at, sent)
	wantReceiveCount(t, p.messages[0], "1")
}
