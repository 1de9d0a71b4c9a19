package durable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// After each kill, the events of both instances are in one batch again. The healthy service is still running when the
// other service kills the process.
func TestAServiceLosesNoAttemptsToANeighbourThatKillsTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = func(ctx context.Context, call statechart.Call) (string, error) {
			if call.Instance == "order/1" {
				time.Sleep(time.Second)
				kill(ctx)
				return "", ctx.Err()
			}
			return lasting(2*time.Second, "charge ok")(ctx, call)
		}
		w.post("order/1", event("charge", ""))
		w.post("order/2", event("charge", ""))
		w.run(t)
		w.wantLog(t, "order/1", "charge: the last of 3 attempts did not finish")
		w.wantLog(t, "order/2", "charge ok")
		w.wantParked(t)
	})
}

// The healthy service has only one attempt. When the process dies, nothing about the service's event is stored yet.
func TestAServiceDoesNotLoseItsOnlyAttemptToANeighbour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = func(ctx context.Context, _ statechart.Call) (string, error) {
			time.Sleep(time.Second)
			kill(ctx)
			return "", ctx.Err()
		}
		w.third["first"] = lasting(2*time.Second, "first ok")
		w.post("order/1", event("charge", ""))
		w.post("order/2", event("devour", ""))
		w.run(t)
		w.wantLog(t, "order/1", "charge: the last of 3 attempts did not finish")
		w.wantLog(t, "order/2", "first ok")
	})
}

// An action of order/1 kills the process: the process dies at the write that follows the action.
func TestAnEventIsNotParkedForANeighbourThatKillsTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.latency = func(id string) time.Duration { // The healthy instance always has a call in flight.
			return map[string]time.Duration{"order/1": 4 * time.Millisecond, "order/2": 5 * time.Millisecond}[id]
		}
		for _, id := range []string{"order/1", "order/2"} {
			w.post(id, event("add", "before"))
			w.invoke()
		}
		w.post("order/1", event("add", "killer"))
		w.post("order/2", event("add", "innocent"))
		kills := 0
		w.hook = func(call string) fault {
			counted := 0
			if attempts := w.load("order/1").Attempts; len(attempts) > 0 {
				counted = attempts[0].Count
			}
			// The loop counts a redelivery before its try. At the last redelivery, it parks the event without a try.
			isTried := w.messages[0].ReceiveCount == 1 || counted == w.messages[0].ReceiveCount-1 && counted <= 10
			if call == "Commit order/1" && isTried {
				kills++
				return dieBefore
			}
			return none
		}
		w.run(t)
		w.wantParked(t, [2]string{"killer", "the process died during the attempt, 10 times"})
		w.wantLog(t, "order/1", "before")
		w.wantLog(t, "order/2", "before", "innocent")
		if kills != 11 {
			t.Errorf("%d kills, want 11: the first delivery is not counted", kills)
		}
	})
}

// A service kills the process until a timer ends its state. The service of the next state kills the process too.
func TestAServiceThatATimerStartsHasAllItsAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.AbandonedMax = 3
		kills := 0
		w.third["kill"] = func(ctx context.Context, _ statechart.Call) (string, error) {
			if kills++; kills <= 30 {
				kill(ctx)
			}
			return "killed enough", ctx.Err()
		}
		killing := []invoke{{Service: w.service("kill"), Retry: statechart.RetryPolicy{Attempts: 100}, OnDone: []on{{Target: "#end"}}, OnError: []on{{Target: "#end"}}}}
		machines, err := durable.NewMachines(durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "killer", Version: 1, Initial: "first", Payloads: payloads(), States: []chartState{
				{ID: "first", Invoke: killing, After: []after{{Delay: 20 * visibilityTimeout, Target: "second"}}},
				{ID: "second", Invoke: killing},
				{ID: "end", Tags: settled},
			},
		}), durable.MachineConfig{}))
		if err != nil {
			t.Fatal(err)
		}
		w.machines = machines
		w.post("killer/1", event("add", "a"))
		w.run(t)
		w.wantState(t, "killer/1", "end")
		if r := w.load("killer/1"); r.Error != nil || kills != 31 {
			t.Errorf("want 30 kills and no error, got %d and %+v", kills-1, r.Error)
		}
	})
}

// A batch holds an event that has killed the process twice, and events of other instances. The loop tries this suspect
// event last.
func TestSuspectsComeAfterTheRestOfTheirBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var done []string
		w.config.Observer = durable.Observer{Committed: func(_ context.Context, c durable.Committed) {
			w.mu.Lock()
			defer w.mu.Unlock()
			done = append(done, c.Instance)
		}}
		w.latency = func(string) time.Duration { return time.Second }
		w.post("order/1", event("charge", ""))
		kills := 0
		w.third["charge"] = func(ctx context.Context, _ statechart.Call) (string, error) {
			if kills++; kills < 4 {
				kill(ctx)
				return "", ctx.Err()
			}
			return "charge ok", nil
		}
		for range 3 {
			w.invoke()
			time.Sleep(visibilityTimeout)
		}
		w.post("order/2", event("add", "a"))
		w.post("order/3", event("add", "b"))
		done = nil
		w.invoke()
		if len(done) < 3 || slices.Contains(done[:2], "order/1") {
			t.Errorf("stored in the order %v, want order/1 last", done)
		}
		w.wantLog(t, "order/1", "charge ok")
	})
}

