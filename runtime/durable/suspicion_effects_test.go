package durable_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// S1a: a committed emit whose host failed is in the outbox. An operator moves, stops or terminates the instance.
func TestSuspicionPendingEmitSurvivesAnOperation(t *testing.T) {
	t.Parallel()
	for _, op := range []instances.Operation{{Kind: instances.Keep}, {Kind: instances.Move, State: "idle"}, {Kind: instances.Stop}, {Kind: instances.Terminate}} {
		sub(t, string(op.Kind), func(t *testing.T) {
			w, _ := newTellers(t)
			w.config.Emit = w.emit
			w.hook = faults(map[string]fault{"Emit teller/1 #1": failBefore})
			w.post("teller/1", adds(1)...)
			w.invoke() // The commit contains the emit; the host fails once.
			if n := len(w.load("teller/1").Outbox); n != 1 {
				t.Fatalf("outbox has %d effects before the operation", n)
			}
			w.operate(t, "teller/1", op)
			t.Logf("%s: outbox after: %+v", op.Kind, w.load("teller/1").Outbox)
			w.run(t)
			if len(w.emitted) != 1 {
				t.Errorf("%s: emitted %d events, want 1", op.Kind, len(w.emitted))
			}
			w.wantSound(t)
		})
	}
}

// S1b: the emit of an exit or entry action of the operation itself.
func TestSuspicionEmitOfAnOperationIsPerformed(t *testing.T) {
	t.Parallel()
	for _, op := range []instances.Operation{{Kind: instances.Stop}, {Kind: instances.Move, State: "b"}} {
		sub(t, string(op.Kind), func(t *testing.T) {
			w := newWorld(t)
			w.config.Emit = w.emit
			w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
				ID: "em", Version: 1, Initial: "a", Payloads: payloads(), On: []on{{Event: "add", Actions: do{keep}}},
				States: []chartState{
					{ID: "a", Tags: settled, Exit: do{show}, On: []on{{Event: "cancel", Target: "b"}}},
					{ID: "b", Tags: settled},
				},
			}), durable.MachineConfig{}))
			w.post("em/1", event("add", "x"))
			w.run(t)
			w.operate(t, "em/1", op)
			w.run(t)
			if len(w.emitted) != 1 {
				t.Errorf("%s: emitted %d events, want 1", op.Kind, len(w.emitted))
			}
		})
	}
}

// S2: the end of a child that an operator ended is denied for two hours.
func TestSuspicionADeniedEndByOperatorReachesTheParent(t *testing.T) {
	t.Parallel()
	for _, kind := range endings {
		subFamily(t, string(kind), func(t *testing.T, w *world) {
			w.post(boss1, ship)
			w.run(t)
			van := w.van(t)
			w.refuse = refusing(durable.ErrDenied, "Send boss/1")
			w.operate(t, van, instances.Operation{Kind: kind})
			w.runFor(t, 2*time.Hour)
			w.refuse = nil
			w.run(t)
			w.wantState(t, boss1, "idle")
			for _, f := range w.load(van).FailedEffects {
				t.Logf("%s: given up: %s %s: %s", kind, f.Kind, f.ID, f.Error)
			}
		})
	}
}

// S2': the comparison, the child ends by itself.
func TestSuspicionADeniedEndReachesTheParent(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, ship)
		w.run(t)
		van := w.van(t)
		w.refuse = refusing(durable.ErrDenied, "Send boss/1")
		w.post(van, event("finish", ""))
		w.runFor(t, 2*time.Hour)
		w.refuse = nil
		w.run(t)
		w.wantState(t, boss1, "idle")
	})
}

// S3: the backup is from the time when the message of the operator's end was in the queue. It is gone after the restore.
func TestSuspicionARestoredParentHearsOfAChildThatAnOperatorEnded(t *testing.T) {
	t.Parallel()
	for _, kind := range endings {
		subFamily(t, string(kind), func(t *testing.T, w *world) {
			w.post(boss1, ship)
			w.run(t)
			van := w.van(t)
			w.operate(t, van, instances.Operation{Kind: kind})
			backup := w.backup(boss1)
			w.run(t)
			w.wantState(t, boss1, "idle")
			w.restore(backup)
			w.run(t)
			w.wantState(t, boss1, "shipping")
			w.mayRearm(t, boss1)
			w.mayRearm(t, van)
			w.run(t)
			w.wantState(t, boss1, "idle")
		})
	}
}

func (w *world) mayRearm(t *testing.T, id string) {
	t.Helper()
	stored := w.load(id)
	record, err := durable.Rearm(w.machines, stored, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if record.Revision == stored.Revision {
		t.Logf("Rearm leaves %s unchanged: %s", id, stored.Status)
		return
	}
	w.store(record)
	w.commit(record)
	w.post(id, `{"type": "settle.timer", "timer": "resume"}`)
}

// S4: the first effect, a schedule, is denied for 59 minutes. Then an operator stops the instance: the schedule is dropped, and the
// send of the exit action, denied for 10 minutes, is the first effect.
func TestSuspicionDeniedSinceOfADroppedEffectCountsForNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		leave := statechart.SendTo("add", func(basket, statechart.Event) (string, any) { return "order/9", map[string]string{"item": "leave"} })
		w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "lag", Version: 1, Initial: "a", Payloads: payloads(),
			States: []chartState{
				{ID: "a", Tags: settled, Exit: do{leave}, On: []on{{Event: "add", Target: "b", Actions: do{keep}}}, After: []after{{Delay: 5 * time.Hour, Target: "b"}}},
				{ID: "b", Tags: settled},
			},
		}), durable.MachineConfig{}))
		w.refuse = refusing(durable.ErrDenied, "Schedule lag/1", "Send order/9")
		w.post("lag/1", event("refuse", "x"))
		w.runFor(t, 58*time.Minute)
		t.Logf("before: since %v outbox %+v", w.load("lag/1").DeniedSince, w.load("lag/1").Outbox)
		w.operate(t, "lag/1", instances.Operation{Kind: instances.Stop})
		t.Logf("after: since %v outbox %+v", w.load("lag/1").DeniedSince, w.load("lag/1").Outbox)
		w.runFor(t, 20*time.Minute)
		w.refuse = nil
		w.run(t)
		for _, f := range w.load("lag/1").FailedEffects {
			t.Errorf("given up within 20 minutes of its request: %s %s: %s", f.Kind, f.ID, f.Error)
		}
		if len(w.stored("order")) != 1 {
			t.Error("order/9 got no message")
		}
	})
}

func sub(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func subFamily(t *testing.T, name string, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inFamily(t, test) })
}
