package command

import (
	"fmt"
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
	// what is what is counted; empty if nothing is.
	what  string
	begun time.Time
	count atomic.Int64
	// said is what say was given last.
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

// newProgress begins the progress of something that is counted, or only said: see add and say. Call end in the end.
func (s *session) newProgress(what string) *progress {
	p := &progress{session: s, what: what, begun: s.now(), over: make(chan struct{})}
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
	} else if p.what != "" {
		parts = append(parts, fmt.Sprintf("%d %s", p.count.Load(), p.what))
	}
	if read := p.session.read.items.Load(); read > 0 && p.what != "" {
		parts = append(parts, fmt.Sprintf("%d items read", read))
	}
	return strings.Join(append(parts, console.Span(p.session.now().Sub(p.begun))), ", ")
}

// add counts one more.
func (p *progress) add() { p.count.Add(1) }

// say sets what is shown instead of a count.
func (p *progress) say(text string) { p.said.Store(&text) }

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
