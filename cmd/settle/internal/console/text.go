package console

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
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
	width := 0
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case unicode.Is(wide, r):
			width += 2
		default:
			width++
		}
	}
	return width
}

// wide has the characters that take two columns, by blocks: East Asian characters and emoji, after the property
// East_Asian_Width of https://www.unicode.org/reports/tr11/.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x231a, Hi: 0x231b, Stride: 1}, {Lo: 0x2e80, Hi: 0x303e, Stride: 1},
		{Lo: 0x3041, Hi: 0xa4cf, Stride: 1}, {Lo: 0xa960, Hi: 0xa97c, Stride: 1}, {Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1}, {Lo: 0xfe30, Hi: 0xfe6f, Stride: 1}, {Lo: 0xff01, Hi: 0xff60, Stride: 1},
		{Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x16fe0, Hi: 0x18cff, Stride: 1}, {Lo: 0x1b000, Hi: 0x1b2ff, Stride: 1}, {Lo: 0x1f300, Hi: 0x1f64f, Stride: 1},
		{Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1}, {Lo: 0x1f900, Hi: 0x1f9ff, Stride: 1}, {Lo: 0x1fa70, Hi: 0x1faff, Stride: 1},
		{Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
	},
}

// Pad pads a text to the width of its column. The column grows with the text, up to columnMax.
func Pad(text string, width *int) string {
	length := Width(text)
	if length <= columnMax {
		*width = max(*width, length)
	}
	return text + strings.Repeat(" ", max(0, *width-length))
}
