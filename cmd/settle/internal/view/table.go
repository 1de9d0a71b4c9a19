package view

import (
	"io"
	"slices"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/console"
)

// Table has rows in columns of equal width, two spaces apart, below a header. On a narrow terminal, a row takes several
// lines. No text is cut, so that names can be copied.
type Table struct {
	style  console.Style
	header []string
	rows   [][]Cell
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
	// prose allows folding at any space.
	prose bool
}

// Plain returns a cell without a style. In all cells, control characters are escaped.
func Plain(text string) Cell { return cell(text, nil) }

// Bold returns a cell for the subject of the row.
func Bold(text string) Cell { return cell(text, console.Style.Bold) }

// State returns a cell for states.
func State(text string) Cell { return cell(text, console.Style.State) }

// Warning returns a cell for prose that should stand out.
func Warning(text string) Cell {
	c := cell(text, console.Style.Warning)
	c.prose = true
	return c
}

func cell(text string, mark func(console.Style, string) string) Cell {
	return Cell{text: strings.ReplaceAll(escaped(text), "\n", " "), mark: mark}
}

// NewTable returns a table with the given header.
func NewTable(style console.Style, header ...string) *Table {
	return &Table{style: style, header: header}
}

// Add adds a row. It must have one cell for each column.
func (t *Table) Add(cells ...Cell) { t.rows = append(t.rows, cells) }

// Write writes the table. Column widths do not count escape sequences.
func (t *Table) Write(w io.Writer) error {
	header := make([]Cell, len(t.header))
	for i, name := range t.header {
		header[i] = Cell{text: name, mark: console.Style.Dim}
	}
	rows := append([][]Cell{header}, t.rows...)
	widths := make([]int, len(t.header))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], console.Width(c.text))
		}
	}
	lines := t.layOut(widths)
	var b strings.Builder
	for _, row := range rows {
		for k, line := range lines {
			if k == 0 || slices.ContainsFunc(row[line.first:line.end], func(c Cell) bool { return c.text != "" && c.text != "-" }) {
				t.writeLine(&b, row, widths, line)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// tableLine is one line of each row. It has the columns from first up to but not including end, indented.
type tableLine struct{ first, end, indent int }

// layOut distributes the columns over as many lines as the terminal needs.
func (t *Table) layOut(widths []int) []tableLine {
	lines, used := []tableLine{{}}, 0
	for i, width := range widths {
		line := &lines[len(lines)-1]
		room := t.style.Columns() - used
		if i == len(widths)-1 && room >= besideMin { // The last column is folded in place.
			width = min(width, room)
		}
		if t.style.Columns() > 0 && i > line.first && width > room {
			lines = append(lines, tableLine{first: i, indent: belowIndent})
			line, used = &lines[len(lines)-1], belowIndent
		}
		line.end, used = i+1, used+width+2
	}
	return lines
}

// writeLine writes the cells of a row that belong to the line. The last column may be folded.
func (t *Table) writeLine(b *strings.Builder, row []Cell, widths []int, line tableLine) {
	at := line.indent
	b.WriteString(strings.Repeat(" ", at))
	for i := line.first; i < line.end; i++ {
		texts := []string{row[i].text}
		if i == len(row)-1 && t.style.Columns() > 0 {
			fold := console.Fold
			if row[i].prose {
				fold = console.FoldWords
			}
			texts = strings.Split(fold(texts[0], max(t.style.Columns()-at, besideMin)), "\n")
		}
		for k, text := range texts {
			if k > 0 {
				b.WriteString("\n" + strings.Repeat(" ", at))
				text = strings.TrimLeft(text, " ")
			}
			b.WriteString(row[i].marked(t.style, text))
		}
		if i < line.end-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-console.Width(row[i].text)+2))
			at += widths[i] + 2
		}
	}
	b.WriteByte('\n')
}

func (c Cell) marked(style console.Style, text string) string {
	if c.mark == nil {
		return text
	}
	return c.mark(style, text)
}
