package command

import (
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
)

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

// progress shows the progress of an operation once a second on a terminal.
type progress struct {
	session *session
	// one and several are the singular and the plural of the counted things. They are empty if nothing is counted.
	one, several string
	begun        time.Time
	count        atomic.Int64
	// said is the last argument of say, or nil.
	said atomic.Pointer[string]

	over chan struct{}
	done sync.WaitGroup
}

const (
	// progressEvery is the interval of updates.
	progressEvery = time.Second
	// progressPlainEvery is the interval on a plain terminal, in multiples of progressEvery, because each update adds a
	// line.
	progressPlainEvery = 10
)

// newTask starts a progress that shows a text. Call end when done.
func (s *session) newTask(what string) *progress {
	p := s.newProgress("", "")
	p.say(what)
	return p
}

// newProgress starts a progress that shows a count, with a singular and a plural. Call end when done.
func (s *session) newProgress(one, several string) *progress {
	p := &progress{session: s, one: one, several: several, begun: s.Now(), over: make(chan struct{})}
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
	return strings.Join(append(parts, console.Span(p.session.Now().Sub(p.begun))), ", ")
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
