package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

type graphCommand struct {
	Machine string `arg:"" optional:"" help:"The machine, such as signup. Without it, the machines are listed."`
}

// Run prints the chart in Mermaid's language, which GitHub draws in Markdown.
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
		return s.printf("%s", machine.Mermaid())
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
