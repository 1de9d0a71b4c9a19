package console

import (
	"io"
	"os"

	"golang.org/x/term"
)

// IsTerminal reports whether stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Columns returns the width of the terminal out. It returns 0 if out is not a terminal or its width is unknown.
func Columns(out io.Writer) int {
	file, ok := out.(*os.File)
	if !ok {
		return 0
	}
	columns, _, _ := term.GetSize(int(file.Fd())) // 0 after an error
	return columns
}

// Obeys reports whether out is a terminal that understands escape sequences. That is the case unless TERM is dumb.
func Obeys(out io.Writer) bool { return IsTerminal(out) && os.Getenv("TERM") != "dumb" }

// HasColor reports whether to write colors to out. It respects NO_COLOR (https://no-color.org).
func HasColor(out io.Writer) bool { return Obeys(out) && os.Getenv("NO_COLOR") == "" }
