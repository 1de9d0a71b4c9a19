package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// Step Functions refuses to start an execution, and the reason does not fit into the item.
func TestARefusedStartOfAFullItemBlocksNothing(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.post(printer1, event("add", strings.Repeat("x", 500)))
		w.runFor(t, time.Second)
		w.refusal = errors.New("throttled")
		w.post(printer1, `{"type":"ship"}`)
		w.invoke()
		w.bytesMax = w.bytesOf(printer1) + 70 // The outbox is stored already. denied_since needs the 70 bytes.
		w.refusal = &durable.RefusedError{Code: "AccessDeniedException", Err: errors.New("starting the execution settle-printer-1-0123456789abcdef0123456789abcdef of arn:aws:states:eu-central-1:123456789012:stateMachine:print: " +
			"operation error SFN: StartExecution, https response error StatusCode: 400, RequestID: 3f6a1b9c-6d0e-4c57-8d5e-0a1b2c3d4e5f, api error AccessDeniedException: " +
			"User: arn:aws:sts::123456789012:assumed-role/settle-consumer-Role-1ABCDEFGHIJKL/settle-consumer is not authorized to perform: states:StartExecution on resource: " +
			"arn:aws:states:eu-central-1:123456789012:stateMachine:print because no identity-based policy allows the states:StartExecution action")}
		w.post(printer1, event("add", "y"))
		w.runFor(t, 2*24*time.Hour)
		if r := w.load(printer1); len(w.messages) > 0 || len(r.Outbox) > 0 {
			t.Errorf("after two days: %d messages, %d effects in the outbox, %d calls of StartExecution", len(w.messages), len(r.Outbox), w.counted("Start "))
		}
	})
}

// AWS refuses the message that starts a child. The item has room for the failure once its history is dropped.
func TestARefusedStartOfAChildOfAFullItemReachesTheParent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFamily(t)
		w.post(boss1, event("add", strings.Repeat("x", 500)))
		w.runFor(t, time.Second)
		w.refuse = refusing(errors.New("throttled"), "Send courier/")
		w.post(boss1, ship)
		w.invoke()
		body, err := json.Marshal(w.load(boss1))
		if err != nil {
			t.Fatal(err)
		}
		w.bytesMax = len(body) + 100 // The failure needs more room, because it holds the chain.
		w.refuse = refusing(durable.ErrRefused, "Send courier/")
		w.runFor(t, time.Minute)
		if r := w.load(boss1); len(r.FailedEffects) != 1 || len(r.History) > 0 || len(r.Outbox) > 0 {
			t.Errorf("want the failed start and no history, got %+v and %+v", r.FailedEffects, r.History)
		}
		w.run(t)
		w.wantState(t, boss1, "idle")
	})
}

// An item has no room for the count of a try. A first delivery is not counted and succeeds. A redelivery must succeed
// too.
func TestARedeliveryToAFullItemIsNotParked(t *testing.T) {
	t.Parallel()
	for _, first := range []fault{none, dieBefore} {
		t.Run("event, first delivery: "+first.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.post("order/1", growing(2000))
				w.runFor(t, time.Minute)
				w.bytesMax = w.bytesOf("order/1") + 60
				w.hook = faults(map[string]fault{"Load order/1 #1": first})
				w.post("order/1", growing(0)) // This event makes the item smaller.
				w.runFor(t, time.Hour)
				w.wantParked(t)
			})
		})
		t.Run("heartbeat, first delivery: "+first.String(), func(t *testing.T) {
			t.Parallel()
			inParcelWorld(t, func(t *testing.T, w *world) {
				w.waitFor("t1", "Delivery", 0, time.Hour)
				w.runFor(t, time.Minute)
				w.bytesMax = w.bytesOf(parcel1) + 60
				w.hook = faults(map[string]fault{"Load parcel/1 #1": first})
				w.runFor(t, 5*time.Hour)
				w.wantAnswer(t, "t1", "waits")
				w.wantParked(t)
			})
		})
		t.Run("poll, first delivery: "+first.String(), func(t *testing.T) {
			t.Parallel()
			inPrinterWorld(t, func(t *testing.T, w *world) {
				w.post(printer1, `{"type":"ship"}`)
				w.runFor(t, time.Minute)
				w.bytesMax = w.bytesOf(printer1) + 60
				w.hook = faults(map[string]fault{"Load printer/1 #1": first})
				w.runFor(t, 25*time.Minute)
				w.bytesMax = 0           // There is room again.
				w.only(t).end = &printed // EventBridge does not report it.
				w.runFor(t, 10*24*time.Hour)
				w.wantPrinted(t, 0, printedLog)
			})
		})
	}
}

// An item has room for the outcome of a service, but not for the number of the service's attempts.
func TestAServiceOfAFullItemIsCalledForARedelivery(t *testing.T) {
	t.Parallel()
	for _, first := range []fault{none, dieBefore} {
		t.Run("first delivery: "+first.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.third["charge"] = func(context.Context, statechart.Call) (string, error) { return "ok", nil }
				w.post("order/1", event("add", "a"))
				w.runFor(t, time.Minute)
				w.bytesMax = w.bytesOf("order/1") + 80
				w.hook = faults(map[string]fault{"Load order/1 #1": first})
				w.post("order/1", event("charge", ""))
				w.runFor(t, time.Hour)
				w.wantParked(t)
				w.wantServed(t, "charge 1")
				w.wantLog(t, "order/1", "a", "ok")
			})
		})
	}
}

