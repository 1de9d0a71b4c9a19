package durable_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestAnAppliedEventIsNeverParkedSoThatARedriveRepeatsNoService(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		broken := true
		done := statechart.TryAssign("done", func(b *basket, a string) error {
			if broken {
				return errors.New("bug in the chart")
			}
			b.Log = append(b.Log, a)
			return nil
		})
		oops := statechart.TryAssign("oops", func(b *basket, _ statechart.ServiceError) error {
			if broken {
				return errors.New("bug in the chart")
			}
			b.Log = append(b.Log, "oops")
			return nil
		})
		m := durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "order", Version: 1, Initial: "idle", Payloads: payloads(),
			States: []chartState{
				{ID: "idle", Tags: settled, On: []on{{Event: "add", Actions: do{keep}}, {Event: "charge", Target: "charging"}}},
				{ID: "charging", Invoke: []invoke{{Service: w.service("charge"), OnDone: []on{{Target: "idle", Actions: do{done}}}, OnError: []on{{Target: "idle", Actions: do{oops}}}}}},
			},
		}), durable.MachineConfig{})
		machines, err := durable.NewMachines(m)
		if err != nil {
			t.Fatal(err)
		}
		w.machines = machines
		w.post("order/1", event("charge", ""))
		w.run(t)
		broken = false
		for _, p := range w.parked {
			w.post(p.Group, p.Body)
		}
		w.run(t)
		keys := map[string]bool{}
		for _, k := range w.calledFor("charge") {
			keys[k] = true
		}
		if len(keys) != 1 {
			t.Errorf("one charge event, %d charges under different keys", len(keys))
		}
	})
}

func TestAnUnstorableEventFoldedBehindAServiceDoesNotRepeatIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("charge", ""), growing(300<<10))
		w.run(t)
		w.wantServed(t, "charge 1")
	})
}

func TestAServiceIsNotCutOffForTheTimeThatAnotherTook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// The process has a minute. The first service takes 35 seconds. The second may take 40, so the loop leaves it
		// to the next delivery.
		w := newWorld(t)
		w.third["charge"] = lasting(35*time.Second, "charged")
		kept := statechart.Assign("kept", func(b *basket, a string) { b.Log = append(b.Log, a) })
		machine := durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "order", Version: 1, Initial: "idle", Payloads: payloads(),
			States: []chartState{
				{ID: "idle", Tags: settled, On: []on{{Event: "charge", Target: "charging"}}},
				{ID: "charging", Invoke: []invoke{{
					Service: w.service("charge"), Timeout: 40 * time.Second,
					OnDone: []on{{Target: "idle", Actions: do{kept}}}, OnError: []on{{Target: "idle"}},
				}}},
			},
		}), durable.MachineConfig{})
		machines, err := durable.NewMachines(machine)
		if err != nil {
			t.Fatal(err)
		}
		w.machines = machines
		w.post("order/1", event("charge", ""), event("charge", ""))
		w.run(t)
		w.wantLog(t, "order/1", "charged", "charged")
		w.wantServed(t, "charge 1", "charge 1")
	})
}

func TestLogsQuoteNoBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var logs bytes.Buffer
		w.config.Logger = slog.New(slog.NewTextHandler(&logs, nil))
		w.post("order/1", `{"type": "add", "item": "code-123456"`, `{"code": "code-654321", "typ": "add"}`)
		w.run(t)
		if strings.Contains(logs.String(), "code-") {
			t.Errorf("%s", logs.String())
		}
	})
}

func TestAnEventIsTriedAbandonedMaxTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.AbandonedMax = 4
		w.post("order/1", event("add", "before"))
		w.invoke()
		w.post("order/1", event("add", "killer"))
		tries := 0
		w.hook = func(call string) fault {
			if call != "Commit order/1" || len(w.parked) > 0 {
				return none
			}
			r := w.load("order/1")
			m := w.messages[0]
			mark := m.ReceiveCount - 1
			if markOf(r) == nil && m.ReceiveCount == 1 || markOf(r) != nil && markOf(r).Count == mark && mark <= w.config.AbandonedMax {
				tries++
				return dieBefore
			}
			return none
		}
		w.run(t)
		if tries != 5 {
			t.Errorf("%d tries, want 5: the first, which leaves no count, and AbandonedMax", tries)
		}
	})
}

func TestATimerThatArrivesEarlyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("wait", ""))
		w.invoke()
		w.post("order/1", string(w.scheduled[0].message.Body))
		w.scheduled = nil
		w.invoke()
		w.wantState(t, "order/1", "waiting")
	})
}

func TestASlowInstanceDoesNotHoldUpTheOthersOfItsBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = lasting(5*time.Second, "charged")
		began := time.Now()
		w.post("order/1", event("charge", ""))
		w.post("order/2", event("add", "a"))
		w.invoke()
		w.wantLog(t, "order/1", "charged")
		w.wantLog(t, "order/2", "a")
		if slow, quick := w.load("order/1").UpdatedAt.Sub(began), w.load("order/2").UpdatedAt.Sub(began); slow != 5*time.Second || quick != 0 {
			t.Errorf("stored after %v and %v, want 5s and at once", slow, quick)
		}
	})
}

// The acknowledgement of a parked event is lost. A fixed chart is deployed before the redelivery and applies the event.
// Then an operator redrives the parked copy.
func TestAnEventThatWasParkedAndThenAppliedIsNotAppliedAgainFromTheDeadLetterQueue(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"without an ID": event("add", "a"), "with an ID": `{"type": "add", "item": "a", "$id": "a-1"}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				broken := true
				keep := statechart.TryAssign("keep", func(b *basket, i item) error {
					if broken {
						return errors.New("bug in the chart")
					}
					b.Log = append(b.Log, i.Item)
					return nil
				})
				w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
					ID: "shelf", Version: 1, Initial: "idle", Payloads: payloads(),
					States: []chartState{{ID: "idle", Tags: settled, On: []on{{Event: "tell"}, {Event: "add", Actions: do{keep}}}}},
				}), durable.MachineConfig{}))
				w.hook = func(call string) fault { // No instance exists, so no item records the parking.
					if call == "Acknowledge shelf/1" && len(w.parked) > 0 && broken {
						broken = false
						return failBefore
					}
					return none
				}
				w.post("shelf/1", body)
				w.run(t)
				if len(w.parked) != 1 || broken {
					t.Fatalf("parked %+v, want the event once, and its acknowledgement lost", w.parked)
				}
				w.wantLog(t, "shelf/1", "a")
				copied := w.parked[0].Delivery
				copied.ParkedFrom = instances.Place{Queue: copied.Queue, SequenceNumber: copied.SequenceNumber}
				copied.MessageID, copied.SequenceNumber, copied.ReceiveCount = "copy", "999", 1
				if failed := w.handle([]durable.Delivery{copied}, functionTimeout); len(failed) > 0 {
					t.Errorf("failed: %q", failed)
				}
				w.wantLog(t, "shelf/1", "a")
			})
		})
	}
}
