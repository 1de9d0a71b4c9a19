package view

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/durable"
)

// WriteCheck writes the counts of a check as a table, one machine, version, status and state a line, and below
// it an example of what breaks in each.
func WriteCheck(w io.Writer, style console.Style, rows []durable.CheckRow) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "MACHINE\tVERSION\tSTATUS\tSTATE\tFIT\tMIGRATE\tBREAK") // Flush returns the first failure.
	for _, row := range rows {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%d\t%d\t%d\n", harmless(row.Machine), row.Version, harmless(string(row.Status)),
			harmless(strings.Join(row.State, ", ")), row.Fit, row.Migrate, row.Break)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, row := range rows {
		if row.Break == 0 {
			continue
		}
		which := harmless(row.Example) + " breaks"
		if row.Break > 1 {
			which = fmt.Sprintf("%s and %d more of its line break", harmless(row.Example), row.Break-1)
		}
		if _, err := fmt.Fprintf(w, "\n%s\n  %s\n", style.Warning(which), harmless(row.Error)); err != nil {
			return err
		}
	}
	return nil
}
