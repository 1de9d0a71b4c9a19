package view

import (
	"io"
	"slices"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/console"
)

// Table is rows in columns of equal width, two spaces apart, below a header. On a terminal that is too narrow for that a row
// takes several lines; no text is cut, so that names can be copied.
type Table struct {
	style  console.Style
	header []string
	rows   [][]Cell
}

const (
	// besideMin is how much room the last column needs to be folded where it stands; with less it has lines of its own.
	besideMin = 24
	// belowIndent is how far to the right the further lines of a row begin.
	belowIndent = 4
)

// Cell is a text of a table, and how it is marked.
type Cell struct {
	text string
	mark func(console.Style, string) string
	// prose says that it is folded at any space.
	prose bool
}

// Plain is a cell without marks. As of all cells, what a terminal would obey is shown instead.
func Plain(text string) Cell { return cell(text, nil) }

// Bold is a cell of what the row is about.
func Bold(text string) Cell { return cell(text, console.Style.Bold) }

// State is a cell of states.
func State(text string) Cell { return cell(text, console.Style.State) }

// Warning is a cell of prose that should not be skipped.
func Warning(text string) Cell {
	c := cell(text, console.Style.Warning)
	c.prose = true
	return c
}

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

// tableLine is a line of each row: its columns from the first to the one before end, indented.
type tableLine struct{ first, end, indent int }

// layOut shares the columns out to as many lines as the terminal wants.
func (t *Table) layOut(widths []int) []tableLine {
	lines, used := []tableLine{{}}, 0
	for i, width := range widths {
		line := &lines[len(lines)-1]
		room := t.style.Columns() - used
		if i == len(widths)-1 && room >= besideMin { // It is folded there.
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

// writeLine writes the cells of a row that stand in a line. That of the last column may be folded.
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
