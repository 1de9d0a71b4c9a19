package durable_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

const (
	// longest is Lambda's longest timeout. It exceeds the visibility timeout of the test's queue.
	longest = 15 * time.Minute
	// leaseDefault is the default of Config.Lease.
	leaseDefault = 30 * time.Second
)

// inJobWorld runs a test with a machine whose service `work` has no timeout and a single attempt.
func inJobWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "job", Version: 1, Initial: "idle", Payloads: payloads(),
			States: []chartState{
				{ID: "idle", Tags: settled, On: []on{{Event: "charge", Target: "working"}, {Event: "add", Actions: do{keep}}}},
				{ID: "working", Invoke: []invoke{{Service: w.service("work"), OnDone: []on{{Target: "idle", Actions: do{answered}}}, OnError: []on{{Target: "idle", Actions: do{gaveUp}}}}}},
			},
		}), durable.MachineConfig{}))
		test(t, w)
	})
}

// begin receives a batch and processes it in the background. The channel receives the bodies of the failed deliveries.
func (w *world) begin() <-chan []string {
	w.mu.Lock()
	batch := w.receive(batchSize)
	w.mu.Unlock()
	failed := make(chan []string, 1)
	go func() { failed <- w.handle(batch, longest) }()
	return failed
}

// free returns the bodies of the messages that another consumer would receive now, without receiving them.
func (w *world) free() (bodies []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	locked := map[string]bool{}
	for _, m := range w.messages {
		locked[m.Group] = locked[m.Group] || m.visibleAt.After(time.Now())
	}
	for _, m := range w.messages {
		if !locked[m.Group] {
			bodies = append(bodies, m.Body)
		}
	}
	return bodies
}

// A ten-minute service runs in a batch with another instance's service. The process dies after the given time. Until
// then, no other consumer receives the deliveries. At most 30 seconds later, another consumer receives all of them,
// including the one that was applied before the service began.
func TestADeadProcessFreesItsGroupsWithinTheLease(t *testing.T) {
	t.Parallel()
	for _, life := range []time.Duration{2 * time.Second, 10*time.Second + 500*time.Millisecond, 5 * time.Minute, 9*time.Minute + 59*time.Second} {
		t.Run(life.String(), func(t *testing.T) {
			t.Parallel()
			inJobWorld(t, func(t *testing.T, w *world) {
				w.third["work"] = func(ctx context.Context, call statechart.Call) (string, error) {
					if call.Instance == "job/1" {
						time.Sleep(life)
						kill(ctx)
						w.mu.Lock()
						w.third["work"] = lasting(20*time.Second, "worked")
						w.mu.Unlock()
					}
					return lasting(10*time.Minute, "worked")(ctx, call)
				}
				bodies := []string{event("add", "a"), event("charge", ""), event("add", "b"), event("charge", "")}
				w.post("job/1", bodies[:3]...)
				w.post("job/2", bodies[3])
				ended := w.begin()
				for range life / (500 * time.Millisecond) {
					if free := w.free(); len(free) > 0 {
						t.Errorf("another consumer receives %q while the process lives", free)
						break
					}
					time.Sleep(500 * time.Millisecond)
				}
				<-ended
				time.Sleep(leaseDefault + time.Millisecond)
				if free := w.free(); !slices.Equal(free, bodies) {
					t.Errorf("30 seconds after the death another consumer receives %q, want %q", free, bodies)
				}
				w.run(t)
				w.wantLog(t, "job/1", "a", "worked", "b")
				w.wantLog(t, "job/2", "worked")
			})
		})
	}
}

// Each batch has deliveries of two instances. Each call of Delay hides all of them.
func TestOnlySlowBatchesTakeALease(t *testing.T) {
	t.Parallel()
	for takes, want := range map[time.Duration]int{0: 0, 900 * time.Millisecond: 0, 2 * time.Second: 1, 25 * time.Second: 3} {
		inJobWorld(t, func(t *testing.T, w *world) {
			w.third["work"] = lasting(takes, "worked")
			w.post("job/1", event("charge", ""))
			w.post("job/2", event("charge", ""))
			if failed := <-w.begin(); len(failed) > 0 {
				t.Errorf("failed %q, want none", failed)
			}
			if got := w.counted("Delay"); got != want {
				t.Errorf("a service of %v led to %d calls, want %d: %q", takes, got, want, w.calls)
			}
		})
	}
}

// slowQueue is a process whose extensions of a lease take effect two seconds after the call.
type slowQueue struct {
	*process
	extended *[]string
}

func (q slowQueue) Delay(ctx context.Context, deliveries []durable.Delivery, wait time.Duration) error {
	if wait == leaseDefault {
		for _, d := range deliveries {
			*q.extended = append(*q.extended, d.Group)
		}
		time.Sleep(2 * time.Second)
	}
	return q.process.Delay(ctx, deliveries, wait)
}

