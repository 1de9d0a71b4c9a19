package statechart_test

import "github.com/settle-run/settle/runtime/statechart"

func ExampleResolution() {
	p := play(statechart.Must(definition{
		ID: "parcel", Version: 1, Initial: "ordered",
		Payloads: events("HAND_OVER", "SIGN", "LOSE"),
		States: []state{
			{ID: "ordered", Tags: settled, On: []on{{Event: "HAND_OVER", Target: "on_its_way"}}},
			{ID: "on_its_way", Tags: settled,
				Resolve: []resolution{{Name: "HandOver"}},
				On: []on{
					{Event: "SIGN", Target: "delivered"},
					{Event: "LOSE", Target: "lost"},
				}},
			{ID: "delivered", Type: statechart.Final, Resolve: []resolution{
				{Name: "HandOver", Outcome: "on_its_way"},
				{Name: "Delivery", Output: func(nothing, statechart.Event) any { return map[string]bool{"signed": true} }},
			}},
			{ID: "lost", Type: statechart.Final, Resolve: []resolution{
				{Name: "HandOver", Outcome: "on_its_way"},
				{Name: "Delivery", Error: "Parcel.Lost"},
			}},
		},
	}))
	p.send("HAND_OVER")
	p.send("SIGN")
	// Output:
	// starts in ordered
	// HAND_OVER: ordered -> on_its_way
	//   effect 2.0 resolve HandOver outcome=on_its_way
	// SIGN: on_its_way -> delivered
	//   effect 3.0 resolve HandOver outcome=on_its_way
	//   effect 3.1 resolve Delivery outcome=delivered output={"signed":true}
	//   done
}
