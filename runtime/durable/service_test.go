package durable_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// lasting returns a service that takes the given time, but ends early if its context ends.
func lasting(d time.Duration, answer string) service {
	return func(ctx context.Context, _ statechart.Call) (string, error) {
		select {
		case <-time.After(d):
			return answer, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// killing returns a service whose first n attempts kill the process.
func killing(n int) service {
	calls := 0
	return func(ctx context.Context, _ statechart.Call) (string, error) {
		if calls++; calls <= n {
			kill(ctx)
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "alive", nil
	}
}

func TestTheResultOfAServiceIsFedBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = lasting(3*time.Second, "charged 12 EUR")
		w.post("order/1", event("charge", ""), event("add", "after"))
		w.invoke()
		w.wantLog(t, "order/1", "charged 12 EUR", "after")
		var lines []string
		for _, line := range w.load("order/1").History {
			lines = append(lines, strings.Join(line.From, " ")+" "+line.Event+" "+strings.Join(line.To, " "))
		}
		if want := []string{"idle charge charging", "charging done.invoke.charging idle", "idle add idle"}; !slices.Equal(lines, want) {
			t.Errorf("the history is %q, want %q", lines, want)
		}
	})
}

func TestAServiceThatFinishedNeverRunsAgainThoughTheNextOneKillsTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["post"] = killing(1)
		w.post("order/1", event("ship", ""), event("add", "after"))
		w.run(t)
		w.wantLog(t, "order/1", "pack ok", "alive", "after")
		if keys := w.calledFor("pack"); len(keys) != 1 {
			t.Errorf("the first service ran %d times", len(keys))
		}
		w.wantParked(t)
	})
}

func TestServicesOfParallelRegionsRunConcurrently(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["left"], w.third["right"] = lasting(20*time.Second, "left"), lasting(30*time.Second, "right")
		w.post("order/1", event("both", ""))
		began := time.Now()
		w.invoke()
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("took %v, want 30s", took)
		}
		w.wantLog(t, "order/1", "left", "right", "both ready")
	})
}

func TestTheEndOfOneParallelServiceIsStoredWhileTheOtherRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		right := killing(1)
		w.third["left"] = lasting(time.Second, "left")
		w.third["right"] = func(ctx context.Context, call statechart.Call) (string, error) {
			time.Sleep(5 * time.Second)
			w.mu.Lock()
			w.wantLog(t, "order/1", "left")
			w.mu.Unlock()
			return right(ctx, call)
		}
		w.post("order/1", event("both", ""))
		w.run(t)
		w.wantLog(t, "order/1", "left", "alive", "both ready")
		if keys := w.calledFor("left"); len(keys) != 1 {
			t.Errorf("the service that ended first ran %d times", len(keys))
		}
	})
}

func TestTheIdempotencyKeyIsTheSameInEveryAttemptOfAnInvocation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		third service
		plan  map[string]fault
	}{
		{"failures", failing(2, errors.New("busy")), nil},
		{"kills", killing(2), nil},
		{"lost commit", nil, map[string]fault{"Commit order/1 #1": failBefore, "Commit order/1 #2": failAfter}},
		{"death before anything is stored", nil, map[string]fault{"Commit order/1 #1": dieBefore}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.third["charge"] = c.third
				w.hook = faults(c.plan)
				w.post("order/1", event("charge", "first event of the instance"))
				w.run(t)
				keys := w.calledFor("charge")
				if len(keys) < 2 || len(slices.Compact(slices.Clone(keys))) != 1 {
					t.Errorf("attempts had the keys %q, want the same in at least two", keys)
				}
				w.wantParked(t)
			})
		})
	}
}

func TestInvocationsAndIncarnationsHaveDifferentIdempotencyKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range 2 {
			w.post("order/1", event("charge", ""), event("charge", ""))
			w.post("order/2", event("charge", ""))
			w.run(t)
			clear(w.records)
			clear(w.revision)
			time.Sleep(time.Millisecond)
		}
		keys := w.calledFor("charge")
		slices.Sort(keys)
		if len(slices.Compact(keys)) != 6 {
			t.Errorf("keys are not unique: %q", keys)
		}
	})
}

func TestAnInvocationAfterATimerHasAKeyOfItsOwnThoughTheProcessDies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// In the first run, a timer ends the first service, and the process dies in the next one. If the redelivery called
		// the first service again, that call would succeed in time. A step with the same number would then start another
		// service.
		w := newWorld(t)
		slow := 0
		w.third["slow"] = func(ctx context.Context, call statechart.Call) (string, error) {
			if slow++; slow == 1 {
				return lasting(time.Hour, "")(ctx, call)
			}
			return "quick", nil
		}
		w.third["apologize"] = killing(1)
		w.post("order/1", event("limit", ""), event("charge", ""))
		w.run(t)
		w.wantServed(t, "slow 1", "apologize 1", "apologize 1", "charge 1")
		w.wantLog(t, "order/1", "limit reached", "alive", "charge ok")
	})
}

