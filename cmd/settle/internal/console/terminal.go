package console

import (
	"io"
	"os"
)

// IsTerminal reports whether what is written to out is seen on a terminal.
func IsTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, ok = columnsOf(file)
	return ok
}

// Columns returns how wide the terminal is that out is written to; 0 if it is none, or does not tell.
func Columns(out io.Writer) int {
	file, ok := out.(*os.File)
	if !ok {
		return 0
	}
	columns, _ := columnsOf(file)
	return columns
}

// Obeys reports whether out is a terminal that knows escapes: TERM is not dumb.
func Obeys(out io.Writer) bool { return IsTerminal(out) && os.Getenv("TERM") != "dumb" }

// HasColor reports whether out is a terminal that knows escapes, before somebody who wants colors; see
// https://no-color.org for who does not.
func HasColor(out io.Writer) bool { return Obeys(out) && os.Getenv("NO_COLOR") == "" }
