package view

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/console"
)

// Table has rows in columns of equal width, two spaces apart, below a header. On a narrow terminal, a row takes several
// lines. No text is cut, so that names can be copied. Table libraries cut or break cells there.
type Table struct {
	style console.Style
	rows  [][]Cell
}

const (
	// besideMin is the minimum width for folding the last column in place. With less room, it gets lines of its own.
	besideMin = 24
	// belowIndent is the indentation of the further lines of a row.
	belowIndent = 4
)

// Cell is the text of a cell, and its style.
type Cell struct {
	text string
	mark func(console.Style, string) string
}

// Plain returns a cell without a style. In all cells, control characters are escaped.
func Plain(text string) Cell {
	return Cell{strings.ReplaceAll(escaped(text), "\n", " "), func(_ console.Style, text string) string { return text }}
}

// Bold returns a cell for the subject of the row.
func Bold(text string) Cell { return Cell{Plain(text).text, console.Style.Bold} }

// State returns a cell for states.
func State(text string) Cell { return Cell{Plain(text).text, console.Style.State} }

// Warning returns a cell for text that should stand out.
func Warning(text string) Cell { return Cell{Plain(text).text, console.Style.Warning} }

// NewTable returns a table with the given header.
func NewTable(style console.Style, header ...string) *Table {
	t := &Table{style: style, rows: [][]Cell{nil}}
	for _, name := range header {
		t.rows[0] = append(t.rows[0], Cell{name, console.Style.Dim})
	}
	return t
}

// Add adds a row. It must have one cell for each column.
func (t *Table) Add(cells ...Cell) { t.rows = append(t.rows, cells) }

// Write writes the table. Column widths do not count escape sequences.
func (t *Table) Write(w io.Writer) error {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], console.Width(c.text))
		}
	}
	columns, last := t.style.Columns(), len(widths)-1
	// starts has the indentation of each column that begins a line. As many lines are used as the terminal needs.
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

// writeLine writes cells of a row, indented. If the last one is the last column, it may be folded.
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
