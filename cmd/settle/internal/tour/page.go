package tour

import (
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// columns is how wide the tour is printed: a line that is longer is folded, if there is where.
const columns = 100

// page is a writer that folds what is written to it, which has to be whole lines.
type page struct{ io.Writer }

// Write writes the lines, folded.
func (p page) Write(text []byte) (int, error) {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString(fold(line))
	}
	if _, err := io.WriteString(p.Writer, b.String()); err != nil {
		return 0, err
	}
	return len(text), nil
}

const (
	// hangMax is how far to the right a line's second field may begin for further fields to stand below it.
	hangMax = 20
	// hangDefault is how far what is folded is indented otherwise, beyond what it belongs to.
	hangDefault = 3
)

// gaps are between fields. folds are where a line may be folded: there, before the arrow of a transition, and
// after a comma.
var (
	gaps  = regexp.MustCompile(`\S {2,}\S`)
	folds = regexp.MustCompile(`\S {2,}| → |, `)
)

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// fold breaks a line of more than columns into several. Marks for a terminal take no room.
func fold(line string) string {
	under := indentOf(line) + hangDefault
	if gap := gaps.FindStringIndex(line); gap != nil {
		if second := width(line[:gap[1]-1]); second <= hangMax {
			under = second
		}
	}
	var b strings.Builder
	for width(strings.TrimRight(line, "\n")) > columns {
		end, next, hang := lastFold(line, under)
		if end == 0 {
			break
		}
		b.WriteString(line[:end] + "\n")
		line = strings.Repeat(" ", hang) + line[next:]
	}
	return b.String() + line
}

// lastFold returns where the line's first part ends and the next one begins, and how far to indent that. The
// arrow of a transition comes before all other places, unless it is one of several. Fields are indented to the
// column that is given, arrows to where their field begins, and other parts of a field a little further.
func lastFold(line string, fields int) (end, next, hang int) {
	const arrow, comma = " → ", ", "
	field, arrows := indentOf(line), strings.Count(line, arrow)
	for _, place := range folds.FindAllStringIndex(line, -1) {
		at, begin, under := place[0], place[1], field+hangDefault
		switch line[place[0]:place[1]] {
		case arrow:
			if arrows > 1 {
				continue
			}
			begin, under = at+1, field
		case comma:
			at++
		default: // a gap between fields
			at = len(strings.TrimRight(line[:begin], " "))
			field, under = width(line[:begin]), fields
		}
		used := width(line[:at])
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

// marks are those of console.Style.
var marks = regexp.MustCompile("\x1b\\[[0-9]*m")

// width returns how many columns the text takes.
func width(text string) int { return utf8.RuneCountInString(marks.ReplaceAllString(text, "")) }
