package tour

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// watch is a log handler. It passes transitions and log records on for printing, and notes those that the tour awaits.
type watch struct {
	slog.Handler
	seen *seen
}

// seen is the state that a watch shares with the handlers derived from it.
type seen struct {
	console *console.Handler
	// printing is locked while transitions and records are printed and noted, to keep their order.
	printing sync.Mutex
	// While holding is set, held collects the functions that print and note them. release calls these functions.
	holding bool
	held    []func()
	// quiet suppresses the printing of everything below warnings.
	quiet bool

	mu sync.Mutex
	// transitions are the transitions not awaited yet, by instance.
	transitions map[string][]instances.Transition
	// states are the current states, by instance.
	states map[string][]string
	// code is the code in the last mail.
	code string
	// asked is the last request to the third party.
	asked asked
	// changed is closed and replaced when a transition is added.
	changed chan struct{}
}

// asked is what a third party needs to call back.
type asked struct{ job, callback string }

func newWatch(next *console.Handler) watch {
	return watch{Handler: next, seen: &seen{
		console: next, transitions: map[string][]instances.Transition{}, states: map[string][]string{}, changed: make(chan struct{}),
	}}
}

// The tour does not print these records: requests that the tour has already printed, and duplicates.
const (
	queuedMessage  = "event queued"
	refusedMessage = "request refused"
	skippedMessage = "duplicate skipped, an event with its ID was already applied"
)

// Handle prints the record and then notes it.
func (w watch) Handle(ctx context.Context, record slog.Record) error {
	switch record.Message {
	case queuedMessage, refusedMessage, skippedMessage:
		return nil
	}
	record = record.Clone()
	w.seen.show(func() {
		if !w.seen.quiet || record.Level >= slog.LevelWarn {
			_ = w.Handler.Handle(ctx, withoutSecret(record)) // The tour continues if the reader has left.
		}
		w.seen.note(record)
	})
	return nil
}

// committed prints the transitions of a commit and then notes them.
func (s *seen) committed(ctx context.Context, committed durable.Committed) {
	s.show(func() {
		if !s.quiet {
			s.console.Committed(ctx, committed)
		}
		s.noteTransitions(committed)
	})
}

// show calls write now or, between hold and release, at the release.
func (s *seen) show(write func()) {
	s.printing.Lock()
	defer s.printing.Unlock()
	if s.holding {
		s.held = append(s.held, write)
		return
	}
	write()
}

// hold delays the printing of transitions and records, so that a line of the story can be printed before them.
func (s *seen) hold() {
	s.printing.Lock()
	defer s.printing.Unlock()
	s.holding = true
}

// release prints the transitions and records since hold.
func (s *seen) release() {
	s.printing.Lock()
	defer s.printing.Unlock()
	for _, write := range s.held {
		write()
	}
	s.holding, s.held = false, nil
}

// setQuiet turns the printing off or on. Warnings are always printed.
func (s *seen) setQuiet(quiet bool) {
	s.printing.Lock()
	defer s.printing.Unlock()
	s.quiet = quiet
}

// withoutSecret returns the record without the key in the callback address.
func withoutSecret(record slog.Record) slog.Record {
	shown := slog.NewRecord(record.Time, record.Level, record.Message, record.PC)
	record.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "callback" {
			attr.Value = slog.StringValue(shortened(attr.Value.String()))
		}
		shown.AddAttrs(attr)
		return true
	})
	return shown
}

// WithAttrs implements slog.Handler.
func (w watch) WithAttrs(attrs []slog.Attr) slog.Handler {
	return watch{Handler: w.Handler.WithAttrs(attrs), seen: w.seen}
}

// WithGroup implements slog.Handler.
func (w watch) WithGroup(name string) slog.Handler {
	return watch{Handler: w.Handler.WithGroup(name), seen: w.seen}
}

func (s *seen) note(record slog.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var asked asked
	record.Attrs(func(attr slog.Attr) bool {
		switch attr.Key {
		case "code":
			s.code = attr.Value.String()
		case "job":
			asked.job = attr.Value.String()
		case "callback":
			asked.callback = attr.Value.String()
		}
		return true
	})
	if asked.callback != "" {
		s.asked = asked
	}
}

func (s *seen) noteTransitions(committed durable.Committed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, transition := range committed.Transitions {
		s.transitions[committed.Instance] = append(s.transitions[committed.Instance], transition)
		s.states[committed.Instance] = transition.To
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// lastCode returns the code in the last mail.
func (s *seen) lastCode() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.code
}

// lastAsked returns the last request to the third party.
func (s *seen) lastAsked() asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// await waits for a transition on the event that leads to all of the states. It considers only transitions after the
// one that the previous call returned for. An empty event matches any.
func (s *seen) await(ctx context.Context, instance, event string, states ...string) error {
	for {
		s.mu.Lock()
		waiting := s.transitions[instance]
		k := slices.IndexFunc(waiting, func(t instances.Transition) bool {
			missing := func(state string) bool { return !slices.Contains(t.To, state) }
			return !t.Ignored && (event == "" || t.Event == event) && !slices.ContainsFunc(states, missing)
		})
		if k >= 0 {
			s.transitions[instance] = waiting[k+1:]
		}
		now, changed := strings.Join(s.states[instance], ", "), s.changed
		s.mu.Unlock()
		if k >= 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if now == "" {
				now = "no state yet"
			}
			return fmt.Errorf("waited for %s to reach %s; it is in %s: %w", instance, strings.Join(states, ", "), now, context.Cause(ctx))
		}
	}
}
