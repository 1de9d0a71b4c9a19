package statechart_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

// Short names for charts without data in their context.
type (
	nothing    = struct{}
	definition = statechart.Definition[nothing]
	state      = statechart.State[nothing]
	on         = statechart.Transition[nothing]
	after      = statechart.After[nothing]
	resolution = statechart.Resolution[nothing]
	do         = []statechart.Action[nothing]
)

// events declares events without payload.
func events(types ...string) statechart.Payloads {
	payloads := statechart.Payloads{}
	for _, typ := range types {
		payloads[typ] = statechart.NoPayload()
	}
	return payloads
}

// note returns an action that writes a line to the log.
func note(line string) statechart.Action[nothing] {
	return statechart.Log(func(nothing, statechart.Event) string { return line })
}

// must returns a value and panics on an error.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// show prints a value as JSON.
func show(value any) { fmt.Println(string(must(json.Marshal(value)))) }

// shown is an instance in virtual time that prints its steps.
type shown[C any] struct{ *statecharttest.Player[C] }

// play starts an instance and prints its state.
func play[C any](chart *statechart.Chart[C]) shown[C] {
	p := shown[C]{statecharttest.Play(panicking{}, chart, statecharttest.Config{})}
	fmt.Print(p.Trace())
	return p
}

// send sends events and prints the resulting steps.
func (p shown[C]) send(types ...string) {
	for _, typ := range types {
		p.sendWith(typ, nil)
	}
}

func (p shown[C]) sendWith(typ string, payload any) {
	p.Send(typ, payload)
	fmt.Print(typ + ": " + p.Trace())
}

// advance lets time pass and prints the resulting steps.
func (p shown[C]) advance(d time.Duration) {
	p.Advance(d)
	fmt.Print(p.Trace())
}

// panicking implements the methods of testing.T that a player needs.
type panicking struct{}

func (panicking) Helper()                           {}
func (panicking) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func ExampleChart_Step() {
	type order struct {
		Paid int `json:"paid"`
	}
	type payment struct {
		Amount int `json:"amount"`
	}
	type (
		state = statechart.State[order]
		on    = statechart.Transition[order]
		do    = []statechart.Action[order]
	)
	settled := []string{statechart.Settled}
	keepAmount := statechart.Assign("keepAmount", func(o *order, p payment) { o.Paid += p.Amount })

	chart := statechart.Must(statechart.Definition[order]{
		ID: "order", Version: 1, Initial: "unpaid",
		Payloads: statechart.Payloads{"PAY": statechart.PayloadOf[payment](), "CANCEL": statechart.NoPayload()},
		States: []state{
			{ID: "unpaid", Tags: settled, On: []on{
				{Event: "PAY", Target: "paid", Actions: do{keepAmount}},
				{Event: "CANCEL", Target: "cancelled"},
			}},
			{ID: "paid", Type: statechart.Final},
			{ID: "cancelled", Type: statechart.Final},
		},
	})

	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	started := must(chart.Start(statechart.Start{Instance: "order/7", At: now}))
	event := must(chart.Decode([]byte(`{"type": "PAY", "amount": 30}`)))
	event.At = now.Add(time.Minute)
	step := must(chart.Step(started.Next, event))

	fmt.Println(started.Next.State(), started.Next.Context)
	fmt.Println(step.Next.State(), step.Next.Context, step.Next.Status)
	// Output:
	// [unpaid] {0}
	// [paid] {30} done
}

// turnstile returns the chart drawn in docs/charts/basics.md.
func turnstile() *statechart.Chart[nothing] {
	return statechart.Must(definition{
		ID: "turnstile", Version: 1, Initial: "locked",
		Payloads: events("COIN", "PUSH"),
		States: []state{
			{ID: "locked", Tags: settled, On: []on{{Event: "COIN", Target: "unlocked"}}},
			{ID: "unlocked", Tags: settled,
				On:    []on{{Event: "PUSH", Target: "locked"}},
				After: []after{{ID: "patience", Delay: time.Minute, Target: "locked"}}},
		},
	})
}

func ExampleMust() {
	p := play(turnstile())
	p.send("PUSH", "COIN", "PUSH", "COIN")
	p.advance(time.Hour)
	// Output:
	// starts in locked
	// PUSH: ignored in locked
	// COIN: locked -> unlocked
	//   effect 2.0 schedule unlocked after patience at +1m0s
	// PUSH: unlocked -> locked
	// COIN: locked -> unlocked
	//   effect 4.0 schedule unlocked after patience at +1m0s
	// +1m0s unlocked after patience: unlocked -> locked
}
