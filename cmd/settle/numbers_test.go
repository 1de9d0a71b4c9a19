package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/settle-run/settle/cmd/settle/command"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

type account struct {
	Number int64   `json:"number"`
	Rate   float64 `json:"rate"`
}

// accounts hosts a machine whose context has a large integer, and a number that may have a fraction.
func accounts(migrations ...statechart.Migration) command.Config {
	type (
		state = statechart.State[account]
		on    = statechart.Transition[account]
	)
	open := statechart.Assign("open", func(c *account, e account) { *c = e })
	chart := statechart.Must(statechart.Definition[account]{
		ID: "account", Version: 1 + len(migrations), Migrations: migrations, Initial: "open", Payloads: statechart.Payloads{"OPEN": statechart.PayloadOf[account]()},
		States: []state{{ID: "open", Tags: []string{statechart.Settled}, On: []on{{Event: "OPEN", Actions: []statechart.Action[account]{open}}}}},
	})
	return command.Config{Machines: func(command.Environment) []durable.Machine {
		return []durable.Machine{durable.Host(chart, durable.MachineConfig{})}
	}}
}

// 2^53 + 1 is the first integer that a float64 cannot hold. Rounding turns it into 2^53.
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
		// The new number is the neighbour of the old one, so a rounded comparison would show no change.
		contains(u.t, u.must("move", "--local", "account/2", "--set", "number:=9007199254740993"), "change    context.number: 9007199254740992 → 9007199254740993\n")
		contains(u.t, u.must("get", "--local", "account/2"), `"number": 9007199254740993`)
		contains(u.t, u.must("move", "--local", "account/1", "--patch", `{"number": 9007199254740995}`, "-o", "json"), `"after": 9007199254740995`)
		contains(u.t, u.must("get", "--local", "account/1"), `"number": 9007199254740995`)
	})
}

// Neither a float64 nor an int64 can hold these values. A rounded comparison would accept the first two.
func TestAMoveRefusesANumberThatTheMachineWouldChange(t *testing.T) {
	t.Parallel()
	withMachines(t, accounts(), func(u user) {
		u.must("send", "--local", "account/1", "OPEN", "number:=1", "rate:=1000", "--wait", "settled")
		before := u.items()
		for set, want := range map[string]string{
			"rate:=9007199254740993":      "it would drop or change context.rate (expected 9007199254740993, got 9007199254740992): correct",
			"rate:=1.0000000000000000001": "it would drop or change context.rate (expected 1.0000000000000000001, got 1): correct",
			"rate:=1e-400":                "it would drop or change context.rate (expected 1e-400, got 0): correct",
			"colour:=1":                   "it would drop or change context.colour: correct",
			"number:=1.0":                 `the new context: expected a whole number of 64 bits under "number", got a number with a fraction or an exponent` + "\n",
			"number:=9223372036854775808": `the new context: expected a whole number of 64 bits under "number", got a number out of range` + "\n",
			"rate:=1e400":                 `the new context: expected a number of 64 bits under "rate", got a number out of range` + "\n",
			"number=1":                    `the new context: expected a whole number of 64 bits under "number", got a string` + "\n",
		} {
			if got := u.run("move", "--local", "account/1", "--set", set); got.code != command.ExitRefused || !strings.Contains(got.err, want) {
				u.t.Errorf("%s: expected %q, got %+v", set, want, got)
			}
		}
		if after := u.items(); !maps.Equal(before, after) {
			u.t.Errorf("a refused move changed\n%v\nto\n%v", before, after)
		}
		for set, want := range map[string]string{"rate:=1.5e3": "1000 → 1500\n", "rate:=0.1": "1000 → 0.1\n", "rate:=-0": "1000 → -0\n"} {
			contains(u.t, u.must("move", "--local", "account/1", "--set", set, "--dry-run"), "change    context.rate: "+want)
		}
	})
}

// The next version stores the rate in percent. Patching the context as stored would undo this migration.
func TestAMovePatchesTheMigratedContext(t *testing.T) {
	t.Parallel()
	withMachines(t, accounts(), func(u user) {
		u.must("send", "--local", "account/1", "OPEN", "number:=1", "rate:=0.5", "--wait", "settled")
		u.config = accounts(statechart.Migration{From: 1, Changes: []statechart.Change{
			statechart.MigrateContext(func(c account) account { return account{c.Number, 100 * c.Rate} }),
		}})
		contains(u.t, u.must("move", "--local", "account/1", "--set", "number:=2", "--dry-run"), "context.number: 1 → 2\n", "context.rate: 0.5 → 50\n")
	})
}