// A batch has three groups: order/2 is acknowledged early, order/1 fails at the given time and waits for a minute, and
// job/1 runs a service. An extension of the lease begins at 13 s and takes effect at 15 s.
func TestAnExtensionDoesNotReplaceTheBackoff(t *testing.T) {
	t.Parallel()
	for _, fails := range []time.Duration{9 * time.Second, 14 * time.Second, 16 * time.Second} {
		inJobWorld(t, func(t *testing.T, w *world) {
			w.config.Backoff = statechart.RetryPolicy{Interval: time.Minute}
			w.third["work"] = lasting(45*time.Second, "worked")
			var began atomic.Bool
			w.latency = func(id string) time.Duration {
				if id == "order/1" && began.CompareAndSwap(false, true) {
					return fails
				}
				return 0
			}
			w.refuse = func(call string) error {
				if call == "Load order/1" {
					return errors.New("throttled")
				}
				return nil
			}
			w.post("job/1", event("charge", ""))
			w.post("order/1", event("add", "a"))
			w.post("order/2", event("add", "a"))
			p := w.start(longest)
			defer p.cancel()
			var extended []string
			loop, err := durable.New(w.machines, durable.Ports{
				Store: p, Queue: slowQueue{p, &extended}, Timers: p, Tokens: p, Executions: p,
				Acknowledger: acknowledger(func(context.Context, []durable.Delivery) error { return nil }),
			}, w.config)
			if err != nil {
				t.Fatal(err)
			}
			batch, start := w.receive(batchSize), time.Now()
			loop.Handle(p.ctx, batch)
			if hidden := w.messages[1].visibleAt.Sub(start); hidden < fails+time.Minute {
				t.Errorf("a group that fails after %v is retried after %v", fails, hidden)
			}
			if slices.Contains(extended, "order/2") || !strings.HasSuffix(strings.Join(extended, " "), "job/1 job/1") {
				t.Errorf("the lease was extended for %q, want no acknowledged delivery, and order/1 only before its failure after %v", extended, fails)
			}
		})
	}
}

// Extensions fail for 25 seconds, or always. In both cases, no other consumer receives the deliveries.
func TestAFailedExtensionIsRetried(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to time.Duration
		calls    int
	}{
		"throttled": {2 * time.Second, 27 * time.Second, 11},
		"denied":    {0, time.Hour, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inJobWorld(t, func(t *testing.T, w *world) {
				var logged bytes.Buffer
				w.config.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))
				began := time.Now()
				w.refuse = func(call string) error {
					if after := time.Since(began); strings.HasPrefix(call, "Delay") && after > c.from && after < c.to {
						return errors.New(name)
					}
					return nil
				}
				w.third["work"] = lasting(time.Minute, "worked")
				w.post("job/1", event("charge", ""))
				ended := w.begin()
				for range 59 {
					time.Sleep(time.Second)
					if free := w.free(); len(free) > 0 {
						t.Errorf("another consumer receives %q while the process lives", free)
						break
					}
				}
				if failed := <-ended; len(failed) > 0 {
					t.Errorf("failed %q, want none", failed)
				}
				w.wantLog(t, "job/1", "worked")
				if calls := w.counted("Delay"); calls != c.calls || !strings.Contains(logged.String(), "cannot extend the lease of a slow batch, will retry") {
					t.Errorf("want %d calls and a warning, got %d and the log %q", c.calls, calls, logged.String())
				}
			})
		})
	}
}

// A process takes a lease, gets no answer and cannot extend it, so a second process receives the delivery. The first
// process loses the conditional write. The service now runs in the second process and has one attempt, so the first
// process must not give it up.
func TestAProcessWithoutALeaseLeavesTheServiceToItsSuccessor(t *testing.T) {
	t.Parallel()
	inJobWorld(t, func(t *testing.T, w *world) {
		began := time.Now()
		w.hook = func(call string) fault {
			switch after := time.Since(began); {
			case call != "Delay job/1" || after > leaseDefault:
				return none
			case after == time.Second:
				return failAfter
			}
			return failBefore
		}
		w.third["work"] = lasting(50*time.Second, "worked")
		w.post("job/1", event("charge", ""))
		first := w.begin()
		time.Sleep(31*time.Second + time.Millisecond)
		second := w.begin()
		<-first
		if failed := <-second; len(failed) > 0 {
			t.Errorf("the second process failed %q, want none", failed)
		}
		w.run(t)
		w.wantLog(t, "job/1", "worked")
		if keys := w.calledFor("work"); len(keys) != 2 || keys[0] != keys[1] {
			t.Errorf("the service was called with the keys %q, want one key twice", keys)
		}
	})
}
