package durable_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/settle-run/settle/runtime/durable"
)

// deliver passes deliveries to one invocation and bypasses the world's own queue. Each pair is a sequence number and a
// body.
func (w *world) deliver(queue, group string, pairs ...[2]string) (failed []string) {
	var batch []durable.Delivery
	for _, pair := range pairs {
		batch = append(batch, durable.Delivery{
			MessageID: queue + pair[0], ReceiptHandle: queue + pair[0], Queue: queue, Group: group,
			SequenceNumber: pair[0], ReceiveCount: 1, Body: pair[1],
		})
	}
	return w.handle(batch, functionTimeout)
}

func TestEventsAtOrBelowTheWatermarkAreSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deliver("q", "order/1", [2]string{"5", event("add", "five")}, [2]string{"7", event("add", "seven")})
		w.calls = nil
		w.deliver("q", "order/1", [2]string{"5", event("add", "five")}, [2]string{"7", event("add", "seven")})
		w.wantCalls(t, "Load order/1")
		w.deliver("q", "order/1", [2]string{"7", event("add", "seven")}, [2]string{"8", event("add", "eight")})
		w.wantLog(t, "order/1", "five", "seven", "eight")
	})
}

func TestSequenceNumbersOfDifferentLengthAreComparedAsNumbers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deliver("q", "order/1", [2]string{"9", event("add", "nine")})
		w.deliver("q", "order/1", [2]string{"10", event("add", "ten")})
		w.deliver("q", "order/1", [2]string{"9", event("add", "nine")})
		w.deliver("q", "order/1", [2]string{"18849496460467696128", event("add", "many")})
		w.deliver("q", "order/1", [2]string{"18849496460467696127", event("add", "one less")})
		w.wantLog(t, "order/1", "nine", "ten", "many")
		if got := w.load("order/1").Watermark["q"]; got != "18849496460467696128" {
			t.Errorf("the watermark is %s", got)
		}
	})
}

func TestEachQueueHasItsOwnWatermark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deliver("q1", "order/1", [2]string{"100", event("add", "a")})
		w.deliver("q2", "order/1", [2]string{"1", event("add", "b")})
		w.deliver("q1", "order/1", [2]string{"100", event("add", "a")})
		w.deliver("q2", "order/1", [2]string{"1", event("add", "b")}, [2]string{"2", event("add", "c")})
		w.wantLog(t, "order/1", "a", "b", "c")
		if got := fmt.Sprint(w.load("order/1").Watermark); got != "map[q1:100 q2:2]" {
			t.Errorf("the watermarks are %s", got)
		}
	})
}

func TestDuplicatesWithinABatchAreAppliedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := [2]string{"1", event("add", "a")}, [2]string{"2", event("add", "b")}
		if failed := w.deliver("q", "order/1", a, a, b, a, b); len(failed) != 0 {
			t.Errorf("failed: %q", failed)
		}
		w.wantLog(t, "order/1", "a", "b")
		w.wantCalls(t, "Load order/1", "Commit order/1")
	})
}

func TestAProducersRepeatIsRecognisedByItsID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		body := `{"type": "add", "item": "once", "$id": "p-1"}`
		w.post("order/1", body, body)
		w.run(t)
		w.post("order/1", body, event("add", "other"))
		w.run(t)
		w.wantLog(t, "order/1", "once", "other")
		w.wantParked(t)
	})
}

func TestRecentEventIDsAreBoundedAndTheOldestGoFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.RecentEventsMax, w.config.HistoryMax = 3, 2
		id := func(n int) string { return fmt.Sprintf(`{"type": "add", "item": "%d", "$id": "p-%d"}`, n, n) }
		w.post("order/1", id(1), id(2), id(3), id(4))
		w.run(t)
		record := w.load("order/1")
		if want := []string{"p-2", "p-3", "p-4"}; !slices.Equal(recent(record), want) {
			t.Errorf("recent events are %q, want %q", record.RecentEvents, want)
		}
		if len(record.History) != 2 {
			t.Errorf("%d transitions are kept, want 2", len(record.History))
		}
		w.post("order/1", id(2), id(1))
		w.run(t)
		w.wantLog(t, "order/1", "1", "2", "3", "4", "1")
	})
}

func TestAnIDThatWasParkedMayBeSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "a"), `{"type": "add", "item": 7, "$id": "p-1"}`, `{"type": "add", "item": "mended", "$id": "p-1"}`)
		w.run(t)
		w.wantLog(t, "order/1", "a", "mended")
	})
}

func TestADeliveryWithoutSequenceNumberIsNotDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deliver("q", "order/1", [2]string{"", event("add", "a")})
		w.wantParked(t, [2]string{`"a"`, "sequence number"})
	})
}

func TestGroupsDoNotDelayEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 3 {
			w.post("order/1", event("add", fmt.Sprint(i)))
			w.post("order/2", event("add", fmt.Sprint(i)))
		}
		w.hook = faults(map[string]fault{"Load order/1 #1": failBefore})
		failed := w.invoke()
		if want := adds(3); !slices.Equal(failed, want) {
			t.Errorf("failed: %q, want %q", failed, want)
		}
		w.wantLog(t, "order/2", "0", "1", "2")
		w.run(t)
		w.wantLog(t, "order/1", "0", "1", "2")
	})
}

// The event's ID begins like the IDs that the loop gives to events with a task but without an ID.
func TestAnotherEventWithAnIDLikeATasksIsParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := `{"type": "add", "item": "b", "$id": "task/1"}`
		w.post("order/1", `{"type": "add", "item": "a", "$id": "task/1"}`, other)
		w.run(t)
		w.wantLog(t, "order/1", "a")
		w.wantParked(t, [2]string{other, `another event with the ID "task/1" was applied`})
	})
}
