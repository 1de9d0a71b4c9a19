package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/statechart"
)

// WriteTable writes instances as a table, one a row. Times are relative to now.
func WriteTable(w io.Writer, style console.Style, instances []Instance, now time.Time) error {
	table := NewTable(style, "INSTANCE", "STATE", "STATUS", "SINCE", "NEXT TIMER")
	for _, v := range instances {
		since, timer := "", "-"
		if !v.Since.IsZero() {
			since = ago(v.Since, now)
		}
		if timers := v.timers(); v.Status == statechart.Active && len(timers) > 0 {
			timer = fmt.Sprintf("%s, %s", timers[0].After, ago(timers[0].At, now))
		}
		table.Add(Bold(v.Name), State(strings.Join(v.State, ", ")), Plain(string(v.Status)), Plain(since), Plain(timer))
	}
	return table.Write(w)
}
