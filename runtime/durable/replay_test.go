package durable_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// kiosk is a machine in two builds. The first defers `tell`, the second handles it with a send and a service. A task
// that waits for Open gets an error while the service runs. It gets the log after `add` has opened the kiosk.
func (w *world) kiosk(build, version int) durable.Machine {
	shut := chartState{ID: "shut", Tags: settled, On: []on{{Event: "add", Target: "open", Actions: do{keep}}, {Event: "charge", Target: "telling"}}}
	if build == 1 {
		shut.Defer = []string{"tell"}
	} else {
		shut.On = append(shut.On, on{Event: "tell", Target: "telling", Actions: do{keep, tell}})
	}
	back := []on{{Target: "shut", Actions: do{answered}}}
	types := payloads()
	types[durable.TokenExpired] = statechart.PayloadOf[gone]()
	def := statechart.Definition[basket]{ID: "kiosk", Version: version, Initial: "shut", Payloads: types, On: []on{{Event: durable.TokenExpired, Actions: do{noted("expired")}}}, States: []chartState{
		shut,
		{
			ID: "telling", Resolve: []resolution{{Name: "Open", Error: "Kiosk.Busy"}},
			Invoke: []invoke{{Service: w.service("charge"), Retry: statechart.RetryPolicy{Attempts: 9, Interval: time.Second}, OnDone: back, OnError: []on{{Target: "shut", Actions: do{gaveUp}}}}},
		},
		{ID: "open", Type: statechart.Final, Resolve: []resolution{{Name: "Open", Output: func(b basket, _ statechart.Event) any { return b.Log }}}},
	}}
	if version > 1 {
		def.Migrations = []statechart.Migration{{From: 1}}
	}
	return durable.Host(statechart.Must(def), durable.MachineConfig{})
}

// deployKiosk stores a deferred event with the first build, deploys the second build, and sends an event with a task.
func deployKiosk(t *testing.T, version int, hook func(call string) fault) (calls []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.kiosk(1, 1))
		w.post("kiosk/1", telling("order/9", "a"))
		w.invoke()
		w.host(t, w.kiosk(2, version))
		w.names, w.calls, w.hook = nil, nil, hook
		w.post("kiosk/1", strings.Replace(event("add", "b"), "{", `{"$task": `+w.wait("t1", "Open", 0, 0)+", ", 1))
		w.run(t)
		w.wantParked(t)
		w.wantLog(t, "kiosk/1", "a", "charge ok", "b")
		w.wantLog(t, "order/9", "a")
		w.wantAnswer(t, "t1", `[{"outcome":"open","state":["open"],"tags":[],"output":["a","charge ok","b"]}]`)
		w.wantSound(t)
		var events []string
		for _, entry := range w.load("kiosk/1").History {
			events = append(events, entry.Event)
		}
		if got := strings.Join(events, " "); got != "tell settle.replay done.invoke.telling add" {
			t.Errorf("the history is %q", got)
		}
		calls = w.calls
	})
	return calls
}

// While the next event waits in the queue, the service runs and the process may die.
func TestADeferredEventThatANewBuildHandlesIsReplayedBeforeTheNextEvent(t *testing.T) {
	t.Parallel()
	deployKiosk(t, 1, nil)
	calls := deployKiosk(t, 2, nil)
	for n := range calls {
		for _, f := range []fault{failBefore, failAfter, dieBefore, dieAfter} {
			called := 0
			deployKiosk(t, 2, func(call string) fault {
				if called++; called != n+1 || strings.HasPrefix(call, "Serve ") && (f == failBefore || f == failAfter) {
					return none
				}
				return f
			})
			if t.Failed() {
				t.Fatalf("with fault %v at call %d, %s", f, n+1, calls[n])
			}
		}
	}
}

// A duplicate and a heartbeat replay no deferred event. If the process died between such a replay and its effects, nothing
// would wake the instance.
func TestADuplicateOrAHeartbeatReplaysNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.kiosk(1, 1))
		w.post("kiosk/1", `{"type": "settle.wait", "$task": `+w.wait("t1", "Open", 0, time.Hour)+"}")
		w.invoke()
		w.hook = faults(map[string]fault{"Acknowledge kiosk/1 #1": failBefore})
		w.post("kiosk/1", telling("order/9", "a"))
		w.invoke()
		w.host(t, w.kiosk(2, 1))
		w.runFor(t, 5*time.Hour)
		if w.counted("Heartbeat Open") == 0 {
			t.Error("no heartbeat was sent")
		}
		w.wantLog(t, "kiosk/1")
		w.post("kiosk/1", event("charge", ""), event("add", "b"))
		w.run(t)
		w.wantLog(t, "kiosk/1", "a", "charge ok", "charge ok", "b")
	})
}

