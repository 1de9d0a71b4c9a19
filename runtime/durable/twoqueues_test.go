package durable_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// settlerWaitMax is the default of Config.SettlerWaitMax.
const settlerWaitMax = 15 * time.Minute

// received returns a delivery of a queue.
func received(queue, group, number, body string, receives int) durable.Delivery {
	return durable.Delivery{MessageID: queue + number, ReceiptHandle: queue + number, Queue: queue, Group: group, SequenceNumber: number, ReceiveCount: receives, SentAt: time.Now(), Body: body}
}

// The service of an event runs on the event's first delivery, on a redelivery, or after an outage with many receives.
// Meanwhile another queue delivers an event of the same instance.
func TestARunningServiceIsNotRepeatedForAnEventOfAnotherQueue(t *testing.T) {
	t.Parallel()
	for _, receives := range []int{1, 2, 12} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.third["first"] = lasting(20*time.Second, "ok")
			w.handle([]durable.Delivery{received("a", "order/1", "1", event("add", "a"), 1)}, functionTimeout)
			var b sync.WaitGroup
			b.Go(func() {
				w.handle([]durable.Delivery{received("b", "order/1", "1", event("devour", ""), receives)}, functionTimeout)
			})
			time.Sleep(10 * time.Second)
			w.handle([]durable.Delivery{received("a", "order/1", "2", event("add", "x"), receives)}, functionTimeout)
			b.Wait()
			if keys := w.calledFor("first"); len(keys) != 1 {
				t.Errorf("received %d times: the service was called under %q", receives, keys)
			}
			if log := strings.Join(w.logOf(t, "order/1"), ", "); !strings.HasPrefix(log, "a, ok") {
				t.Errorf("received %d times: the log is %q", receives, log)
			}
		})
	}
}

// A redelivery starts an instance and runs its first service. Meanwhile another queue delivers an event.
func TestTheServiceOfAStartIsNotGivenUpForAnEventOfAnotherQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.hasty())
		w.third["boot"] = lasting(20*time.Second, "ok")
		var b sync.WaitGroup
		b.Go(func() {
			w.handle([]durable.Delivery{received("b", "hasty/1", "1", event("add", "b"), 2)}, functionTimeout)
		})
		time.Sleep(10 * time.Second)
		w.handle([]durable.Delivery{received("a", "hasty/1", "1", event("add", "a"), 1)}, functionTimeout)
		b.Wait()
		w.wantLog(t, "hasty/1", "ok", "b")
	})
}

// A parallel service runs on the first delivery of an event of a second queue. Another group kills the process.
func TestAServiceOfASecondQueueLosesNoAttemptToANeighbour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["first"] = lasting(20*time.Second, "ok")
		w.third["charge"] = lethal(5 * time.Second)
		w.handle([]durable.Delivery{received("a", "order/1", "1", event("add", "a"), 1)}, functionTimeout)
		w.handle([]durable.Delivery{received("b", "order/1", "1", event("devour", ""), 1), received("b", "order/2", "2", event("charge", ""), 1)}, functionTimeout)
		w.handle([]durable.Delivery{received("b", "order/1", "1", event("devour", ""), 2)}, functionTimeout)
		w.wantLog(t, "order/1", "a", "ok")
	})
}

// A redelivered event of one queue conflicts with a redelivered event of another queue. The service of this other event
// is running.
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
		if calls := len(w.calledFor("first")); calls != 1 {
			t.Errorf("a service with one attempt was called %d times: %q", calls, w.names)
		}
	})
}

// AWS denies the parking of one queue's event. For a day, it also denies a message of the other queue's event, which is
// behind the parking in the outbox.
func TestADeniedSendBehindADeniedParkingIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse = refusing(durable.ErrDenied, "Park order/1", "Send order/2")
		w.handle([]durable.Delivery{received("a", "order/1", "1", event("add", "ball"), 1)}, functionTimeout)
		w.handle([]durable.Delivery{received("a", "order/1", "2", `{"type": "unknown"}`, 1)}, functionTimeout)
		for receives := range 24 {
			w.handle([]durable.Delivery{received("b", "order/1", "1", telling("order/2", "ball"), receives+1)}, functionTimeout)
			time.Sleep(time.Hour)
		}
		if r := w.load("order/1"); len(r.FailedEffects) == 0 {
			t.Errorf("the send is not given up after a day: denied since %v, outbox %+v", r.DeniedSince, r.Outbox)
		}
	})
}

// One outbox holds the parking of an event, which AWS denies, and a message. Two hours later, another queue delivers an
// event, and AWS denies the message once.
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

