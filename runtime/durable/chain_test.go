package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// echo is a machine that answers each "add" with more events "add": to itself, or around a ring of echo/0, echo/1 and
// echo/2.
func echo() durable.Machine {
	pass := statechart.EnqueueActions("pass", func(b *basket, i item, enqueue statechart.Enqueue) error {
		b.Log = append(b.Log, i.Item)
		to := b.Blob
		if i.To == "ring" {
			to = fmt.Sprintf("echo/%d", int(to[len(to)-1]-'0'+1)%3)
		}
		for range i.Bytes {
			if err := enqueue.SendTo(to, "add", i); err != nil {
				return err
			}
		}
		return nil
	})
	ring := statechart.SendTo("add", func(basket, statechart.Event) (string, any) { return "echo/9", item{} })
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "echo", Version: 1, Initial: "on", Payloads: payloads(), Context: func(s statechart.Start) basket { return basket{Blob: s.Instance} },
		On: []on{{Event: "add", Actions: do{pass}}, {Event: "tell", Actions: do{tell}}},
		States: []chartState{
			{ID: "on", Tags: settled, On: []on{{Event: "wait", Target: "waiting"}}},
			{ID: "waiting", Tags: settled, After: []after{{Delay: time.Minute, Target: "waiting", Reenter: true, Actions: do{ring}}}},
		},
	}), durable.MachineConfig{})
}

// nest is a machine whose instances start one child each.
func nest() durable.Machine {
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "nest", Version: 1, Initial: "on", Payloads: payloads(),
		States: []chartState{
			{ID: "on", Tags: settled, Children: []statechart.Child[basket]{{ID: "inner", Machine: "nest"}}, On: []on{{Event: "finish", Target: "off"}, {Event: "add"}}},
			{ID: "off", Type: statechart.Final},
		},
	}), durable.MachineConfig{})
}

// phoenix is a machine that starts a child again whenever the child's start fails. No start succeeds.
func phoenix() durable.Machine {
	heavy := func(basket, statechart.Event) any { return errand{Item: "heavy"} }
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "phoenix", Version: 1, Initial: "on", Payloads: payloads(),
		States: []chartState{{ID: "on", Tags: settled, On: []on{{Event: "add"}},
			Children: []statechart.Child[basket]{{ID: "x", Machine: "courier", Input: heavy, OnError: []on{{Target: "on", Reenter: true}}}}}},
	}), durable.MachineConfig{})
}

// pulse is a machine whose timer fires while its service runs. The timer's action sends the next message.
func (w *world) pulse() durable.Machine {
	next := statechart.SendTo("add", func(basket, statechart.Event) (string, any) { return "pulse/1", item{} })
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "pulse", Version: 1, Initial: "idle", Payloads: payloads(),
		States: []chartState{
			{ID: "idle", Tags: settled, On: []on{{Event: "add", Target: "busy", Actions: do{keep}}}},
			{ID: "busy", Invoke: []invoke{{Service: w.service("hang"), OnDone: []on{{Target: "idle"}}, OnError: []on{{Target: "idle"}}}}, After: []after{{Delay: 10 * time.Second, Target: "idle", Actions: do{next}}}},
		},
	}), durable.MachineConfig{})
}

// hopsMax is Config.HopsMax in these tests.
const hopsMax = 50

// inChains runs a test in a world of echoes and nests.
func inChains(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		machines, err := durable.NewMachines(echo(), nest(), phoenix(), w.pulse(), w.sender(), radio(), w.order())
		if err != nil {
			t.Fatal(err)
		}
		w.machines, w.config.HopsMax = machines, hopsMax
		test(t, w)
	})
}

