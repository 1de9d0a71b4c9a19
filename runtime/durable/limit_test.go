package durable_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/limits"
	"github.com/settle-run/settle/runtime/statechart"
)

// limitStates holds the states of limits by name and key.
type limitStates struct{ limits map[string]limits.State }

// limiter returns a new limiter for the process, as after a cold start.
func (p *process) limiter() *limits.Limiter { return limits.New(p, time.Now) }

func (p *process) SwapLimit(ctx context.Context, limit, key, previous string, next limits.State) (stored limits.State, err error) {
	id := limit + "/" + key
	err = p.call(ctx, "SwapLimit", id, func() error {
		if p.limits == nil {
			p.limits = map[string]limits.State{}
		}
		if p.limits[id].Write == previous {
			p.limits[id] = next
		}
		stored = p.limits[id]
		return nil
	})
	return stored, err
}

// client is a machine that calls the service "call" under the limit. The key of the limit is a tenant: the first log
// entry, or "". On "both", it also calls "left", in parallel.
func (w *world) client(limit statechart.Limit, attempts int) durable.Machine {
	call := invoke{
		Service: w.service("call"), Timeout: 40 * time.Second, Retry: statechart.RetryPolicy{Attempts: attempts}, Limit: limit,
		LimitKey: func(b basket) string {
			if len(b.Log) == 0 || strings.HasSuffix(b.Log[0], " ok") {
				return ""
			}
			return b.Log[0]
		},
		OnDone: []on{{Target: "done", Actions: do{answered}}}, OnError: []on{{Target: "done", Actions: do{gaveUp}}},
	}
	beside := call
	beside.OnDone, beside.OnError = []on{{Target: "ready", Actions: do{answered}}}, []on{{Target: "ready", Actions: do{gaveUp}}}
	left := beside
	left.Service, left.Limit, left.LimitKey = w.service("left"), statechart.Limit{}, nil
	region := func(name string, service invoke) chartState {
		return chartState{ID: name, Initial: "busy", States: []chartState{{ID: "busy", Invoke: []invoke{service}}, {ID: "ready", Type: statechart.Final}}}
	}
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "client", Version: 1, Initial: "idle", Payloads: payloads(),
		States: []chartState{
			{ID: "idle", Tags: settled, On: []on{{Event: "charge", Target: "calling"}, {Event: "add", Actions: do{keep}}, {Event: "both", Target: "both"}}},
			{ID: "calling", Invoke: []invoke{call}},
			{ID: "both", Type: statechart.Parallel, States: []chartState{region("limited", beside), region("left", left)}, OnDone: []on{{Target: "done"}}},
			{ID: "done", Tags: settled},
		},
	}), durable.MachineConfig{})
}

// newLimited returns a world with the machine client.
func newLimited(t *testing.T, limit statechart.Limit, attempts int) *world {
	t.Helper()
	w := newWorld(t)
	machines, err := durable.NewMachines(w.client(limit, attempts))
	if err != nil {
		t.Fatal(err)
	}
	w.machines = machines
	return w
}

// TestAThirdPartyIsCalledAtItsRate sends 50 instances to five consumers at once. It logs the calls for each second.
func TestAThirdPartyIsCalledAtItsRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const instances, rate = 50, 10
		w := newLimited(t, statechart.Limit{Name: "bank", Rate: rate}, 3)
		began := time.Now()
		calls, longest := w.crowd(instances, 0)
		perSecond := map[int]int{}
		for i, at := range calls {
			perSecond[int(at.Sub(began)/time.Second)]++
			if i >= rate && at.Sub(calls[i-rate]) < time.Second {
				t.Errorf("%d calls within %v", rate+1, at.Sub(calls[i-rate]))
			}
		}
		t.Logf("calls for each second: %v; the longest invocation took %v", perSecond, longest)
		if len(calls) != instances || calls[instances-1].Sub(began) > 15*time.Second {
			t.Errorf("%d calls until %v, want %d within 15 seconds", len(calls), calls[len(calls)-1].Sub(began), instances)
		}
		if longest > 2*time.Second {
			t.Errorf("an invocation took %v, want none to wait for the limit", longest)
		}
		for _, served := range w.names {
			if served != "call 1" {
				t.Errorf("served %q, want the first attempt", served)
			}
		}
		w.wantParked(t)
	})
}

