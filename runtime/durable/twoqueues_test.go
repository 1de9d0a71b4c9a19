package durable_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
)

// givenUp is the receive from which an event no longer waits for an event of another queue to settle the instance.
const givenUp = 11

// received returns a delivery of a queue.
func received(queue, group, number, body string, receives int) durable.Delivery {
	return durable.Delivery{MessageID: queue + number, ReceiptHandle: queue + number, Queue: queue, Group: group, SequenceNumber: number, ReceiveCount: receives, Body: body}
}

// The service of a redelivered event runs. Meanwhile another queue delivers an event of the same instance.
func TestARunningServiceIsNotGivenUpForAnEventOfAnotherQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["first"] = lasting(20*time.Second, "ok")
		w.handle([]durable.Delivery{received("a", "order/1", "1", event("add", "a"), 1)}, functionTimeout)
		var b sync.WaitGroup
		b.Go(func() {
			w.handle([]durable.Delivery{received("b", "order/1", "1", event("devour", ""), 2)}, functionTimeout)
		})
		time.Sleep(10 * time.Second)
		w.handle([]durable.Delivery{received("a", "order/1", "2", event("add", "x"), 1)}, functionTimeout)
		b.Wait()
		if log := strings.Join(w.logOf(t, "order/1"), ", "); strings.Contains(log, "did not finish") {
			t.Errorf("the log is %q; services %q", log, w.names)
		}
	})
}

// Two consumers of different queues, each with a redelivered event, take back each other's counts.
func TestTwoConsumersDoNotRepeatAService(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["first"] = lasting(2*time.Second, "ok")
		w.handle([]durable.Delivery{received("a", "order/1", "1", event("add", "a"), 1)}, functionTimeout)
		var b sync.WaitGroup
		w.hook = w.frozenBefore("Commit order/1", 1, func() {
			w.hook = nil
			b.Go(func() {
				w.handle([]durable.Delivery{received("b", "order/1", "1", event("devour", ""), 2)}, functionTimeout)
			})
			time.Sleep(time.Second)
		})
		w.handle([]durable.Delivery{received("a", "order/1", "2", event("add", "x"), 2)}, functionTimeout)
		b.Wait()
		if calls := len(w.calledFor("first")); calls > 2 {
			t.Errorf("a service with one attempt was called %d times: %q", calls, w.names)
		}
	})
}

// A denied parking and a send are in one outbox. Two hours later another queue delivers an event, and the send is denied once.
func TestADeniedParkingDoesNotCountForTheSendBehindIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse = refusing(durable.ErrDenied, "Park order/1")
		w.handle([]durable.Delivery{received("a", "order/1", "1", event("add", "ball"), 1)}, functionTimeout)
		w.handle([]durable.Delivery{received("a", "order/1", "2", `{"type": "unknown"}`, 1), received("a", "order/1", "3", telling("order/2", "ball"), 1)}, functionTimeout)
		time.Sleep(2 * time.Hour)
		w.refuse = refusing(durable.ErrDenied, "Park order/1", "Send order/2")
		w.handle([]durable.Delivery{received("b", "order/1", "1", event("add", "b"), 3)}, functionTimeout)
		if failed := w.load("order/1").FailedEffects; len(failed) > 0 {
			t.Errorf("the send was given up after one denial: %+v", failed)
		}
	})
}

// The chart fails on an event of one queue, which will be retried. Meanwhile a service of the other queue's event is retried.
func TestAServiceDoesNotWaitForAFailedEventOfAnotherQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = failing(1, errors.New("busy"))
		w.handle([]durable.Delivery{received("a", "order/1", "1", event("add", "a"), 1)}, functionTimeout)
		w.handle([]durable.Delivery{received("b", "order/1", "1", event("refuse", "b"), 1)}, functionTimeout)
		for receives := range 2 {
			w.handle([]durable.Delivery{received("a", "order/1", "2", event("charge", ""), receives+1)}, functionTimeout)
		}
		w.wantLog(t, "order/1", "a", "charge ok")
	})
}
