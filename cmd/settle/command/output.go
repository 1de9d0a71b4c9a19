package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/settle-run/settle/cmd/settle/internal/console"
)

// outputFlag is that of the commands that answer.
type outputFlag struct {
	Output string `short:"o" enum:"auto,text,json" default:"auto" help:"The output format: text or json. auto is text on a terminal and json elsewhere."`
}

// json reports whether JSON is wanted.
func (f outputFlag) json(s *session) bool {
	return f.Output == "json" || f.Output != "text" && !s.terminal
}

// printJSON writes a value as indented JSON.
func (s *session) printJSON(value any) error { return s.encode(value, "  ") }

// printLine writes a value as one line of JSON.
func (s *session) printLine(value any) error { return s.encode(value, "") }

// encode writes a value as JSON in which a terminal finds nothing to obey.
func (s *session) encode(value any, indent string) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(s.out, console.EscapeJSON(b.String()))
	return err
}

// counted says how many there are, in the words for one or for another number.
func counted(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// note says something on standard error that is no failure.
func (s *session) note(format string, args ...any) {
	text := fmt.Sprintf(format+"\n", args...)
	if s.watched {
		text = console.FoldWords(text, s.screen.columns)
	}
	s.tell("%s", text)
}

// screen is where progress is shown: the last line of a terminal that answers and errors go to as well.
type screen struct {
	mu  sync.Mutex
	err io.Writer
	// columns is how wide it is, 0 if that is not known; plain says that it knows no escapes.
	columns int
	plain   bool
	// shown says that the last line is a progress.
	shown bool
}

// show puts a text in the place of the one shown before. On a plain screen it stays.
func (s *screen) show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plain {
		_, _ = io.WriteString(s.err, text+"\n") // Nothing depends on it.
		return
	}
	for s.columns > 0 && console.Width(text) >= s.columns { // A line that is folded cannot be taken back.
		runes := []rune(text)
		text = string(runes[:len(runes)-1])
	}
	s.shown = true
	_, _ = io.WriteString(s.err, "\r"+text+"\x1b[K")
}

// clear takes away what is shown.
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

// beside is a writer to the same terminal: what is shown makes room for it.
type beside struct {
	io.Writer
	screen *screen
}

// Write takes away what is shown, and writes.
func (b beside) Write(text []byte) (int, error) {
	b.screen.mu.Lock()
	defer b.screen.mu.Unlock()
	b.screen.clearLocked()
	return b.Writer.Write(text)
}
