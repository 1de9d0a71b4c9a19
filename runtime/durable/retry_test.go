package durable_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

func TestAFailedAttemptIsRepeatedAsThePolicySays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = failing(2, errors.New("busy"))
		w.post("order/1", event("charge", ""), event("add", "after"))
		for attempt, wait := range []time.Duration{5 * time.Second, 10 * time.Second} {
			if failed := w.invoke(); len(failed) != 2 {
				t.Errorf("failed: %q, want both", failed)
			}
			if got := w.delays[attempt]; got != wait {
				t.Errorf("delayed %v, want %v", got, wait)
			}
			var snapshot struct {
				Services map[string]struct{ Attempt int }
			}
			decode(t, w.load("order/1").Snapshot, &snapshot)
			for _, service := range snapshot.Services {
				if service.Attempt != attempt+1 {
					t.Errorf("stored attempt %d, want %d", service.Attempt, attempt+1)
				}
			}
			time.Sleep(wait)
		}
		w.invoke()
		w.wantServed(t, "charge 1", "charge 2", "charge 3")
		w.wantLog(t, "order/1", "charge ok", "after")
		w.wantParked(t)
	})
}

func TestAfterTheLastAttemptTheChartGetsTheError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		third  service
		served []string
		log    string
	}{
		{"errors", failing(99, errors.New("busy")), []string{"charge 1", "charge 2", "charge 3"}, "charge: busy"},
		{"a permanent error at once", failing(99, statechart.Permanent(errors.New("no such card"))), []string{"charge 1"}, "charge: no such card"},
		{"panics", func(context.Context, statechart.Call) (string, error) { panic("bug") }, []string{"charge 1", "charge 2", "charge 3"}, "charge: panic: a value of the type string"},
		{"timeouts", lasting(time.Hour, ""), []string{"charge 1", "charge 2", "charge 3"}, "charge: no answer within 10s"},
		{"kills", killing(99), []string{"charge 1", "charge 1", "charge 2", "charge 3"}, "charge: the last of 3 attempts did not finish"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.third["charge"] = c.third
				w.post("order/1", event("charge", ""), event("add", "after"))
				w.run(t)
				w.wantServed(t, c.served...)
				w.wantLog(t, "order/1", c.log, "after")
				w.wantParked(t)
			})
		})
	}
}

func TestTheTimeoutOfAnAttemptHoldsThoughTheServiceIgnoresIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = func(context.Context, statechart.Call) (string, error) {
			time.Sleep(15 * time.Second)
			return "too late", nil
		}
		w.post("order/1", event("charge", ""))
		began := time.Now()
		w.invoke()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("the attempt took %v, want its timeout of 10s", took)
		}
		w.run(t)
		w.wantLog(t, "order/1", "charge: no answer within 10s")
		time.Sleep(time.Minute) // The services return only now.
	})
}

func TestEachRetryWaitsForItsOwnInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["left"], w.third["right"] = failing(1, errors.New("busy")), failing(1, errors.New("busy"))
		w.post("order/1", event("both", ""))
		w.run(t)
		// The service `left` asks for a wait of 5 seconds, and the service `right` for 20 seconds.
		if want := []time.Duration{5 * time.Second, 15 * time.Second}; !slices.Equal(w.delays, want) {
			t.Errorf("delayed %v, want %v", w.delays, want)
		}
		w.wantLog(t, "order/1", "charge ok", "charge ok", "both ready")
	})
}

// The failed service asks for a wait of 5 seconds. The service that runs in parallel ends before or after this time.
func TestARetryWaitsUntilTheServicesBesideItHaveEnded(t *testing.T) {
	t.Parallel()
	for beside, want := range map[time.Duration]time.Duration{3 * time.Second: 2 * time.Second, 9 * time.Second: 0} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.third["left"], w.third["right"] = failing(1, errors.New("busy")), lasting(beside, "right")
			w.post("order/1", event("both", ""))
			began := time.Now()
			w.invoke()
			if took := time.Since(began); took != beside || !slices.Equal(w.delays, []time.Duration{leaseDefault, want}) {
				t.Errorf("took %v and delayed %v, want %v, and %v after the lease", took, w.delays, beside, want)
			}
			w.run(t)
			w.wantLog(t, "order/1", "right", "charge ok", "both ready")
			if keys := w.calledFor("right"); len(keys) != 1 {
				t.Errorf("the finished service ran %d times", len(keys))
			}
		})
	}
}

func TestAServiceThatRunsWhenTheTimeOfTheProcessIsUpHasUsedAnAttempt(t *testing.T) {
	t.Parallel()
	for name, third := range map[string]service{
		"obeys": lasting(time.Hour, ""),
		"ignores": func(context.Context, statechart.Call) (string, error) {
			time.Sleep(90 * time.Second)
			return "late", nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.third["pack"] = third
				w.post("order/1", event("ship", ""))
				began := time.Now()
				w.invoke()
				if took := time.Since(began); took != functionTimeout-2*time.Second {
					t.Errorf("took %v, want the time of the function but 2s", took)
				}
				w.third["pack"] = nil
				w.run(t)
				w.wantServed(t, "pack 1", "pack 2", "post 1")
				w.wantLog(t, "order/1", "pack ok", "post ok")
				time.Sleep(time.Hour) // The service returns only now.
			})
		})
	}
}

