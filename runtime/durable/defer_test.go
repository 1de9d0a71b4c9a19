package durable_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// In each run, one fault hits one of the calls that park a deferred event.
func TestADeferredEventThatFailsIsParkedAlone(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"Load order/1", "Commit order/1", "Park order/1", "ClearOutbox order/1"} {
		for _, what := range []fault{failBefore, failAfter, dieBefore, dieAfter} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.post("order/1", event("add", "a"), event("wait", ""), `{"type": "refuse", "item": "poison", "$id": "p-1"}`, event("add", "b"))
				w.invoke()
				w.wantParked(t)
				w.names, w.calls = nil, nil
				w.hook = faults(map[string]fault{call + " #1": what})
				w.post("order/1", event("cancel", ""), event("add", "c"))
				w.run(t)
				if w.counted(call) == 0 {
					t.Errorf("%s was not called", call)
				}
				w.wantState(t, "order/1", "idle")
				w.wantLog(t, "order/1", "a", "b", "c")
				w.wantParked(t, [2]string{`{"$id":"p-1","type":"refuse","item":"poison"}`, "action refuse: refused"})
				if shown := w.load("order/1").Error; shown == nil || shown.Event != "refuse" || !strings.Contains(shown.Message, "refused") {
					t.Errorf("%s, %v: the instance shows %+v", call, what, shown)
				}
			})
		}
	}
}

func TestADeferredEventThatWasParkedCanBeSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.post("order/1", event("wait", ""), `{"type": "refuse", "item": "poison", "$id": "p-1"}`, event("cancel", ""))
		w.invoke()
		w.wantParked(t, [2]string{"p-1", "refused"})
		w.post("order/1", w.parked[0].Body)
		w.run(t)
		w.wantParked(t, [2]string{"p-1", "refused"}, [2]string{"p-1", "refused"}) // The redriven event was tried, not skipped.
	})
}

func TestADeferredEventWhoseEffectsCannotBePerformedIsParkedAlone(t *testing.T) {
	t.Parallel()
	large := statechart.EnqueueActions("large", func(_ *basket, i item, enqueue statechart.Enqueue) error {
		return enqueue.Emit("large", map[string]string{"text": strings.Repeat("x", i.Bytes)})
	})
	spawn := statechart.EnqueueActions("spawn", func(_ *basket, i item, enqueue statechart.Enqueue) error {
		return enqueue.Spawn("child", "order", strings.Repeat("x", i.Bytes))
	})
	for reason, body := range map[string]string{
		"(EventBytesMax)": `{"type": "grow", "item": "x", "bytes": 300000}`,
		"spawn 3.0 of machine \"order\": the input has": `{"type": "ship", "item": "x", "bytes": 300000}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			machines, err := durable.NewMachines(durable.Host(statechart.Must(statechart.Definition[basket]{
				ID: "shop", Version: 1, Initial: "shut", Payloads: payloads(),
				States: []chartState{
					{ID: "shut", Tags: settled, Defer: []string{"grow", "ship"}, On: []on{{Event: "cancel", Target: "open"}}},
					{ID: "open", Tags: settled, On: []on{{Event: "grow", Actions: do{large}}, {Event: "ship", Actions: do{spawn}}}},
				}}), durable.MachineConfig{}))
			if err != nil {
				t.Fatal(err)
			}
			w.machines = machines
			w.post("shop/1", body, event("cancel", ""))
			w.run(t)
			w.wantParked(t, [2]string{eventTypeOf(body), reason})
			if state := w.load("shop/1").State; !slices.Equal(state, []string{"open"}) {
				t.Errorf("the instance is in %v, want open", state)
			}
		})
	}
}

// The event that releases the deferred event is not at fault, so the loop applies it.
func TestADeferredEventThatWouldMakeTheItemTooLargeIsParkedAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		machines, err := durable.NewMachines(durable.Host(statechart.Must(statechart.Definition[basket]{
			ID: "shop", Version: 1, Initial: "shut", Payloads: payloads(),
			States: []chartState{
				{ID: "shut", Tags: settled, Defer: []string{"grow", "add"}, On: []on{{Event: "cancel", Target: "open"}}},
				{ID: "open", Tags: settled, On: []on{{Event: "grow", Actions: do{grow}}, {Event: "add", Actions: do{keep}}}},
			}}), durable.MachineConfig{}))
		if err != nil {
			t.Fatal(err)
		}
		w.machines = machines
		w.post("shop/1", growing(300<<10), event("add", "beside"), event("cancel", ""))
		w.run(t)
		w.wantParked(t, [2]string{"grow", "bytes, the limit is 262144"})
		w.wantLog(t, "shop/1", "beside")
		if state := w.load("shop/1").State; !slices.Equal(state, []string{"open"}) {
			t.Errorf("the instance is in %v, want open", state)
		}
	})
}

func TestADelayedEventThatThisBuildCannotDecodeIsParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		host := func(version int) {
			def := statechart.Definition[basket]{ID: "till", Version: version, Initial: "open", Payloads: payloads(), States: []chartState{
				{ID: "open", Tags: settled, On: []on{{Event: "add", Actions: do{keep}}}}}}
			if version == 1 {
				later := statechart.SendAfter("", "past", func(basket, statechart.Event) (time.Duration, any) { return time.Hour, item{Item: "x"} })
				def.States[0].On = append(def.States[0].On, on{Event: "wait", Actions: do{later}})
			} else {
				def.Migrations = []statechart.Migration{{From: 1}}
				delete(def.Payloads, "past")
			}
			w.host(t, durable.Host(statechart.Must(def), durable.MachineConfig{}))
		}
		host(1)
		w.post("till/1", event("wait", ""))
		w.runFor(t, time.Minute)
		host(2)
		w.post("till/1", event("add", "a"))
		w.run(t)
		w.wantLog(t, "till/1", "a")
		w.wantParked(t, [2]string{`"past"`, `the delayed event "past" cannot be decoded: undeclared event type: "past"`})
		if timers := w.load("till/1").Snapshot; strings.Contains(string(timers), `"timers"`) {
			t.Errorf("the timer is still stored: %s", timers)
		}
	})
}

func eventTypeOf(body string) string { return strings.Split(body, `"`)[3] }
