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
// tour waits for: transitions, and what people and third parties are told.
type watch struct {
	slog.Handler
	seen *seen
}

// seen is what a watch, and those derived from it, have seen.
type seen struct {
	// printing is held while records are printed and noted, which is in their order.
	printing sync.Mutex
	// holding says that records are kept in held until release.
	holding bool
	held    []heldRecord
	// quiet says that records are noted, and not printed unless they warn.
	quiet bool

	mu sync.Mutex
	// transitions are those not yet waited for, by instance.
	transitions map[string][]console.Transition
	// states are where the instances are.
	states map[string][]string
	// code is the one mailed last.
	code string
	// asked is what the third party was asked last.
	asked asked
	// changed is closed, and replaced, when a transition is added.
	changed chan struct{}
}

// asked is what a third party that calls back knows.
type asked struct{ job, callback string }

type heldRecord struct {
	ctx     context.Context
	handler slog.Handler
	record  slog.Record
}

func newWatch(next slog.Handler) watch {
	return watch{Handler: next, seen: &seen{
		transitions: map[string][]console.Transition{}, states: map[string][]string{}, changed: make(chan struct{}),
	}}
}

// What the tour does not print: what the gateway logs of each request, of which it has told already, and
// the firings of timers that nobody waits for any more.
const (
	queuedMessage  = "event queued"
	refusedMessage = "request refused"
	skippedMessage = "event skipped, it is a duplicate or stale"
)

// Handle prints the record, then takes note of it.
func (w watch) Handle(ctx context.Context, record slog.Record) error {
	switch record.Message {
	case queuedMessage, refusedMessage, skippedMessage:
		return nil
	}
	w.seen.printing.Lock()
	defer w.seen.printing.Unlock()
	if w.seen.holding {
		w.seen.held = append(w.seen.held, heldRecord{ctx, w.Handler, record.Clone()})
		return nil
	}
	return w.seen.show(ctx, w.Handler, record)
}

// hold keeps records back, so that a line of the story can be told before them.
func (s *seen) hold() {
	s.printing.Lock()
	defer s.printing.Unlock()
	s.holding = true
}

// release prints what was kept back.
func (s *seen) release() {
	s.printing.Lock()
	defer s.printing.Unlock()
	for _, held := range s.held {
		_ = s.show(held.ctx, held.handler, held.record) // A reader who has left changes nothing about the tour's end.
	}
	s.holding, s.held = false, nil
}

// setQuiet says whether records are printed.
func (s *seen) setQuiet(quiet bool) {
	s.printing.Lock()
	defer s.printing.Unlock()
	s.quiet = quiet
}

func (s *seen) show(ctx context.Context, handler slog.Handler, record slog.Record) error {
	var err error
	if !s.quiet || record.Level >= slog.LevelWarn {
		err = handler.Handle(ctx, withoutSecret(record))
	}
	s.note(record)
	return err
}

// withoutSecret returns the record without the key in the address of a callback.
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

// lastAsked returns what the third party was asked last, as it knows it.
func (s *seen) lastAsked() asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// await waits for a transition of the instance on the event after which it is in all the states, among
// those after the one awaited before. An empty event stands for any.
func (s *seen) await(ctx context.Context, instance, event string, states ...string) error {
	for {
		s.mu.Lock()
		waiting := s.transitions[instance]
		k := slices.IndexFunc(waiting, func(t console.Transition) bool {
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
