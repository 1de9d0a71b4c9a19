package statechart_test

import "github.com/settle-run/settle/runtime/statechart"

func ExampleAlias() {
	type parcel struct {
		Number string `json:"number,omitempty"`
	}
	type label struct {
		Number string `json:"number"`
	}
	type taken struct {
		Alias string `json:"alias"`
	}
	type (
		state = statechart.State[parcel]
		on    = statechart.Transition[parcel]
		do    = []statechart.Action[parcel]
	)
	alias := func(p parcel, _ statechart.Event) string { return "carrier/" + p.Number }
	claim, release := statechart.Alias(alias), statechart.Unalias(alias)
	keep := statechart.Assign("keep", func(p *parcel, l label) { p.Number = l.Number })
	forget := statechart.Update("forget", func(p *parcel) { p.Number = "" })

	p := play(statechart.Must(statechart.Definition[parcel]{
		ID: "parcel", Version: 1, Initial: "packed",
		Payloads: statechart.Payloads{
			"LABEL": statechart.PayloadOf[label](), "RELABEL": statechart.PayloadOf[label](),
			"alias.taken": statechart.PayloadOf[taken](),
		},
		States: []state{
			{ID: "packed", Tags: settled, On: []on{{Event: "LABEL", Target: "labelled", Actions: do{keep, claim}}}},
			{ID: "labelled", Tags: settled, On: []on{
				{Event: "RELABEL", Actions: do{release, keep, claim}},
				{Event: "alias.taken", Target: "mixed_up", Actions: do{forget}},
			}},
			{ID: "mixed_up", Tags: settled, On: []on{{Event: "RELABEL", Target: "labelled", Actions: do{keep, claim}}}},
		},
	}))
	p.sendWith("LABEL", label{"N-1"})
	p.sendWith("RELABEL", label{"N-2"})
	p.sendWith("alias.taken", taken{"carrier/N-2"}) // The runtime sends this if another parcel has the alias.
	p.sendWith("RELABEL", label{"N-3"})
	// Output:
	// starts in packed
	// LABEL: packed -> labelled
	//   effect 2.0 alias {"id":"2.0","kind":"alias","name":"carrier/N-1"}
	// RELABEL: stays in labelled
	//   effect 3.0 release {"id":"3.0","kind":"release","name":"carrier/N-1"}
	//   effect 3.1 alias {"id":"3.1","kind":"alias","name":"carrier/N-2"}
	// alias.taken: labelled -> mixed_up
	// RELABEL: mixed_up -> labelled
	//   effect 5.0 alias {"id":"5.0","kind":"alias","name":"carrier/N-3"}
}