// The chart fails on an event of one queue, and this event will be retried. Meanwhile a service of the other queue's
// event is retried.
func TestAServiceDoesNotWaitForAFailedEventOfAnotherQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = failing(1, errors.New("busy"))
		w.handle([]durable.Delivery{received("a", "order/1", "1", event("add", "a"), 1)}, functionTimeout)
		w.handle([]durable.Delivery{received("b", "order/1", "1", event("refuse", "b"), 1)}, functionTimeout)
		for receives := range 2 {
			w.handle([]durable.Delivery{received("a", "order/1", "2", event("charge", ""), receives+1)}, functionTimeout)
			time.Sleep(5 * time.Second)
		}
		w.wantLog(t, "order/1", "a", "charge ok")
	})
}

// An event's service has one attempt. The event's redelivery runs after the other groups of its batch. Meanwhile
// another queue delivers an event of the same instance.
func TestAServiceThatRunsAfterOtherGroupsIsNotRepeatedForAnotherQueue(t *testing.T) {
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
		w.names, w.served = nil, nil
		var other sync.WaitGroup
		w.hook = w.frozenBefore("Load order/2", 2, func() { // This turn runs after the other groups.
			other.Go(func() { w.deliver("another queue", "order/2", [2]string{"1", event("add", "other")}) })
			time.Sleep(time.Second)
		})
		w.invoke()
		other.Wait()
		w.hook = nil
		w.run(t)
		w.wantServed(t, "first 1", "second 1")
	})
}

// A service has one attempt, and its process dies. After SettlerWaitMax, an event of another queue settles the instance
// and runs the service. Meanwhile the first queue redelivers its event.
func TestAServiceThatAnotherQueueTakesOverIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, receives := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.third["first"] = killing(1)
			w.handle([]durable.Delivery{received("a", "order/1", "1", event("add", "a"), 1)}, functionTimeout)
			w.handle([]durable.Delivery{received("b", "order/1", "1", event("add", "b"), 1)}, functionTimeout)
			w.handle([]durable.Delivery{received("a", "order/1", "2", event("devour", ""), 1)}, functionTimeout)
			w.third["first"] = lasting(20*time.Second, "ok")
			w.names, w.served = nil, nil
			time.Sleep(settlerWaitMax + time.Minute)
			var b sync.WaitGroup
			b.Go(func() {
				w.handle([]durable.Delivery{received("b", "order/1", "2", event("add", "x"), receives)}, functionTimeout)
			})
			time.Sleep(10 * time.Second)
			w.handle([]durable.Delivery{received("a", "order/1", "2", event("devour", ""), 2)}, functionTimeout)
			b.Wait()
			if calls := len(w.calledFor("first")); calls != 1 {
				t.Errorf("received %d times: a service with one attempt was called %d times", receives, calls)
			}
		})
	}
}

// An event waits 20 minutes for the second attempt of its service, so another queue's event takes over the service.
// While the second attempt runs, the first queue redelivers its event.
func TestARetryThatAnotherQueueTakesOverIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, receives := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.host(t, w.charger("charge", statechart.RetryPolicy{Attempts: 9, Interval: 20 * time.Minute}, nil))
			w.third["charge"] = failing(1, errors.New("busy"))
			w.handle([]durable.Delivery{received("a", "charger/1", "1", event("charge", ""), 1)}, functionTimeout)
			w.third["charge"] = lasting(20*time.Second, "ok")
			time.Sleep(20 * time.Minute)
			var b sync.WaitGroup
			b.Go(func() {
				w.handle([]durable.Delivery{received("b", "charger/1", "1", event("add", "x"), receives)}, functionTimeout)
			})
			time.Sleep(10 * time.Second)
			w.handle([]durable.Delivery{received("a", "charger/1", "1", event("charge", ""), 2)}, functionTimeout)
			b.Wait()
			w.wantServed(t, "charge 1", "charge 2")
			w.wantLog(t, "charger/1", "ok", "x")
		})
	}
}

// The process dies while the service of an event runs. Another queue's event takes over the service. The service then
// fails and is called again.
func TestAnEventThatTakesAServiceOverDoesNotWaitForItsOwnRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = killing(1)
		w.handle([]durable.Delivery{received("b", "order/1", "1", event("add", "b"), 1)}, functionTimeout)
		w.handle([]durable.Delivery{received("a", "order/1", "1", event("charge", ""), 1)}, functionTimeout)
		w.third["charge"] = failing(1, errors.New("busy"))
		time.Sleep(settlerWaitMax)
		for receives := range 2 {
			w.handle([]durable.Delivery{received("b", "order/1", "2", event("add", "x"), receives+1)}, functionTimeout)
			time.Sleep(5 * time.Second)
		}
		w.wantLog(t, "order/1", "b", "charge ok", "x")
	})
}
