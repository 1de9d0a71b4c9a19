package durable_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// A: an event starts an instance, whose first service has one attempt and a timeout. Its first process dies. In each later batch, a
// neighbour leaves less than the timeout. (TestALastAttemptIsNotStarvedByItsNeighbours, for an instance that is not stored.)
func TestSuspicionAStartWithOneAttemptIsNotStarved(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 2} {
		sub(t, fmt.Sprint(attempts, " attempts"), func(t *testing.T) {
			w := newWorld(t)
			w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
				ID: "once", Version: 1, Initial: "booting", Payloads: payloads(),
				States: []chartState{
					{ID: "booting", Invoke: []invoke{{Service: w.service("boot"), Timeout: 10 * time.Second, Retry: statechart.RetryPolicy{Attempts: attempts},
						OnDone: []on{{Target: "idle", Actions: do{answered}}}, OnError: []on{{Target: "idle", Actions: do{gaveUp}}}}}},
					{ID: "idle", Tags: settled, On: []on{{Event: "add", Actions: do{keep}}}},
				},
			}), durable.MachineConfig{}))
			w.third["boot"] = killing(1)
			w.third["pack"] = lasting(functionTimeout-8*time.Second, "packed")
			w.post("once/1", event("add", "a"))
			w.invoke()
			for i := range 100 {
				time.Sleep(visibilityTimeout)
				w.post(fmt.Sprint("order/", i+2), event("ship", ""))
				w.invoke()
				if w.load("once/1").Revision > 0 {
					t.Logf("stored after %d redeliveries", i+1)
					break
				}
			}
			if w.load("once/1").Revision == 0 {
				t.Fatalf("not even stored after 100 redeliveries: boot was called %d times", len(w.calledFor("boot")))
			}
			w.wantLog(t, "once/1", "alive", "a")
		})
	}
}

func (w *world) twin(long, once statechart.RetryPolicy, onceTimeout time.Duration) durable.Machine {
	invoked := func(name, target string, retry statechart.RetryPolicy, timeout time.Duration) []invoke {
		return []invoke{{Service: w.service(name), Timeout: timeout, Retry: retry, OnDone: []on{{Target: target, Actions: do{answered}}}, OnError: []on{{Target: "ready", Actions: do{gaveUp}}}}}
	}
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "twin", Version: 1, Initial: "idle", Payloads: payloads(),
		States: []chartState{
			{ID: "idle", Tags: settled, On: []on{{Event: "both", Target: "both"}}},
			{ID: "both", Type: statechart.Parallel, States: []chartState{
				{ID: "left", Initial: "busy", States: []chartState{
					{ID: "busy", Invoke: invoked("long", "ready", long, 0)}, {ID: "ready", Type: statechart.Final}}},
				{ID: "right", Initial: "busy", States: []chartState{
					{ID: "busy", Invoke: invoked("quick", "next", statechart.RetryPolicy{Attempts: 3}, 0)},
					{ID: "next", Invoke: invoked("single", "ready", once, onceTimeout)}, {ID: "ready", Type: statechart.Final}}},
			}, OnDone: []on{{Target: "idle", Actions: do{noted("both ready")}}}},
		},
	}), durable.MachineConfig{})
}

// B: two parallel services run in a redelivery beside a neighbour. The shorter one ends, and a service with one attempt follows it.
func TestSuspicionAParallelServiceLosesNoAttemptToALastAttempt(t *testing.T) {
	t.Parallel()
	for _, neighbour := range []bool{false, true} {
		sub(t, fmt.Sprint("neighbour ", neighbour), func(t *testing.T) {
			w := newWorld(t)
			w.host(t, w.twin(statechart.RetryPolicy{Attempts: 2}, statechart.RetryPolicy{}, 0))
			kills, fails := 0, 0
			w.third["quick"] = func(ctx context.Context, _ statechart.Call) (string, error) {
				if kills++; kills == 1 {
					kill(ctx)
				}
				return "quick ok", ctx.Err()
			}
			w.third["long"] = func(ctx context.Context, call statechart.Call) (string, error) {
				if _, err := lasting(5*time.Second, "")(ctx, call); err != nil {
					return "", err
				}
				if fails++; fails == 1 {
					return "", errors.New("busy")
				}
				return "long ok", nil
			}
			w.post("twin/1", event("both", ""))
			w.invoke()
			time.Sleep(visibilityTimeout)
			if neighbour {
				w.post("order/2", event("add", "healthy"))
			}
			w.run(t)
			t.Logf("served %q", w.names)
			if log := w.logOf(t, "twin/1"); !slices.Contains(log, "long ok") {
				t.Errorf("the log is %q", log)
			}
		})
	}
}

