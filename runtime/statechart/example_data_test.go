package statechart_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
	"github.com/settle-run/settle/runtime/statechart/statecharttest"
)

func ExampleSendTo() {
	type order struct {
		Stock string `json:"stock"`
		Items int    `json:"items"`
	}
	type (
		state = statechart.State[order]
		on    = statechart.Transition[order]
		do    = []statechart.Action[order]
	)
	reserve := statechart.SendTo("RESERVE", func(o order, _ statechart.Event) (string, any) {
		return "stock/" + o.Stock, map[string]int{"items": o.Items}
	})
	announce := statechart.Emit("order.placed", func(o order, _ statechart.Event) any { return map[string]int{"items": o.Items} })
	log := statechart.Log(func(o order, e statechart.Event) string { return fmt.Sprintf("%s of %d items", e.Type, o.Items) })

	p := play(statechart.Must(statechart.Definition[order]{
		ID: "order", Version: 1, Initial: "open",
		Payloads: events("PLACE"),
		Context:  func(statechart.Start) order { return order{Stock: "north", Items: 2} },
		States: []state{
			{ID: "open", Tags: settled, On: []on{{Event: "PLACE", Target: "placed", Actions: do{reserve, announce, log}}}},
			{ID: "placed", Tags: settled},
		},
	}))
	p.send("PLACE")
	show(p.Effects()[0])
	// Output:
	// starts in open
	// PLACE: open -> placed
	//   effect 2.0 send stock/north {"items":2,"type":"RESERVE"}
	//   effect 2.1 emit {"items":2,"type":"order.placed"}
	//   effect 2.2 log PLACE of 2 items
	// {"id":"2.0","kind":"send","to":"stock/north","event":{"items":2,"type":"RESERVE"}}
}

func ExampleEnqueueActions() {
	type list struct {
		Guests []string `json:"guests"`
	}
	type (
		state = statechart.State[list]
		on    = statechart.Transition[list]
		do    = []statechart.Action[list]
	)
	inviteAll := statechart.EnqueueActions("inviteAll", func(l *list, _ statechart.Event, enqueue statechart.Enqueue) error {
		for _, guest := range l.Guests {
			if err := enqueue.SendTo("guest/"+guest, "INVITE", nil); err != nil {
				return err
			}
		}
		return enqueue.Raise("INVITED", nil)
	})
	p := play(statechart.Must(statechart.Definition[list]{
		ID: "party", Version: 1, Initial: "planned",
		Payloads: statechart.Payloads{"GO": statechart.NoPayload(), "INVITED": statechart.Internal()},
		Context:  func(statechart.Start) list { return list{Guests: []string{"ada", "bob"}} },
		States: []state{
			{ID: "planned", Tags: settled, On: []on{{Event: "GO", Actions: do{inviteAll}}, {Event: "INVITED", Target: "invited"}}},
			{ID: "invited", Tags: settled},
		},
	}))
	p.send("GO")
	// Output:
	// starts in planned
	// GO: planned -> invited
	//   effect 2.0 send guest/ada {"type":"INVITE"}
	//   effect 2.1 send guest/bob {"type":"INVITE"}
}

func ExampleState_defer() {
	p := play(statechart.Must(definition{
		ID: "barber", Version: 1, Initial: "free",
		Payloads: events("CUSTOMER", "DONE", "CLOSE"),
		States: []state{
			{ID: "free", Tags: settled, On: []on{{Event: "CUSTOMER", Target: "cutting"}, {Event: "CLOSE", Target: "closed"}}},
			{ID: "cutting", Tags: settled, Defer: []string{"CUSTOMER", "CLOSE"},
				On: []on{{Event: "DONE", Target: "free"}}},
			{ID: "closed", Type: statechart.Final},
		},
	}))
	p.send("CUSTOMER", "CUSTOMER", "CLOSE", "DONE", "DONE")
	// Output:
	// starts in free
	// CUSTOMER: free -> cutting
	// CUSTOMER: stays in cutting
	//   deferred CUSTOMER
	// CLOSE: stays in cutting
	//   deferred CLOSE
	// DONE: stays in cutting
	//   replayed CUSTOMER
	// DONE: cutting -> closed
	//   replayed CLOSE
	//   done
}

func ExampleStart() {
	type basket struct {
		Items []string `json:"items"`
	}
	type order struct {
		Name  string `json:"name"`
		Items int    `json:"items"`
	}
	type state = statechart.State[order]
	chart := statechart.Must(statechart.Definition[order]{
		ID: "order", Version: 1, Initial: "open",
		Input: statechart.PayloadOf[basket](),
		Context: func(s statechart.Start) order {
			return order{Name: s.Instance, Items: len(s.Input.(basket).Items)}
		},
		States: []state{{ID: "open", Tags: settled}},
	})
	input := must(chart.DecodeInput([]byte(`{"items": ["tea", "cake"]}`)))
	step := must(chart.Start(statechart.Start{Instance: "order/7", Input: input}))
	show(step.Next.Context)
	// Output:
	// {"name":"order/7","items":2}
}

