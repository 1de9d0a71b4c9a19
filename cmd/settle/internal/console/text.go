package console

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// Escape escapes all non-printable characters but line feeds, in Go's notation, such as \x1b. Terminals then find
// nothing to execute.
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

// escape replaces non-printable characters unless keep returns true. invalid is the byte if it is not valid UTF-8.
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

// Width returns how many columns a text takes on a terminal. Escape sequences take none.
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
