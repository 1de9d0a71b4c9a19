package durable_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// AWS denies the first effect of an outbox for almost an hour. Once it accepts that effect, it denies the next one for
// ten minutes. For each effect, the hour begins with the effect's own first denial.
func TestEachEffectIsRetriedForAnHourOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]error{"denied at once": nil, "throttled first": errFault} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
					ID: "pair", Version: 1, Initial: "idle", Payloads: payloads(),
					States: []chartState{
						{ID: "idle", Tags: settled, On: []on{{Event: "tell", Target: "waiting", Actions: do{tell}}}},
						{ID: "waiting", Tags: settled, After: []after{{Delay: 2 * time.Hour, Target: "idle", Actions: do{noted("fired")}}}},
					},
				}), durable.MachineConfig{}))
				began := time.Now()
				var accepted time.Time
				w.refuse = func(call string) error {
					switch since := time.Since(began); {
					case call == "Send order/2" && since < 59*time.Minute:
						return durable.ErrDenied
					case call == "Send order/2":
						accepted = time.Now()
					case call == "Schedule pair/1" && between != nil:
						defer func() { between = nil }()
						return between
					case call == "Schedule pair/1" && time.Since(accepted) < 10*time.Minute:
						return durable.ErrDenied
					}
					return nil
				}
				w.post("pair/1", telling("order/2", "ball"))
				w.run(t)
				if accepted.Sub(began) < time.Hour {
					t.Fatalf("the send was accepted after %v: the test proves nothing", accepted.Sub(began))
				}
				if failed := w.load("pair/1").FailedEffects; len(failed) > 0 {
					t.Errorf("want no failed effect, got %+v", failed)
				}
				w.wantLog(t, "pair/1", "fired")
			})
		})
	}
}

// AWS denies the first effect of an outbox, a timer, for almost an hour. Then an operator stops the instance: the timer
// is dropped, and AWS denies the message of the exit action for some minutes.
func TestTheDenialOfADroppedEffectCountsForNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		leave := statechart.SendTo("add", func(basket, statechart.Event) (string, any) { return "order/9", map[string]string{"item": "leave"} })
		w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "lag", Version: 1, Initial: "a", Payloads: payloads(),
			States: []chartState{
				{ID: "a", Tags: settled, Exit: do{leave}, On: []on{{Event: "cancel", Target: "b"}}, After: []after{{Delay: 5 * time.Hour, Target: "b"}}},
				{ID: "b", Tags: settled},
			},
		}), durable.MachineConfig{}))
		w.refuse = refusing(durable.ErrDenied, "Schedule lag/1", "Send order/9")
		w.post("lag/1", event("add", "x"))
		w.runFor(t, 58*time.Minute)
		if w.load("lag/1").DeniedSince.IsZero() {
			t.Fatal("the timer is not denied: the test proves nothing")
		}
		w.operate(t, "lag/1", instances.Operation{Kind: instances.Stop})
		w.runFor(t, 20*time.Minute)
		w.refuse = nil
		w.run(t)
		if failed := w.load("lag/1").FailedEffects; len(failed) > 0 {
			t.Errorf("want the send performed, got %+v", failed)
		}
		w.wantLog(t, "order/9", "leave")
	})
}

// An operator keeps the instance while AWS denies its first effect. The loop still gives up on the effect after an
// hour.
func TestAKeepDoesNotProlongADenial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse = refusing(durable.ErrDenied, "Send order/9")
		w.post("order/1", telling("order/9", "x"))
		w.runFor(t, 30*time.Minute)
		since := w.load("order/1").DeniedSince
		for _, kind := range []instances.OperationKind{instances.Keep, instances.Unkeep} {
			w.operate(t, "order/1", instances.Operation{Kind: kind})
			if got := w.load("order/1").DeniedSince; got.IsZero() || !got.Equal(since) {
				t.Errorf("%s: the effect is denied since %v, want %v", kind, got, since)
			}
		}
	})
}

// AWS denies the parking of a delivery. Two hours later, another queue delivers an event that sends a message, and AWS
// denies this message too. Only a turn that has received the delivery can park it. The old denial must not count
// towards the DeniedWaitMax of the message.
func TestADeniedParkingCountsForNoOtherEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.refuse = refusing(durable.ErrDenied, "Park order/1", "Send order/2")
		receive := func(queue, number, body string) (failed []string) {
			return w.handle([]durable.Delivery{{
				MessageID: queue + number, ReceiptHandle: queue + number, Queue: queue, Group: "order/1", SequenceNumber: number, ReceiveCount: 3, Body: body,
			}}, functionTimeout)
		}
		if failed := receive("a", "1", event("add", "ball")); len(failed) > 0 {
			t.Fatalf("want the first event applied, got %v", failed)
		}
		if failed := receive("a", "2", `{"type": "unknown"}`); len(failed) == 0 {
			t.Fatal("want the parking denied")
		}
		time.Sleep(2 * time.Hour)
		if failed := receive("b", "1", telling("order/2", "ball")); len(failed) == 0 {
			t.Error("want the send denied and its delivery retried")
		}
		if failed := w.load("order/1").FailedEffects; len(failed) > 0 {
			t.Errorf("want no failed effect, got %+v", failed)
		}
	})
}
