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

// An event starts an instance whose first service has one attempt and a timeout. The first process dies. In each later
// batch, another group leaves the service too little time.
func TestTheOnlyAttemptOfANewInstanceIsNotStarvedByItsNeighbours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "once", Version: 1, Initial: "booting", Payloads: payloads(),
			States: []chartState{
				{ID: "booting", Invoke: []invoke{{Service: w.service("boot"), Timeout: 10 * time.Second,
					OnDone: []on{{Target: "idle", Actions: do{answered}}}, OnError: []on{{Target: "idle", Actions: do{gaveUp}}}}}},
				{ID: "idle", Tags: settled, On: []on{{Event: "add", Actions: do{keep}}}},
			},
		}), durable.MachineConfig{}))
		w.third["boot"] = killing(1)
		w.third["pack"] = lasting(functionTimeout-8*time.Second, "packed")
		w.post("once/1", event("add", "a"))
		w.invoke()
		for i := range 3 {
			time.Sleep(visibilityTimeout)
			w.post(fmt.Sprint("order/", i+2), event("ship", ""))
			w.invoke()
		}
		if w.load("once/1").Revision == 0 {
			t.Error("the instance is not stored, so no later batch would know that its attempt is the last")
		}
		w.run(t)
		w.wantLog(t, "once/1", "alive", "a")
	})
}

// twin is a machine with two parallel services, `long` and `quick`. The service `single` follows `quick` and has one
// attempt.
func (w *world) twin(long statechart.RetryPolicy, timeout time.Duration) durable.Machine {
	call := func(name, target string, retry statechart.RetryPolicy, timeout time.Duration) []invoke {
		return []invoke{{Service: w.service(name), Timeout: timeout, Retry: retry,
			OnDone: []on{{Target: target, Actions: do{answered}}}, OnError: []on{{Target: "ready", Actions: do{gaveUp}}}}}
	}
	ready := chartState{ID: "ready", Type: statechart.Final}
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "twin", Version: 1, Initial: "idle", Payloads: payloads(),
		States: []chartState{
			{ID: "idle", Tags: settled, On: []on{{Event: "both", Target: "both"}}},
			{ID: "both", Type: statechart.Parallel, OnDone: []on{{Target: "idle"}}, States: []chartState{
				{ID: "left", Initial: "busy", States: []chartState{{ID: "busy", Invoke: call("long", "ready", long, 0)}, ready}},
				{ID: "right", Initial: "busy", States: []chartState{
					{ID: "busy", Invoke: call("quick", "next", statechart.RetryPolicy{Attempts: 3}, 0)},
					{ID: "next", Invoke: call("single", "ready", statechart.RetryPolicy{}, timeout)}, ready}},
			}},
		},
	}), durable.MachineConfig{})
}

// Two parallel services run in a redelivery beside another group. While the long one runs, the quick one ends, and the
// loop holds the next service, because its only attempt must run alone.
func TestAServiceLosesNoAttemptWhenTheLoopHoldsAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.twin(statechart.RetryPolicy{Attempts: 2}, 0))
		w.third["quick"] = killing(1)
		long := failing(1, errors.New("busy"))
		w.third["long"] = func(ctx context.Context, call statechart.Call) (string, error) {
			if _, err := lasting(5*time.Second, "")(ctx, call); err != nil {
				return "", err
			}
			return long(ctx, call)
		}
		w.post("twin/1", event("both", ""))
		w.invoke()
		time.Sleep(visibilityTimeout)
		w.post("order/2", event("add", "healthy"))
		w.run(t)
		if log := w.logOf(t, "twin/1"); !slices.Contains(log, "charge ok") {
			t.Errorf("the log is %q, want the result of the long service", log)
		}
	})
}

// The long service has failed and will be retried in five minutes. Then the loop holds the service that follows the
// quick one.
func TestAFailedServiceIsNotRetriedEarlyWhenTheLoopHoldsAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.twin(statechart.RetryPolicy{Attempts: 4, Interval: 5 * time.Minute}, 0))
		quick := killing(1)
		w.third["quick"] = func(ctx context.Context, call statechart.Call) (string, error) {
			time.Sleep(time.Second)
			return quick(ctx, call)
		}
		var last time.Time
		w.third["long"] = func(context.Context, statechart.Call) (string, error) {
			if wait := time.Since(last); wait < 5*time.Minute {
				t.Errorf("the service was retried after %v, want at least 5m", wait)
			}
			last = time.Now()
			return "", errors.New("busy")
		}
		w.post("twin/1", event("both", ""))
		w.invoke()
		time.Sleep(visibilityTimeout)
		w.post("order/2", event("add", "healthy"))
		w.run(t)
	})
}

// The quick service ends late and leaves the next service too little time. The long service has one attempt and is still
// running.
func TestAServiceLosesNoAttemptWhenTheNextOneHasTooLittleTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.twin(statechart.RetryPolicy{}, 30*time.Second))
		w.third["quick"], w.third["long"] = lasting(40*time.Second, "quick ok"), lasting(50*time.Second, "long ok")
		w.post("twin/1", event("both", ""))
		w.run(t)
		w.wantLog(t, "twin/1", "quick ok", "long ok", "single ok")
	})
}
