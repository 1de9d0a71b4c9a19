package durable_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
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
		_ = s.process.Commit(context.Background(), record) // It conflicts if the loop has written meanwhile.
	}()
	return errors.New("timed out")
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
		p, nth := w.start(functionTimeout), 1
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
		for _, invocation := range w.load("order/1").Attempts {
			if invocation.Count > 0 {
				t.Errorf("the late write counts: %+v", invocation)
			}
		}
		w.run(t)
		w.wantLog(t, "order/1", "charge ok")
	})
}