// crowd sends an event to each instance, and five consumers process the events. It returns the times of the calls and
// the duration of the longest invocation.
func (w *world) crowd(instances int, took time.Duration) (calls []time.Time, longest time.Duration) {
	w.latency = func(string) time.Duration { return 4 * time.Millisecond }
	var mu sync.Mutex
	w.third["call"] = func(context.Context, statechart.Call) (string, error) {
		mu.Lock()
		calls = append(calls, time.Now())
		mu.Unlock()
		time.Sleep(took)
		return "ok", nil
	}
	for i := range instances {
		w.post(fmt.Sprintf("client/%d", i), event("charge", ""))
	}
	var consumers sync.WaitGroup
	for range 5 {
		consumers.Go(func() {
			for began := time.Now(); time.Since(began) < 2*time.Minute; time.Sleep(20 * time.Millisecond) {
				start := time.Now()
				w.invoke()
				mu.Lock()
				longest = max(longest, time.Since(start))
				mu.Unlock()
			}
		})
	}
	consumers.Wait()
	return calls, longest
}

func TestCallsThatWaitForAPlaceUseMostOfIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const instances, concurrency, took = 60, 3, 2 * time.Second
		w := newLimited(t, statechart.Limit{Name: "bank", Concurrency: concurrency}, 3)
		began := time.Now()
		calls, _ := w.crowd(instances, took)
		for i := concurrency; i < len(calls); i++ {
			if calls[i].Sub(calls[i-concurrency]) < took {
				t.Errorf("%d calls at once", concurrency+1)
			}
		}
		ideal, last := took*instances/concurrency, calls[len(calls)-1].Sub(began)
		t.Logf("%d calls until %v, at best %v", len(calls), last, ideal)
		if len(calls) != instances || last > 2*ideal {
			t.Errorf("%d calls until %v, want %d until %v", len(calls), last, instances, 2*ideal)
		}
	})
}

// busy takes the only place of the limit for the given time.
func busy(t *testing.T, w *world, limit statechart.Limit, key string, d time.Duration) {
	t.Helper()
	p := w.start(d + time.Hour)
	permit, err := p.limiter().Acquire(p.ctx, limit, key)
	if err != nil {
		t.Fatal(err)
	}
	_, done, err := permit.Start(p.ctx)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(d)
		done()
		p.cancel()
	}()
}

func TestACallThatWaitsUsesUpNoAttempt(t *testing.T) {
	t.Parallel()
	limit := statechart.Limit{Name: "bank", Concurrency: 1}
	for _, c := range []struct {
		name   string
		events []string
		served []string
		log    []string
	}{
		{"alone", []string{event("charge", "")}, []string{"call 1"}, []string{"call ok"}},
		{"beside another service", []string{event("both", "")}, []string{"left 1", "call 1"}, []string{"left ok", "call ok"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newLimited(t, limit, 1)
				busy(t, w, limit, "", time.Minute)
				w.post("client/1", c.events...)
				began := time.Now()
				for range 8 {
					time.Sleep(time.Until(w.next()))
					w.invoke()
				}
				w.mu.Lock()
				commits := w.counted("Commit ")
				w.mu.Unlock()
				for _, tries := range w.load("client/1").Attempts {
					if tries.Count > 0 || tries.Services >= len(c.served) {
						t.Errorf("the waiting call counts: %+v", tries)
					}
				}
				w.run(t)
				if after := time.Since(began); after < time.Minute || after > 80*time.Second {
					t.Errorf("called after %v, want a minute", after)
				}
				w.wantServed(t, c.served...)
				w.wantLog(t, "client/1", c.log...)
				w.wantParked(t)
				if want := len(c.served); commits > want {
					t.Errorf("%d commits while the call waited, want at most %d", commits, want)
				}
				for i, wait := range w.delays[1:] {
					if wait < w.delays[i] || wait > 5*time.Minute {
						t.Errorf("waits %v, want waits that grow, up to 5 minutes", w.delays)
					}
				}
			})
		})
	}
}

func TestEachKeyHasItsOwnLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := statechart.Limit{Name: "bank", Concurrency: 1}
		w := newLimited(t, limit, 1)
		busy(t, w, limit, "acme", time.Minute)
		w.post("client/1", event("add", "globex"), event("charge", ""))
		w.invoke()
		w.wantLog(t, "client/1", "globex", "call ok")
		w.post("client/2", event("add", "acme"), event("charge", ""))
		w.invoke()
		w.wantLog(t, "client/2", "acme")
		w.run(t)
	})
}

func TestACallWaitsAfterARetryWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := statechart.Limit{Name: "bank", Concurrency: 1}
		w := newLimited(t, limit, 2)
		w.third["call"] = failing(1, errFault)
		w.post("client/1", event("charge", ""))
		w.invoke()
		busy(t, w, limit, "", 30*time.Second)
		w.run(t)
		w.wantServed(t, "call 1", "call 2")
		w.wantLog(t, "client/1", "charge ok")
	})
}

func TestACallThatLosesItsPlaceUsesUpNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newLimited(t, statechart.Limit{Name: "bank", Concurrency: 1}, 1)
		began := time.Now()
		w.refuse = func(call string) error {
			if since := time.Since(began); strings.HasPrefix(call, "SwapLimit") && since > time.Second && since < time.Minute {
				return errFault
			}
			return nil
		}
		ended := make(chan time.Duration, 2) // A cancelled call may still run when the next one begins.
		w.third["call"] = func(ctx context.Context, _ statechart.Call) (string, error) {
			answer, err := lasting(35*time.Second, "call ok")(ctx, statechart.Call{})
			ended <- time.Since(began)
			return answer, err
		}
		w.post("client/1", event("charge", ""))
		w.run(t)
		w.wantServed(t, "call 1", "call 1")
		w.wantLog(t, "client/1", "call ok")
		if first := <-ended; first >= 30*time.Second {
			t.Errorf("cancelled after %v, want before the end of the lease", first)
		}
	})
}

func TestNoCallIsMadeWhileTheLimitCannotBeChecked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newLimited(t, statechart.Limit{Name: "bank", Rate: 1000}, 1)
		until := time.Now().Add(10 * time.Minute)
		w.refuse = func(call string) error {
			if strings.HasPrefix(call, "SwapLimit") && time.Now().Before(until) {
				return errFault
			}
			return nil
		}
		w.third["call"] = func(context.Context, statechart.Call) (string, error) {
			if time.Now().Before(until) {
				t.Error("called without a check of the limit")
			}
			return "call ok", nil
		}
		w.post("client/1", event("charge", ""))
		w.run(t)
		w.wantServed(t, "call 1")
		w.wantLog(t, "client/1", "call ok")
	})
}

// TestAFaultAtAnyCallOfALimitedServiceLosesNothing also checks that calls never overlap.
func TestAFaultAtAnyCallOfALimitedServiceLosesNothing(t *testing.T) {
	t.Parallel()
	limit := statechart.Limit{Name: "bank", Rate: 5, Concurrency: 1}
	play := func(t *testing.T, n int, f fault) (calls int) {
		t.Helper()
		w := newLimited(t, limit, 2)
		w.hook = func(string) fault {
			if len(w.calls) == n {
				return f
			}
			return none
		}
		running := 0
		w.third["call"] = func(context.Context, statechart.Call) (string, error) {
			if running++; running > 1 {
				t.Error("two calls at once")
			}
			time.Sleep(2 * time.Second)
			running--
			return "call ok", nil
		}
		w.post("client/1", event("charge", ""))
		w.post("client/2", event("charge", ""))
		w.run(t)
		w.wantLog(t, "client/1", "call ok")
		w.wantLog(t, "client/2", "call ok")
		w.wantParked(t)
		return len(w.calls)
	}
	calls := 0
	synctest.Test(t, func(t *testing.T) { calls = play(t, 0, none) })
	for n := range calls {
		for _, f := range []fault{failBefore, failAfter, dieBefore, dieAfter} {
			t.Run(fmt.Sprintf("%v at call %d", f, n+1), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { play(t, n+1, f) })
			})
		}
	}
}

func TestAKeyThatFailsFailsTheServiceForGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newLimited(t, statechart.Limit{Name: "bank", Rate: 1}, 3)
		w.post("client/1", event("add", strings.Repeat("k", statechart.LimitKeyBytesMax+1)), event("charge", ""))
		w.run(t)
		w.wantServed(t)
		log := w.logOf(t, "client/1")
		if last := log[len(log)-1]; !strings.Contains(last, "LimitKeyBytesMax") {
			t.Errorf("the chart got %q, want the error of the key", last)
		}
	})
}

func TestLimitsAreCheckedWhenMachinesAreBuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.client(statechart.Limit{Name: "bank", Rate: 1}, 1), w.client(statechart.Limit{Name: "bank", Rate: 2}, 1)
	if _, err := durable.NewMachines(one, renamed{other}); err == nil || !strings.Contains(err.Error(), "declare the limit once") {
		t.Errorf("two declarations of a limit: %v", err)
	}
	machines, err := durable.NewMachines(one)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := durable.New(machines, durable.Ports{}, w.config); err == nil || !strings.Contains(err.Error(), "set Ports.Limiter") {
		t.Errorf("no limiter: %v", err)
	}
	if got := one.Describe().Limits; !slices.Equal(got, []statechart.Limit{{Name: "bank", Rate: 1}}) {
		t.Errorf("described as %+v", got)
	}
}

// renamed is a machine with another ID.
type renamed struct{ durable.Machine }

func (renamed) ID() string { return "other" }
