package view

import (
	"fmt"
	"io"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/recording"
)

// WriteReplay writes the counts of a replay as a table, one row for each machine and version. Below the table it writes
// the differences, each with an example.
func WriteReplay(w io.Writer, style console.Style, counts []recording.Count, rows []recording.Row) error {
	table := NewTable(style, "MACHINE", "VERSION", "SAME", "DIFFER", "PARTIAL")
	for _, count := range counts {
		table.Add(Bold(count.Machine), Plain(fmt.Sprint(count.Version)), Plain(fmt.Sprint(count.Same)), problems(count.Differ), problems(count.Partial))
	}
	table.OmitZeros("PARTIAL") // Without --accept, no run is PARTIAL.
	if err := table.Write(w); err != nil {
		return err
	}
	for _, row := range rows {
		where := ""
		if row.Event != "" {
			where = row.Event + " in " + row.State + ": "
		}
		problem := fmt.Sprintf("%s%s: expected %s, got %s", where, row.What, row.Expected, row.Got)
		if err := writeProblem(w, style, row.Runs, row.Example, "differ", problem); err != nil {
			return err
		}
	}
	return nil
}