// A batch has two events: the first has an effect or is too large, and the second calls a service. The item cannot hold
// both outcomes.
func TestAServiceBehindAFoldedEventOfAFullItemIsCalledOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first  string
		parked [][2]string
	}{
		"an effect that leaves room once it is performed": {first: telling("order/2", strings.Repeat("x", 400))},
		"an event that never fits":                        {first: growing(3000), parked: [][2]string{{growing(3000), "keep less in the context"}}},
	} {
		for _, receives := range []int{1, 2} {
			t.Run(fmt.Sprint(name, ", receive ", receives), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.third["charge"] = func(context.Context, statechart.Call) (string, error) { return strings.Repeat("y", 600), nil }
					w.post("order/1", event("add", "a"))
					w.run(t)
					w.bytesMax = w.bytesOf("order/1") + 1500
					w.post("order/1", c.first, event("charge", ""))
					for i := range w.messages {
						w.messages[i].ReceiveCount = receives - 1
					}
					w.run(t)
					w.wantServed(t, "charge 1")
					w.wantParked(t, c.parked...)
				})
			})
		}
	}
}

// The output of an execution or of a child fits into the snapshot, but not into the item.
func TestAnEndWhoseOutputDoesNotFitIntoTheItemComesWithoutIt(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]func(t *testing.T, w *world, end statechart.ExecutionEnded){
		"by EventBridge": func(t *testing.T, w *world, end statechart.ExecutionEnded) { w.ends(t, w.only(t), end, 1) },
		"by a poll":      func(t *testing.T, w *world, end statechart.ExecutionEnded) { w.only(t).end = &end },
	} {
		t.Run("execution, "+name, func(t *testing.T) {
			t.Parallel()
			inPrinterWorld(t, func(t *testing.T, w *world) {
				w.post(printer1, `{"type":"ship"}`)
				w.runFor(t, time.Minute)
				w.bytesMax = w.bytesOf(printer1) + 2000
				report(t, w, statechart.ExecutionEnded{Status: statechart.ExecutionSucceeded, Output: json.RawMessage(`"` + strings.Repeat("x", 5000) + `"`)})
				w.run(t)
				w.wantPrinted(t, 0, "print SUCCEEDED Settle.OutputTooLarge the execution's output of 5002 bytes is left out")
				w.wantParked(t)
			})
		})
	}
	for name, deaths := range map[string]map[string]fault{
		"child": nil,
		// The process dies before it writes the end, at the first and second deliveries. The third must run alone.
		"child, after deaths of the process": {"Commit boss/1 #1": dieBefore, "Commit boss/1 #3": dieBefore},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFamily(t, func(t *testing.T, w *world) {
				w.config.AloneAfter = 1
				w.post(boss1, ship)
				w.run(t)
				w.post(w.van(t), growing(5000))
				w.invoke() // The child ends and reports.
				w.bytesMax = w.bytesOf(boss1) + 2000
				w.hook = faults(deaths)
				w.run(t)
				w.wantState(t, boss1, "idle")
				if log := w.logOf(t, boss1); len(log) != 1 || !strings.Contains(log[0], "its output of 5017 bytes does not fit into boss/1: ") {
					t.Errorf("boss/1 logged %.300q", log)
				}
				w.wantParked(t)
			})
		})
	}
}

// The end of an execution does not fit into the item, even without the output.
func TestAnEndThatDoesNotFitIntoTheItemIsParked(t *testing.T) {
	t.Parallel()
	inPrinterWorld(t, func(t *testing.T, w *world) {
		w.post(printer1, `{"type":"ship"}`)
		w.runFor(t, time.Minute)
		w.bytesMax = w.bytesOf(printer1) - 200 // This is too little room, even without the execution.
		w.ends(t, w.only(t), statechart.ExecutionEnded{Status: statechart.ExecutionSucceeded, Output: json.RawMessage(`"` + strings.Repeat("x", 5000) + `"`)}, 1)
		w.runFor(t, time.Minute)
		w.wantParked(t, [2]string{`"type":"settle.execution.ended"`, "keep less in the context"})
	})
}

// A failed effect fits into the item only without its data.
func TestAFailureThatFitsInShortIsKept(t *testing.T) {
	t.Parallel()
	inCourierWorld(t, func(t *testing.T, w *world) {
		w.post(courier1, event("add", "a"))
		w.runFor(t, time.Second)
		w.refuse = refusing(errors.New("throttled"), "Send order/2")
		w.post(courier1, telling("order/2", strings.Repeat("x", 600)))
		w.invoke()
		w.bytesMax = w.bytesOf(courier1) + 60
		w.refuse = refusing(fmt.Errorf("%s: %w", strings.Repeat("y", 900), durable.ErrRefused), "Send order/2")
		w.runFor(t, 24*time.Hour)
		if r := w.load(courier1); len(r.FailedEffects) != 1 || len(w.logOf(t, courier1)) != 3 {
			t.Errorf("the item has %d of %d bytes, the failed effects %+v, and a log of %d", w.bytesOf(courier1), w.bytesMax, r.FailedEffects, len(w.logOf(t, courier1)))
		}
	})
}

// storeIfFits stores a record, unless it is longer than bytesMax.
func (w *world) storeIfFits(record instances.Record) error {
	body, err := json.Marshal(record)
	switch {
	case err != nil:
		return err
	case w.bytesMax > 0 && len(body) > w.bytesMax:
		return &durable.TooLargeError{Bytes: len(body), BytesMax: w.bytesMax}
	}
	w.store(record)
	return nil
}

// bytesOf returns the size of an item without its history.
func (w *world) bytesOf(id string) int {
	r := w.load(id)
	r.History = nil
	body, _ := json.Marshal(r)
	return len(body)
}
