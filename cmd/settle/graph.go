package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

type graphCommand struct {
	Machine string `arg:"" optional:"" help:"The machine, such as signup. Without it, the machines are listed."`
	Format  string `enum:"mermaid,xstate" default:"mermaid" help:"How to print it: mermaid or xstate."`
}

// Help explains the formats.
func (*graphCommand) Help() string {
	return `mermaid is a state diagram that GitHub draws in Markdown. xstate is a machine config of XState v5 in
JSON, for editors, front ends and settle simulate; what the machine does is in it by name.`
}

// Run prints the chart.
func (c *graphCommand) Run(s *session) error {
	known, err := knownMachines()
	if err != nil {
		return err
	}
	if c.Machine != "" {
		machine, err := known.Lookup(c.Machine)
		if err != nil {
			return err
		}
		if c.Format == "mermaid" {
			return s.printf("%s", machine.Mermaid())
		}
		config, err := writeXState(machine)
		if err != nil {
			return err
		}
		return s.printf("%s", config)
	}
	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "MACHINE\tVERSION\tEVENTS") // Flush returns the first failure.
	for _, id := range known.IDs() {
		machine, err := known.Lookup(id)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\n", id, machine.Version(), strings.Join(machine.Events(), ", "))
	}
	return table.Flush()
}
