package statechart_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

func ExampleInvoke() {
	type order struct {
		Total   int    `json:"total"`
		Receipt string `json:"receipt,omitempty"`
		Refusal string `json:"refusal,omitempty"`
	}
	type (
		state  = statechart.State[order]
		on     = statechart.Transition[order]
		do     = []statechart.Action[order]
		invoke = statechart.Invoke[order]
	)
	charge := statechart.ServiceFunc("charge", func(_ context.Context, o order, call statechart.Call) (string, error) {
		switch {
		case o.Total > 100:
			return "", statechart.Permanent(errors.New("limit exceeded"))
		case call.Attempt == 1:
			return "", errors.New("bank out of reach")
		default:
			return "receipt for " + call.Key, nil
		}
	})
	keepReceipt := statechart.Assign("keepReceipt", func(o *order, receipt string) { o.Receipt = receipt })
	keepRefusal := statechart.Assign("keepRefusal", func(o *order, e statechart.ServiceError) { o.Refusal = e.Message })
	add := statechart.Update("add", func(o *order) { o.Total += 200 })

	p := play(statechart.Must(statechart.Definition[order]{
		ID: "order", Version: 1, Initial: "charging",
		Payloads: events("MORE"),
		Context:  func(statechart.Start) order { return order{Total: 30} },
		States: []state{
			{ID: "charging", Invoke: []invoke{{
				Service: charge, Timeout: 10 * time.Second, Retry: statechart.RetryPolicy{Attempts: 3},
				OnDone:  []on{{Target: "paid", Actions: do{keepReceipt}}},
				OnError: []on{{Target: "refused", Actions: do{keepRefusal}}},
			}}},
			{ID: "paid", Tags: settled, On: []on{{Event: "MORE", Target: "charging", Actions: do{add}}}},
			{ID: "refused", Type: statechart.Final},
		},
	}))
	p.send("MORE")
	show(p.Snapshot().Context)
	// Output:
	// starts in charging -> paid
	//   service 1.0 charge attempt 1 failed: bank out of reach, again in 1s
	//   service 1.0 charge attempt 2 done
	// MORE: paid -> charging -> refused
	//   service 3.0 charge attempt 1 failed permanently: limit exceeded
	//   done
	// {"total":230,"receipt":"receipt for order/1/1.0","refusal":"limit exceeded"}
}

func ExampleInvoke_timeout() {
	launch := statechart.ServiceFunc("launch", func(ctx context.Context, _ nothing, _ statechart.Call) (string, error) {
		return "", statecharttest.Sleep(ctx, time.Hour) // a fake call that takes an hour of virtual time
	})
	play(statechart.Must(definition{
		ID: "runner", Version: 1, Initial: "launching",
		States: []state{
			{ID: "launching",
				Invoke: []statechart.Invoke[nothing]{{
					Service: launch, Timeout: 20 * time.Second,
					Retry:  statechart.RetryPolicy{Attempts: 5, Interval: 10 * time.Second},
					OnDone: []on{{Target: "launched"}}, OnError: []on{{Target: "failed"}},
				}},
				After: []after{{ID: "patience", Delay: time.Minute, Target: "failed"}}},
			{ID: "launched", Type: statechart.Final},
			{ID: "failed", Type: statechart.Final},
		},
	}))
	// Output:
	// starts in launching -> failed
	//   service 1.1 launch attempt 1 failed: no answer within 20s, again in 10s
	//   service 1.1 launch attempt 2 failed: no answer within 20s, again in 20s
	//   +1m0s launching after patience
	//   done
}

func ExampleRetryPolicy() {
	retry := statechart.RetryPolicy{Attempts: 5, Interval: 10 * time.Second, Rate: 3, IntervalMax: time.Minute}
	for attempt := 1; ; attempt++ {
		wait, more := retry.Next(attempt)
		if !more {
			fmt.Println("after attempt", attempt, "OnError follows")
			return
		}
		fmt.Println("after attempt", attempt, "wait", wait)
	}
	// Output:
	// after attempt 1 wait 10s
	// after attempt 2 wait 30s
	// after attempt 3 wait 1m0s
	// after attempt 4 wait 1m0s
	// after attempt 5 OnError follows
}

func ExampleChild() {
	type parcel struct {
		Weight int             `json:"weight"`
		Signed json.RawMessage `json:"signed,omitempty"`
		Lost   string          `json:"lost,omitempty"`
	}
	type (
		state = statechart.State[parcel]
		on    = statechart.Transition[parcel]
		do    = []statechart.Action[parcel]
		child = statechart.Child[parcel]
	)
	blame := statechart.Assign("blame", func(p *parcel, e statechart.ChildError) { p.Lost = e.Machine + ": " + e.Message })
	keep := statechart.Assign("keep", func(p *parcel, output json.RawMessage) { p.Signed = output })
	chart := statechart.Must(statechart.Definition[parcel]{
		ID: "parcel", Version: 1, Initial: "travelling",
		Context: func(statechart.Start) parcel { return parcel{Weight: 3} },
		States: []state{
			{ID: "travelling", Tags: settled, Children: []child{{ID: "van", Machine: "delivery",
				Input:   func(p parcel, _ statechart.Event) any { return p },
				OnDone:  []on{{Target: "delivered", Actions: do{keep}}},
				OnError: []on{{Target: "lost", Actions: do{blame}}},
			}}},
			{ID: "delivered", Type: statechart.Final},
			{ID: "lost", Type: statechart.Final},
		},
	})
	p := play(chart)
	fmt.Println("settled:", p.Snapshot().Settled())
	p.ChildDone("van", "Ada")
	fmt.Print(p.Trace())
	show(p.Snapshot().Context)

	p = play(chart)
	p.ChildFailed("van", errors.New("no such address"))
	fmt.Print(p.Trace())
	show(p.Snapshot().Context)
	// Output:
	// starts in travelling
	//   effect 1.0 spawn delivery {"weight":3}
	// settled: true
	// travelling -> delivered
	//   done
	// {"weight":3,"signed":"Ada"}
	// starts in travelling
	//   effect 1.0 spawn delivery {"weight":3}
	// travelling -> lost
	//   done
	// {"weight":3,"lost":"delivery: no such address"}
}

func ExampleSpawn() {
	hello := statechart.SendToChild("guide", "HELLO", func(nothing, statechart.Event) any { return map[string]string{"from": "museum"} })
	p := play(statechart.Must(definition{
		ID: "museum", Version: 1, Initial: "open",
		Payloads: events("ENTER", "WAVE", "LEAVE"),
		States: []state{
			{ID: "open", Tags: settled, On: []on{
				{Event: "ENTER", Actions: do{statechart.Spawn[nothing]("guide", "guide", nil)}},
				{Event: "WAVE", Actions: do{hello}},
				{Event: "LEAVE", Actions: do{statechart.StopChild[nothing]("guide")}},
				{Event: "done.child.guide", Actions: do{note("the tour is over")}},
			}},
		},
	}))
	p.send("ENTER", "WAVE", "LEAVE", "ENTER")
	p.ChildDone("guide", nil)
	fmt.Print(p.Trace())
	// Output:
	// starts in open
	// ENTER: stays in open
	//   effect 2.0 spawn guide
	// WAVE: stays in open
	//   effect 3.0 send 2.0 of guide {"from":"museum","type":"HELLO"}
	// LEAVE: stays in open
	//   effect 4.0 stop 2.0 of guide
	// ENTER: stays in open
	//   effect 5.0 spawn guide
	// stays in open
	//   effect 6.0 log the tour is over
}
