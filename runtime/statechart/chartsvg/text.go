package chartsvg

import (
	"strings"
	"unicode"
)

// Text is monospace, with an advance of 0.6 em per cell, so the layout needs no font.
const (
	nameSize    = 13.0
	nameAdvance = 0.6 * nameSize
	textSize    = 11.0
	textAdvance = 0.6 * textSize
	lineHeight  = 14.0 // of text of textSize
	blockGap    = 6.0  // between the lines of two transitions in a label
	wrapCells   = 30   // the width at which long guards, tags and events to defer are wrapped
	joinCells   = 18   // the width up to which a guard stands beside its event instead of below it
)

// line is a line of text of textSize in one or more colours.
type line []run

// run is a part of a line. Its class is a CSS class.
type run struct{ text, class string }

func (l line) width() float64 {
	width := 0
	for _, r := range l {
		width += cells(r.text)
	}
	return float64(width) * textAdvance
}

// widest returns the width of the widest line.
func widest(lines []line) float64 {
	width := 0.0
	for _, l := range lines {
		width = max(width, l.width())
	}
	return width
}

// cells returns the number of cells of a text.
func cells(text string) int {
	n := 0
	for _, r := range text {
		n += runeCells(r)
	}
	return n
}

// wideRunes holds the scripts whose characters take two cells in a monospace font.
var wideRunes = []*unicode.RangeTable{unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana}

// runeCells returns the number of cells of a rune. Symbols count double, because many fonts lack them and browsers draw
// them with a wider font.
func runeCells(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x2100 && r < 0x2C00, r >= 0x3000 && r < 0x3040, r >= 0xFF00 && r < 0xFF61, r >= 0x1F000, unicode.In(r, wideRunes...):
		return 2
	}
	return 1
}

// wrap breaks a text between words into lines of at most wrapCells, if its words are short enough.
func wrap(text, class string) []line {
	var lines []line
	current := ""
	for _, word := range strings.Fields(text) {
		if current != "" && cells(current)+1+cells(word) > wrapCells {
			lines = append(lines, line{{current, class}})
			current = ""
		}
		if current != "" {
			current += " "
		}
		current += word
	}
	return append(lines, line{{current, class}})
}
