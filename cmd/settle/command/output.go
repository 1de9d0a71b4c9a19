package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

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