// When a service ends, the loop resets the count of tries of its event. Here, the write before the next service's first
// attempt takes effect, but the loop does not get the response.
func TestATakenBackTryIsNotCountedBelowZero(t *testing.T) {
	t.Parallel()
	for n := 2; n <= 3; n++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.third["pack"] = killing(1)
			w.post("order/1", event("ship", ""))
			w.invoke()
			time.Sleep(visibilityTimeout)
			w.hook = faults(map[string]fault{fmt.Sprintf("Commit order/1 #%d", n): failAfter})
			w.invoke()
			for _, attempt := range w.load("order/1").Attempts {
				if attempt.Count < 0 {
					t.Errorf("fault at commit %d: want a count of at least 0, got %+v", n, attempt)
				}
			}
		})
	}
}

// The last attempt of a service runs alone, after the rest of its batch. Each time, another group of the batch leaves
// this attempt too little time.
func TestALastAttemptIsNotStarvedByItsNeighbours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = failing(2, errors.New("busy"))
		w.third["pack"] = lasting(functionTimeout-8*time.Second, "packed")
		w.post("order/1", event("charge", ""))
		for i := range 12 {
			time.Sleep(visibilityTimeout)
			w.post(fmt.Sprint("order/", i+2), event("ship", ""))
			w.invoke()
		}
		w.wantLog(t, "order/1", "charge ok")
	})
}

func TestFailuresOfTheTableUseUpNoTries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body, state string
		log         []string
	}{
		"an event":         {event("add", "a"), "idle", []string{"before", "a"}},
		"a service":        {event("charge", ""), "idle", []string{"before", "charge ok"}},
		"several services": {event("ship", ""), "idle", []string{"before", "pack ok", "label ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.post("order/1", event("add", "before"))
				w.invoke()
				begun, commits := time.Now(), 0
				w.hook = func(call string) fault {
					if call != "Commit order/1" || time.Since(begun) > 24*time.Hour {
						return none
					}
					if commits++; commits%2 == 0 || w.messages[0].ReceiveCount == 1 {
						return failBefore
					}
					return none
				}
				w.post("order/1", c.body)
				w.run(t)
				w.wantParked(t)
				w.wantState(t, "order/1", c.state)
				if shown := w.load("order/1").Error; shown != nil {
					t.Errorf("the instance shows %+v, want no error", shown)
				}
				if got := w.logOf(t, "order/1"); len(got) != len(c.log) {
					t.Errorf("the log is %q, want %q", got, c.log)
				}
			})
		})
	}
}

// clockOf returns a machine that performs the action when its one-minute timer fires.
func clockOf(ring statechart.Action[basket]) durable.Machine {
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "clock", Version: 1, Initial: "idle", Payloads: payloads(), On: []on{{Event: "add", Actions: do{keep}}},
		States: []chartState{
			{ID: "idle", Tags: settled, On: []on{{Event: "wait", Target: "waiting"}}},
			{ID: "waiting", Tags: settled, After: []after{{Delay: time.Minute, Target: "idle", Actions: do{ring}}}},
		},
	}), durable.MachineConfig{})
}

// A chart fails on its timer's firing until a fix is deployed a day later. A parked firing would be lost, because no
// producer sends it again.
func TestAFiringIsNeverParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		mended := time.Now().Add(24 * time.Hour)
		ring := statechart.TryAssign("ring", func(b *basket, _ statechart.Event) error {
			if time.Now().Before(mended) {
				return errFault
			}
			b.Log = append(b.Log, "rang")
			return nil
		})
		w.host(t, clockOf(ring))
		w.post("clock/1", event("wait", ""))
		w.runFor(t, time.Hour)
		w.post("clock/1", event("add", "meanwhile"))
		w.runFor(t, time.Hour)
		w.wantLog(t, "clock/1", "meanwhile") // The failed firing does not delay other events.
		if shown := w.load("clock/1").Error; shown == nil || !strings.Contains(shown.Message, "ring") {
			t.Errorf("the instance shows %+v, want the failure of ring", shown)
		}
		w.run(t)
		w.wantLog(t, "clock/1", "meanwhile", "rang")
		w.wantParked(t)
	})
}

