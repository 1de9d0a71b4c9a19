package command

import (
	"encoding/json"
	"fmt"
	"time"
)

// outputFlag is that of the commands that answer.
type outputFlag struct {
	Output string `short:"o" enum:"auto,text,json" default:"auto" help:"How to print it: text or json; auto is text on a terminal and json elsewhere."`
}

// json reports whether JSON is wanted.
func (f outputFlag) json(s *session) bool {
	return f.Output == "json" || f.Output != "text" && !s.terminal
}

// printJSON writes a value as indented JSON.
func (s *session) printJSON(value any) error {
	encoder := json.NewEncoder(s.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// printLine writes a value as one line of JSON.
func (s *session) printLine(value any) error {
	encoder := json.NewEncoder(s.out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// progress tells a person at a terminal how far something is that takes longer than a second.
type progress struct {
	s     *session
	what  string
	count int
	// next is when the count is shown next; shown says that it was before.
	next  time.Time
	shown bool
}

// progressEvery is how often a progress is shown.
const progressEvery = time.Second

// newProgress returns the progress of something that is counted, or only said: see add and say.
func (s *session) newProgress(what string) *progress {
	p := &progress{s: s, what: what}
	if s.watched {
		p.next = s.now().Add(progressEvery)
	}
	return p
}

// add counts one more.
func (p *progress) add() {
	p.count++
	p.say(fmt.Sprintf("%d %s", p.count, p.what))
}

// say shows a text in the place of the last one, if it is time.
func (p *progress) say(text string) {
	if !p.s.watched || p.s.now().Before(p.next) {
		return
	}
	p.shown, p.next = true, p.s.now().Add(progressEvery)
	_, _ = fmt.Fprintf(p.s.errOut, "\r%s\x1b[K", text) // Nothing depends on it.
}

// end clears the line.
func (p *progress) end() {
	if p.shown {
		_, _ = fmt.Fprint(p.s.errOut, "\r\x1b[K")
		p.shown = false
	}
}

// note says something on standard error that is no failure.
func (s *session) note(format string, args ...any) {
	_, _ = fmt.Fprintf(s.errOut, format+"\n", args...) // Nothing depends on it.
}
