package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
)

type graphCommand struct {
	tableFlags
	Machine string `arg:"" optional:"" name:"machine|instance" help:"The machine, such as signup, or an instance, such as signup/42, to mark its state. Omit it to list the machines."`
	Format  string `enum:"mermaid,xstate" default:"mermaid" help:"How to print a chart: mermaid or xstate."`
	outputFlag
}

// formatXState is the value of --format for an XState config.
const formatXState = "xstate"

// machineRow is a row in the list of machines.
type machineRow struct {
	Machine string   `json:"machine"`
	Version int      `json:"version"`
	Events  []string `json:"events"`
}

// Run prints the chart.
func (c *graphCommand) Run(ctx context.Context, s *session) error {
	switch {
	case c.Machine == "" && c.Format == formatXState:
		return fmt.Errorf("%w: --format: expected a machine or an instance with it, got none", errUsage)
	case c.Machine != "" && c.Output != "auto":
		return fmt.Errorf("%w: -o, or --output, is for the list of machines: expected --format xstate for a chart in JSON, or neither for Mermaid", errUsage)
	}
	known, err := s.machines()
	if err != nil {
		return err
	}
	if c.Machine == "" {
		return c.list(s, known)
	}
	machine, states, err := c.lookup(ctx, s, known)
	if err != nil {
		return err
	}
	if c.Format == formatXState {
		config, err := s.writeXState(machine)
		if err != nil {
			return err
		}
		return s.printf("%s", config)
	}
	return s.printf("%s", machine.Mermaid(states...))
}

// lookup returns the machine that the argument names. If the argument names an instance, lookup returns the instance's
// machine, and the instance's states for the diagram to mark.
func (c *graphCommand) lookup(ctx context.Context, s *session, known *durable.Machines) (durable.Machine, []string, error) {
	if !strings.Contains(c.Machine, "/") {
		machine, err := known.Lookup(c.Machine)
		return machine, nil, err
	}
	record, _, err := c.read(ctx, s, c.Machine)
	if err != nil {
		return nil, nil, err
	}
	machine, instance, err := known.Restore(record)
	if err != nil {
		return nil, nil, err
	}
	return machine, instance.State(), nil
}

// list prints the machines.
func (c *graphCommand) list(s *session, known *durable.Machines) error {
	rows := []machineRow{}
	table := view.NewTable(s.style, "MACHINE", "VERSION", "EVENTS")
	for _, id := range known.IDs() {
		machine, err := known.Lookup(id)
		if err != nil {
			return err
		}
		rows = append(rows, machineRow{id, machine.Version(), machine.Events()})
		table.Add(view.Bold(id), view.Plain(fmt.Sprint(machine.Version())), view.Plain(strings.Join(machine.Events(), ", ")))
	}
	return c.answer(s, rows, func() error { return table.Write(s.Out) })
}
