package statechart_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/settle-run/settle/runtime/statechart"
)

func ExampleState() {
	p := play(statechart.Must(definition{
		ID: "order", Version: 1, Initial: "open",
		Payloads: events("SUBMIT", "REJECT", "CANCEL"),
		States: []state{
			{ID: "open", Initial: "draft",
				On: []on{{Event: "CANCEL", Target: "cancelled"}},
				States: []state{
					{ID: "draft", Tags: settled, On: []on{{Event: "SUBMIT", Target: "review"}}},
					{ID: "review", Tags: settled, On: []on{{Event: "REJECT", Target: "draft"}}},
				}},
			{ID: "cancelled", Type: statechart.Final},
		},
	}))
	p.send("SUBMIT", "REJECT", "CANCEL")
	// Output:
	// starts in open.draft
	// SUBMIT: open.draft -> open.review
	// REJECT: open.review -> open.draft
	// CANCEL: open.draft -> cancelled
	//   done
}

func ExampleState_defaultEntry() {
	p := play(statechart.Must(definition{
		ID: "job", Version: 1, Initial: "idle",
		Payloads: events("RUN", "REBUILD", "STOP"),
		States: []state{
			{ID: "idle", Tags: settled, On: []on{
				{Event: "RUN", Target: "running"},
				{Event: "REBUILD", Target: "running.building"},
			}},
			{ID: "running", Initial: "fetching", Entry: do{note("runs")}, DefaultEntry: do{note("from the beginning")},
				On: []on{{Event: "STOP", Target: "idle"}},
				States: []state{
					{ID: "fetching", Tags: settled},
					{ID: "building", Tags: settled},
				}},
		},
	}))
	p.send("RUN", "STOP", "REBUILD")
	// Output:
	// starts in idle
	// RUN: idle -> running.fetching
	//   effect 2.0 log runs
	//   effect 2.1 log from the beginning
	// STOP: running.fetching -> idle
	// REBUILD: idle -> running.building
	//   effect 4.0 log runs
}

// shipment returns a chart with two regions.
func shipment() *statechart.Chart[nothing] {
	return statechart.Must(definition{
		ID: "shipment", Version: 1, Initial: "preparing",
		Payloads: events("PAID", "PACKED", "CANCEL"),
		States: []state{
			{ID: "preparing", Type: statechart.Parallel,
				On:     []on{{Event: "CANCEL", Target: "cancelled"}},
				OnDone: []on{{Target: "shipped"}},
				States: []state{
					{ID: "money", Initial: "due", States: []state{
						{ID: "due", Tags: settled, On: []on{{Event: "PAID", Target: "received"}}},
						{ID: "received", Type: statechart.Final},
					}},
					{ID: "parcel", Initial: "open", States: []state{
						{ID: "open", Tags: settled, On: []on{{Event: "PACKED", Target: "sealed"}}},
						{ID: "sealed", Type: statechart.Final},
					}},
				}},
			{ID: "shipped", Type: statechart.Final},
			{ID: "cancelled", Type: statechart.Final},
		},
	})
}

func ExampleState_parallel() {
	p := play(shipment())
	p.send("PACKED")
	show(p.Snapshot().Value())
	p.send("PAID")
	// Output:
	// starts in preparing.money.due, preparing.parcel.open
	// PACKED: preparing.money.due, preparing.parcel.open -> preparing.money.due, preparing.parcel.sealed
	// {"preparing":{"money":"due","parcel":"sealed"}}
	// PAID: preparing.money.due, preparing.parcel.sealed -> shipped
	//   done
}

func ExampleState_final() {
	type claim struct {
		Verdict json.RawMessage `json:"verdict,omitempty"`
	}
	type (
		state = statechart.State[claim]
		on    = statechart.Transition[claim]
		do    = []statechart.Action[claim]
	)
	says := func(verdict string) func(claim, statechart.Event) any {
		return func(claim, statechart.Event) any { return verdict }
	}
	keep := statechart.Assign("keep", func(c *claim, output json.RawMessage) { c.Verdict = output })
	p := play(statechart.Must(statechart.Definition[claim]{
		ID: "claim", Version: 1, Initial: "checking",
		Payloads: events("APPROVE", "REFUSE"),
		Output:   func(c claim, _ statechart.Event) any { return c },
		States: []state{
			{ID: "checking", Initial: "waiting",
				OnDone: []on{{Target: "closed", Actions: do{keep}}},
				States: []state{
					{ID: "waiting", Tags: settled, On: []on{{Event: "APPROVE", Target: "approved"}, {Event: "REFUSE", Target: "refused"}}},
					{ID: "approved", Type: statechart.Final, Output: says("yes")},
					{ID: "refused", Type: statechart.Final, Output: says("no")},
				}},
			{ID: "closed", Type: statechart.Final},
		},
	}))
	p.send("REFUSE")
	// Output:
	// starts in checking.waiting
	// REFUSE: checking.waiting -> closed
	//   done, output {"verdict":"no"}
}

// pausable returns a chart with two history states.
func pausable() *statechart.Chart[nothing] {
	return statechart.Must(definition{
		ID: "pausable", Version: 1, Initial: "paused",
		Payloads: events("NEXT", "PAUSE", "RESUME", "REDO"),
		States: []state{
			{ID: "paused", Tags: settled, On: []on{
				{Event: "RESUME", Target: "running.exactly"},
				{Event: "REDO", Target: "running.roughly"},
			}},
			{ID: "running", Initial: "fetching",
				On: []on{{Event: "PAUSE", Target: "paused"}},
				States: []state{
					{ID: "exactly", Type: statechart.DeepHistory, Target: "building"},
					{ID: "roughly", Type: statechart.ShallowHistory},
					{ID: "fetching", Tags: settled, On: []on{{Event: "NEXT", Target: "building"}}},
					{ID: "building", Initial: "compile", States: []state{
						{ID: "compile", Tags: settled, On: []on{{Event: "NEXT", Target: "link"}}},
						{ID: "link", Tags: settled},
					}},
				}},
		},
	})
}

func ExampleState_history() {
	p := play(pausable())
	p.send("RESUME")                  // no record: the default
	p.send("NEXT", "PAUSE", "RESUME") // deep: the atomic state
	p.send("PAUSE", "REDO")           // shallow: the child of running, from its start
	// Output:
	// starts in paused
	// RESUME: paused -> running.building.compile
	// NEXT: running.building.compile -> running.building.link
	// PAUSE: running.building.link -> paused
	// RESUME: paused -> running.building.link
	// PAUSE: running.building.link -> paused
	// REDO: paused -> running.building.compile
}

func ExampleSnapshot_Settled() {
	charge := statechart.ServiceFunc("charge", func(context.Context, nothing, statechart.Call) (string, error) { return "receipt-1", nil })
	chart := statechart.Must(definition{
		ID: "order", Version: 1, Initial: "charging",
		States: []state{
			{ID: "charging", Invoke: []statechart.Invoke[nothing]{{Service: charge,
				OnDone: []on{{Target: "paid"}}, OnError: []on{{Target: "unpaid"}}}}},
			{ID: "paid", Tags: settled},
			{ID: "unpaid", Tags: settled},
		},
	})
	step := must(chart.Start(statechart.Start{Instance: "order/7"}))
	fmt.Println(step.Next.State(), "settled:", step.Next.Settled())

	// The host runs the service and steps the chart with its result.
	service := step.Next.Services[0]
	step = must(chart.Step(step.Next, service.Done("receipt-1")))
	fmt.Println(step.Next.State(), "settled:", step.Next.Settled())
	// Output:
	// [charging] settled: false
	// [paid] settled: true
}