func TestAfterLimitsTheServiceOfAnUnsettledState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["slow"] = lasting(time.Hour, "too late")
		w.post("order/1", event("limit", ""))
		began := time.Now()
		w.invoke()
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("took %v, want the 30s of the timer", took)
		}
		w.wantLog(t, "order/1", "limit reached", "apologize ok")
		if len(w.scheduled) != 0 {
			t.Errorf("the limit was scheduled: %+v", w.scheduled)
		}
	})
}

func TestTheEndOfAServiceWhoseStateWasLeftMeansNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// A timer ends the state, which cancels the only attempt. The error of this attempt arrives while the next service
		// runs.
		w := newWorld(t)
		began := time.Now()
		w.third["hurry"] = func(ctx context.Context, call statechart.Call) (string, error) {
			defer func() {
				if took := time.Since(began); took != 40*time.Second {
					t.Errorf("the service was cancelled after %v, want 40s", took)
				}
			}()
			return lasting(time.Hour, "")(ctx, call)
		}
		w.third["apologize"] = lasting(5*time.Second, "sorry")
		w.post("order/1", event("hurry", ""))
		w.invoke()
		w.wantLog(t, "order/1", "sorry")
		if record := w.load("order/1"); record.Ignored != 0 || len(record.History) != 3 {
			t.Errorf("%d events ignored, history %+v, want none ignored and three transitions", record.Ignored, record.History)
		}
	})
}

func TestAfterKeepsItsDeadlineOverRedeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// The retry would follow after 4 minutes, but a timer ends the state 30 seconds after its entry.
		w := newWorld(t)
		w.third["slow"] = failing(99, errors.New("busy"))
		w.post("order/1", event("limit", ""))
		began := time.Now()
		w.run(t)
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("took %v, want the 30s of the timer", took)
		}
		w.wantLog(t, "order/1", "limit reached", "apologize ok")
		w.wantServed(t, "slow 1", "apologize 1")
	})
}

func TestOfTimersThatAreDueTheEarliestFiresFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// The state has timers of 10 minutes and of 30 seconds. Both are due at the redelivery.
		w := newWorld(t)
		w.third["slow"] = func(ctx context.Context, _ statechart.Call) (string, error) {
			return killing(1)(ctx, statechart.Call{})
		}
		w.post("order/1", event("add", "a"))
		w.invoke()
		w.post("order/1", event("limit", ""))
		for range 3 {
			w.invoke() // The process dies in the first two invocations. The second has stored its attempt.
			time.Sleep(time.Hour)
		}
		w.wantLog(t, "order/1", "a", "limit reached", "apologize ok")
	})
}

func TestATimerThatIsAlwaysDueDoesNotKeepTheProcessForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("past", ""), event("add", "a"))
		w.post("order/2", event("add", "b"))
		w.run(t)
		w.wantLog(t, "order/2", "b")
		w.wantParked(t, [2]string{"add", "does not end"}) // The event "past" is already applied.
	})
}

// shop is a machine whose services each have one attempt, of at most 40 seconds.
func (w *world) shop() durable.Machine {
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "shop", Version: 1, Initial: "idle", Payloads: payloads(),
		States: []chartState{
			{ID: "idle", Tags: settled, On: []on{{Event: "charge", Target: "charging"}, {Event: "ship", Target: "packing"}, {Event: "add", Actions: do{keep}}}},
			{ID: "packing", Invoke: []invoke{{Service: w.service("pack"), Timeout: 40 * time.Second, OnDone: []on{{Target: "charging", Actions: do{answered}}}, OnError: []on{{Target: "idle"}}}}},
			{ID: "charging", Invoke: []invoke{{Service: w.service("charge"), Timeout: 40 * time.Second,
				OnDone: []on{{Target: "idle", Actions: do{answered}}}, OnError: []on{{Target: "idle", Actions: do{gaveUp}}}}}},
		},
	}), durable.MachineConfig{})
}

// The table answers late once, and so leaves the service less time than it needs.
func TestAServiceLosesNoAttemptToASlowTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = lasting(30*time.Second, "charge ok")
		w.host(t, w.shop())
		w.post("shop/1", event("add", "a"))
		w.run(t)
		w.post("shop/1", event("charge", ""))
		var isLate atomic.Bool
		w.latency = func(string) time.Duration {
			if isLate.CompareAndSwap(false, true) {
				return 40 * time.Second
			}
			return 0
		}
		w.run(t)
		w.wantLog(t, "shop/1", "a", "charge ok")
	})
}

// Another writer is faster than the commit after the service, so the service runs again.
func TestAServiceLosesNoAttemptToAnotherWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = lasting(35*time.Second, "charge ok")
		w.host(t, w.shop())
		w.post("shop/1", event("add", "a"))
		w.run(t)
		w.post("shop/1", event("charge", ""))
		conflicts := 0
		w.refuse = func(call string) error {
			if call == "Commit shop/1" && conflicts == 0 {
				conflicts++
				return durable.ErrConflict
			}
			return nil
		}
		w.run(t)
		w.wantLog(t, "shop/1", "a", "charge ok")
	})
}
