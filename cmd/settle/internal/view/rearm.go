package view

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/settle-run/settle/cmd/settle/internal/console"
)

// RearmRow counts the instances of a machine by outcome. It also counts the timers, aliases, open tasks and executions
// of the rearmed instances.
type RearmRow struct {
	Machine string `json:"machine"`
	// Rearmed counts instances that were rearmed. In a dry run, it counts instances that would be rearmed.
	Rearmed int `json:"rearmed"`
	// Already counts instances that this run or a later run had already rearmed.
	Already int `json:"already"`
	// Ended counts instances that have ended and have nothing left to do. The run does not change them.
	Ended  int `json:"ended"`
	Failed int `json:"failed"`

	Timers     int `json:"timers"`
	Aliases    int `json:"aliases"`
	Tasks      int `json:"tasks"`
	Executions int `json:"executions"`
}

// Rearms has the rows by machine.
type Rearms map[string]*RearmRow

// Of returns the row of a machine.
func (r Rearms) Of(machine string) *RearmRow {
	if r[machine] == nil {
		r[machine] = &RearmRow{Machine: machine}
	}
	return r[machine]
}

// Rows returns the rows, ordered by machine.
func (r Rearms) Rows() []RearmRow {
	rows := []RearmRow{}
	for _, machine := range slices.Sorted(maps.Keys(r)) {
		rows = append(rows, *r[machine])
	}
	return rows
}

// Failed returns how many instances could not be rearmed.
func (r Rearms) Failed() (n int) {
	for _, row := range r {
		n += row.Failed
	}
	return n
}

// Write writes the rows as a table.
func (r Rearms) Write(w io.Writer, style console.Style, dryRun bool) error {
	rows := r.Rows()
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "No instances.")
		return err
	}
	rearmed := "REARMED"
	if dryRun {
		rearmed = "TO REARM"
	}
	table := NewTable(style, "MACHINE", rearmed, "ALREADY", "ENDED", "FAILED", "TIMERS", "ALIASES", "TASKS", "EXECUTIONS")
	for _, row := range rows {
		cells := []Cell{Bold(row.Machine)}
		for i, count := range []int{row.Rearmed, row.Already, row.Ended, row.Failed, row.Timers, row.Aliases, row.Tasks, row.Executions} {
			mark := Plain
			if i == 3 && count > 0 {
				mark = Warning
			}
			cells = append(cells, mark(fmt.Sprint(count)))
		}
		table.Add(cells...)
	}
	return table.Write(w)
}
