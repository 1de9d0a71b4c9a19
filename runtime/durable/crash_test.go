package durable_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// posted is an event of a scenario.
type posted struct{ to, body string }

// outcome is the result of a scenario. It leaves out times, revisions, counts of tries and everything else that faults
// may change.
type outcome struct {
	// Instances holds the snapshot, status, ignored events and known event IDs of each instance.
	Instances map[string]string
	// Sends holds the derived IDs of sends and emits by sender, in the order in which they were first performed.
	Sends map[string][]string
	// Problems lists violated invariants. It must be empty, whatever the faults.
	Problems []string
	// calls lists the calls of the run.
	calls []string
}

// taking returns the latency of an instance's calls. Each instance has its own latency, so that the groups of a batch
// interleave in the same order in every run.
func taking(id string) time.Duration {
	d := time.Millisecond
	for i := range len(id) {
		d += time.Duration(int(id[i])*(i+1)) * time.Microsecond
	}
	return d
}

// play runs a scenario in a new world until no work is left. Fault plan[n] hits the nth call, including calls of
// services and of Lambda's poller.
func play(t *testing.T, scenario []posted, plan map[int]fault) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.Emit = w.emit
		w.third["slow"] = lasting(time.Hour, "too late")
		w.third["left"], w.third["right"] = lasting(time.Second, "left"), lasting(2*time.Second, "right")
		w.third["pack"], w.third["poll"] = lasting(50*time.Millisecond, "packed"), lasting(300*time.Millisecond, "polled")
		w.latency = taking
		w.hook = func(call string) fault {
			o.calls = append(o.calls, call)
			f := plan[len(o.calls)]
			if strings.HasPrefix(call, "Serve ") && (f == failBefore || f == failAfter) {
				return none // A failure here would reach the chart and change the outcome.
			}
			return f
		}
		for _, p := range scenario {
			w.post(p.to, p.body)
		}
		if problem := w.live(time.Time{}); problem != "" {
			o.Problems = append(o.Problems, problem)
		}
		o.Problems = append(o.Problems, w.problems()...)
		for _, p := range w.parked {
			o.Problems = append(o.Problems, fmt.Sprintf("parked %s of %s: %s", p.Body, p.Group, p.Reason))
		}
		o.Instances, o.Sends = map[string]string{}, map[string][]string{}
		for id := range w.records {
			r := w.load(id)
			o.Instances[id] = fmt.Sprintf("%s %s, %d ignored, recent %q, expires %t", r.Snapshot, r.Status, r.Ignored, recent(r), !r.ExpireAt.IsZero())
		}
		for _, id := range w.inOrder {
			if w.committed[id] != string(statechart.Schedule) {
				sender, _, _ := strings.Cut(id, "@")
				o.Sends[sender] = append(o.Sends[sender], id)
			}
		}
	})
	return o
}

// crashScenario has several instances, effects between them, services in sequence and in parallel, timers in the queue and
// in the process, and duplicates from producers.
var crashScenario = []posted{
	{"order/1", event("add", "a")},
	{"order/1", telling("order/5", "b")},
	{"order/3", event("both", "")},
	{"order/1", event("ship", "")},
	{"order/1", telling("order/5", "c")},
	{"order/3", telling("order/4", "d")},
	{"greeter/1", event("charge", "")},
	{"order/1", `{"type": "add", "item": "once", "$id": "p-1"}`},
	{"order/6", event("limit", "")},
	{"order/1", event("wait", "")},
	{"order/1", `{"type": "add", "item": "once", "$id": "p-1"}`},
	{"order/1", event("again", "")},
	{"order/6", telling("order/7", "e")},
	{"order/6", event("hurry", "")},
	{"order/1", event("ship", "ignored while waiting")},
	{"boot/1", event("add", "f")},
	{"order/7", event("add", "g")},
	{"order/3", event("charge", "")},
	{"order/3", event("wait", "")},
	{"order/3", event("cancel", "")},
	{"order/3", event("charge", "")},
	{"order/3", event("finish", "")},
	{"order/3", event("add", "ignored when done")},
}

func TestAFaultAtAnyCallChangesNothing(t *testing.T) {
	t.Parallel()
	want := play(t, crashScenario, nil)
	if len(want.Problems) > 0 || len(want.Instances) != 9 {
		t.Fatalf("without faults: %d instances, %q", len(want.Instances), want.Problems)
	}
	if again := play(t, crashScenario, nil); !slices.Equal(again.calls, want.calls) {
		t.Fatalf("two runs without faults differ: %s", cmp.Diff(want.calls, again.calls))
	}
	t.Logf("%d calls", len(want.calls))
	seen := map[string]int{}
	for n, call := range want.calls {
		seen[call]++
		name := fmt.Sprintf("%s #%d", call, seen[call])
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, f := range []fault{failBefore, failAfter, dieBefore, dieAfter} {
				got := play(t, crashScenario, map[int]fault{n + 1: f})
				if len(got.calls) <= n || got.calls[n] != call {
					t.Fatalf("%v: call %d differs from the run without faults", f, n+1)
				}
				if diff := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".calls" }, cmp.Ignore())); diff != "" {
					t.Errorf("%v at call %d (-without fault +with it):\n%s", f, n+1, diff)
				}
			}
		})
	}
}

