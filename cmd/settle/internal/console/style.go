// Package console formats terminal output: a slog.Handler for transitions, the text styles of the command line, and the
// folding of lines.
package console

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// Style marks text for a terminal of a certain width. The zero value neither marks nor folds.
type Style struct {
	on      bool
	columns int
}

// NewStyle returns a style. It marks text if color is true, and folds lines if columns is not 0.
func NewStyle(color bool, columns int) Style { return Style{on: color, columns: columns} }

// Columns returns the width of the terminal, or 0 if unknown.
func (s Style) Columns() int { return s.columns }

// Fold calls Fold with the style's width.
func (s Style) Fold(text string) string { return Fold(text, s.columns) }

// Bold marks the subject of a text.
func (s Style) Bold(text string) string { return s.mark("1", text) }

// Dim marks less important text.
func (s Style) Dim(text string) string { return s.mark("2", text) }

// State marks the states of an instance.
func (s Style) State(text string) string { return s.mark("32", text) }

// Warning marks text that should stand out.
func (s Style) Warning(text string) string { return s.mark("33", text) }

func (s Style) mark(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

const (
	// hangMax is the rightmost column at which Fold aligns folded fields with the second field. If the second field starts
	// further to the right, Fold indents folded fields by hangDefault.
	hangMax = 20
	// hangDefault is added to the indentation of the line.
	hangDefault = 3
)

// gaps matches the spaces between two fields of a line.
var gaps = regexp.MustCompile(`\S {2,}\S`)

// joined matches an end of text after which Fold must not break the line.
var joined = regexp.MustCompile(`(→|(^| |\x1b\[\d+m)by)$`)

// Fold breaks the lines of a text that are wider than `columns`. It breaks a line at a space, but not after an arrow or
// the word "by". Escape sequences have no width. Fields are two or more spaces apart. A field that continues on a new
// line is aligned below its own start. A new line that starts with another field is aligned below the second field. A
// word that does not fit at its column starts further to the left. If columns is 0, nothing is folded.
func Fold(text string, columns int) string {
	if columns <= 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		hang := indent
		if gap := gaps.FindStringIndex(line); gap != nil {
			if hang = Width(line[:gap[1]-1]); hang > hangMax {
				hang = indent + hangDefault
			}
		}
		for Width(strings.TrimRight(line, "\n")) > columns {
			end := lastSpace(line, columns)
			if end == 0 {
				break
			}
			head, under := strings.TrimRight(line[:end], " "), hang
			if field := strings.LastIndex(head, "  ") + 2; len(head) == end && field > 1 && Width(head[:field]) <= columns*2/3 {
				under = Width(head[:field]) // The line is folded within a field, not between two fields.
			}
			b.WriteString(head + "\n")
			rest := strings.TrimLeft(line[end:], " ")
			if line = strings.Repeat(" ", under) + rest; Width(strings.TrimRight(line, "\n")) > columns && lastSpace(line, columns) == 0 {
				line = strings.Repeat(" ", min(under, indent+hangDefault)) + rest // The next word is too long for this column.
			}
		}
		b.WriteString(line)
	}
	return b.String()
}

// lastSpace returns the end of the last word that fits, or 0 if no word fits.
func lastSpace(line string, columns int) (end int) {
	for at := len(line) - len(strings.TrimLeft(line, " ")); ; at++ {
		space := strings.IndexByte(line[at:], ' ')
		if space < 0 || Width(line[:at+space]) > columns {
			return end
		}
		at += space
		if !joined.MatchString(line[:at]) {
			end = at
		}
	}
}

// IsTerminal reports whether stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Columns returns the width of the terminal `out`. It returns 0 if `out` is not a terminal or the width is unknown.
func Columns(out io.Writer) int {
	file, ok := out.(*os.File)
	if !ok {
		return 0
	}
	columns, _, _ := term.GetSize(int(file.Fd())) // 0 after an error
	return columns
}

// Obeys reports whether `out` is a terminal that understands escape sequences: any terminal does, unless TERM is dumb.
func Obeys(out io.Writer) bool { return IsTerminal(out) && os.Getenv("TERM") != "dumb" }

// HasColor reports whether to write colors to `out`. It respects NO_COLOR (https://no-color.org).
func HasColor(out io.Writer) bool { return Obeys(out) && os.Getenv("NO_COLOR") == "" }

// Escape writes all non-printable characters, except line feeds, as escape sequences of Go, such as \x1b. So a
// terminal does not interpret them.
func Escape(text string) string {
	return escape(text, func(r rune) bool { return r == '\n' }, func(r rune, invalid string) string {
		if invalid != "" {
			return fmt.Sprintf(`\x%02x`, invalid[0])
		}
		quoted := strconv.QuoteRuneToASCII(r)
		return quoted[1 : len(quoted)-1]
	})
}

// EscapeJSON is Escape for JSON text. It keeps the meaning of the JSON.
func EscapeJSON(text string) string {
	return escape(text, func(r rune) bool { return r < ' ' }, func(r rune, _ string) string {
		if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// escape replaces non-printable characters, unless `keep` returns true for the character. It passes a byte that is not
// valid UTF-8 to `replace` as `invalid`.
func escape(text string, keep func(rune) bool, replace func(r rune, invalid string) string) string {
	var b strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(replace(r, rest[:1]))
		case unicode.IsGraphic(r) || keep(r):
			b.WriteString(rest[:size])
		default:
			b.WriteString(replace(r, ""))
		}
		rest = rest[size:]
	}
	return b.String()
}

// marks matches the escape sequences of Style.
var marks = regexp.MustCompile("\x1b\\[[0-9]*m")

// Width returns how many columns a text takes on a terminal. Escape sequences take no columns.
func Width(text string) int {
	if strings.Contains(text, "\x1b") {
		text = marks.ReplaceAllString(text, "")
	}
	return runewidth.StringWidth(text)
}

// Pad pads a text to the width of its column. The column grows with the text, up to columnMax.
func Pad(text string, width *int) string {
	length := Width(text)
	if length <= columnMax {
		*width = max(*width, length)
	}
	return text + strings.Repeat(" ", max(0, *width-length))
}

// Span formats a duration with its two largest units: "23h59m", "4m31s", "850ms".
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Span(-d)
	case d < time.Second:
		return d.Truncate(time.Millisecond).String()
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}
