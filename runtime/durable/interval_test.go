package durable_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// charger is a machine with the ID "charger". On CHARGE, it performs the given actions and calls the service.
func (w *world) charger(service string, retry statechart.RetryPolicy, timers []after, actions ...statechart.Action[basket]) durable.Machine {
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "charger", Version: 1, Initial: "idle", Payloads: payloads(),
		States: []chartState{
			{ID: "idle", Tags: settled, On: []on{{Event: "charge", Target: "busy", Actions: actions}, {Event: "add", Actions: do{keep}}}},
			{ID: "busy", After: timers, Invoke: []invoke{{
				Service: w.service(service), Retry: retry,
				OnDone: []on{{Target: "idle", Actions: do{answered}}}, OnError: []on{{Target: "idle", Actions: do{gaveUp}}},
			}}},
		},
	}), durable.MachineConfig{})
}

// wantCallsAt makes the service fail at each call. It returns a function that compares the times of the calls, counted
// from now, with `want`.
func (w *world) wantCallsAt(t *testing.T, service string, want ...time.Duration) (check func()) {
	t.Helper()
	var at []time.Duration
	began := time.Now()
	w.third[service] = func(context.Context, statechart.Call) (string, error) {
		at = append(at, time.Since(began))
		return "", errors.New("busy")
	}
	return func() {
		t.Helper()
		if !slices.Equal(at, want) {
			t.Errorf("%s was called at %v, want %v", service, at, want)
		}
	}
}

func TestATimerDoesNotShortenTheIntervalOfARetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.charger("charge", statechart.RetryPolicy{Attempts: 2, Interval: time.Hour}, []after{{Delay: 10 * time.Second, Actions: do{noted("reminded")}}}))
		check := w.wantCallsAt(t, "charge", 0, time.Hour)
		w.post("charger/1", event("charge", ""))
		w.run(t)
		check()
		w.wantLog(t, "charger/1", "reminded", "charge: busy")
	})
}

func TestAnotherQueueDoesNotShortenTheIntervalOfARetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.charger("charge", statechart.RetryPolicy{Attempts: 2, Interval: time.Hour}, nil))
		check := w.wantCallsAt(t, "charge", 0, time.Hour)
		w.handle([]durable.Delivery{received("a", "charger/1", "1", event("charge", ""), 1)}, functionTimeout)
		time.Sleep(40 * time.Minute) // longer than Config.SettlerWaitMax
		w.handle([]durable.Delivery{received("b", "charger/1", "1", event("add", "b"), 1)}, functionTimeout)
		time.Sleep(20 * time.Minute)
		w.handle([]durable.Delivery{received("a", "charger/1", "1", event("charge", ""), 2)}, functionTimeout)
		check()
		w.wantLog(t, "charger/1", "charge: busy")
	})
}

// The event also sends a message. Another queue's delivery must not perform this effect while the service runs: the
// write would discard the service.
func TestARunningServiceIsNotRepeatedForTheEffectsOfItsEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.charger("charge", statechart.RetryPolicy{}, nil, tell))
		w.third["charge"] = lasting(20*time.Second, "charged")
		w.handle([]durable.Delivery{received("a", "charger/1", "1", event("add", "a"), 1)}, functionTimeout)
		ended := make(chan []string)
		charge := received("b", "charger/1", "1", `{"type": "charge", "to": "order/9", "item": "told"}`, 1)
		go func() { ended <- w.handle([]durable.Delivery{charge}, functionTimeout) }()
		time.Sleep(10 * time.Second)
		w.handle([]durable.Delivery{received("a", "charger/1", "2", event("add", "x"), 1)}, functionTimeout)
		<-ended
		if calls := w.calledFor("charge"); len(calls) != 1 {
			t.Errorf("the service with one attempt was called %d times", len(calls))
		}
	})
}

// AWS is slow until the service begins. The service's client then fails at the deadline of the invocation with an error
// of its own, as database drivers do.
func TestAServiceThatBeganLateLosesNoAttemptToTheDeadlineOfItsClient(t *testing.T) {
	t.Parallel()
	for range 20 { // The client's error and the end of the context come at the same time, in any order.
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.config.ServicesMax = 1
			w.host(t, w.charger("charge", statechart.RetryPolicy{}, nil))
			var isFast atomic.Bool
			w.latency = func(string) time.Duration {
				if !isFast.Load() {
					return 2 * time.Second
				}
				return 0
			}
			w.third["charge"] = func(ctx context.Context, _ statechart.Call) (string, error) {
				if isFast.Swap(true) {
					return "charged", nil
				}
				deadline, _ := ctx.Deadline()
				time.Sleep(time.Until(deadline))
				return "", errors.New("read tcp: i/o timeout")
			}
			w.post("charger/1", event("charge", ""))
			w.run(t)
			w.wantLog(t, "charger/1", "charged")
		})
	}
}

func TestAServiceLosesNoAttemptToAFailedTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		isBroken := true
		remind := statechart.TryAssign("remind", func(b *basket, _ statechart.Event) error {
			if isBroken {
				return errors.New("broken")
			}
			b.Log = append(b.Log, "reminded")
			return nil
		})
		w.host(t, w.charger("charge", statechart.RetryPolicy{}, []after{{Delay: 5 * time.Second, Actions: do{remind}}}))
		w.third["charge"] = lasting(20*time.Second, "charged")
		w.post("charger/1", event("charge", ""))
		w.invoke()
		isBroken = false
		w.run(t)
		w.wantLog(t, "charger/1", "reminded", "charged")
	})
}

// Of two parallel services, the long one fails. The commit before the next service stores this failure. Then the table
// fails once, so the loop takes back the counts of the turn.
func TestAFailureOfTheTableDoesNotShortenTheIntervalOfARetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.twin(statechart.RetryPolicy{Attempts: 2, Interval: time.Hour}, 0))
		w.third["quick"] = lasting(time.Second, "quick ok")
		w.post("twin/1", event("both", ""))
		w.hook = faults(map[string]fault{"Load twin/1 #1": dieBefore})
		w.invoke()
		time.Sleep(visibilityTimeout)
		hasFailed := false
		w.hook = func(call string) fault {
			if call == "Commit twin/1" && !hasFailed && len(w.calledFor("single")) > 0 {
				hasFailed = true
				return failBefore
			}
			return none
		}
		check := w.wantCallsAt(t, "long", 0, time.Hour)
		w.run(t)
		check()
	})
}

// The timer wakes the instance, which is then migrated.
func TestAMigrationDoesNotShortenTheIntervalOfARetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		version := func(version int, migrations ...statechart.Migration) durable.Machine {
			return durable.Host(statechart.Must(statechart.Definition[basket]{
				ID: "charger", Version: version, Initial: "busy", Payloads: payloads(), Migrations: migrations,
				States: []chartState{
					{ID: "busy", After: []after{{Delay: 10 * time.Second, Actions: do{noted("reminded")}}},
						Invoke: []invoke{{Service: w.service("charge"), Retry: statechart.RetryPolicy{Attempts: 2, Interval: time.Hour}, OnDone: []on{{Target: "idle"}}, OnError: []on{{Target: "idle"}}}}},
					{ID: "idle", Tags: settled, On: []on{{Event: "add", Actions: do{keep}}}},
				},
			}), durable.MachineConfig{})
		}
		w.host(t, version(1))
		check := w.wantCallsAt(t, "charge", 0, time.Hour)
		w.post("charger/1", event("add", "a"))
		w.invoke()
		w.host(t, version(2, statechart.Migration{From: 1}))
		w.run(t)
		check()
		w.wantVersion(t, "charger/1", 2)
	})
}
