// Package console shows people what happens: a slog.Handler that prints transitions as lines
// to read, and the few styles that the command line uses.
package console

import (
	"io"
	"os"
)

// Style marks text for a terminal. The zero value marks nothing.
type Style struct{ on bool }

// NewStyle returns a style that marks, if color is true; see https://no-color.org for who does not want it.
func NewStyle(color bool) Style { return Style{on: color} }

// IsTerminal reports whether what is written to out is seen on a terminal.
func IsTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Bold is for what a text is about.
func (s Style) Bold(text string) string { return s.mark("1", text) }

// Dim is for what may be skipped in reading.
func (s Style) Dim(text string) string { return s.mark("2", text) }

// State is for the states of an instance.
func (s Style) State(text string) string { return s.mark("32", text) }

// Warning is for what should not be skipped.
func (s Style) Warning(text string) string { return s.mark("33", text) }

func (s Style) mark(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