// The heartbeats of the task change nothing until the task has timed out.
func TestADeferredEventIsReplayedBeforeATaskExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.kiosk(1, 1))
		w.post("kiosk/1", `{"type": "settle.wait", "$task": `+w.wait("t1", "Open", 5*time.Hour, time.Hour)+"}", telling("order/9", "a"))
		w.invoke()
		w.host(t, w.kiosk(2, 1))
		w.runFor(t, 4*time.Hour)
		w.wantLog(t, "kiosk/1")
		w.run(t)
		w.wantLog(t, "kiosk/1", "a", "charge ok", "expired")
		w.wantSound(t)
	})
}

func TestADeferredEventIsReplayedBeforeTheEndOfAChild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		van := durable.Host(statechart.Must(statechart.Definition[basket]{ID: "van", Version: 1, Initial: "driving", States: []chartState{
			{ID: "driving", Tags: settled, After: []after{{Delay: time.Hour, Target: "home"}}}, {ID: "home", Type: statechart.Final},
		}}), durable.MachineConfig{})
		depot := func(build int) durable.Machine {
			free, out := chartState{ID: "free", Tags: settled, On: []on{{Event: "tell", Actions: do{keep}}}}, chartState{ID: "out", Tags: settled}
			out.Children = []statechart.Child[basket]{{ID: "van", Machine: "van", OnDone: []on{{Target: "free", Actions: do{noted("back")}}}, OnError: []on{{Target: "free"}}}}
			if out.On = free.On; build == 1 {
				out.On, out.Defer = nil, []string{"tell"}
			}
			return durable.Host(statechart.Must(statechart.Definition[basket]{ID: "depot", Version: 1, Initial: "out", Payloads: payloads(), States: []chartState{out, free}}), durable.MachineConfig{})
		}
		w.host(t, depot(1), van)
		w.post("depot/1", telling("order/9", "a"))
		w.runFor(t, time.Minute)
		w.host(t, depot(2), van)
		w.run(t)
		w.wantLog(t, "depot/1", "a", "back")
	})
}

// The deferred event kills each process that handles it. Its group must not block, and neighbours must not suffer.
func TestADeferredEventThatKillsTheProcessIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		deaths, dies := 0, false
		deadly := func(build int) durable.Machine {
			kill := statechart.Assign("kill", func(*basket, item) { deaths, dies = deaths+1, true })
			shut := chartState{ID: "shut", Tags: settled, On: []on{{Event: "add", Actions: do{keep}}, {Event: "finish", Target: "ended"}}}
			if build == 1 {
				shut.Defer = []string{"tell"}
			} else {
				shut.On = append(shut.On, on{Event: "tell", Actions: do{kill}})
			}
			return durable.Host(statechart.Must(statechart.Definition[basket]{ID: "kiosk", Version: 1, Initial: "shut", Payloads: payloads(),
				States: []chartState{shut, {ID: "ended", Type: statechart.Final}}}), durable.MachineConfig{})
		}
		w.host(t, deadly(1))
		w.post("kiosk/1", telling("order/9", "a"))
		w.invoke()
		w.host(t, deadly(2))
		w.hook = func(string) fault {
			if !dies {
				return none
			}
			dies = false
			return dieBefore
		}
		w.post("kiosk/1", event("add", "b"))
		w.post("order/2", event("add", "beside"))
		w.run(t)
		w.wantParked(t, [2]string{`"b"`, "the process died"})
		w.wantLog(t, "order/2", "beside")
		if deaths > 12 {
			t.Errorf("the process died %d times, want at most 12", deaths)
		}
	})
}

// The item has no room for the replay. The next event is still applied, and the deferred event follows it.
func TestAReplayThatCannotBeStoredHoldsNoEventUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.host(t, w.kiosk(1, 1))
		w.post("kiosk/1", telling("order/9", "a"))
		w.invoke()
		w.host(t, w.kiosk(2, 1))
		refused := 0
		w.refuse = func(call string) error {
			if refused++; call == "Commit kiosk/1" && refused <= 2 { // The loop tries again without the history.
				return durable.ErrUnstorable
			}
			refused--
			return nil
		}
		w.post("kiosk/1", event("cancel", ""))
		w.run(t)
		w.wantParked(t)
		w.wantLog(t, "kiosk/1", "a", "charge ok")
		if ignored := w.load("kiosk/1").Ignored; ignored != 0 || refused != 2 {
			t.Errorf("%d events ignored, %d commits refused, want 0 and 2", ignored, refused)
		}
	})
}