func TestNothingStartsWhenTheTimeOfTheProcessIsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["pack"] = func(context.Context, statechart.Call) (string, error) {
			time.Sleep(58*time.Second - time.Nanosecond)
			return "just so", nil
		}
		w.third["post"] = lasting(time.Second, "posted")
		w.post("order/1", event("ship", ""), event("ship", ""))
		w.invoke()
		w.wantServed(t, "pack 1", "post 1") // The service `post` had only a nanosecond left.
		w.third["pack"] = nil
		w.run(t)
		w.wantLog(t, "order/1", "just so", "posted", "pack ok", "posted")
		w.wantParked(t)

		w.names, w.calls = nil, nil
		w.post("order/1", event("charge", ""))
		batch := w.receive(batchSize)
		w.handle(batch, time.Second) // This is less than the margin.
		w.wantServed(t)
		w.wantCalls(t, "Load order/1", "Commit order/1", "Delay order/1")
		w.run(t)
		w.wantServed(t, "charge 1")
	})
}

func TestAnUnsettledInstanceIsSettledBeforeTheNextEventIsApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = killing(3)
		w.post("order/1", event("charge", ""))
		w.invoke()
		time.Sleep(visibilityTimeout)
		w.invoke() // The event is stored, but its service has not ended.
		w.wantState(t, "order/1", "charging")
		w.messages = nil // SQS dropped the message after too many receives.
		w.post("order/1", event("add", "next"))
		w.run(t)
		w.wantLog(t, "order/1", "alive", "next")
		w.wantParked(t)
	})
}

func TestALoopOfManyAttemptsIsNotTakenForAnAbandonedOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["poll"] = failing(25, errors.New("pending"))
		w.post("order/1", event("poll", ""), event("add", "after"))
		w.run(t)
		w.wantParked(t)
		w.wantLog(t, "order/1", "charge ok", "after")
	})
}

func TestAttemptsOfOneServiceAreNotCountedAgainstTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["grind"], w.third["charge"] = failing(20, errors.New("pending")), failing(2, errors.New("busy"))
		w.post("order/1", event("grind", ""), event("add", "after"))
		w.run(t)
		w.wantParked(t)
		w.wantLog(t, "order/1", "charge ok", "after")
		if record := w.load("order/1"); markOf(record) != nil {
			t.Errorf("the count %+v is left, want none", markOf(record))
		}
	})
}

func TestAServiceOfOneAttemptIsNotGivenUpBeforeItRan(t *testing.T) {
	t.Parallel()
	// A write that fails before a service starts must not count as an attempt of the service.
	for _, plan := range []map[string]fault{
		{"Commit order/1 #1": failBefore},
		{"Commit order/1 #1": failAfter},
		{"Commit order/1 #1": dieBefore},
		{"Commit order/1 #1": dieAfter},
		// The writes of a redelivery store the count of the try, the first attempt, its end, and the second attempt.
		{"Commit order/1 #1": dieBefore, "Commit order/1 #2": failBefore},
		{"Commit order/1 #1": dieBefore, "Commit order/1 #3": failBefore},
		{"Commit order/1 #1": dieBefore, "Commit order/1 #4": failBefore},
		{"Commit order/1 #1": dieBefore, "Commit order/1 #5": failBefore},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.post("order/1", event("add", "a"))
			w.invoke()
			w.hook = faults(plan)
			w.post("order/1", event("hurry", ""))
			w.run(t)
			w.wantLog(t, "order/1", "a", "hurry ok", "rush ok")
		})
	}
}

// waits returns the waits before the retries of an instance's deliveries, as an observer receives them.
func (w *world) waits(id string) func() []time.Duration {
	var waits []time.Duration
	w.config.Observer.Retried = func(_ context.Context, r durable.Retried) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if r.Delivery.Group == id {
			waits = append(waits, r.Wait)
		}
	}
	return func() []time.Duration { return waits }
}

// An event may kill the process, so it runs after the rest of its batch. In each batch, a service of another instance uses
// up the time of the invocation. A retry at once would use up the receives that the queue allows.
func TestASuspectThatFindsNoTimeIsRetriedWithBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = killing(3)
		w.third["pack"] = lasting(time.Hour, "")
		w.post("order/1", event("charge", ""))
		for range 3 {
			w.invoke()
			time.Sleep(visibilityTimeout)
		}
		waits := w.waits("order/1")
		for i := range 4 {
			w.post(fmt.Sprintf("order/%d", i+2), event("ship", ""))
			w.invoke()
			time.Sleep(5 * time.Minute)
		}
		if got, want := waits(), []time.Duration{8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("the retries wait %v, want %v", got, want)
		}
		w.third["pack"] = nil
		w.run(t)
		w.wantLog(t, "order/1", "alive")
		w.wantParked(t)
	})
}

// The table is so slow that the service never has as much time left as its timeout.
func TestAServiceThatFindsTooLittleTimeIsRetriedWithBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.shop())
		waits := w.waits("shop/1")
		w.latency = func(string) time.Duration { return 19 * time.Second }
		w.post("shop/1", event("charge", ""))
		w.runFor(t, 5*time.Minute)
		if got := waits(); len(got) < 3 || got[0] != time.Second || got[1] != 2*time.Second || got[2] != 4*time.Second {
			t.Errorf("the retries wait %v, want 1s, 2s, 4s and so on", got)
		}
		w.latency = nil
		w.run(t)
		w.wantLog(t, "shop/1", "charge ok")
	})
}

// A service ends so late that the next one finds too little time. The instance has made progress, so it needs no backoff.
func TestAServiceThatFollowsALongOneIsRetriedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.shop())
		w.third["pack"] = lasting(30*time.Second, "pack ok")
		waits := w.waits("shop/1")
		w.post("shop/1", event("ship", ""))
		w.run(t)
		if got := waits(); !slices.Equal(got, []time.Duration{0}) {
			t.Errorf("the retries wait %v, want one at once", got)
		}
		w.wantLog(t, "shop/1", "pack ok", "charge ok")
	})
}
