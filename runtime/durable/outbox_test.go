package durable_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
)

// An event waits for nearly 14 days. The process commits it and dies, and then the retention of the queue ends.
func TestAnEventThatExpiresAfterItsCommitLosesNoEffects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", greeting("one"))
		time.Sleep(14*24*time.Hour - time.Minute) // A backlog, or a consumer that was switched off.
		w.hook = faults(map[string]fault{"Send order/2 #1": dieBefore})
		w.invoke()
		time.Sleep(2 * time.Minute)
		w.messages = nil // The retention is over.
		w.post("order/1", event("add", "two"))
		w.run(t)
		w.wantLog(t, "order/2", "one")
	})
}

// The queue gives up the event after its fourth receive, so no redelivery repeats the effects.
func TestAnEventThatWasReceivedOftenLosesNoEffects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hook = faults(map[string]fault{"Send order/2 #1": dieBefore})
		w.handle([]durable.Delivery{received("q", "order/1", "1", greeting("one"), 4)}, functionTimeout)
		w.handle([]durable.Delivery{received("q", "order/1", "2", event("add", "two"), 1)}, functionTimeout)
		w.run(t)
		w.wantLog(t, "order/2", "one")
	})
}

// The process commits the event and dies. DynamoDB is down until the queue gives up the event.
func TestAQueueThatGivesUpAfterFewReceivesLosesNoEffects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.ReceivesMax = 5
		w.hook = faults(map[string]fault{"Send order/2 #1": dieBefore, "Load order/1 #2": failBefore, "Load order/1 #3": failBefore, "Load order/1 #4": failBefore, "Load order/1 #5": failBefore})
		for receive := range w.config.ReceivesMax {
			w.handle([]durable.Delivery{received("q", "order/1", "1", greeting("one"), receive+1)}, functionTimeout)
		}
		w.handle([]durable.Delivery{received("q", "order/1", "2", event("add", "two"), 1)}, functionTimeout)
		w.run(t)
		w.wantLog(t, "order/2", "one")
	})
}

// An instance gets events from two queues in turn. Only the outbox of the first event may stay in the item.
func TestTwoQueuesInTurnRepeatNoEffects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		number := []string{"1", "2", "3", "4", "5", "6"}
		for i, n := range number {
			queue := []string{"a", "b"}[i%2]
			w.handle([]durable.Delivery{received(queue, "order/1", n, greeting(n), 1)}, functionTimeout)
			time.Sleep(time.Hour)
		}
		if sends := w.counted("Send"); sends > len(number)+1 {
			t.Errorf("%d events led to %d sends", len(number), sends)
		}
	})
}

// No message is older than 14 days, so the event has left its queue, and its effects are performed.
func TestAnotherQueueRepeatsNoEffectsOfAnOldEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.handle([]durable.Delivery{received("a", "order/1", "1", greeting("one"), 1)}, functionTimeout)
		time.Sleep(15 * 24 * time.Hour)
		w.handle([]durable.Delivery{received("b", "order/1", "2", event("add", "two"), 1)}, functionTimeout)
		if sends := w.counted("Send"); sends != 1 {
			t.Errorf("one event led to %d sends", sends)
		}
	})
}
