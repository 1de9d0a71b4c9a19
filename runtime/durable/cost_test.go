package durable_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

func TestTenFoldedEventsCostOneReadAndOneWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", adds(10)...)
		w.invoke()
		w.wantCalls(t, "Load order/1", "Commit order/1")
		w.wantLog(t, "order/1", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")

		// Events to an instance that exists cost the same.
		w.post("order/1", adds(10)...)
		w.invoke()
		w.wantCalls(t, "Load order/1", "Commit order/1")
		if record := w.load("order/1"); record.Revision != 2 || record.Watermark[queueARN] != "20" || len(record.History) != 20 {
			t.Errorf("stored revision %d, watermark %v, %d transitions; want 2, 20, 20", record.Revision, record.Watermark, len(record.History))
		}
	})
}

func TestEffectsThatMayBeRepeatedCostNoWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, body := range []string{event("add", "a"), `{"type": "tell", "item": "b", "to": "order/2"}`} {
			w.post("order/1", body)
		}
		w.invoke()
		w.wantCalls(t, "Load order/1", "Commit order/1", "Send order/2")

		w.invoke() // This invocation receives the message to order/2.
		w.wantCalls(t, "Load order/2", "Commit order/2")
		w.wantSound(t)
	})
}

func TestASingleEventCostsOneReadAndOneWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "a"))
		w.invoke()
		w.wantCalls(t, "Load order/1", "Commit order/1")

		w.post("order/1", event("charge", ""))
		w.invoke()
		w.wantCalls(t, "Load order/1", "Commit order/1")
		w.wantLog(t, "order/1", "a", "charge ok")
	})
}

func TestASecondServiceCostsOneWriteMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("ship", ""))
		w.invoke()
		w.wantCalls(t, "Load order/1", "Commit order/1", "Commit order/1")
		w.wantLog(t, "order/1", "pack ok", "post ok")
	})
}

// If an event starts a service, the loop first stores the earlier events. So the effects of these events need not wait
// for the service.
func TestAServiceBehindFoldedEventsCostsOneWriteMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", append(adds(3), event("charge", ""), event("add", "behind"))...)
		w.invoke()
		w.wantCalls(t, "Load order/1", "Commit order/1", "Commit order/1", "Commit order/1")
		w.wantLog(t, "order/1", "0", "1", "2", "charge ok", "behind")
		w.wantServed(t, "charge 1")
	})
}

func TestARedeliveryCostsTheMark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("add", "a"))
		w.invoke()
		w.post("order/1", event("add", "b"))
		w.hook = faults(map[string]fault{"Load order/1 #1": dieBefore})
		w.invoke()
		w.calls = nil
		w.run(t)
		w.wantCalls(t, "Load order/1", "Commit order/1", "Commit order/1")
		if record := w.load("order/1"); markOf(record) != nil {
			t.Errorf("the count %+v is left, want none", markOf(record))
		}
		w.wantLog(t, "order/1", "a", "b")
	})
}

func TestARedeliveryOfWhatWasAppliedCostsOneRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", adds(3)...)
		w.hook = faults(map[string]fault{"Commit order/1 #1": dieAfter})
		w.invoke()
		w.calls = nil
		w.run(t)
		w.wantCalls(t, "Load order/1")
		w.wantLog(t, "order/1", "0", "1", "2")
	})
}

func TestAnAttemptOnARedeliveryCostsOneWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = failing(1, errors.New("out of order"))
		w.post("order/1", event("charge", ""))
		w.invoke()
		w.wantCalls(t, "Load order/1", "Commit order/1", "Delay order/1")
		w.run(t)
		// The two writes store the start of the attempt and its end.
		w.wantCalls(t, "Load order/1", "Commit order/1", "Commit order/1")
		w.wantLog(t, "order/1", "charge ok")
		w.wantServed(t, "charge 1", "charge 2")
	})
}

// A repeated answer costs one more write if the task did not name its execution.
func TestAnAnswerIsWrittenOnceMoreOnlyIfTheHistoryCannotShowIt(t *testing.T) {
	t.Parallel()
	for name, task := range map[string]func(w *world) string{
		"with its execution":    func(w *world) string { return w.wait("t1", "HandOver", 24*time.Hour, 0) },
		"without its execution": func(w *world) string { return w.anonymous("t1", "HandOver") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inParcelWorld(t, func(t *testing.T, w *world) {
				w.hook = faults(map[string]fault{"ClearOutbox parcel/1 #1": dieBefore})
				w.post(parcel1, fmt.Sprintf(`{"type": "hurry", "$task": %s}`, task(w)))
				w.invoke()
				w.wantCalls(t, "Load parcel/1", "Commit parcel/1", "Answer HandOver", "ClearOutbox parcel/1")
				w.run(t)
				again := []string{"Load parcel/1", "Answer HandOver", "ClearOutbox parcel/1"}
				if name == "without its execution" {
					again = slices.Insert(again, 1, "ClearOutbox parcel/1")
				}
				w.wantCalls(t, again...)
			})
		})
	}
}

// failing returns a service whose first n attempts fail.
func failing(n int, err error) service {
	calls := 0
	return func(_ context.Context, call statechart.Call) (string, error) {
		if calls++; calls <= n {
			return "", err
		}
		return "charge ok", nil
	}
}
