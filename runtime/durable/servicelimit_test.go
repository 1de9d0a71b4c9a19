package durable_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// refusal is the beginning of the error that a chart receives for a service above the limit.
const refusal = "not called: expected at most "

// circle is a machine whose two services lead to each other. If a service fails, the machine enters the state onError.
func (w *world) circle(onDone, onError string) durable.Machine {
	side := func(id, service, next string) chartState {
		return chartState{ID: id, Invoke: []invoke{{Service: w.service(service), Retry: statechart.RetryPolicy{Attempts: 3},
			OnDone: []on{{Target: next}}, OnError: []on{{Target: onError, Reenter: true, Actions: do{gaveUp}}}}}}
	}
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "circle", Version: 1, Initial: "idle", Payloads: payloads(),
		States: []chartState{
			{ID: "idle", Tags: settled, On: []on{{Event: "charge", Target: "asking"}, {Event: "add", Actions: do{keep}}}},
			side("asking", "ask", "looking"),
			side("looking", "look", onDone),
		},
	}), durable.MachineConfig{})
}

// atCircles runs a test in a world that hosts a circle. After callsMax calls the service fails permanently, so that the
// test ends even if the loop has no limit.
func atCircles(t *testing.T, onError string, callsMax int, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.circle("asking", onError))
		w.third["ask"] = func(context.Context, statechart.Call) (string, error) {
			if len(w.served) > callsMax {
				return "", statechart.Permanent(errors.New("called too often"))
			}
			return "asked", nil
		}
		test(t, w)
		w.wantSound(t)
	})
}

// wantCounts checks the counts of the instance's current event. If `want` is nil, there must be no counts.
func (w *world) wantCounts(t *testing.T, id string, want *instances.Attempt) {
	t.Helper()
	got := markOf(w.load(id))
	if (got == nil) != (want == nil) || got != nil && *got != *want {
		t.Errorf("the counts for the event of %s are %+v, want %+v", id, got, want)
	}
}

func TestAChartWhoseServicesLeadToOneAnotherHearsOfTheLimitAndEachEventHasAllOfIt(t *testing.T) {
	t.Parallel()
	atCircles(t, "idle", 2500, func(t *testing.T, w *world) {
		w.post("circle/1", event("charge", ""), event("charge", ""))
		w.invoke()
		if len(w.served) != 2000 {
			t.Errorf("%d services have begun, want 1000 for each event", len(w.served))
		}
		log := w.logOf(t, "circle/1")
		if want := "ask: " + refusal + "1000 services within one event"; len(log) != 2 || !strings.HasPrefix(log[0], want) || log[1] != log[0] {
			t.Errorf("the chart logged %q, want twice %q", log, want)
		}
		// The loop commits before each service except the first. Each such commit stores the end of the previous service, or
		// the new event. One last commit stores the end of the last service.
		if n := w.counted("Commit "); n != 2000 {
			t.Errorf("%d writes, want 2000", n)
		}
		w.wantState(t, "circle/1", "idle")
		w.wantCounts(t, "circle/1", nil)
		w.wantParked(t)
	})
}

