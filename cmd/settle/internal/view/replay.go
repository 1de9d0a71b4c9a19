package view

import (
	"fmt"
	"io"
	"slices"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/recording"
)

// WriteReplay writes the counts of a replay as a table, one row for each machine and version. Below the table it writes
// the differences, each with an example.
func WriteReplay(w io.Writer, style console.Style, counts []recording.Count, rows []recording.Row) error {
	header := []string{"MACHINE", "VERSION", "SAME", "DIFFER"}
	// Show the column only if needed: it needs accepted differences.
	hasPartial := slices.ContainsFunc(counts, func(count recording.Count) bool { return count.Partial > 0 })
	if hasPartial {
		header = append(header, "PARTIAL")
	}
	table := NewTable(style, header...)
	for _, count := range counts {
		differ := Plain(fmt.Sprint(count.Differ))
		if count.Differ > 0 {
			differ = Warning(fmt.Sprint(count.Differ))
		}
		cells := []Cell{Bold(count.Machine), Plain(fmt.Sprint(count.Version)), Plain(fmt.Sprint(count.Same)), differ}
		if hasPartial {
			cells = append(cells, Warning(fmt.Sprint(count.Partial)))
		}
		table.Add(cells...)
	}
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
