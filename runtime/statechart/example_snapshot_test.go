package statechart_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

func ExampleSnapshot() {
	chart := shipment()
	s := must(chart.Start(statechart.Start{Instance: "shipment/7"})).Next
	s = must(chart.Step(s, statechart.Event{Type: "PACKED"})).Next

	fmt.Println(s.State())
	fmt.Println(string(s.Value()))
	fmt.Println(s.Matches("preparing.parcel.sealed"), s.Matches("shipped"))
	fmt.Println(s.NextEvents(), s.Tags(), s.Status)
	// Output:
	// [preparing.money.due preparing.parcel.sealed]
	// {"preparing":{"money":"due","parcel":"sealed"}}
	// true false
	// [CANCEL PAID] [settled] active
}

func ExampleSnapshot_MarshalJSON() {
	p := play(turnstile())
	p.send("COIN")
	fmt.Println(string(must(json.MarshalIndent(p.Snapshot(), "", "  "))))
	// Output:
	// starts in locked
	// COIN: locked -> unlocked
	//   effect 2.0 schedule unlocked after patience at +1m0s
	// {
	//   "machine": "turnstile",
	//   "version": 1,
	//   "status": "active",
	//   "value": "unlocked",
	//   "context": {},
	//   "tags": [
	//     "settled"
	//   ],
	//   "timers": {
	//     "2.0": {
	//       "state": "unlocked",
	//       "after": "patience",
	//       "at": "2026-01-01T00:01:00Z"
	//     }
	//   },
	//   "steps": 2
	// }
}

func ExampleChart_Can() {
	type account struct {
		Balance int `json:"balance"`
	}
	type withdrawal struct {
		Amount int `json:"amount"`
	}
	type (
		state = statechart.State[account]
		on    = statechart.Transition[account]
		do    = []statechart.Action[account]
	)
	covered := statechart.When("covered", func(a account, w withdrawal) bool { return w.Amount <= a.Balance })
	pay := statechart.Assign("pay", func(a *account, w withdrawal) { a.Balance -= w.Amount })
	chart := statechart.Must(statechart.Definition[account]{
		ID: "account", Version: 1, Initial: "open",
		Payloads: statechart.Payloads{"WITHDRAW": statechart.PayloadOf[withdrawal]()},
		Context:  func(statechart.Start) account { return account{Balance: 50} },
		States:   []state{{ID: "open", Tags: settled, On: []on{{Event: "WITHDRAW", Guard: covered, Actions: do{pay}}}}},
	})
	s := must(chart.Start(statechart.Start{Instance: "account/1"})).Next
	fmt.Println("next events:", s.NextEvents())
	for _, amount := range []int{50, 51} {
		can := must(chart.Can(s, statechart.Event{Type: "WITHDRAW", Payload: withdrawal{Amount: amount}}))
		fmt.Println("can withdraw", amount, can)
	}
	// Output:
	// next events: [WITHDRAW]
	// can withdraw 50 true
	// can withdraw 51 false
}

func ExampleStepper() {
	chart := shipment()
	stepper := chart.Stepper()
	stepper.OnMicrostep = func(m statechart.Microstep) {
		fmt.Printf("%q left %v, entered %v\n", m.Event, m.Exited, m.Entered)
	}
	snapshot, _, err := stepper.Start(statechart.Start{Instance: "shipment/7"})
	if err != nil {
		panic(err)
	}
	for _, typ := range []string{"PACKED", "PAID"} {
		if _, _, err := stepper.Step(&snapshot, &statechart.Event{Type: typ}); err != nil {
			panic(err)
		}
	}
	// Output:
	// "" left [], entered [ preparing preparing.money preparing.money.due preparing.parcel preparing.parcel.open]
	// "PACKED" left [preparing.parcel.open], entered [preparing.parcel.sealed]
	// "PAID" left [preparing.money.due], entered [preparing.money.received]
	// "done.state.preparing" left [preparing.parcel.sealed preparing.parcel preparing.money.received preparing.money preparing], entered [shipped]
}

