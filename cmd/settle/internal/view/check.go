package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/durable"
)

// WriteCheck writes the counts of a check as a table, one row for each machine, version, status and state. Below the
// table it writes an example of each row that breaks.
func WriteCheck(w io.Writer, style console.Style, rows []durable.CheckRow) error {
	table := NewTable(style, "MACHINE", "VERSION", "STATUS", "STATE", "FIT", "MIGRATE", "BREAK")
	for _, row := range rows {
		breaks := Plain
		if row.Break > 0 {
			breaks = Warning
		}
		table.Add(Bold(row.Machine), Plain(fmt.Sprint(row.Version)), Plain(string(row.Status)), State(strings.Join(row.State, ", ")),
			Plain(fmt.Sprint(row.Fit)), Plain(fmt.Sprint(row.Migrate)), breaks(fmt.Sprint(row.Break)))
	}
	if err := table.Write(w); err != nil {
		return err
	}
	for _, row := range rows {
		if row.Break == 0 {
			continue
		}
		which := escaped(row.Example) + " breaks"
		if row.Break > 1 {
			which = fmt.Sprintf("%s and %d more of the same row break", escaped(row.Example), row.Break-1)
		}
		if _, err := fmt.Fprintf(w, "\n%s\n  %s\n", style.Warning(which), escaped(row.Error)); err != nil {
			return err
		}
	}
	return nil
}
