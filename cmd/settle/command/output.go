package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/settle-run/settle/cmd/settle/internal/console"
)

// outputFlag is the flag of commands that print an answer.
type outputFlag struct {
	Output string `short:"o" enum:"auto,text,json" default:"auto" help:"The output format: text or json. auto is text on a terminal and json elsewhere."`
}

// json reports whether to print JSON.
func (f outputFlag) json(s *session) bool {
	return f.Output == "json" || f.Output != "text" && !s.StdoutTTY
}

// printJSON writes a value as indented JSON.
func (s *session) printJSON(value any) error { return s.encode(value, "  ") }

// printLine writes a value as one line of JSON.
func (s *session) printLine(value any) error { return s.encode(value, "") }

// encode writes a value as JSON without terminal escape sequences.
func (s *session) encode(value any, indent string) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(s.Out, console.EscapeJSON(b.String()))
	return err
}

// counted returns the number with the singular or the plural.
func counted(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// note prints a line that is not an error on standard error.
func (s *session) note(format string, args ...any) {
	text := fmt.Sprintf(format+"\n", args...)
	if s.StderrTTY {
		text = console.Fold(text, s.screen.columns)
	}
	s.writeErr("%s", text)
}

// screen shows progress in the last line of a terminal. Answers and errors go to the same terminal.
type screen struct {
	mu  sync.Mutex
	err io.Writer
	// columns is the width, or 0 if unknown. plain means that the terminal does not understand escape sequences.
	columns int
	plain   bool
	// shown is set while the last line is progress.
	shown bool
}

// show replaces the progress line. On a plain screen it adds a line.
func (s *screen) show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plain {
		_, _ = io.WriteString(s.err, text+"\n") // Progress is optional.
		return
	}
	for s.columns > 0 && console.Width(text) >= s.columns { // A folded line cannot be erased.
		runes := []rune(text)
		text = string(runes[:len(runes)-1])
	}
	s.shown = true
	_, _ = io.WriteString(s.err, "\r"+text+"\x1b[K")
}

// clear erases the progress line.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLocked()
}

func (s *screen) clearLocked() {
	if s.shown {
		_, _ = io.WriteString(s.err, "\r\x1b[K")
		s.shown = false
	}
}

// progressEraser is a writer to the terminal that erases the progress line before each write.
type progressEraser struct {
	io.Writer
	screen *screen
}

// Write erases the progress line and writes the text.
func (b progressEraser) Write(text []byte) (int, error) {
	b.screen.mu.Lock()
	defer b.screen.mu.Unlock()
	b.screen.clearLocked()
	return b.Writer.Write(text)
}