func ExampleChart_Stop() {
	chart := statechart.Must(definition{
		ID: "tap", Version: 1, Initial: "open",
		States: []state{{ID: "open", Tags: settled, Exit: do{note("closes the tap")},
			After: []after{{ID: "flood", Delay: time.Hour, Actions: do{note("floods")}}}}},
	})
	started := must(chart.Start(statechart.Start{Instance: "tap/1"}))
	step := must(chart.Stop(started.Next, time.Time{}))
	fmt.Println(step.Next.State(), step.Next.Status, len(step.Next.Timers), step.Effects[0].Message)
	// Output:
	// [open] stopped 0 closes the tap
}

func ExampleEffect() {
	chart := turnstile()
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	started := must(chart.Start(statechart.Start{Instance: "turnstile/1", At: now}))
	for range 2 {
		step := must(chart.Step(started.Next, statechart.Event{Type: "COIN", At: now}))
		show(step.Effects)
	}
	// Output:
	// [{"id":"2.0","kind":"schedule","timer":"2.0","at":"2026-11-20T09:01:00Z"}]
	// [{"id":"2.0","kind":"schedule","timer":"2.0","at":"2026-11-20T09:01:00Z"}]
}

func ExampleChart_Restore() {
	chart := turnstile()
	stored := `{"machine": "turnstile", "version": 1, "status": "active", "value": "unlocked", "context": {}, "tags": ["settled"],
		"timers": {"2.0": {"state": "unlocked", "after": "patience", "at": "2026-11-20T09:01:00Z"}}, "steps": 2}`
	s := must(chart.Restore([]byte(stored)))
	fmt.Println(s.State(), s.Timers[0].At)

	_, err := chart.Restore([]byte(`{"machine": "turnstile", "version": 2, "status": "active", "value": "open", "context": {}, "steps": 2}`))
	fmt.Println(err)
	_, err = chart.Restore([]byte(`{"machine": "turnstile", "version": 1, "status": "active", "value": "ajar", "context": {}, "steps": 2}`))
	fmt.Println(err)
	// Output:
	// [unlocked] 2026-11-20 09:01:00 +0000 UTC
	// unreadable snapshot of chart turnstile: expected version 1 of machine "turnstile", got version 2 of "turnstile"; add a migration or host that version too
	// unreadable snapshot of chart turnstile: this version has no state "ajar"; raise Version, and add RenameState("ajar", ...) or MoveState("ajar", ...), or host version 1 too
}

func ExampleCompile() {
	_, err := statechart.Compile(definition{
		ID: "order", Version: 1, Initial: "open",
		Payloads: events("SHIP"),
		States: []state{
			{ID: "open", Tags: settled, On: []on{{Event: "SHIP", Target: "sent"}, {Event: "CANCEL", Target: "cancelled"}}},
			{ID: "checking"},
			{ID: "cancelled", Type: statechart.Final},
		},
	})
	fmt.Println(err)
	// Output:
	// chart "order": 3 findings:
	//   state "open" on SHIP: target "sent" is not a state: name a sibling, a .child, or a #path.of.a.state
	//   state "open" on CANCEL: the event type is undeclared: declare it in Payloads
	//   state "checking" is unsettled, and no service or Always moves it on: tag it settled if it waits for the outside world
}

func Example_limits() {
	for _, limit := range []struct {
		name  string
		value int
	}{
		{"MicrostepsMax", statechart.MicrostepsMax},
		{"NestingDepthMax", statechart.NestingDepthMax},
		{"StatesMax", statechart.StatesMax},
		{"TransitionsMax", statechart.TransitionsMax},
		{"RegionsMax", statechart.RegionsMax},
		{"TimersMax", statechart.TimersMax},
		{"EffectsMax", statechart.EffectsMax},
		{"DeferredMax", statechart.DeferredMax},
		{"ChildrenMax", statechart.ChildrenMax},
		{"EventNameBytesMax", statechart.EventNameBytesMax},
	} {
		fmt.Printf("%-17s %5d\n", limit.name, limit.value)
	}
	// Output:
	// MicrostepsMax      1000
	// NestingDepthMax      32
	// StatesMax          4096
	// TransitionsMax    16384
	// RegionsMax          256
	// TimersMax           256
	// EffectsMax          256
	// DeferredMax          64
	// ChildrenMax          64
	// EventNameBytesMax   256
}