func TestAChartThatGoesOnInCirclesBlocksNothingAndGoesOnOnceItIsMended(t *testing.T) {
	t.Parallel()
	atCircles(t, "asking", 50, func(t *testing.T, w *world) {
		w.config.ServicesMax = 5
		w.post("circle/1", event("charge", ""))
		w.invoke()
		w.wantServed(t, "ask 1", "look 1", "ask 1", "look 1", "ask 1")
		if log := w.logOf(t, "circle/1"); len(log) != 10 {
			t.Errorf("the chart received %d refusals, want 10: %q", len(log), log)
		}
		w.wantCounts(t, "circle/1", &instances.Attempt{Queue: queueARN, SequenceNumber: "1", Count: 1, Services: 15})

		// The event is applied, so it is not parked. The item shows the error.
		w.run(t)
		w.wantParked(t)
		if len(w.served) != 5 || len(w.delays) != 2 {
			t.Errorf("%d services have begun and %d deliveries have failed, want 5 and 2", len(w.served), len(w.delays))
		}
		want := "expected circle/1 to settle within 5 services (Config.ServicesMax), got to [asking], which invokes ask, and 10 refusals have not settled it; fix the chart"
		if shown := w.load("circle/1").Error; shown == nil || !strings.Contains(shown.Message, want) {
			t.Errorf("the instance shows %+v, want %q", shown, want)
		}

		// The next event has counts of its own, and is parked.
		w.post("circle/1", event("add", "lost"))
		w.run(t)
		w.wantParked(t, [2]string{"lost", want})
		if len(w.served) != 10 {
			t.Errorf("%d services have begun for two events, want 10", len(w.served))
		}

		w.host(t, w.circle("idle", "idle"))
		w.post("circle/1", event("add", "after"))
		w.run(t)
		if log := w.logOf(t, "circle/1"); log[len(log)-1] != "after" {
			t.Errorf("the event after the chart was fixed is not in the log %q", log)
		}
		w.wantState(t, "circle/1", "idle")
		w.wantCounts(t, "circle/1", nil)
	})
}

func TestServicesThatKillTheProcessAreCountedOnce(t *testing.T) {
	t.Parallel()
	for _, onError := range []string{"idle", "asking"} {
		atCircles(t, onError, 50, func(t *testing.T, w *world) {
			w.config.ServicesMax = 6
			w.third["look"] = func(ctx context.Context, call statechart.Call) (string, error) {
				if call.Attempt == 1 {
					kill(ctx)
					return "", ctx.Err()
				}
				return "seen", nil
			}
			w.post("circle/1", event("charge", ""))
			w.run(t)
			keys := map[string]bool{}
			for _, call := range w.served {
				keys[call.Key] = true
			}
			// The first delivery stores no try count, so the first attempt of the service `look` runs twice.
			w.wantServed(t, "ask 1", "look 1", "look 1", "look 2", "ask 1", "look 1", "look 2", "ask 1", "look 1", "look 2")
			if len(keys) != 6 {
				t.Errorf("%d services have begun, want 6", len(keys))
			}
			if log := w.logOf(t, "circle/1"); len(log) == 0 || !strings.HasPrefix(log[0], "ask: "+refusal+"6 ") {
				t.Errorf("the chart logged %q", log)
			}
			if shown := w.load("circle/1").Error; (shown != nil) != (onError == "asking") {
				t.Errorf("with %s after a failure, the instance shows %+v", onError, shown)
			}
		})
	}
}

func TestACircleBeforeTheFirstEventParksIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.ServicesMax = 3
		enough := statechart.If("enough", func(basket) bool { return len(w.served) > 50 })
		again := []on{{Target: "idle", Guard: enough}, {Target: "asking", Reenter: true}}
		w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "circle", Version: 1, Initial: "asking", Payloads: payloads(),
			States: []chartState{
				{ID: "asking", Invoke: []invoke{{Service: w.service("ask"), OnDone: again, OnError: again}}},
				{ID: "idle", Tags: settled, On: []on{{Event: "add", Target: "asking"}}},
			},
		}), durable.MachineConfig{}))
		w.post("circle/1", event("add", "first"))
		w.run(t)
		w.wantServed(t, "ask 1", "ask 1", "ask 1")
		w.wantParked(t, [2]string{"first", "within 3 services (Config.ServicesMax)"})
		w.wantSound(t)
	})
}

func TestAttemptsAreNoServicesOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.ServicesMax = 1
		w.third["poll"] = failing(20, errors.New("not yet"))
		w.post("order/1", event("poll", ""), event("charge", ""))
		w.run(t)
		w.wantLog(t, "order/1", "charge ok", "charge ok")
		w.wantParked(t)
	})
}

func TestOfParallelServicesThoseWithinTheLimitBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.ServicesMax = 1
		w.post("order/1", event("both", ""), event("both", ""))
		w.invoke()
		w.wantServed(t, "left 1", "left 1")
		log := w.logOf(t, "order/1")
		for i := range log {
			log[i], _, _ = strings.Cut(log[i], "1 services")
		}
		if want := []string{"left ok", "right: " + refusal, "both ready"}; !slices.Equal(log, slices.Concat(want, want)) {
			t.Errorf("the log is %q, want twice %q", log, want)
		}
	})
}