// C: as B, but the long service has failed and asks for a wait of 5 minutes.
func TestSuspicionAFailedServiceIsNotRetriedBeforeItsWait(t *testing.T) {
	t.Parallel()
	for _, neighbour := range []bool{false, true} {
		sub(t, fmt.Sprint("neighbour ", neighbour), func(t *testing.T) {
			w := newWorld(t)
			w.host(t, w.twin(statechart.RetryPolicy{Attempts: 4, Interval: 5 * time.Minute}, statechart.RetryPolicy{}, 0))
			kills := 0
			w.third["quick"] = func(ctx context.Context, call statechart.Call) (string, error) {
				if kills++; kills == 1 {
					kill(ctx)
					return "", ctx.Err()
				}
				return lasting(time.Second, "quick ok")(ctx, call)
			}
			var at []time.Time
			w.third["long"] = func(context.Context, statechart.Call) (string, error) {
				at = append(at, time.Now())
				return "", errors.New("busy")
			}
			w.post("twin/1", event("both", ""))
			w.invoke()
			time.Sleep(visibilityTimeout)
			at = nil
			if neighbour {
				w.post("order/2", event("add", "healthy"))
			}
			w.run(t)
			for i := 1; i < len(at); i++ {
				if wait := at[i].Sub(at[i-1]); wait < 5*time.Minute {
					t.Errorf("attempt %d came %v after the one before, want at least 5m", i+1, wait)
				}
			}
		})
	}
}

// D: the first delivery, alone. The shorter of two parallel services ends late, and too little time is left for the next one. The long
// service has one attempt.
func TestSuspicionAParallelServiceLosesNoAttemptToALackOfTime(t *testing.T) {
	t.Parallel()
	sub(t, "", func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.twin(statechart.RetryPolicy{}, statechart.RetryPolicy{}, 30*time.Second))
		w.third["quick"], w.third["long"] = lasting(40*time.Second, "quick ok"), lasting(50*time.Second, "long ok")
		w.post("twin/1", event("both", ""))
		w.run(t)
		t.Logf("served %q", w.names)
		if log := w.logOf(t, "twin/1"); !slices.Contains(log, "long ok") {
			t.Errorf("the log is %q", log)
		}
	})
}

// E: a service kills the process 12 times. An operator moves the instance into a state whose service is healthy, and has its own attempts.
func TestSuspicionAMoveGivesTheNextServiceItsAttempts(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		sub(t, fmt.Sprint("first event ", first), func(t *testing.T) {
			w := newWorld(t)
			w.third["kill"] = func(ctx context.Context, _ statechart.Call) (string, error) {
				kill(ctx)
				return "", ctx.Err()
			}
			w.third["heal"] = lasting(time.Second, "healed")
			initial := "idle"
			if first {
				initial = "first"
			}
			w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
				ID: "killer", Version: 1, Initial: initial, Payloads: payloads(), On: []on{{Event: "add", Actions: do{keep}}}, States: []chartState{
					{ID: "idle", Tags: settled, On: []on{{Event: "both", Target: "first"}, {Event: "charge", Target: "second"}}},
					{ID: "first", Invoke: []invoke{{Service: w.service("kill"), Retry: statechart.RetryPolicy{Attempts: 100}, OnDone: []on{{Target: "idle"}}, OnError: []on{{Target: "idle"}}}}},
					{ID: "second", Invoke: []invoke{{Service: w.service("heal"), OnDone: []on{{Target: "idle", Actions: do{answered}}}, OnError: []on{{Target: "idle", Actions: do{gaveUp}}}}}},
				},
			}), durable.MachineConfig{}))
			if first {
				w.post("killer/1", event("add", "a"))
			} else {
				w.post("killer/1", event("both", "a"))
			}
			for range 14 {
				w.invoke()
				time.Sleep(visibilityTimeout)
			}
			t.Logf("attempts %+v", w.load("killer/1").Attempts)
			w.operate(t, "killer/1", instances.Operation{Kind: instances.Move, State: "second"})
			w.run(t)
			w.wantParked(t)
			t.Logf("log %q, error %+v", w.logOf(t, "killer/1"), w.load("killer/1").Error)
			if w.load("killer/1").Error != nil {
				t.Error("the item has an error")
			}
		})
	}
}