func TestMessagesThatNeverEndAreParked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event      string
		appliedMax int
		via        string
	}{
		"to itself":        {event: `{"type": "add", "bytes": 1}`, appliedMax: hopsMax + 1, via: "echo/0 -> echo/0"},
		"twice to itself":  {event: `{"type": "add", "bytes": 2}`, appliedMax: hopsMax + 12, via: "last instances are echo/0"},
		"in a ring":        {event: `{"type": "add", "to": "ring", "bytes": 1}`, appliedMax: hopsMax + 1, via: "echo/2 -> echo/0 -> echo/1 -> echo/2"},
		"twice, in a ring": {event: `{"type": "add", "to": "ring", "bytes": 2}`, appliedMax: 3 * (hopsMax + 12), via: "last instances are echo/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inChains(t, func(t *testing.T, w *world) {
				w.post("echo/0", c.event)
				w.run(t)
				applied := 0
				for id := range w.records {
					applied += len(w.logOf(t, id))
				}
				if applied <= hopsMax || applied > c.appliedMax {
					t.Errorf("%d events were applied, want more than %d and at most %d", applied, hopsMax, c.appliedMax)
				}
				if len(w.parked) == 0 {
					t.Error("nothing was parked")
				}
				for _, p := range w.parked {
					if !strings.Contains(p.Reason, c.via) || strings.Contains(p.Body, "$chain") {
						t.Errorf("parked %s with the reason %q, want %q", p.Body, p.Reason, c.via)
					}
				}
			})
		})
	}
}

func TestARedrivenMessageOfACycleCountsAnew(t *testing.T) {
	t.Parallel()
	inChains(t, func(t *testing.T, w *world) {
		w.post("echo/0", `{"type": "add", "bytes": 1}`)
		w.run(t)
		w.post("echo/0", w.parked[0].Body)
		w.run(t)
		if got := len(w.logOf(t, "echo/0")); got != 2*(hopsMax+1) {
			t.Errorf("%d events were applied, want %d", got, 2*(hopsMax+1))
		}
	})
}

// Timers and events from outside continue no chain. Messages caused by different events belong to different chains.
func TestMessagesThatOthersCauseAreNotParked(t *testing.T) {
	t.Parallel()
	inChains(t, func(t *testing.T, w *world) {
		w.post("echo/0", `{"type": "wait"}`)
		w.runFor(t, 2*hopsMax*time.Minute)
		for range 2 * hopsMax {
			w.post("echo/1", `{"type": "tell", "item": "x", "to": "echo/9"}`)
		}
		w.runFor(t, time.Second)
		w.wantParked(t)
		if got := len(w.logOf(t, "echo/9")); got < 4*hopsMax-1 {
			t.Errorf("echo/9 has heard %d events, want %d", got, 4*hopsMax)
		}
	})
}

func TestChildrenThatNeverEndAreParkedAndStopped(t *testing.T) {
	t.Parallel()
	inChains(t, func(t *testing.T, w *world) {
		w.post("nest/0", `{"type": "add"}`)
		w.run(t)
		w.wantParked(t, [2]string{"settle.start", "(HopsMax)"})
		w.post("nest/0", `{"type": "finish"}`)
		w.run(t)
		for id := range w.records {
			if r := w.load(id); r.Status == statechart.Active {
				t.Errorf("%s is active", id)
			}
		}
		if n := len(w.records); n != hopsMax+2 { // The last stop message stores the child whose start message is parked.
			t.Errorf("there are %d instances, want %d", n, hopsMax+2)
		}
	})
}

func TestAChildThatNeverStartsIsParked(t *testing.T) {
	t.Parallel()
	inChains(t, func(t *testing.T, w *world) {
		w.post("phoenix/0", `{"type": "add"}`)
		w.run(t)
		if len(w.parked) != 1 || !strings.Contains(w.parked[0].Reason, "(HopsMax)") {
			t.Errorf("got %+v, want one message of the cycle", w.parked)
		}
	})
}

func TestATimerThatFiresWhileAServiceRunsBeginsAChain(t *testing.T) {
	t.Parallel()
	inChains(t, func(t *testing.T, w *world) {
		w.third["hang"] = lasting(20*time.Second, "too late")
		w.post("pulse/1", `{"type": "add"}`)
		w.runFor(t, 2*hopsMax*10*time.Second)
		w.wantParked(t)
		if got := len(w.logOf(t, "pulse/1")); got <= hopsMax {
			t.Errorf("%d events were applied, want more than %d", got, hopsMax)
		}
	})
}

