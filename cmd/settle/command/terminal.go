package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/producer"
)

// screen shows progress in the last line of a terminal. Answers and errors go to the same terminal.
type screen struct {
	mu  sync.Mutex
	err io.Writer
	// columns is the width, or 0 if unknown. `plain` is set if the terminal does not understand escape sequences.
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

// progress shows the progress of an operation once a second on a terminal.
type progress struct {
	session *session
	// `one` and `several` are the singular and the plural of the counted things. They are empty if nothing is counted.
	one, several string
	begun        time.Time
	count        atomic.Int64
	// said is the last argument of the method say, or nil.
	said atomic.Pointer[string]

	over chan struct{}
	done sync.WaitGroup
}

const (
	// progressEvery is the interval of updates.
	progressEvery = time.Second
	// progressPlainEvery is the interval on a plain terminal, in multiples of progressEvery. It is longer because each
	// update adds a line.
	progressPlainEvery = 10
)

// newTask starts a progress line with a text. Call end when done.
func (s *session) newTask(what string) *progress {
	p := s.newProgress("", "")
	p.say(what)
	return p
}

// newProgress starts a progress line with a count of things, given in the singular and the plural. Call end when done.
func (s *session) newProgress(one, several string) *progress {
	p := &progress{session: s, one: one, several: several, begun: s.machineNow(), over: make(chan struct{})}
	if s.StderrTTY {
		p.done.Go(p.run)
	}
	return p
}

func (p *progress) run() {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for tick := 1; ; tick++ {
		select {
		case <-p.over:
			p.session.screen.clear()
			return
		case <-ticker.C:
			if !p.session.screen.plain || tick%progressPlainEvery == 0 {
				p.session.screen.show(p.text())
			}
		}
	}
}

// text returns the progress line, such as "12 instances found, 4,000 items read, 12s".
func (p *progress) text() string {
	var parts []string
	if said := p.said.Load(); said != nil {
		parts = append(parts, console.Escape(*said))
	} else if p.one != "" {
		parts = append(parts, counted(int(p.count.Load()), p.one, p.several))
	}
	if read := p.session.read.items.Load(); read > 0 && p.one != "" {
		parts = append(parts, counted(int(read), "item read", "items read"))
	}
	return strings.Join(append(parts, console.Span(p.session.machineNow().Sub(p.begun))), ", ")
}

// add increments the count.
func (p *progress) add() { p.count.Add(1) }

// say sets a text to show instead of the count. An empty text shows the count again.
func (p *progress) say(text string) {
	said := &text
	if text == "" {
		said = nil
	}
	p.said.Store(said)
}

// end erases the progress line. Further calls do nothing.
func (p *progress) end() {
	if p.session.StderrTTY {
		select {
		case <-p.over:
		default:
			close(p.over)
		}
		p.done.Wait()
	}
}

// outputFlag is the flag of commands that print an answer.
type outputFlag struct {
	Output string `short:"o" enum:"auto,text,json" default:"auto" help:"The output format: text or json. auto is text on a terminal and json elsewhere."`
}

// json reports whether to print JSON.
func (f outputFlag) json(s *session) bool {
	return f.Output == "json" || f.Output != "text" && !s.StdoutTTY
}

// answer prints a value as JSON, or calls `text`.
func (f outputFlag) answer(s *session, value any, text func() error) error {
	if f.json(s) {
		return s.printJSON(value)
	}
	return text()
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

// note prints a line on standard error. On a terminal, it folds the line.
func (s *session) note(format string, args ...any) {
	text := fmt.Sprintf(format+"\n", args...)
	if s.StderrTTY {
		text = console.Fold(text, s.screen.columns)
	}
	s.writeErr("%s", text)
}

// errInterrupted is wrapped when the command was stopped before it was done.
var errInterrupted = errors.New("interrupted")

// stopped returns errInterrupted if the error is from a call that failed because ctx ended. It returns any other error
// unchanged.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, errInterrupted) || !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return errInterrupted
}

// until runs a function that cannot be interrupted, such as a read from a terminal. It returns the result, or ctx's
// error if ctx ends first.
func until[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := do()
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// readInput reads standard input, at most one byte more than the size limit of an event.
func (s *session) readInput(ctx context.Context) ([]byte, error) {
	return until(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(s.In, producer.EventBytesMax+1)) })
}

// canConfirm returns an error if standard input is not a terminal, because confirm needs one.
func (s *session) canConfirm() error {
	if !s.StdinTTY {
		return fmt.Errorf("%w: expected --yes, because there is no terminal to ask for confirmation", errUsage)
	}
	return nil
}

// confirm asks a question on the terminal. If the answer is no, it returns an error whose text ends with `otherwise`.
func (s *session) confirm(ctx context.Context, question, otherwise string) error {
	if err := s.canConfirm(); err != nil {
		return err
	}
	text := question + " [y/N]"
	if s.StderrTTY {
		text = console.Fold(text, s.screen.columns-2) // The answer follows after a space.
	}
	s.writeErr("%s ", text)
	answer, err := until(ctx, func() (string, error) { return bufio.NewReader(s.In).ReadString('\n') })
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("not confirmed, " + otherwise)
	}
	return nil
}
