package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/compat"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// WriteTable writes instances as a table, one instance a row. Times are relative to `now`.
func WriteTable(w io.Writer, style console.Style, instances []Instance, now time.Time) error {
	table := NewTable(style, "INSTANCE", "STATE", "STATUS", "SINCE", "NEXT TIMER")
	for _, v := range instances {
		since, timer := "-", "-"
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

// WriteCheck writes the counts of a check as a table, one row for each machine, version, status and state. Below the
// table, it writes an example for each row with broken instances.
func WriteCheck(w io.Writer, style console.Style, command string, rows []compat.Row) error {
	table := NewTable(style, "MACHINE", "VERSION", "STATUS", "STATE", "FIT", "MIGRATE", "BREAK", "UNSTARTED", "PARK")
	for _, row := range rows {
		table.Add(Bold(row.Machine), Plain(fmt.Sprint(row.Version)), Plain(string(row.Status)), State(strings.Join(row.State, ", ")),
			Plain(fmt.Sprint(row.Fit)), Plain(fmt.Sprint(row.Migrate)), problems(row.Break), problems(row.Unstarted), problems(row.Park))
	}
	table.OmitZeros("UNSTARTED", "PARK") // Most deployments have no such instances, and terminals may be narrow.
	if err := table.Write(w); err != nil {
		return err
	}
	for _, row := range rows {
		if err := writeProblem(w, style, row.Break, row.Example, "break", row.Error); err != nil {
			return err
		}
		problem := fmt.Sprintf("a migration moves it to the state %s, whose timers and children do not start; once this build is deployed, run %s move %s %[1]s, which runs Entry too",
			row.UnstartedState, command, row.UnstartedExample)
		if err := writeProblem(w, style, row.Unstarted, row.UnstartedExample, "migrate", problem); err != nil {
			return err
		}
		if err := writeProblem(w, style, row.Park, row.ParkExample, "park", row.ParkError); err != nil {
			return err
		}
	}
	return nil
}

// writeProblem writes a problem that `count` instances of a row have. If `count` is 0, it writes nothing.
func writeProblem(w io.Writer, style console.Style, count int, example, do, problem string) error {
	if count == 0 {
		return nil
	}
	which := escaped(example) + " " + do + "s"
	if count > 1 {
		which = fmt.Sprintf("%s and %d more of the same row %s", escaped(example), count-1, do)
	}
	_, err := fmt.Fprintf(w, "\n%s\n  %s\n", style.Warning(which), escaped(problem))
	return err
}

// WriteHistory writes transitions, one a line, with times in the given time zone.
func WriteHistory(w io.Writer, style console.Style, history []instances.Transition, zone *time.Location) error {
	if len(history) == 0 {
		return nil
	}
	_, err := io.WriteString(w, style.Fold(historyText(style, history, zone)+"\n"))
	return err
}

// Log writes transitions one by one, in columns that grow with their content.
type Log struct {
	w     io.Writer
	style console.Style
	zone  *time.Location
	// named is set if each line starts with the name of its instance.
	named bool
	// `instances` and `events` are the current widths of the columns.
	instances, events int
}

// NewLog returns a log. If `named` is true, each line starts with the name of its instance.
func NewLog(w io.Writer, style console.Style, zone *time.Location, named bool) *Log {
	return &Log{w: w, style: style, zone: zone, named: named, events: len("done.invoke")}
}

// Write writes one transition of the instance.
func (l *Log) Write(instance string, transition instances.Transition) error {
	_, err := io.WriteString(l.w, l.style.Fold(l.line(instance, transition)))
	return err
}

func (l *Log) event(t instances.Transition) string {
	return escaped(console.EventName(t.Event, t.From))
}

func (l *Log) line(instance string, t instances.Transition) string {
	var b strings.Builder
	b.WriteString(l.style.Dim(t.At.In(l.zone).Format("01-02 15:04:05.000")) + "  ")
	if l.named {
		b.WriteString(l.style.Bold(console.Pad(escaped(instance), &l.instances)) + "  ")
	}
	b.WriteString(console.Pad(l.event(t), &l.events) + "  " + console.Change(l.style, t.From, t.To, t.Ignored))
	if t.By != "" {
		b.WriteString("  " + l.style.Dim("by "+escaped(strings.TrimSuffix(t.By+": "+t.Reason, ": "))))
	}
	b.WriteString("\n")
	return b.String()
}

// Table has rows in aligned columns, two spaces apart, below a header. On a narrow terminal, a row takes several
// lines. No text is cut, so that names can be copied. Table libraries cut or break cells on narrow terminals.
type Table struct {
	style console.Style
	rows  [][]Cell
}

const (
	// besideMin is the minimum width for folding the last column in place. A narrower column gets its own lines.
	besideMin = 24
	// belowIndent is the indentation of a row's continuation lines.
	belowIndent = 4
)

// Cell is the text of a cell, and its style.
type Cell struct {
	text string
	mark func(console.Style, string) string
}

// Plain returns a cell without a style. Like every cell, it escapes control characters.
func Plain(text string) Cell {
	return Cell{strings.ReplaceAll(escaped(text), "\n", " "), func(_ console.Style, text string) string { return text }}
}

// Bold returns a cell for the subject of the row.
func Bold(text string) Cell { return Cell{Plain(text).text, console.Style.Bold} }

// State returns a cell for states.
func State(text string) Cell { return Cell{Plain(text).text, console.Style.State} }

// Warning returns a cell for text that should stand out.
func Warning(text string) Cell { return Cell{Plain(text).text, console.Style.Warning} }

// problems returns a cell for a count that should be zero.
func problems(n int) Cell {
	if n > 0 {
		return Warning(fmt.Sprint(n))
	}
	return Plain("0")
}

// NewTable returns a table with the given header.
func NewTable(style console.Style, header ...string) *Table {
	t := &Table{style: style, rows: [][]Cell{nil}}
	for _, name := range header {
		t.rows[0] = append(t.rows[0], Cell{name, console.Style.Dim})
	}
	return t
}

// Add adds a row. The row must have one cell for each column.
func (t *Table) Add(cells ...Cell) { t.rows = append(t.rows, cells) }

// OmitZeros removes each of the given columns in which all rows have "0".
func (t *Table) OmitZeros(columns ...string) {
	for _, name := range columns {
		i := slices.IndexFunc(t.rows[0], func(c Cell) bool { return c.text == name })
		if slices.ContainsFunc(t.rows[1:], func(row []Cell) bool { return row[i].text != "0" }) {
			continue
		}
		for k, row := range t.rows {
			t.rows[k] = slices.Delete(row, i, i+1)
		}
	}
}

// Write writes the table. Column widths do not count escape sequences.
func (t *Table) Write(w io.Writer) error {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], console.Width(c.text))
		}
	}
	columns, last := t.style.Columns(), len(widths)-1
	// starts maps each column that begins a line to the indentation of that line. A row takes as many lines as it needs
	// on this terminal.
	starts, used := map[int]int{0: 0}, 0
	for i, width := range widths {
		room := columns - used
		if i == last && room >= besideMin { // The last column is folded in place.
			width = min(width, room)
		}
		if columns > 0 && used > starts[i] && width > room {
			starts[i], used = belowIndent, belowIndent
		}
		used += width + 2
	}
	var b strings.Builder
	for _, row := range t.rows {
		for first := 0; first <= last; {
			end := first + 1
			for _, more := starts[end]; end <= last && !more; _, more = starts[end] {
				end++
			}
			if first == 0 || slices.ContainsFunc(row[first:end], func(c Cell) bool { return cmp.Or(c.text, "-") != "-" }) {
				t.writeLine(&b, row[first:end], widths[first:end], starts[first], end > last)
			}
			first = end
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeLine writes the cells of a row after an indentation of `at` columns. Set `folded` if the last cell is in the
// table's last column. If the terminal's width is known, writeLine then folds this cell to fit.
func (t *Table) writeLine(b *strings.Builder, cells []Cell, widths []int, at int, folded bool) {
	b.WriteString(strings.Repeat(" ", at))
	for i, c := range cells[:len(cells)-1] {
		b.WriteString(c.mark(t.style, c.text) + strings.Repeat(" ", widths[i]-console.Width(c.text)+2))
		at += widths[i] + 2
	}
	c := cells[len(cells)-1]
	lines := []string{c.text}
	if folded && t.style.Columns() > 0 {
		lines = strings.Split(console.Fold(c.text, max(t.style.Columns()-at, besideMin)), "\n")
	}
	for k, line := range lines {
		if k > 0 {
			line = strings.TrimLeft(line, " ")
			b.WriteString("\n" + strings.Repeat(" ", at))
		}
		b.WriteString(c.mark(t.style, line))
	}
	b.WriteByte('\n')
}