// worker is a machine that calls the service `work` on "add". When `work` ends, worker sends itself the next "add". A
// timer with the target `late` ends `work`, and then the services `first` and `second` run, one after the other. When
// `second` ends, worker sends itself "add" too.
func (w *world) worker(timer after) durable.Machine {
	next := statechart.SendTo("add", func(basket, statechart.Event) (string, any) { return "worker/1", item{} })
	calls := func(name, target string, actions ...statechart.Action[basket]) []invoke {
		return []invoke{{Service: w.service(name), Retry: statechart.RetryPolicy{Attempts: 2, Interval: timer.Delay},
			OnDone: []on{{Target: target, Actions: actions}}, OnError: []on{{Target: "idle"}}}}
	}
	return durable.Host(statechart.Must(statechart.Definition[basket]{
		ID: "worker", Version: 1, Initial: "idle", Payloads: payloads(),
		States: []chartState{
			{ID: "idle", Tags: settled, On: []on{{Event: "add", Target: "busy", Actions: do{keep}}, {Event: "ship", Target: "late"}}},
			{ID: "busy", After: []after{timer}, Invoke: calls("work", "idle", next)},
			{ID: "late", Invoke: calls("first", "last")}, {ID: "last", Invoke: calls("second", "idle", next)},
		},
	}), durable.MachineConfig{})
}

// The timer fires while the service runs, or just before a redelivery calls the service again.
func TestATimerThatCausesNoMessageDoesNotHideACycle(t *testing.T) {
	t.Parallel()
	for _, isRetried := range []bool{false, true} {
		inChains(t, func(t *testing.T, w *world) {
			w.host(t, w.worker(after{Delay: 10 * time.Second, Actions: do{noted("reminded")}}))
			w.third["work"] = func(ctx context.Context, call statechart.Call) (string, error) {
				if isRetried && call.Attempt == 1 {
					return "", errors.New("busy")
				}
				return lasting(20*time.Second, "worked")(ctx, call)
			}
			w.post("worker/1", event("add", ""))
			w.run(t)
			w.wantParked(t, [2]string{"add", "(HopsMax)"})
		})
	}
}

func TestAServiceThatATimerStartsBeginsAChain(t *testing.T) {
	t.Parallel()
	inChains(t, func(t *testing.T, w *world) {
		w.host(t, w.worker(after{Delay: 10 * time.Second, Target: "late"}))
		w.third["work"] = lasting(20*time.Second, "too late")
		w.post("worker/1", event("add", ""))
		w.runFor(t, 2*hopsMax*10*time.Second)
		w.wantParked(t)
		if got := len(w.logOf(t, "worker/1")); got <= hopsMax {
			t.Errorf("%d events were applied, want more than %d", got, hopsMax)
		}
	})
}

// One event leads to more than HopsMax results, and all of them reach one instance. The results cause no messages.
func TestAnInstanceThatOnlyCollectsIsNotParked(t *testing.T) {
	t.Parallel()
	inChains(t, func(t *testing.T, w *world) {
		w.post("order/1", `{"$chain": {"origin": "x", "hops": 5}, "type": "tell", "to": "order/2", "item": "one"}`)
		for range 2 * hopsMax {
			w.post("order/1", `{"$chain": {"origin": "x", "hops": 4}, "type": "add", "item": "result"}`)
		}
		w.run(t)
		w.wantParked(t)
		if got := len(w.logOf(t, "order/1")); got != 2*hopsMax+1 {
			t.Errorf("%d events were applied, want %d", got, 2*hopsMax+1)
		}
		if want := []instances.Chain{{Origin: "x", Hops: 5}}; !reflect.DeepEqual(w.load("order/1").Chains, want) {
			t.Errorf("got the chains %v, want %v", w.load("order/1").Chains, want)
		}
	})
}

