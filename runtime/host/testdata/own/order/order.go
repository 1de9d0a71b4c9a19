// Package order is a machine in another module.
package order

import (
	"context"
	"errors"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/host"
	"github.com/settle-run/settle/runtime/statechart"
)

type order struct {
	Paid bool `json:"paid"`
}

// Machines returns the module's machines.
func Machines(p *host.Process) ([]durable.Machine, error) {
	p.Env.Require("BANK_URL")
	bank := p.Env.Text("BANK_URL", "the address of the bank")
	if bank == "" {
		return nil, errors.New("no bank")
	}
	pay := statechart.ServiceFunc("pay", func(context.Context, order, statechart.Call) (bool, error) { return true, nil })
	chart, err := statechart.Compile(statechart.Definition[order]{
		ID: "order", Version: 1, Initial: "open", Payloads: statechart.Payloads{"PAY": statechart.NoPayload()},
		States: []statechart.State[order]{
			{ID: "open", Tags: []string{statechart.Settled}, On: []statechart.Transition[order]{{Event: "PAY", Target: "paying"}}},
			{ID: "paying", Invoke: []statechart.Invoke[order]{{Service: pay, OnDone: []statechart.Transition[order]{{Target: "paid"}}, OnError: []statechart.Transition[order]{{Target: "open"}}}}},
			{ID: "paid", Type: statechart.Final},
		},
	})
	if err != nil {
		return nil, err
	}
	return []durable.Machine{durable.Host(chart, durable.MachineConfig{})}, nil
}
