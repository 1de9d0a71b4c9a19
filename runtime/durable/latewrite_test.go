package durable_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// lateStore is a process whose nth commit times out and takes effect a second later.
type lateStore struct {
	*process
	nth *int
}

func (s lateStore) Commit(ctx context.Context, record instances.Record) error {
	if *s.nth--; *s.nth != 0 {
		return s.process.Commit(ctx, record)
	}
	go func() {
		time.Sleep(time.Second)
		_ = s.process.Commit(context.Background(), record) // This commit conflicts if the loop has written meanwhile.
	}()
	return errors.New("timed out")
}

// invokeLate invokes the function once. Its nth commit arrives late.
func (w *world) invokeLate(t *testing.T, nth int) {
	t.Helper()
	p := w.start(functionTimeout)
	defer p.cancel()
	loop, err := durable.New(w.machines, durable.Ports{Store: lateStore{p, &nth}, Queue: p, Timers: p, Tokens: p, Executions: p}, w.config)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	batch := w.receive(batchSize)
	w.mu.Unlock()
	loop.Handle(p.ctx, batch)
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// The commit that counts a service's second attempt times out, and arrives later.
func TestAWriteThatArrivesLateUsesUpNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = failing(1, errors.New("busy"))
		w.post("order/1", event("charge", ""))
		w.invoke()
		time.Sleep(visibilityTimeout)
		w.invokeLate(t, 1)
		for _, invocation := range w.load("order/1").Attempts {
			if invocation.Count > 0 {
				t.Errorf("the late write counts: %+v", invocation)
			}
		}
		w.run(t)
		w.wantLog(t, "order/1", "charge ok")
	})
}

// Service `one` ends in its second attempt. Then the commit that counts the only attempt of service `two` arrives late.
func TestALateWriteAfterAnEarlierCommitUsesUpNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.duo())
		w.third["one"] = failing(1, errors.New("busy"))
		w.post("duo/1", event("charge", ""))
		w.invoke()
		time.Sleep(visibilityTimeout)
		w.invokeLate(t, 3)
		w.run(t)
		w.wantLog(t, "duo/1", "charge ok", "two ok")
	})
}

// An instance is first written at a redelivery, and this write arrives late. The instance's first service has one
// attempt.
func TestALateFirstWriteUsesUpNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.hasty())
		w.post("hasty/1", event("add", "x"))
		w.hook = faults(map[string]fault{"Load hasty/1 #1": dieBefore})
		w.invoke()
		w.hook = nil
		time.Sleep(visibilityTimeout)
		w.invokeLate(t, 1)
		w.run(t)
		w.wantLog(t, "hasty/1", "boot ok", "x")
	})
}

// duo calls the service `one`, which has three attempts, and then the service `two`, which has one.
func (w *world) duo() durable.Machine {
	failed := []on{{Target: "idle", Actions: do{gaveUp}}}
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "duo", Version: 1, Initial: "idle", Payloads: payloads(),
		States: []chartState{
			{ID: "idle", Tags: settled, On: []on{{Event: "charge", Target: "one"}}},
			{ID: "one", Invoke: []invoke{{Service: w.service("one"), Retry: statechart.RetryPolicy{Attempts: 3}, OnDone: []on{{Target: "two", Actions: do{answered}}}, OnError: failed}}},
			{ID: "two", Invoke: []invoke{{Service: w.service("two"), OnDone: []on{{Target: "idle", Actions: do{answered}}}, OnError: failed}}},
		},
	}), durable.MachineConfig{})
}

// hasty is a machine that calls a service with one attempt when it starts.
func (w *world) hasty() durable.Machine {
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "hasty", Version: 1, Initial: "booting", Payloads: payloads(),
		States: []chartState{
			{ID: "booting", Invoke: []invoke{{Service: w.service("boot"), OnDone: []on{{Target: "idle", Actions: do{answered}}}, OnError: []on{{Target: "idle", Actions: do{gaveUp}}}}}},
			{ID: "idle", Tags: settled, On: []on{{Event: "add", Actions: do{keep}}}},
		},
	}), durable.MachineConfig{})
}