// A service runs while the instance starts, and a timer fires meanwhile. In some runs the process dies first, and a
// redelivery settles the instance.
func TestAMessageKeepsItsChainWhenATimerFiresBeforeIt(t *testing.T) {
	t.Parallel()
	for deaths := range 3 {
		inChains(t, func(t *testing.T, w *world) {
			w.host(t, durable.Host(statechart.Must(statechart.Definition[basket]{
				ID: "slow", Version: 1, Initial: "booting", Payloads: payloads(),
				States: []chartState{
					{ID: "booting", After: []after{{Delay: 10 * time.Second, Actions: do{noted("timer")}}},
						Invoke: []invoke{{Service: w.service("boot"), Retry: statechart.RetryPolicy{Attempts: 9}, OnDone: []on{{Target: "idle"}}, OnError: []on{{Target: "idle"}}}}},
					{ID: "idle", Tags: settled, On: []on{{Event: "tell", Actions: do{tell}}}},
				},
			}), durable.MachineConfig{}))
			kills := killing(deaths)
			w.third["boot"] = func(ctx context.Context, call statechart.Call) (string, error) {
				if _, err := kills(ctx, call); err != nil {
					return "", err
				}
				return lasting(20*time.Second, "booted")(ctx, call)
			}
			w.post("slow/1", `{"$chain": {"origin": "x", "hops": 9}, "type": "tell", "to": "order/1", "item": "told"}`)
			w.run(t)
			w.wantLog(t, "slow/1", "timer")
			w.wantLog(t, "order/1", "told")
			if want := []instances.Chain{{Origin: "x", Hops: 9}}; !reflect.DeepEqual(w.load("slow/1").Chains, want) {
				t.Errorf("after %d deaths of the process: got the chains %v, want %v", deaths, w.load("slow/1").Chains, want)
			}
		})
	}
}

// Only a message of the runtime has a chain. A producer may have set the key.
func TestAMessageWithAPartOfAChainCountsAsAnEventFromOutside(t *testing.T) {
	t.Parallel()
	for _, chain := range []string{`{"hops": 99}`, `{"origin": "x"}`, `{"origin": "x", "hops": -99}`, `[]`} {
		inChains(t, func(t *testing.T, w *world) {
			w.post("order/1", `{"$chain": `+chain+`, "type": "tell", "to": "order/2", "item": "x"}`)
			w.invoke()
			w.wantParked(t)
			if len(w.messages) != 1 || !strings.Contains(w.messages[0].Body, `"hops":1}`) {
				t.Errorf("%s: got the messages %+v, want one that begins a chain", chain, w.messages)
			}
		})
	}
}

// The applied event had a chain. A parked copy of it has none.
func TestAnAppliedMessageOfAChainIsRemembered(t *testing.T) {
	t.Parallel()
	inChains(t, func(t *testing.T, w *world) {
		w.post("echo/0", `{"$chain": {"origin": "x", "hops": 3}, "type": "add", "$id": "e"}`)
		w.run(t)
		if !durable.Remembers(w.load("echo/0"), "e", []byte(`{"type": "add", "$id": "e"}`)) {
			t.Errorf("got %q, want an entry of the event without its chain", w.load("echo/0").RecentEvents)
		}
	})
}

// The second effect cannot be built, because the instance has no parent.
func TestADamagedEffectDoesNotBlockTheOneBefore(t *testing.T) {
	t.Parallel()
	inChains(t, func(t *testing.T, w *world) {
		w.post("echo/0", `{"type": "add"}`)
		w.run(t)
		record, chain := w.load("echo/0"), json.RawMessage(`{"origin": "x", "hops": 1}`)
		record.Outbox = []statechart.Effect{
			{ID: "7.0", Kind: statechart.Send, To: "echo/1", Event: json.RawMessage(`{"type": "add"}`), Chain: chain}, {ID: "7.1", Kind: "end", Chain: chain},
		}
		record.Revision++
		w.store(record)
		w.commit(record)
		w.post("echo/0", `{"type": "add"}`)
		w.invoke()
		w.invoke()
		if got := w.load("echo/1"); got.Revision == 0 {
			t.Error("the message before the damaged effect was not sent")
		}
	})
}
