package view

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// WriteTable writes instances as a table, one a line; now is what times are counted from.
func WriteTable(w io.Writer, instances []Instance, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "INSTANCE\tSTATE\tSTATUS\tSINCE\tNEXT TIMER") // Flush returns the first failure.
	for _, v := range instances {
		since, timer := "", "-"
		if !v.Since.IsZero() {
			since = ago(v.Since, now)
		}
		if timers := v.timers(); v.Status == statechart.Active && len(timers) > 0 {
			timer = fmt.Sprintf("%s, %s", timers[0].After, ago(timers[0].At, now))
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", v.Name, strings.Join(v.State, ", "), v.Status, since, timer)
	}
	return table.Flush()
}