// F: ServicesMax. An endless loop of services used up ServicesMax; the operator moves the instance.
func TestSuspicionAMoveGivesTheNextServiceItsPlace(t *testing.T) {
	t.Parallel()
	sub(t, "", func(t *testing.T) {
		w := newWorld(t)
		w.config.ServicesMax = 5
		w.third["heal"] = lasting(time.Second, "healed")
		w.third["poll"] = func(ctx context.Context, call statechart.Call) (string, error) {
			if len(w.calledFor("poll")) == 5 {
				return "", errors.New("busy")
			}
			return "again", nil
		}
		w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "poller", Version: 1, Initial: "idle", Payloads: payloads(), States: []chartState{
				{ID: "idle", Tags: settled, On: []on{{Event: "both", Target: "first"}, {Event: "charge", Target: "second"}}},
				{ID: "first", Invoke: []invoke{{Service: w.service("poll"), Retry: statechart.RetryPolicy{Attempts: 100, Interval: time.Hour}, OnDone: []on{{Target: "first", Reenter: true}}, OnError: []on{{Target: "idle"}}}}},
				{ID: "second", Invoke: []invoke{{Service: w.service("heal"), OnDone: []on{{Target: "idle", Actions: do{answered}}}, OnError: []on{{Target: "idle", Actions: do{gaveUp}}}}}},
			},
		}), durable.MachineConfig{}))
		w.post("poller/1", event("both", "a"))
		w.invoke()
		t.Logf("attempts %+v state %v", w.load("poller/1").Attempts, w.load("poller/1").State)
		w.operate(t, "poller/1", instances.Operation{Kind: instances.Move, State: "second"})
		w.run(t)
		w.wantLog(t, "poller/1", "healed")
	})
}

// G: aliases of an instance that an operator kept at its end, and unkept later.
func TestSuspicionAnAliasOfAnUnkeptInstanceExpiresWithIt(t *testing.T) {
	t.Parallel()
	inCallerWorld(t, func(t *testing.T, w *world) {
		w.post("caller/1", event("add", "x-7"))
		w.run(t)
		w.operate(t, "caller/1", instances.Operation{Kind: instances.Keep})
		w.post("caller/1", event("finish", ""))
		w.run(t)
		w.operate(t, "caller/1", instances.Operation{Kind: instances.Unkeep})
		w.run(t)
		want := fmt.Sprint("until ", w.load("caller/1").ExpireAt.UnixMilli())
		if got := w.released["x-7"]; got != want {
			t.Errorf("the alias is released %q, the item %s (time.Time{} is %d)", got, want, time.Time{}.UnixMilli())
		}
	})
}

// H: an operator keeps an instance after its end. Its alias expires before it.
func TestSuspicionAnAliasOfAKeptInstanceIsKept(t *testing.T) {
	t.Parallel()
	inCallerWorld(t, func(t *testing.T, w *world) {
		w.post("caller/1", event("add", "x-7"))
		w.run(t)
		w.post("caller/1", event("finish", ""))
		w.run(t)
		w.operate(t, "caller/1", instances.Operation{Kind: instances.Keep})
		w.run(t)
		if r := w.load("caller/1"); !r.ExpireAt.IsZero() {
			t.Errorf("the item expires at %v", r.ExpireAt)
		}
		if got := w.released["x-7"]; got != fmt.Sprint("until ", time.Time{}.UnixMilli()) {
			t.Errorf("the alias of the kept instance is released %q", got)
		}
	})
}

// I: an instance whose item is full can be stopped: its history is dropped, as the loop does.
func TestSuspicionAFullInstanceCanBeEnded(t *testing.T) {
	t.Parallel()
	for _, kind := range endings {
		sub(t, string(kind), func(t *testing.T) {
			w := newWorld(t)
			w.post("order/1", adds(20)...)
			w.run(t)
			full := w.load("order/1")
			w.bytesMax = w.bytesOf("order/1") + 400 // Room for the end, without the history.
			record, _, err := durable.Operate(w.machines, full, instances.Operation{Kind: kind, At: time.Now(), By: "operator"})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.storeIfFits(record); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		})
	}
}

// J: the consumer has a larger Config.SnapshotBytesMax than the default.
func TestSuspicionALargeInstanceCanBeStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.SnapshotBytesMax = 350 << 10
		w.post("order/1", `{"type":"grow","bytes":300000}`)
		w.run(t)
		_, _, err := durable.Operate(w.machines, w.load("order/1"), instances.Operation{Kind: instances.Stop, At: time.Now(), By: "operator"})
		if err != nil {
			t.Errorf("%v", err)
		}
	})
}

var _ = strings.TrimSpace
