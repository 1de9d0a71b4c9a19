package tour

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/settle-run/settle/cmd/settle/internal/console"
)

// watch is a slog.Handler that hands records on to be printed, and then remembers what the
// tour waits for: transitions, and the codes that are mailed.
type watch struct {
	slog.Handler
	seen *seen
}

// seen is what a watch, and those derived from it, have seen.
type seen struct {
	mu sync.Mutex
	// transitions are those not yet waited for, by instance.
	transitions map[string][]console.Transition
	// states are where the instances are.
	states map[string][]string
	// code is the one mailed last.
	code string
	// changed is closed, and replaced, when a transition is added.
	changed chan struct{}
}

func newWatch(next slog.Handler) watch {
	return watch{Handler: next, seen: &seen{
		transitions: map[string][]console.Transition{}, states: map[string][]string{}, changed: make(chan struct{}),
	}}
}

// What the tour does not print: what the gateway logs of each event, of which it has told already, and
// the firings of timers that nobody waits for any more.
const (
	queuedMessage  = "event queued"
	skippedMessage = "event skipped, it was applied before or is stale"
)

// Handle prints the record, then takes note of it.
func (w watch) Handle(ctx context.Context, record slog.Record) error {
	if record.Message == queuedMessage || record.Message == skippedMessage {
		return nil
	}
	err := w.Handler.Handle(ctx, record)
	w.seen.note(record)
	return err
}

// WithAttrs returns a watch that has seen the same.
func (w watch) WithAttrs(attrs []slog.Attr) slog.Handler {
	return watch{Handler: w.Handler.WithAttrs(attrs), seen: w.seen}
}

// WithGroup returns a watch that has seen the same.
func (w watch) WithGroup(name string) slog.Handler {
	return watch{Handler: w.Handler.WithGroup(name), seen: w.seen}
}

func (s *seen) note(record slog.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	record.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "code" {
			s.code = attr.Value.String()
		}
		return true
	})
	if transition, ok := console.TransitionOf(record); ok {
		s.transitions[transition.Instance] = append(s.transitions[transition.Instance], transition)
		s.states[transition.Instance] = transition.To
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// lastCode returns the code that was mailed last, as its reader has it before their eyes.
func (s *seen) lastCode() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.code
}

// await waits for a transition of the instance on the event that leads into the state, among
// those after the one awaited before. An empty event stands for any.
func (s *seen) await(ctx context.Context, instance, event, state string) error {
	for {
		s.mu.Lock()
		waiting := s.transitions[instance]
		k := slices.IndexFunc(waiting, func(t console.Transition) bool {
			return !t.Ignored && (event == "" || t.Event == event) && slices.Equal(t.To, []string{state})
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
				now = "nowhere yet"
			}
			return fmt.Errorf("waited for %s to come into %s; it is in %s: %w", instance, state, now, context.Cause(ctx))
		}
	}
}
