package host_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/machines/samples"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/statechart"
)

type tillContext struct {
	Card  string         `json:"card"`
	Count map[string]int `json:"count,omitempty"`
}

// pay is a payload whose validation panics on request.
type pay struct {
	Card string `json:"card"`
	Note string `json:"note,omitempty"`
}

// Validate rejects a payment without a card.
func (p pay) Validate() error {
	switch {
	case p.Note == "panic":
		panic(p)
	case p.Card == "":
		return errors.New("expected a card")
	}
	return nil
}

// till is a machine that fails in every way: its service fails, panics and succeeds, and its actions and guards panic.
// Their panics contain the event's payload.
func till(p *host.Process) ([]durable.Machine, error) {
	type on = statechart.Transition[tillContext]
	hosted, err := samples.Machines(p)
	if err != nil {
		return nil, err
	}
	charge := statechart.ServiceFunc("charge", func(_ context.Context, c tillContext, call statechart.Call) (pay, error) {
		switch call.Attempt {
		case 1:
			return pay{}, errors.New("no answer")
		case 2:
			panic("no price for " + c.Card)
		default:
			return pay{Card: c.Card}, nil
		}
	})
	refuse := statechart.ServiceFunc("refuse", func(context.Context, tillContext, statechart.Call) (pay, error) {
		return pay{}, statechart.Permanent(errors.New("refused"))
	})
	settled := []string{statechart.Settled}
	keep := statechart.Assign("keep", func(c *tillContext, e pay) { c.Card = e.Card })
	remind := statechart.SendAfter("remind", "REMIND", func(c tillContext, _ statechart.Event) (time.Duration, any) { return time.Second, pay{Card: c.Card} })
	crash := statechart.Assign("crash", func(_ *tillContext, e pay) { panic(fmt.Errorf("no count of %s", e.Card)) })
	wrong := statechart.When("wrong", func(_ tillContext, e pay) bool { panic(e) })
	chart, err := statechart.Compile(statechart.Definition[tillContext]{
		ID: "till", Version: 1, Initial: "open",
		Payloads: statechart.Payloads{
			"PAY": statechart.PayloadOf[pay](), "CRASH": statechart.PayloadOf[pay](), "WRONG": statechart.PayloadOf[pay](), "REMIND": statechart.PayloadOf[pay](),
			"REFUSE": statechart.PayloadOf[pay](),
		},
		States: []statechart.State[tillContext]{
			{ID: "open", Tags: settled, On: []on{
				{Event: "PAY", Target: "paying", Actions: []statechart.Action[tillContext]{keep}},
				{Event: "CRASH", Actions: []statechart.Action[tillContext]{crash}}, {Event: "WRONG", Target: "paid", Guard: wrong}, {Event: "REFUSE", Target: "refusing"},
			}},
			{ID: "paying", Invoke: []statechart.Invoke[tillContext]{{
				Service: charge, Retry: statechart.RetryPolicy{Attempts: 3, Interval: time.Second, Rate: 1}, OnError: []on{{Target: "open"}},
				OnDone: []on{{Target: "paid", Actions: []statechart.Action[tillContext]{remind}}},
			}}},
			{ID: "refusing", Invoke: []statechart.Invoke[tillContext]{{Service: refuse, OnDone: []on{{Target: "paid"}}, OnError: []on{{Target: "open"}}}}},
			{ID: "paid", Tags: settled, On: []on{{Event: "REMIND", Target: "reminded"}}, Resolve: []statechart.Resolution[tillContext]{{
				Name: "wait", Output: func(c tillContext, _ statechart.Event) any { return c },
			}}},
			{ID: "reminded", Type: statechart.Final},
		},
	})
	if err != nil {
		return nil, err
	}
	return append(hosted, durable.Host(chart, durable.MachineConfig{})), nil
}
