package durable_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// pair calls two services in parallel, each with one attempt.
func (w *world) pair() durable.Machine {
	side := func(name string) chartState {
		return chartState{ID: name, Initial: "busy", States: []chartState{
			{ID: "busy", Invoke: []invoke{{Service: w.service(name), OnDone: []on{{Target: "ready", Actions: do{answered}}}, OnError: []on{{Target: "ready", Actions: do{gaveUp}}}}}},
			{ID: "ready", Type: statechart.Final},
		}}
	}
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "pair", Version: 1, Initial: "idle", Payloads: payloads(),
		States: []chartState{
			{ID: "idle", Tags: settled, On: []on{{Event: "both", Target: "both"}}},
			{ID: "both", Type: statechart.Parallel, States: []chartState{side("left"), side("right")}, OnDone: []on{{Target: "idle", Actions: do{noted("both ready")}}}},
		},
	}), durable.MachineConfig{})
}

// lethal returns a service that kills its process after a while, once.
func lethal(after time.Duration) service {
	var killed atomic.Bool
	return func(ctx context.Context, _ statechart.Call) (string, error) {
		time.Sleep(after)
		if killed.Swap(true) {
			return "survived", nil
		}
		kill(ctx)
		return "", ctx.Err()
	}
}

// One of two parallel services has ended. Then another group kills the process, on the first delivery of both groups.
func TestAParallelServiceLosesNoAttemptToANeighbour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.pair())
		w.third["left"], w.third["right"] = lasting(time.Second, "left ok"), lasting(10*time.Second, "right ok")
		w.third["charge"] = lethal(5 * time.Second)
		w.post("pair/1", event("both", ""))
		w.post("order/2", event("charge", ""))
		w.run(t)
		w.wantLog(t, "pair/1", "left ok", "right ok", "both ready")
	})
}

// One of two parallel services has ended, and a write fails, or its answer is lost.
func TestAParallelServiceLosesNoAttemptToTheTable(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ {
		for _, f := range []fault{failBefore, failAfter} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.host(t, w.pair())
				w.third["left"], w.third["right"] = lasting(time.Second, "left ok"), lasting(10*time.Second, "right ok")
				w.hook = faults(map[string]fault{fmt.Sprintf("Commit pair/1 #%d", n): f})
				w.post("pair/1", event("both", ""))
				w.run(t)
				w.wantLog(t, "pair/1", "left ok", "right ok", "both ready")
			})
		}
	}
}

// A service without a timeout begins when an earlier service of its batch has used up half of the invocation's time.
// The service needs more than the other half.
func TestAServiceWithoutATimeoutLosesNoAttemptToAnEarlierService(t *testing.T) {
	t.Parallel()
	t.Run("of the event before", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.third["first"] = lasting(31*time.Second, "ok")
			w.post("order/1", event("devour", ""), event("devour", ""))
			w.run(t)
			w.wantLog(t, "order/1", "ok", "ok")
		})
	})
	t.Run("of a neighbour", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			deadly, calls := lethal(time.Second), atomic.Int32{}
			w.third["second"] = func(ctx context.Context, call statechart.Call) (string, error) {
				switch {
				case calls.Add(1) <= 2: // The process dies during both calls, so both groups must run alone after that.
					return deadly(ctx, call)
				case strings.HasPrefix(call.Instance, "order/1"):
					return lasting(functionTimeout-10*time.Second, "ok")(ctx, call)
				default:
					return lasting(20*time.Second, "ok")(ctx, call)
				}
			}
			w.post("order/1", event("devour", ""))
			w.post("order/2", event("devour", ""))
			w.run(t)
			w.wantLog(t, "order/1", "first ok")
			w.wantLog(t, "order/2", "first ok")
		})
	})
}
