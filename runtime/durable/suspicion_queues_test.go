package durable_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// L: the event of the first queue waits for its turn after the others of its batch. Meanwhile an event of another queue comes to the
// instance, in another process.
func TestSuspicionALastAttemptRunsOnceForTwoQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["first"] = lasting(2*time.Second, "first ok")
		w.post("order/2", event("add", "before"))
		w.run(t)
		w.post("order/2", event("devour", ""))
		w.hook = faults(map[string]fault{"Commit order/2 #1": dieBefore})
		w.invoke()
		time.Sleep(visibilityTimeout)
		w.post("order/1", event("add", "healthy"))
		w.names, w.served = nil, nil // The call of the first delivery, whose process died.
		loads, done := 0, make(chan struct{})
		w.hook = func(call string) fault {
			if strings.HasPrefix(call, "Load order/2") {
				if loads++; loads == 2 { // The turn after the others.
					w.mu.Unlock()
					go func() {
						defer close(done)
						failed := w.deliver("another queue", "order/2", [2]string{"1", event("add", "other")})
						t.Logf("the other queue: failed %q", failed)
					}()
					time.Sleep(time.Second)
					w.mu.Lock()
				}
			}
			return none
		}
		w.invoke()
		<-done
		w.hook = nil
		w.run(t)
		t.Logf("loads %d, served %q, log %q", loads, w.names, w.logOf(t, "order/2"))
		if n := len(w.calledFor("first")); n != 1 {
			t.Errorf("the service with one attempt was called %d times, want 1", n)
		}
	})
}

// L2: no neighbour. The first queue's process dies in the service. After SettlerWaitMax, a first delivery of the second queue settles the
// instance. A second later, the first queue's event is redelivered.
func TestSuspicionAResumedServiceRunsOnceForTwoQueues(t *testing.T) {
	t.Parallel()
	for _, receives := range []int{1, 2} {
		sub(t, "", func(t *testing.T) {
			w := newWorld(t)
			w.third["first"] = lasting(20*time.Second, "ok")
			w.handle([]durable.Delivery{received("a", "order/1", "1", event("add", "a"), 1)}, functionTimeout)
			w.handle([]durable.Delivery{received("b", "order/1", "1", event("add", "b"), 1)}, functionTimeout)
			w.third["first"] = func(ctx context.Context, _ statechart.Call) (string, error) { kill(ctx); return "", ctx.Err() }
			w.handle([]durable.Delivery{received("a", "order/1", "2", event("devour", ""), 1)}, functionTimeout)
			t.Logf("stored %v %+v", w.load("order/1").State, w.load("order/1").Attempts)
			w.third["first"] = lasting(20*time.Second, "ok")
			w.names, w.served = nil, nil
			time.Sleep(settlerWaitMax + time.Minute)
			var b sync.WaitGroup
			b.Go(func() {
				w.handle([]durable.Delivery{received("b", "order/1", "2", event("add", "x"), receives)}, functionTimeout)
			})
			time.Sleep(10 * time.Second)
			t.Logf("while it runs: %+v", w.load("order/1").Attempts)
			w.handle([]durable.Delivery{received("a", "order/1", "2", event("devour", ""), 2)}, functionTimeout)
			b.Wait()
			if n := len(w.calledFor("first")); n != 1 {
				t.Errorf("received %d times: the service with one attempt was called %d times, want 1; log %q", receives, n, w.logOf(t, "order/1"))
			}
		})
	}
}
