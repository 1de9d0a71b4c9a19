package main

import (
	"strings"
	"testing"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

// accounts hosts a machine whose context has a large integer, and a number that may have a fraction.
func accounts() command.Config {
	type (
		account struct {
			Number int64   `json:"number"`
			Rate   float64 `json:"rate"`
		}
		state = statechart.State[account]
		on    = statechart.Transition[account]
	)
	open := statechart.Assign("open", func(c *account, e account) { *c = e })
	chart := statechart.Must(statechart.Definition[account]{
		ID: "account", Version: 1, Initial: "open", Payloads: statechart.Payloads{"OPEN": statechart.PayloadOf[account]()},
		States: []state{{ID: "open", Tags: []string{statechart.Settled}, On: []on{{Event: "OPEN", Actions: []statechart.Action[account]{open}}}}},
	})
	return command.Config{Machines: func(command.Environment) []durable.Machine {
		return []durable.Machine{durable.Host(chart, durable.MachineConfig{})}
	}}
}

// 2^53 + 1 is the first integer that a float64 cannot hold. It would become its neighbour 2^53.
func TestLargeIntegersKeepTheirValue(t *testing.T) {
	t.Parallel()
	withMachines(t, accounts(), func(u user) {
		for id, number := range map[string]string{"1": "9007199254740993", "2": "9007199254740992"} {
			u.must("send", "--local", "account/"+id, "OPEN", "number:="+number, "rate:=1000", "--wait", "settled")
		}
		for condition, want := range map[string]string{
			"number = 9007199254740993":   "1 instance ",
			"number != 9007199254740993":  "1 instance ",
			"number > 9007199254740992":   "1 instance ",
			"number < 9007199254740993":   "1 instance ",
			"number >= 9007199254740992":  "2 instances ",
			"number = 9007199254740992.0": "1 instance ",
			"rate = 1e3":                  "2 instances ",
			"rate = 1000.0":               "2 instances ",
			"rate < 1e999999999":          "2 instances ",
			"rate = text":                 "0 instances ",
		} {
			if got := u.run("bulk", "keep", "--local", "--machine", "account", "--dry-run", "--context", condition); !strings.HasPrefix(got.out, want) {
				u.t.Errorf("%s: expected %q, got %+v", condition, want, got)
			}
		}
		// The change is to the neighbour, so a rounded comparison would show none.
		contains(u.t, u.must("move", "--local", "account/2", "--set", "number:=9007199254740993"), "change    context.number: 9007199254740992 → 9007199254740993\n")
		contains(u.t, u.must("get", "--local", "account/2"), `"number": 9007199254740993`)
		contains(u.t, u.must("move", "--local", "account/1", "--patch", `{"number": 9007199254740995}`, "-o", "json"), `"after": 9007199254740995`)
		contains(u.t, u.must("get", "--local", "account/1"), `"number": 9007199254740995`)
	})
}
