package durable_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/internal/readcache"
)

// Tests of stale copies: process `a` has a copy, another process applies the next event, and then `a` receives the
// following event.

// cachingProcess returns a process with a cache.
func (w *world) cachingProcess(t *testing.T) *process {
	t.Helper()
	p := w.start(functionTimeout)
	ports := durable.Ports{Store: p, Queue: p, Timers: p, Tokens: p, Executions: p, Cache: readcache.New(time.Now, 0)}
	loop, err := durable.New(w.machines, ports, w.config)
	if err != nil {
		t.Fatal(err)
	}
	p.loop = loop
	return p
}

func (p *process) take(d durable.Delivery) { p.loop.Handle(p.ctx, []durable.Delivery{d}) }

// Another process has finished the order, so the event "charge" must not start a service.
func TestNoServiceRunsOverAStaleCopy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.cachingProcess(t)
		defer a.cancel()
		a.take(received("q", "order/1", "1", event("add", "a"), 1))
		w.handle([]durable.Delivery{received("q", "order/1", "2", event("finish", ""), 1)}, functionTimeout)
		a.take(received("q", "order/1", "3", event("charge", ""), 1))
		w.wantServed(t)
	})
}

func TestAStaleCopyGivesNoServiceAKeyOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.cachingProcess(t)
		defer a.cancel()
		a.take(received("q", "order/1", "1", event("add", "a"), 1))
		w.handle([]durable.Delivery{received("q", "order/1", "2", event("charge", "b"), 1)}, functionTimeout)
		a.take(received("q", "order/1", "3", event("charge", "c"), 1))
		if keys := w.calledFor("charge"); len(keys) != 2 {
			t.Errorf("two events without a fault called the service %d times, under the keys %q", len(keys), keys)
		}
	})
}

func TestAnEventThatDoesNotFitAStaleCopyIsApplied(t *testing.T) {
	t.Parallel()
	for _, service := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.config.SnapshotBytesMax = 3000
			a := w.cachingProcess(t)
			defer a.cancel()
			a.take(received("q", "order/1", "1", `{"type":"grow","bytes":2000}`, 1))
			w.handle([]durable.Delivery{received("q", "order/1", "2", `{"type":"grow","bytes":0}`, 1)}, functionTimeout)
			next := event("add", strings.Repeat("y", 1500))
			if service {
				w.third["charge"] = lasting(time.Second, strings.Repeat("z", 1500))
				next = event("charge", "")
			}
			a.take(received("q", "order/1", "3", next, 1))
			w.wantParked(t)
		})
	}
}
