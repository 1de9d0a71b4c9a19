package durable_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// timingOut returns a service that fails at the deadline of the invocation, with an error of its own.
func timingOut(ctx context.Context, _ statechart.Call) (string, error) {
	deadline, _ := ctx.Deadline()
	time.Sleep(time.Until(deadline))
	return "", errors.New("read tcp: i/o timeout")
}

// The service begins promptly, so this attempt counts. Otherwise the service would be retried without end.
func TestAServiceThatBeganPromptlyLosesAnAttemptToTheDeadlineOfItsClient(t *testing.T) {
	t.Parallel()
	for range 20 { // The client's error and the end of the context come at the same time, in any order.
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.host(t, w.charger("charge", statechart.RetryPolicy{Attempts: 2}, nil))
			w.third["charge"] = timingOut
			w.post("charger/1", event("charge", ""))
			w.run(t)
			w.wantServed(t, "charge 1", "charge 2")
		})
	}
}

// A slow table makes the service begin late in each invocation. The service fails at once.
func TestAServiceThatBeganLateLosesAnAttemptToItsOwnFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.charger("charge", statechart.RetryPolicy{Attempts: 2}, nil))
		w.latency = func(string) time.Duration { return 2 * time.Second }
		w.third["charge"] = failing(9, errors.New("busy"))
		w.post("charger/1", event("charge", ""))
		w.run(t)
		w.wantLog(t, "charger/1", "charge: busy")
		w.wantServed(t, "charge 1", "charge 2")
	})
}

// The service began with its first attempt. Config.ServicesMax counts it, although its second attempt does not count.
func TestAServiceWhoseSecondAttemptIsCutOffHasBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.charger("charge", statechart.RetryPolicy{Attempts: 9, Interval: time.Second}, nil))
		w.third["charge"] = failing(1, errors.New("busy"))
		w.post("charger/1", event("charge", ""))
		w.invoke()
		time.Sleep(time.Second)
		var isFast atomic.Bool
		w.latency = func(string) time.Duration {
			if !isFast.Load() {
				return 2 * time.Second
			}
			return 0
		}
		w.third["charge"] = func(ctx context.Context, call statechart.Call) (string, error) {
			isFast.Store(true)
			return lasting(time.Hour, "")(ctx, call)
		}
		w.invoke()
		w.wantServed(t, "charge 1", "charge 2")
		w.wantCounts(t, "charger/1", &instances.Attempt{Queue: queueARN, SequenceNumber: "1", Services: 1})
	})
}

// The table fails once when the loop stores the result of the second attempt, which is the last one.
func TestARetriedServiceLosesNoAttemptToTheTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.charger("charge", statechart.RetryPolicy{Attempts: 2}, nil))
		w.third["charge"] = failing(1, errors.New("busy"))
		hasFailed := false
		w.hook = func(call string) fault {
			if call == "Commit charger/1" && !hasFailed && len(w.names) == 2 {
				hasFailed = true
				return failBefore
			}
			return none
		}
		w.post("charger/1", event("charge", ""))
		w.run(t)
		w.wantLog(t, "charger/1", "charge ok")
	})
}

// An operator moves an instance away from its service. The instance is settled then.
func TestAfterAMoveNoEventWaitsForTheServiceOfAnotherQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.third["charge"] = failing(1, errors.New("busy"))
		w.handle([]durable.Delivery{received("a", "order/1", "1", event("charge", ""), 1)}, functionTimeout)
		w.operate(t, "order/1", instances.Operation{Kind: instances.Move, State: "idle"})
		w.handle([]durable.Delivery{received("b", "order/1", "1", event("add", "b"), 1)}, functionTimeout)
		w.wantLog(t, "order/1", "b")
	})
}