func TestTheNextEventOfAnUnsettledInstanceBeginsToCountAgain(t *testing.T) {
	t.Parallel()
	atCircles(t, "idle", 50, func(t *testing.T, w *world) {
		w.config.ServicesMax = 4
		w.hook = faults(map[string]fault{"Commit circle/1 #2": dieAfter})
		w.post("circle/1", event("charge", ""))
		w.invoke()
		w.wantCounts(t, "circle/1", &instances.Attempt{Queue: queueARN, SequenceNumber: "1", Services: 2})
		w.messages = nil // The queue dropped the message after too many receives.
		w.post("circle/1", event("add", "after"))
		w.run(t)
		if len(w.served) != 2+4 {
			t.Errorf("%d services have begun, want 2 for the first event and 4 for the second", len(w.served))
		}
		if log := w.logOf(t, "circle/1"); len(log) != 2 || log[1] != "after" {
			t.Errorf("the log is %q, want a refusal, then the second event", log)
		}
	})
}

func TestAServiceWhoseStateIsLeftForARefusalIsCancelledAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.ServicesMax = 3
		calling := func(id, service, next string) chartState {
			return chartState{ID: id, Invoke: []invoke{{Service: w.service(service), OnDone: []on{{Target: next}}, OnError: []on{{Target: "#calm", Actions: do{gaveUp}}}}}}
		}
		done := chartState{ID: "done", Type: statechart.Final}
		w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "pair", Version: 1, Initial: "idle", Payloads: payloads(),
			States: []chartState{
				{ID: "idle", Tags: settled, On: []on{{Event: "charge", Target: "busy"}}},
				{ID: "busy", Type: statechart.Parallel, OnDone: []on{{Target: "idle"}}, States: []chartState{
					{ID: "other", Initial: "calling", States: []chartState{calling("calling", "long", "done"), done}},
					{ID: "one", Initial: "both", States: []chartState{
						{ID: "both", Type: statechart.Parallel, States: []chartState{
							{ID: "left", Initial: "calling", States: []chartState{calling("calling", "slow", "done"), done}},
							{ID: "right", Initial: "calling", States: []chartState{calling("calling", "quick", "next"), calling("next", "ask", "done"), done}},
						}},
						{ID: "calm", Type: statechart.Final},
					}},
				}},
			},
		}), durable.MachineConfig{}))
		var cancelled time.Duration
		began := time.Now()
		w.third["quick"] = lasting(time.Second, "done")
		w.third["long"] = lasting(20*time.Second, "done")
		w.third["slow"] = func(ctx context.Context, _ statechart.Call) (string, error) {
			<-ctx.Done()
			cancelled = time.Since(began)
			return "", ctx.Err()
		}
		w.post("pair/1", event("charge", ""))
		w.invoke()
		w.wantState(t, "pair/1", "idle")
		if log := w.logOf(t, "pair/1"); len(log) != 1 || !strings.HasPrefix(log[0], "ask: "+refusal+"3 ") {
			t.Errorf("the log is %q, want the refusal of ask", log)
		}
		synctest.Wait()
		if cancelled != time.Second {
			t.Errorf("slow was cancelled after %v, want after a second, when ask was refused", cancelled)
		}
	})
}

// The write of a service's end fails. The loop takes the attempt back, and the service begins again.
func TestAServiceThatBeginsAgainAfterAFailedWriteCountsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.ServicesMax = 1
		w.post("order/1", event("add", "before"))
		w.invoke()
		// The three writes of the redelivery store the count of the try, the attempt, and its end.
		w.hook = faults(map[string]fault{"Load order/1 #1": dieBefore, "Commit order/1 #3": failBefore})
		w.post("order/1", event("charge", ""))
		w.run(t)
		w.wantLog(t, "order/1", "before", "charge ok")
		w.wantServed(t, "charge 1", "charge 1")
	})
}
