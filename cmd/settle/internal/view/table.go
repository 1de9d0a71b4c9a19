package view

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/settle-run/settle/cmd/settle/internal/console"
)

// Table is rows in columns of equal width, two spaces apart, below a header.
type Table struct {
	style  console.Style
	header []string
	rows   [][]Cell
}

// Cell is a text of a table, and how it is marked.
type Cell struct {
	text string
	mark func(console.Style, string) string
}

// Plain is a cell without marks. As of all cells, what a terminal would obey is taken out of it.
func Plain(text string) Cell { return cell(text, nil) }

// Bold is a cell of what the row is about.
func Bold(text string) Cell { return cell(text, console.Style.Bold) }

// State is a cell of states.
func State(text string) Cell { return cell(text, console.Style.State) }

// Warning is a cell that should not be skipped.
func Warning(text string) Cell { return cell(text, console.Style.Warning) }

func cell(text string, mark func(console.Style, string) string) Cell {
	return Cell{text: strings.ReplaceAll(harmless(text), "\n", " "), mark: mark}
}

// NewTable returns a table with the names of its columns.
func NewTable(style console.Style, header ...string) *Table {
	return &Table{style: style, header: header}
}

// Add adds a row of as many cells as there are columns.
func (t *Table) Add(cells ...Cell) { t.rows = append(t.rows, cells) }

// Write writes the table. Widths are those of the texts without their marks.
func (t *Table) Write(w io.Writer) error {
	widths := make([]int, len(t.header))
	header := make([]Cell, len(t.header))
	for i, name := range t.header {
		header[i] = Cell{text: name, mark: console.Style.Dim}
	}
	rows := append([][]Cell{header}, t.rows...)
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, c := range row {
			text := c.text
			if c.mark != nil {
				text = c.mark(t.style, text)
			}
			b.WriteString(text)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
