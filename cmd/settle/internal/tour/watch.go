package tour

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// columnsMax is the maximum width of the tour.
const columnsMax = 100

// page is a writer that folds lines. Each write must consist of whole lines.
type page struct {
	io.Writer
	columns int

	mu sync.Mutex
	// While `holding` is set, `held` collects the writes.
	holding bool
	held    string
}

// Write folds and writes whole lines. Between hold and release, it collects them instead.
func (p *page) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding {
		p.held += string(text)
		return len(text), nil
	}
	_, err := io.WriteString(p.Writer, console.Fold(string(text), p.columns))
	return len(text), err
}

// hold delays all writes until release, so that a line of the story can be printed before them.
func (p *page) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding = true
}

// release writes the line of the story, and then the text collected since hold.
func (p *page) release(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(p.Writer, console.Fold(line+p.held, p.columns)) // The tour continues if the reader has left.
	p.holding, p.held = false, ""
}

// say prints a line of the story. Call it only while the runtime waits for an event, so that the line does not separate
// the transitions of one event.
func (p *player) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format+"\n", args...) // The tour continues if the reader has left.
}

// lead calls `do` and prints the line that `do` returns, before all transitions and log records that `do` causes.
func (p *player) lead(do func() string) {
	p.pause(p.config.Pause)
	p.out.hold()
	line := ""
	defer func() { p.out.release(line) }()
	line = "   " + do() + "\n"
}

// pause waits, so that a viewer can see the state.
func (p *player) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-p.ctx.Done():
		p.check(context.Cause(p.ctx), "paused before the next event")
	}
}

// showPage prints the address of the instance's page, once.
func (p *player) showPage(instance string) {
	if p.pages == nil || p.pages[instance] {
		return
	}
	p.pages[instance] = true
	p.say("   %s %s", p.config.Style.Dim("watch"), p.stack.ConsoleURL()+"instances/"+instance)
}

// title begins a scene.
func (p *player) title(title string, lines ...string) {
	p.scene++
	p.say("\n%s", p.config.Style.Bold(fmt.Sprintf("%d. %s", p.scene, title)))
	p.say("   %s\n", strings.Join(lines, "\n   "))
}

// seen prints the stack's transitions and records them for await. It also records the attributes of log records.
type seen struct {
	console *console.Handler
	// quiet suppresses all output except warnings and errors.
	quiet atomic.Bool

	// logged has the last value of each log attribute, such as the code in a mail.
	logged sync.Map

	mu sync.Mutex
	// transitions are the transitions that no call of await has consumed, by instance.
	transitions map[string][]instances.Transition
	// states are the current states, by instance.
	states map[string]string
	// changed is closed and replaced when a transition is added.
	changed chan struct{}
}

func newSeen(next *console.Handler) *seen {
	return &seen{
		console: next, transitions: map[string][]instances.Transition{}, states: map[string]string{}, changed: make(chan struct{}),
	}
}

// watch is the log handler of the stack. It prints log records, and stores their attributes in seen.
type watch struct {
	slog.Handler
	seen *seen
}

// unprinted are the log messages that the tour does not print: messages about duplicates, and about requests, which the
// tour prints itself.
var unprinted = []string{"event queued", "request refused", "duplicate skipped, an event with its ID was already applied"}

// Handle stores the attributes and prints the record, without the key in a callback address.
func (w watch) Handle(ctx context.Context, record slog.Record) error {
	if slices.Contains(unprinted, record.Message) {
		return nil
	}
	shown := slog.NewRecord(record.Time, record.Level, record.Message, record.PC)
	record.Attrs(func(attr slog.Attr) bool {
		w.seen.logged.Store(attr.Key, attr.Value.String())
		if attr.Key == "callback" {
			attr.Value = slog.StringValue(shortened(attr.Value.String()))
		}
		shown.AddAttrs(attr)
		return true
	})
	if !w.seen.quiet.Load() || record.Level >= slog.LevelWarn {
		_ = w.Handler.Handle(ctx, shown) // The tour continues if the reader has left.
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (w watch) WithAttrs(attrs []slog.Attr) slog.Handler {
	return watch{w.Handler.WithAttrs(attrs), w.seen}
}

// WithGroup implements slog.Handler.
func (w watch) WithGroup(name string) slog.Handler { return watch{w.Handler.WithGroup(name), w.seen} }

// last returns the last value of an attribute in the log.
func (s *seen) last(key string) string {
	value, _ := s.logged.Load(key)
	text, _ := value.(string)
	return text
}

// committed prints the transitions of a commit and then records them.
func (s *seen) committed(ctx context.Context, committed durable.Committed) {
	if !s.quiet.Load() {
		s.console.Committed(ctx, committed)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, transition := range committed.Transitions {
		s.transitions[committed.Instance] = append(s.transitions[committed.Instance], transition)
		s.states[committed.Instance] = strings.Join(transition.To, ", ")
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// forget removes all transitions that no call of await has consumed.
func (s *seen) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.transitions)
	clear(s.states)
}

// await waits for a transition to all of the comma-separated states. It ignores the instance's transitions up to the
// one at which the previous call returned.
func (p *player) await(instance, states string) {
	for s := p.seen; ; {
		s.mu.Lock()
		waiting := s.transitions[instance]
		k := slices.IndexFunc(waiting, func(t instances.Transition) bool {
			missing := func(state string) bool { return !slices.Contains(t.To, state) }
			return !t.Ignored && !slices.ContainsFunc(strings.Split(states, ", "), missing)
		})
		s.transitions[instance] = waiting[k+1:]
		now, changed := s.states[instance], s.changed
		s.mu.Unlock()
		if k >= 0 {
			p.showPage(instance)
			return
		}
		select {
		case <-changed:
		case <-p.ctx.Done():
			p.check(context.Cause(p.ctx), fmt.Sprintf("waited for %s to reach %s; it is in %s", instance, states, cmp.Or(now, "no state yet")))
		}
	}
}
