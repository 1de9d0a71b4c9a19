package limits

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

var errStore = errors.New("no table")

// memory is a Store for one key. A request takes five milliseconds.
type memory struct {
	mu       sync.Mutex
	state    State
	requests int
	isDown   bool
	// hangs is how long a request takes while the store is down. The request ignores its context.
	hangs time.Duration
	// loses is set if writes take effect but return an error.
	loses bool
}

func (m *memory) SwapLimit(_ context.Context, _, _, previous string, next State) (State, error) {
	time.Sleep(5 * time.Millisecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	if m.isDown {
		m.mu.Unlock()
		time.Sleep(m.hangs)
		m.mu.Lock()
		return State{}, errStore
	}
	if previous == m.state.Write {
		m.state = next
	}
	if m.loses {
		return State{}, errStore
	}
	return m.state, nil
}

func (m *memory) set(isDown bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isDown = isDown
}

// acquire returns nil if the call must wait.
func acquire(t *testing.T, l *Limiter, limit statechart.Limit) *Permit {
	t.Helper()
	p, err := l.Acquire(t.Context(), limit, "acme")
	if waits := (*WaitError)(nil); err != nil && !errors.As(err, &waits) {
		t.Fatalf("got %v, want a *WaitError", err)
	}
	return p
}

// start begins a call.
func start(t *testing.T, l *Limiter, limit statechart.Limit) (ctx context.Context, done func()) {
	t.Helper()
	ctx, done, err := acquire(t, l, limit).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return ctx, done
}

func TestAPlaceIsFreeForOthersOnceTheCallHasReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit, store := statechart.Limit{Name: "bank", Concurrency: 1}, &memory{}
		a, b := New(store, time.Now), New(store, time.Now)
		_, done := start(t, a, limit)
		time.Sleep(5 * lease) // Renewals keep the place.
		if acquire(t, b, limit) != nil {
			t.Error("two calls at once")
		}
		done()
		acquire(t, b, limit).Release()
		if held := a.keys[keyID{"bank", "acme"}].cancels; len(held) > 0 {
			t.Error("a call that has returned is still held")
		}
	})
}

func TestAPlaceIsGivenUpBeforeItIsReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit, store := statechart.Limit{Name: "bank", Concurrency: 2}, &memory{}
		a, b := New(store, time.Now), New(store, time.Now)
		first, second := acquire(t, a, limit), acquire(t, a, limit)
		store.loses = true
		first.Release()
		store.loses = false
		third := acquire(t, b, limit)
		if acquire(t, a, limit) != nil {
			t.Error("three calls at once: the process still uses the place that it has returned")
		}
		second.Release()
		third.Release()
	})
}

func TestACallDoesNotStartWithAPlaceThatIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit, store := statechart.Limit{Name: "bank", Concurrency: 1}, &memory{}
		p := acquire(t, New(store, time.Now), limit)
		store.set(true)
		time.Sleep(lease)
		store.set(false)
		other := acquire(t, New(store, time.Now), limit)
		if _, _, err := p.Start(t.Context()); err == nil {
			t.Error("two calls at once")
		}
		other.Release()
	})
}

func TestACallIsCancelledBeforeItsLeaseEnds(t *testing.T) {
	t.Parallel()
	for hangs := time.Duration(0); hangs < 5*time.Second; hangs += 700 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) { testLostLease(t, hangs) })
	}
}

func testLostLease(t *testing.T, hangs time.Duration) {
	t.Helper()
	limit, store := statechart.Limit{Name: "bank", Concurrency: 1}, &memory{hangs: hangs}
	a, b := New(store, time.Now), New(store, time.Now)
	ctx, done := start(t, a, limit)
	began := time.Now()
	store.set(true)
	<-ctx.Done()
	store.set(false)
	if after := time.Since(began); after > lease-loseBefore+requestMax || !errors.Is(context.Cause(ctx), errLost) {
		t.Errorf("cancelled after %v with %v, want two seconds before the lease ends", after, context.Cause(ctx))
	}
	if acquire(t, b, limit) != nil {
		t.Error("the place is free before the end of the lease")
	}
	time.Sleep(time.Until(began.Add(lease)))
	p := acquire(t, b, limit)
	done() // The late return of the cancelled call does not free the new place.
	if acquire(t, New(store, time.Now), limit) != nil {
		t.Error("two calls at once")
	}
	p.Release()
}

