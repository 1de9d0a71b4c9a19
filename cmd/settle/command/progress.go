package command

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
)

// progress tells a person at a terminal how far something is that takes longer than a second: once a second, whether
// anything comes or not.
type progress struct {
	session *session
	// one and several are what is counted, one or another number of them; empty if nothing is.
	one, several string
	begun        time.Time
	count        atomic.Int64
	// said is what say was given last, nil if that was nothing.
	said atomic.Pointer[string]

	over chan struct{}
	done sync.WaitGroup
}

const (
	// progressEvery is how often a progress is shown.
	progressEvery = time.Second
	// progressPlainEvery is how often on a terminal where each stays: a number of times of progressEvery.
	progressPlainEvery = 10
)

// newTask begins the progress of something that is only said. Call end in the end.
func (s *session) newTask(what string) *progress {
	p := s.newProgress("", "")
	p.say(what)
	return p
}

// newProgress begins the progress of something that is counted, in the words for one and for another number: see add and say.
// Call end in the end.
func (s *session) newProgress(one, several string) *progress {
	p := &progress{session: s, one: one, several: several, begun: s.now(), over: make(chan struct{})}
	if s.watched {
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

// text is what is known, such as "12 instances found, 4,000 items read, 12s".
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
	return strings.Join(append(parts, console.Span(p.session.now().Sub(p.begun))), ", ")
}

// add counts one more.
func (p *progress) add() { p.count.Add(1) }

// say sets what is shown instead of a count; with nothing, the count is shown again.
func (p *progress) say(text string) {
	said := &text
	if text == "" {
		said = nil
	}
	p.said.Store(said)
}

// end takes it away. Further calls do nothing.
func (p *progress) end() {
	if p.session.watched {
		select {
		case <-p.over:
		default:
			close(p.over)
		}
		p.done.Wait()
	}
}
