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

func ExampleServiceError() {
	type ticket struct {
		Seats int    `json:"seats"`
		Why   string `json:"why,omitempty"`
	}
	type (
		state = statechart.State[ticket]
		on    = statechart.Transition[ticket]
		do    = []statechart.Action[ticket]
	)
	book := statechart.ServiceFunc("book", func(_ context.Context, t ticket, _ statechart.Call) (string, error) {
		if t.Seats > 4 {
			return "", statechart.Permanent(errors.New("too many seats"))
		}
		return "", errors.New("theatre out of reach")
	})
	refused := statechart.When("refused", func(_ ticket, e statechart.ServiceError) bool { return e.Permanent })
	keepWhy := statechart.Assign("keepWhy", func(t *ticket, e statechart.ServiceError) {
		t.Why = fmt.Sprintf("%s, attempt %d: %s", e.Service, e.Attempts, e.Message)
	})
	for _, seats := range []int{6, 2} {
		p := play(statechart.Must(statechart.Definition[ticket]{
			ID: "ticket", Version: 1, Initial: "booking",
			Context: func(statechart.Start) ticket { return ticket{Seats: seats} },
			States: []state{
				{ID: "booking", Invoke: []statechart.Invoke[ticket]{{
					Service: book, Retry: statechart.RetryPolicy{Attempts: 2},
					OnDone: []on{{Target: "booked"}},
					OnError: []on{
						{Guard: refused, Target: "refused", Actions: do{keepWhy}},
						{Target: "unbooked", Actions: do{keepWhy}},
					},
				}}},
				{ID: "booked", Type: statechart.Final},
				{ID: "refused", Type: statechart.Final},
				{ID: "unbooked", Type: statechart.Final},
			},
		}))
		show(p.Snapshot().Context)
	}
	// Output:
	// starts in booking -> refused
	//   service 1.0 book attempt 1 failed permanently: too many seats
	//   done
	// {"seats":6,"why":"book, attempt 1: too many seats"}
	// starts in booking -> unbooked
	//   service 1.0 book attempt 1 failed: theatre out of reach, again in 1s
	//   service 1.0 book attempt 2 failed permanently: theatre out of reach
	//   done
	// {"seats":2,"why":"book, attempt 2: theatre out of reach"}
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

func ExampleLimit() {
	type order struct{ Tenant string }
	type on = statechart.Transition[order]
	bank := statechart.Limit{Name: "bank", Rate: 10, Per: time.Second, Concurrency: 5}
	charge := statechart.ServiceFunc("charge", func(context.Context, order, statechart.Call) (string, error) { return "receipt", nil })

	chart := statechart.Must(statechart.Definition[order]{
		ID: "order", Version: 1, Initial: "charging",
		States: []statechart.State[order]{
			{ID: "charging", Invoke: []statechart.Invoke[order]{{
				Service: charge, Retry: statechart.RetryPolicy{Attempts: 3},
				Limit: bank, LimitKey: func(o order) string { return o.Tenant },
				OnDone: []on{{Target: "paid"}}, OnError: []on{{Target: "refused"}},
			}}},
			{ID: "paid", Type: statechart.Final},
			{ID: "refused", Type: statechart.Final},
		},
	})
	fmt.Printf("%+v\n", chart.Describe().Limits)
	// Output:
	// [{Name:bank Rate:10 Per:1s Concurrency:5}]
}

func ExampleChild() {
	type parcel struct {
		Weight   int    `json:"weight"`
		SignedBy string `json:"signed_by,omitempty"`
		Lost     string `json:"lost,omitempty"`
	}
	type receipt struct { // the output of a delivery
		Name string `json:"name"`
	}
	type (
		state = statechart.State[parcel]
		on    = statechart.Transition[parcel]
		do    = []statechart.Action[parcel]
		child = statechart.Child[parcel]
	)
	blame := statechart.Assign("blame", func(p *parcel, e statechart.ChildError) { p.Lost = e.Machine + ": " + e.Message })
	keep := statechart.TryAssign("keep", func(p *parcel, output json.RawMessage) error {
		var r receipt
		err := json.Unmarshal(output, &r)
		p.SignedBy = r.Name
		return err
	})
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
	p.ChildDone("van", receipt{Name: "Ada"})
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
	// {"weight":3,"signed_by":"Ada"}
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