func TestACallThatIgnoresItsContextKeepsItsPlaceForOneLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit, store := statechart.Limit{Name: "bank", Concurrency: 1}, &memory{}
		a, b := New(store, time.Now), New(store, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		_, done, err := acquire(t, a, limit).Start(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(lease - time.Second)
		if acquire(t, b, limit) != nil {
			t.Error("two calls at once")
		}
		time.Sleep(2 * time.Second)
		acquire(t, b, limit).Release()
		done()
	})
}

func TestACallThatStartsTooLateIsAcquiredAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit, store := statechart.Limit{Name: "bank", Rate: 1, Per: 10 * time.Second, Concurrency: 1}, &memory{}
		l := New(store, time.Now)
		p := acquire(t, l, limit)
		time.Sleep(5 * time.Second)
		if _, _, err := p.Start(t.Context()); err == nil {
			t.Error("the call started after its time, although the rate is used up")
		}
		p = acquire(t, l, limit)
		if p != nil {
			t.Error("two calls within the period")
		}
		time.Sleep(time.Minute)
		_, done := start(t, l, limit)
		done()
		time.Sleep(time.Minute)
		p = acquire(t, l, limit)
		time.Sleep(time.Minute)
		_, done, err := p.Start(t.Context())
		if err != nil {
			t.Errorf("the second start: %v", err)
			return
		}
		done()
	})
}

func TestFiftyProcessesReachOneKeyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const processes = 50
		limit, store := statechart.Limit{Name: "bank", Concurrency: 2 * processes}, &memory{}
		var permits [processes]*Permit
		var all sync.WaitGroup
		began := time.Now()
		for i := range processes {
			all.Go(func() { permits[i] = acquire(t, New(store, time.Now), limit) })
		}
		all.Wait()
		denied := 0
		for _, p := range permits {
			if p == nil {
				denied++
			} else {
				p.Release()
			}
		}
		t.Logf("%d calls wait, after %v, %d requests", denied, time.Since(began), store.requests)
		if denied > processes/4 || time.Since(began) > requestMax {
			t.Errorf("%d of %d calls wait after %v, although all are free", denied, processes, time.Since(began))
		}
	})
}

func TestACallWaitsWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New(&memory{isDown: true}, time.Now)
		_, err := l.Acquire(t.Context(), statechart.Limit{Name: "bank", Rate: 1000}, "acme")
		if waits := (*WaitError)(nil); !errors.As(err, &waits) || !errors.Is(err, errStore) || !waits.Until.IsZero() {
			t.Errorf("got %v, want a WaitError with the error of the store", err)
		}
	})
}

// TestMostCallsOfABusyProcessNeedNoRequest measures the numbers in the table of docs/charts/limits.md.
func TestMostCallsOfABusyProcessNeedNoRequest(t *testing.T) {
	t.Parallel()
	const calls = 1000
	for _, c := range []struct {
		name        string
		limit       statechart.Limit
		every, took time.Duration
		requestsMax int
	}{
		{"a concurrency, calls in a row", statechart.Limit{Name: "bank", Concurrency: 20}, 50 * time.Millisecond, 20 * time.Millisecond, 5},
		{"a rate that is used to a tenth", statechart.Limit{Name: "bank", Rate: 1000}, 10 * time.Millisecond, 0, 50},
		{"a rate per hour", statechart.Limit{Name: "bank", Rate: 10_000, Per: time.Hour}, time.Second, 0, 60},
		{"a call now and then", statechart.Limit{Name: "bank", Rate: 10, Concurrency: 5}, time.Minute, time.Second, calls + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &memory{}
				l := New(store, time.Now)
				for range calls {
					_, done := start(t, l, c.limit)
					time.Sleep(c.took)
					done()
					time.Sleep(c.every - c.took)
				}
				t.Logf("%.3f requests for each call", float64(store.requests)/calls)
				if store.requests > c.requestsMax {
					t.Errorf("%d requests for %d calls, want at most %d", store.requests, calls, c.requestsMax)
				}
			})
		})
	}
}
