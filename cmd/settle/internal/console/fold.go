package console

import (
	"regexp"
	"strings"
)

const (
	// hangMax is the rightmost column of a second field for further fields to be aligned below it.
	hangMax = 20
	// hangDefault is the additional indentation of folded text otherwise.
	hangDefault = 3
)

// gaps are the spaces between fields. folds are the places where a line of fields may be folded: gaps, before the arrow
// of a transition, and after a comma.
var (
	gaps  = regexp.MustCompile(`\S {2,}\S`)
	folds = regexp.MustCompile(`\S {2,}| → |, `)
)

const (
	arrow = " → "
	// keyEnd occurs in JSON but not in prose.
	keyEnd = `": `
)

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// Fold breaks the lines of a text that are wider than columns, where possible. Escape sequences have no width. A line
// with fields (separated by two or more spaces), an arrow or JSON is folded there or after a comma, else at a space.
// Other lines are folded at spaces. If columns is 0, nothing is folded.
func Fold(text string, columns int) string {
	if columns <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		foldLine(&b, line, columns)
	}
	return b.String()
}

// FoldWords breaks lines of prose that are wider than columns at spaces only. Text after a label (set off by two spaces
// within the first columns) is aligned below itself. If columns is 0, nothing is folded.
func FoldWords(text string, columns int) string {
	if columns <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		hang := indentOf(line)
		if gap := gaps.FindStringIndex(line); gap != nil && Width(line[:gap[1]-1]) <= hangMax {
			hang = Width(line[:gap[1]-1])
		}
		for Width(strings.TrimRight(line, "\n")) > columns {
			end, next := lastSpace(line, columns)
			if end == 0 || len(strings.TrimSpace(line[:end])) == 0 {
				break
			}
			b.WriteString(strings.TrimRight(line[:end], " ") + "\n")
			line = strings.Repeat(" ", hang) + line[next:]
		}
		b.WriteString(line)
	}
	return b.String()
}

func foldLine(b *strings.Builder, line string, columns int) {
	gap := gaps.FindStringIndex(line)
	prose := gap == nil && !strings.Contains(line, arrow) && !strings.Contains(line, keyEnd)
	under := indentOf(line) + hangDefault
	if gap != nil {
		if second := Width(line[:gap[1]-1]); second <= hangMax {
			under = second
		}
	}
	for Width(strings.TrimRight(line, "\n")) > columns {
		end, next, hang := 0, 0, 0
		if !prose {
			end, next, hang = lastFold(line, under, columns)
		}
		if end == 0 {
			end, next = lastSpace(line, columns)
			if hang = under; prose {
				hang = indentOf(line)
			}
		}
		if end == 0 {
			break
		}
		b.WriteString(line[:end] + "\n")
		line = strings.Repeat(" ", hang) + line[next:]
	}
	b.WriteString(line)
}

// lastFold returns where the first part of a line of fields ends, where the next part begins, and how far to indent it.
// It prefers the arrow of a transition, unless there are several. Fields are indented to the column fields, arrows to
// the start of their field, and other parts of a field by hangDefault more.
func lastFold(line string, fields, columns int) (end, next, hang int) {
	field, arrows := indentOf(line), strings.Count(line, arrow)
	for _, place := range folds.FindAllStringIndex(line, -1) {
		at, begin, under := place[0], place[1], field+hangDefault
		switch line[place[0]:place[1]] {
		case arrow:
			if arrows > 1 {
				continue
			}
			begin, under = at+1, field
		case ", ":
			at++
		default: // a gap between fields
			at = len(strings.TrimRight(line[:begin], " "))
			field, under = Width(line[:begin]), fields
		}
		used := Width(line[:at])
		if used > columns {
			break
		}
		if used > under+hangDefault {
			end, next, hang = at, begin, under
		}
		if line[place[0]:place[1]] == arrow {
			break
		}
	}
	return end, next, hang
}

// lastSpace returns the end of the last word that fits, and the start of the next word.
func lastSpace(line string, columns int) (end, next int) {
	for at := indentOf(line); ; {
		space := strings.IndexByte(line[at:], ' ')
		if space < 0 || Width(line[:at+space]) > columns {
			return end, next
		}
		end, at = at+space, at+space+1
		next = at
	}
}
