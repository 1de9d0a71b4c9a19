package statechart_test

import (
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

func ExampleAfter() {
	p := play(statechart.Must(definition{
		ID: "offer", Version: 1, Initial: "open",
		Payloads: events("ASK", "ANSWER", "ACCEPT"),
		States: []state{
			{ID: "open", Initial: "reading",
				On:    []on{{Event: "ACCEPT", Target: "accepted"}},
				After: []after{{ID: "deadline", Delay: 48 * time.Hour, Target: "expired"}},
				States: []state{
					{ID: "reading", Tags: settled, On: []on{{Event: "ASK", Target: "asking"}}},
					{ID: "asking", Tags: settled,
						On:    []on{{Event: "ANSWER", Target: "reading"}},
						After: []after{{ID: "reminder", Delay: 24 * time.Hour, Actions: do{note("no answer yet")}}}},
				}},
			{ID: "accepted", Type: statechart.Final},
			{ID: "expired", Type: statechart.Final},
		},
	}))
	p.advance(time.Hour)
	p.send("ASK")
	p.advance(30 * time.Hour)
	p.send("ANSWER")
	p.advance(30 * time.Hour)
	// Output:
	// starts in open.reading
	//   effect 1.0 schedule open after deadline at +48h0m0s
	// nothing due
	// ASK: open.reading -> open.asking
	//   effect 2.0 schedule open.asking after reminder at +25h0m0s
	// +25h0m0s open.asking after reminder: stays in open.asking
	//   effect 3.0 log no answer yet
	// ANSWER: open.asking -> open.reading
	// +48h0m0s open after deadline: open.reading -> expired
	//   done
}

func ExampleAfter_computed() {
	type booking struct {
		Tries  int       `json:"tries"`
		Starts time.Time `json:"starts"`
	}
	type (
		state = statechart.State[booking]
		after = statechart.After[booking]
		do    = []statechart.Action[booking]
	)
	try := statechart.Update("try", func(b *booking) { b.Tries++ })
	p := play(statechart.Must(statechart.Definition[booking]{
		ID: "booking", Version: 1, Initial: "waiting",
		Context: func(s statechart.Start) booking { return booking{Starts: s.At.Add(50 * time.Minute)} },
		States: []state{
			{ID: "waiting", Tags: settled, Entry: do{try},
				After: []after{
					{ID: "backoff", Target: "waiting", Reenter: true,
						DelayFunc: func(b booking, _ statechart.Event) time.Duration { return time.Duration(b.Tries) * 20 * time.Minute }},
					{ID: "start", Target: "over",
						At: func(b booking, _ statechart.Event) time.Time { return b.Starts }},
				}},
			{ID: "over", Type: statechart.Final},
		},
	}))
	p.advance(2 * time.Hour)
	// Output:
	// starts in waiting
	//   effect 1.0 schedule waiting after backoff at +20m0s
	//   effect 1.1 schedule waiting after start at +50m0s
	// +20m0s waiting after backoff: stays in waiting
	//   effect 2.0 schedule waiting after backoff at +1h0m0s
	//   effect 2.1 schedule waiting after start at +50m0s
	// +50m0s waiting after start: waiting -> over
	//   done
}

func ExampleAfter_sharedID() {
	type job struct {
		Launches int `json:"launches"`
	}
	type (
		state = statechart.State[job]
		after = statechart.After[job]
		do    = []statechart.Action[job]
	)
	launch := statechart.Update("launch", func(j *job) { j.Launches++ })
	launchesLeft := statechart.If("launchesLeft", func(j job) bool { return j.Launches < 2 })
	p := play(statechart.Must(statechart.Definition[job]{
		ID: "job", Version: 1, Initial: "queued",
		States: []state{
			{ID: "queued", Tags: settled, Entry: do{launch},
				After: []after{
					{ID: "pick_up", Delay: 5 * time.Minute, Guard: launchesLeft, Target: "queued", Reenter: true},
					{ID: "pick_up", Delay: 5 * time.Minute, Target: "not_picked_up"},
				}},
			{ID: "not_picked_up", Type: statechart.Final},
		},
	}))
	p.advance(10 * time.Minute)
	// Output:
	// starts in queued
	//   effect 1.0 schedule queued after pick_up at +5m0s
	// +5m0s queued after pick_up: stays in queued
	//   effect 2.0 schedule queued after pick_up at +10m0s
	// +10m0s queued after pick_up: queued -> not_picked_up
	//   done
}

func ExampleSendAfter() {
	type visit struct {
		Place string `json:"place"`
	}
	remind := statechart.SendAfter("visit", "REMIND", func(nothing, statechart.Event) (time.Duration, any) {
		return 24 * time.Hour, visit{Place: "Oslo"}
	})
	say := statechart.Log(func(_ nothing, e statechart.Event) string { return "off to " + e.Payload.(visit).Place })
	p := play(statechart.Must(definition{
		ID: "trip", Version: 1, Initial: "planned",
		Payloads: statechart.Payloads{
			"PLAN": statechart.NoPayload(), "MOVE": statechart.NoPayload(), "DROP": statechart.NoPayload(),
			"REMIND": statechart.InternalOf[visit](),
		},
		On: []on{{Event: "REMIND", Actions: do{say}}},
		States: []state{
			{ID: "planned", Tags: settled, On: []on{
				{Event: "PLAN", Actions: do{remind}},
				{Event: "MOVE", Target: "moved"},
				{Event: "DROP", Actions: do{statechart.Cancel[nothing]("visit")}},
			}},
			{ID: "moved", Tags: settled, On: []on{{Event: "PLAN", Target: "planned", Actions: do{remind}}}},
		},
	}))
	p.send("PLAN", "MOVE")
	p.advance(24 * time.Hour)
	p.send("PLAN", "DROP")
	p.advance(24 * time.Hour)
	// Output:
	// starts in planned
	// PLAN: stays in planned
	//   effect 2.0 schedule delayed REMIND at +24h0m0s
	// MOVE: planned -> moved
	// +24h0m0s delayed REMIND: stays in moved
	//   effect 4.0 log off to Oslo
	// PLAN: moved -> planned
	//   effect 5.0 schedule delayed REMIND at +48h0m0s
	// DROP: stays in planned
	// nothing due
}
