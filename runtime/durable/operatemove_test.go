package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// Either an event has used up its tries, because its service kills the process, or it has called as many services as it
// may. Then an operator moves the instance into a state with another service.
func TestAMoveGivesTheNextServiceItsTries(t *testing.T) {
	t.Parallel()
	calls := 0
	for name, poll := range map[string]service{
		"deaths of the process": killing(9),
		"services": func(context.Context, statechart.Call) (string, error) {
			if calls++; calls == 5 {
				return "", errors.New("busy")
			}
			return "again", nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.config.AbandonedMax, w.config.ServicesMax = 3, 5
			w.third["poll"] = poll
			w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
				ID: "poller", Version: 1, Initial: "idle", Payloads: payloads(), States: []chartState{
					{ID: "idle", Tags: settled, On: []on{{Event: "poll", Target: "polling"}, {Event: "charge", Target: "healing"}}},
					{ID: "polling", Invoke: []invoke{{Service: w.service("poll"), Retry: statechart.RetryPolicy{Attempts: 100, Interval: time.Hour},
						OnDone: []on{{Target: "polling", Reenter: true}}, OnError: []on{{Target: "idle"}}}}},
					{ID: "healing", Invoke: []invoke{{Service: w.service("heal"), OnDone: []on{{Target: "idle", Actions: do{answered}}}, OnError: []on{{Target: "idle", Actions: do{gaveUp}}}}}},
				},
			}), durable.MachineConfig{}))
			w.post("poller/1", event("poll", ""))
			w.runFor(t, 40*time.Minute)
			w.operate(t, "poller/1", instances.Operation{Kind: instances.Move, State: "healing"})
			w.run(t)
			w.wantLog(t, "poller/1", "heal ok")
			if shown := w.load("poller/1").Error; shown != nil {
				t.Errorf("%s: the instance shows %+v", name, shown)
			}
			w.wantParked(t)
		})
	}
}

// While the service of an unstored event runs, an operator moves the instance to another service, or changes the
// context so that the redelivered event leads to another service.
func TestAMoveGivesServicesNewKeys(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]instances.Operation{
		"to a state":      {Kind: instances.Move, State: "refunding"},
		"another context": {Kind: instances.Move, Context: json.RawMessage(`{"log": ["refund"]}`)},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			call := func(name string) []invoke {
				return []invoke{{Service: w.service(name), OnDone: []on{{Target: "idle", Actions: do{answered}}}, OnError: []on{{Target: "idle", Actions: do{gaveUp}}}}}
			}
			mustRefund := statechart.If("mustRefund", func(b basket) bool { return slices.Contains(b.Log, "refund") })
			w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
				ID: "payment", Version: 1, Initial: "idle", Payloads: payloads(),
				States: []chartState{
					{ID: "idle", Tags: settled, On: []on{{Event: "charge", Target: "refunding", Guard: mustRefund}, {Event: "charge", Target: "charging"}, {Event: "add", Actions: do{keep}}}},
					{ID: "charging", Invoke: call("charge")}, {ID: "refunding", Invoke: call("refund")},
				},
			}), durable.MachineConfig{}))
			w.third["charge"] = lasting(20*time.Second, "charged")
			w.post("payment/1", event("add", "a"))
			w.run(t)
			w.post("payment/1", event("charge", ""))
			var consumer sync.WaitGroup
			consumer.Go(func() { w.invoke() })
			time.Sleep(10 * time.Second)
			w.mu.Lock()
			op.At = time.Now()
			record, _, err := durable.Operate(w.machines, w.load("payment/1"), op)
			if err != nil {
				t.Fatal(err)
			}
			w.store(record)
			w.commit(record)
			w.mu.Unlock()
			consumer.Wait()
			w.run(t)
			if charge, refund := w.calledFor("charge"), w.calledFor("refund"); len(refund) != 1 || slices.Contains(charge, refund[0]) {
				t.Errorf("move %s: the charge has the keys %q, the refund %q, want one refund with a key of its own", name, charge, refund)
			}
		})
	}
}

func TestAMoveIntoAFinalStateEndsAChildAndItsTasks(t *testing.T) {
	t.Parallel()
	inFamily(t, func(t *testing.T, w *world) {
		w.post(boss1, ship)
		w.run(t)
		van := w.van(t)
		w.post(van, `{"type":"settle.wait","$task":`+w.wait("task", "Queued", 0, 0)+`}`)
		w.run(t)
		w.operate(t, van, instances.Operation{Kind: instances.Move, State: "arrived"})
		w.run(t)
		w.wantState(t, boss1, "idle")
		w.wantFamily(t, "courier done, radio stopped", `back "parcel board ok"`)
		if got := w.answers("task"); got == "waits" {
			t.Error("the task still waits")
		}
	})
}

// The state defers two events. Once they are released, the first event fits into the item, and the second does not.
func TestAMoveAppliesDeferredEventsAndParksThoseThatDoNotFit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "later", Version: 1, Initial: "busy", Payloads: payloads(),
			States: []chartState{
				{ID: "busy", Tags: settled, Defer: []string{"add", "grow"}, On: []on{{Event: "wait", Target: "idle"}}},
				{ID: "idle", Tags: settled, On: []on{{Event: "add", Actions: do{keep}}, {Event: "grow", Actions: do{grow}}}},
			},
		}), durable.MachineConfig{}))
		w.post("later/1", event("add", "a"), growing(300<<10))
		w.run(t)
		w.wantLog(t, "later/1")
		w.operate(t, "later/1", instances.Operation{Kind: instances.Move, State: "idle"})
		w.run(t)
		w.wantLog(t, "later/1", "a")
		w.wantParked(t, [2]string{`"grow"`, "the limit is 262144"})
		w.wantSound(t)
	})
}

// An operator's change migrates the instance to a version of the machine that has no child.
func TestAnOperatorsChangeStopsTheChildThatAMigrationDrops(t *testing.T) {
	t.Parallel()
	for _, op := range []instances.Operation{{Kind: instances.Stop}, {Kind: instances.Move, State: "timed"}} {
		atDesks(t, func(t *testing.T, w *world) {
			w.post("desk/1", event("ship", ""))
			w.run(t)
			w.host(t, w.desk(2, deskFrom1))
			op.At = time.Now()
			record, _, err := durable.Operate(w.machines, w.load("desk/1"), op)
			if err != nil {
				t.Fatal(err)
			}
			w.wake(record)
			w.run(t)
			if active := w.active("order"); len(w.stored("order")) != 1 || len(active) > 0 {
				t.Errorf("%s: want one child, stopped, got %q active", op.Kind, active)
			}
		})
	}
}