// When its timer fires, a chart puts more into its context than an instance can store. A fix is deployed a day later.
func TestAFiringThatCannotBeStoredIsNotParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		mended := time.Now().Add(24 * time.Hour)
		w.host(t, clockOf(statechart.Assign("ring", func(b *basket, _ statechart.Event) {
			if b.Log = append(b.Log, "rang"); time.Now().Before(mended) {
				b.Blob = strings.Repeat("x", 300<<10)
			}
		})))
		w.post("clock/1", event("wait", ""))
		w.runFor(t, time.Hour)
		w.post("clock/1", event("add", "meanwhile"))
		w.runFor(t, time.Hour)
		w.wantLog(t, "clock/1", "meanwhile")
		if shown := w.load("clock/1").Error; shown == nil || !strings.Contains(shown.Message, "the limit is 262144") {
			t.Errorf("the instance shows %+v, want the size", shown)
		}
		w.run(t)
		w.wantLog(t, "clock/1", "meanwhile", "rang")
		w.wantParked(t)
	})
}

// An instance cannot settle: the chart fails on the end of its service, and an hour later on its timer. A fix is deployed
// a day later.
func TestAFiringToAnInstanceThatCannotSettleIsNotParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = func(context.Context, statechart.Call) (string, error) {
			return "", statechart.Permanent(errors.New("no money"))
		}
		mended := time.Now().Add(24 * time.Hour)
		ring := statechart.TryAssign("ring", func(b *basket, _ statechart.Event) error {
			if time.Now().Before(mended) {
				return errFault
			}
			b.Log = append(b.Log, "rang")
			return nil
		})
		pay := statechart.TryAssign("pay", func(b *basket, _ statechart.ServiceError) error {
			if time.Now().Before(mended) {
				return errFault
			}
			b.Log = append(b.Log, "paid")
			return nil
		})
		w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "clock", Version: 1, Initial: "both", Payloads: payloads(),
			States: []chartState{{ID: "both", Type: statechart.Parallel, States: []chartState{
				{ID: "bell", Initial: "waiting", States: []chartState{
					{ID: "waiting", Tags: settled, On: []on{{Event: "add"}}, After: []after{{Delay: time.Hour, Target: "rung", Actions: do{ring}}}},
					{ID: "rung", Tags: settled},
				}},
				{ID: "till", Initial: "idle", States: []chartState{
					{ID: "idle", Tags: settled, On: []on{{Event: "charge", Target: "charging"}}},
					{ID: "charging", Invoke: []invoke{{Service: w.service("charge"), OnDone: []on{{Target: "idle"}}, OnError: []on{{Target: "idle", Actions: do{pay}}}}}},
				}},
			}}},
		}), durable.MachineConfig{}))
		w.post("clock/1", event("add", ""))
		w.runFor(t, time.Minute)
		w.post("clock/1", event("charge", ""))
		w.run(t)
		w.wantLog(t, "clock/1", "rang", "paid")
		w.wantParked(t)
	})
}

// A sender forges the message of an active timer, with an impossible count of retries. The chart fails on this message.
func TestAForgedCountOfRetriesBlocksNothing(t *testing.T) {
	t.Parallel()
	for _, retries := range []int{-1, math.MaxInt} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.host(t, clockOf(statechart.TryAssign("ring", func(*basket, statechart.Event) error { return errFault })))
			w.post("clock/1", event("wait", ""))
			w.runFor(t, 30*time.Second)
			w.post("clock/1", fmt.Sprintf(`{"type": %q, "timer": "2.0", "$incarnation": %d, "$retries": %d, "note": "<&>"}`,
				statechart.TimerEvent, w.load("clock/1").CreatedAt.UnixMilli(), retries))
			w.runFor(t, 5*time.Hour)
			// Encoding must not add HTML escapes: with them, a message of 1 MiB would no longer fit into the queue.
			isPostponed := func(s scheduled) bool {
				return bytes.Contains(s.message.Body, []byte(`"$retries":`)) && bytes.Contains(s.message.Body, []byte(`"<&>"`))
			}
			if !slices.ContainsFunc(w.scheduled, isPostponed) {
				t.Errorf("want the message scheduled again with its text as it was, got %+v", w.scheduled)
			}
			w.post("clock/1", event("add", "behind"))
			w.runFor(t, 5*time.Hour)
			w.wantLog(t, "clock/1", "behind")
			w.wantParked(t)
		})
	}
}

// The loop sends heartbeats for a task. Then every attempt to schedule a timer fails for five hours.
func TestOutagesOfTheTimersEndNoChain(t *testing.T) {
	t.Parallel()
	inParcelWorld(t, func(t *testing.T, w *world) {
		w.waitFor("t1", "HandOver", 0, 10*time.Hour)
		w.runFor(t, 10*time.Minute)
		w.hook = stuck("Schedule parcel/1", 5*time.Hour)
		w.runFor(t, 48*time.Hour)
		w.wantParked(t)
		w.wantAnswer(t, "t1", "waits")
	})
}