func ExampleDefinition_output() {
	type order struct {
		Paid int `json:"paid"`
	}
	type (
		state = statechart.State[order]
		on    = statechart.Transition[order]
	)
	final := func(outcome string) state {
		return state{ID: outcome, Type: statechart.Final, Output: func(o order, _ statechart.Event) any {
			return map[string]any{"outcome": outcome, "paid": o.Paid}
		}}
	}
	p := play(statechart.Must(statechart.Definition[order]{
		ID: "order", Version: 1, Initial: "open",
		Payloads: events("CANCEL", "SHIP"),
		States: []state{
			{ID: "open", Tags: settled, On: []on{{Event: "CANCEL", Target: "cancelled"}, {Event: "SHIP", Target: "shipped"}}},
			final("cancelled"),
			final("shipped"),
		},
	}))
	p.send("CANCEL")
	// Output:
	// starts in open
	// CANCEL: open -> cancelled
	//   done, output {"outcome":"cancelled","paid":0}
}

func ExampleSnapshot_Meta() {
	type page struct {
		Title string `json:"title"`
	}
	p := play(statechart.Must(definition{
		ID: "checkout", Version: 1, Initial: "paying",
		Payloads: events("PAID"),
		States: []state{
			{ID: "paying", Initial: "card", Tags: []string{"busy"}, Meta: page{"Checkout"}, States: []state{
				{ID: "card", Tags: []string{statechart.Settled, "form"}, Meta: page{"Your card"}, On: []on{{Event: "PAID", Target: "#done"}}},
			}},
			{ID: "done", Type: statechart.Final, Tags: []string{"success"}},
		},
	}))
	fmt.Println(p.Snapshot().Tags(), p.Snapshot().HasTag("busy"))
	show(p.Snapshot().Meta())
	// Output:
	// starts in paying.card
	// [busy form settled] true
	// {"paying":{"title":"Checkout"},"paying.card":{"title":"Your card"}}
}

func ExampleStepError() {
	check := statechart.TryAssign("check", func(*nothing, statechart.Event) error { return errors.New("no paper") })
	p := play(statechart.Must(definition{
		ID: "printer", Version: 1, Initial: "ready",
		Payloads: events("PRINT"),
		States: []state{
			{ID: "ready", Tags: settled, On: []on{{Event: "PRINT", Target: "printing", Actions: do{check}}}},
			{ID: "printing", Tags: settled},
		},
	}))
	err := p.Try(`{"type": "PRINT"}`)
	fmt.Println(err)

	var failure *statechart.StepError
	fmt.Println(errors.As(err, &failure), failure.Code, "in", p.State())
	// Output:
	// starts in ready
	// chart printer, state "ready", event "PRINT": action check: no paper
	// true action check in ready
}

func Example_executionError() {
	type printer struct {
		Fault string `json:"fault"`
	}
	type (
		state = statechart.State[printer]
		on    = statechart.Transition[printer]
		do    = []statechart.Action[printer]
	)
	check := statechart.TryAssign("check", func(*printer, statechart.Event) error { return errors.New("no paper") })
	keepFault := statechart.Assign("keepFault", func(p *printer, e statechart.StepError) { p.Fault = e.Code + ": " + e.Err.Error() })
	p := play(statechart.Must(statechart.Definition[printer]{
		ID: "printer", Version: 1, Initial: "ready",
		Payloads: events("PRINT"),
		On:       []on{{Event: statechart.ExecutionError, Target: ".faulty", Actions: do{keepFault}}},
		States: []state{
			{ID: "ready", Tags: settled, On: []on{{Event: "PRINT", Target: "printing", Actions: do{check}}}},
			{ID: "printing", Tags: settled},
			{ID: "faulty", Tags: settled},
		},
	}))
	p.send("PRINT")
	show(p.Snapshot().Context)
	// Output:
	// starts in ready
	// PRINT: ready -> faulty
	// {"fault":"action check: no paper"}
}

func Example_testing() {
	var t panicking // in a test: t *testing.T

	p := statecharttest.Play(t, turnstile(), statecharttest.Config{})
	p.Send("COIN", nil)
	p.Advance(59 * time.Second)
	fmt.Println(p.State(), p.Handled())
	p.Advance(time.Second)
	fmt.Println(p.State())
	// Output:
	// unlocked false
	// locked
}