// randomScenario draws events for up to three instances. Each instance sends only to one receiver, which has no other
// sender. So the order of events does not depend on time.
func randomScenario(t *rapid.T) (scenario []posted) {
	types := []string{"add", "tell", "poll", "both", "wait", "cancel", "again", "repeat", "finish"}
	for i := range rapid.IntRange(1, 25).Draw(t, "events") {
		to := rapid.IntRange(1, 3).Draw(t, "instance")
		typ := rapid.SampledFrom(types).Draw(t, "type")
		body := event(typ, fmt.Sprint(i))
		switch typ {
		case "tell":
			body = telling(fmt.Sprintf("order/%d", 10+to), fmt.Sprint(i))
		case "repeat":
			body = fmt.Sprintf(`{"type": "add", "item": "repeat", "$id": "p-%d"}`, rapid.IntRange(1, 2).Draw(t, "$id"))
		case "add":
			if rapid.IntRange(0, 5).Draw(t, "machine") == 0 {
				scenario = append(scenario, posted{"boot/1", body})
				continue
			}
		}
		scenario = append(scenario, posted{fmt.Sprintf("order/%d", to), body})
	}
	return scenario
}

func TestRandomFaultsChangeNothing(t *testing.T) {
	t.Parallel()
	// Every service here has at least four attempts, so three faults cannot use them up.
	const faultsMax = 3
	rapid.Check(t, func(rt *rapid.T) {
		scenario := randomScenario(rt)
		want := play(t, scenario, nil)
		plan := map[int]fault{}
		for range rapid.IntRange(1, faultsMax).Draw(rt, "faults") {
			n := rapid.IntRange(1, len(want.calls)+10).Draw(rt, "call")
			plan[n] = rapid.SampledFrom([]fault{failBefore, failAfter, dieBefore, dieAfter}).Draw(rt, "fault")
		}
		got := play(t, scenario, plan)
		if len(got.Problems) > 0 {
			rt.Fatalf("with %v: %q", plan, got.Problems)
		}
		if diff := cmp.Diff(want.Instances, got.Instances); diff != "" {
			rt.Fatalf("with %v (-without faults +with them):\n%s\ncalls:\n%s", plan, diff, strings.Join(got.calls, "\n"))
		}
		if diff := cmp.Diff(want.Sends, got.Sends); diff != "" {
			rt.Fatalf("with %v the sends differ (-without faults +with them):\n%s", plan, diff)
		}
	})
}

func TestTheWatermarkNeverGoesBack(t *testing.T) {
	t.Parallel()
	// Two concurrent processes handle every delivery, as if one were frozen or SQS had redelivered too early.
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.ConflictsMax = 50
		w.third["pack"] = lasting(7*time.Second, "packed")
		for i := range 12 {
			w.post("order/1", telling("order/5", fmt.Sprint(i)))
			if i%4 == 0 {
				w.post("order/1", event("ship", ""))
			}
		}
		highest := "0"
		w.hook = func(call string) fault {
			if mark := w.load("order/1").Watermark[queueARN]; len(mark) > len(highest) || len(mark) == len(highest) && mark > highest {
				highest = mark
			} else if mark != "" && mark != highest {
				t.Errorf("before %s the watermark went from %s to %s", call, highest, mark)
			}
			return none
		}
		for range 5 {
			batch := w.receive(batchSize)
			done := make(chan bool)
			twin := slices.Clone(batch)
			go func() {
				time.Sleep(3 * time.Second)
				w.start(functionTimeout).loop.Handle(t.Context(), twin)
				close(done)
			}()
			w.handle(batch, functionTimeout)
			<-done
		}
		w.run(t)
		var log []string
		for i := range 12 {
			log = append(log, fmt.Sprint(i))
			if i%4 == 0 {
				log = append(log, "packed", "post ok")
			}
		}
		w.wantLog(t, "order/1", log...)
		w.wantSound(t)
	})
}

var _ durable.Queue = (*process)(nil)

// AbandonedMax is 1: if the process dies once in the counted try of the event of order/2, the loop parks the event. The
// service of order/1 kills the process, so the event of order/2 must run alone.
func TestALastTryIsNotLostToANeighbourThatKillsTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.AbandonedMax = 1
		for _, id := range []string{"order/1", "order/2"} {
			w.post(id, event("add", "before"))
			w.invoke()
		}
		w.latency = func(id string) time.Duration { // order/1 calls its service between the two writes of order/2.
			return map[string]time.Duration{"order/1": 4 * time.Millisecond, "order/2": 5 * time.Millisecond}[id]
		}
		w.third["charge"] = killing(1)
		w.hook = faults(map[string]fault{"Load order/1 #1": dieBefore})
		w.post("order/1", event("charge", ""))
		w.post("order/2", event("add", "innocent"))
		w.run(t)
		w.wantParked(t)
		w.wantLog(t, "order/1", "before", "alive")
		w.wantLog(t, "order/2", "before", "innocent")
	})
}

// A service fails, and a timer fires before its retry. The timer's action kills the process.
func TestAnActionOfATimerThatKillsTheProcessIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		isKilled := false
		killer := statechart.Assign("kill", func(*basket, statechart.Event) { isKilled = true })
		w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "bomb", Version: 1, Initial: "idle", Payloads: payloads(),
			States: []chartState{
				{ID: "idle", Tags: settled, On: []on{{Event: "charge", Target: "charging"}}},
				{ID: "charging", Invoke: []invoke{{Service: w.service("charge"), Retry: statechart.RetryPolicy{Attempts: 3, Interval: time.Hour}, OnDone: []on{{Target: "idle"}}, OnError: []on{{Target: "idle"}}}},
					After: []after{{Delay: time.Minute, Target: "idle", Actions: do{killer}}}},
			},
		}), durable.MachineConfig{}))
		w.third["charge"] = failing(9, errFault)
		w.hook = func(string) fault {
			if isKilled {
				isKilled = false
				return dieBefore
			}
			return none
		}
		w.post("bomb/1", event("charge", ""))
		w.run(t)
		if shown := w.load("bomb/1").Error; shown == nil || !strings.Contains(shown.Message, "the process died during the attempt") {
			t.Errorf("the instance shows %+v, want the deaths of the process", shown)
		}
	})
}
