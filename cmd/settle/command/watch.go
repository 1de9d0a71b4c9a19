package command

import (
	"context"
	"slices"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/statechart"
)

type watchCommand struct {
	tableFlags
	Instance string `arg:"" help:"The instance, such as signup/42. It need not exist yet."`
	outputFlag
}

// Help tells how it sees what happens.
func (*watchCommand) Help() string {
	return `Printed is where the instance is and, from then on, each transition once it is stored, until the instance is over or
Ctrl-C. As JSON it is one transition a line, and nothing else. The item is read, consistently: every 100 ms after
something has happened, then ever less often, down to every two seconds. If more transitions come between two readings
than the item keeps, some are missed, which is said.

  settle watch signup/42
  settle watch signup/42 -o json | jq -r '.to[]'`
}

// watched is a transition as watch prints it.
type watched struct {
	Instance string `json:"instance"`
	durable.Transition
	// Revision is the one that the transition was seen in: it, or one before it, has stored it.
	Revision int64 `json:"revision"`
}

// Run prints the transitions as they come.
func (c *watchCommand) Run(ctx context.Context, s *session) error {
	id, err := durable.ParseInstanceID(c.Instance)
	if err != nil {
		return err
	}
	known, err := s.machines()
	if err != nil {
		return err
	}
	if _, err := known.Lookup(id.Machine); err != nil {
		return err
	}
	store, err := c.store(ctx, s)
	if err != nil {
		return err
	}
	seen := durable.Record{Revision: -1}
	for pause := pollFirst; ctx.Err() == nil; pause = nextPoll(pause) {
		record, err := store.Load(ctx, id)
		if err != nil && ctx.Err() == nil {
			return c.explain(s, err)
		}
		if err == nil && record.Revision != seen.Revision {
			if err := c.print(s, known, seen, record); err != nil {
				return err
			}
			if record.Revision > 0 && record.Status != statechart.Active {
				return nil
			}
			seen, pause = record, pollFirst
		}
		_ = s.wait(ctx, pause) // If ctx is over, so is the loop.
	}
	return nil // Stopped as asked.
}

// print prints what has happened from one reading to the next.
func (c *watchCommand) print(s *session, known *durable.Machines, seen, record durable.Record) error {
	switch {
	case record.Revision == 0 && seen.Revision < 0:
		s.note("Nothing is stored of %s yet: its first event creates it.", record.Instance)
		return nil
	case record.Revision == 0:
		s.note("%s is gone.", record.Instance)
		return nil
	case seen.Revision < 0 && !c.json(s):
		shown, err := view.Of(known, record)
		if err != nil {
			return err
		}
		return s.printf("%s\n", shown.Summary(s.style))
	case seen.Revision < 0:
		return nil
	}
	fresh, missed := newTransitions(seen.History, record.History)
	if missed {
		s.note("Some transitions of %s were missed here.", record.Instance)
	}
	for _, transition := range fresh {
		var err error
		if c.json(s) {
			err = s.printLine(watched{record.Instance.String(), transition, record.Revision})
		} else {
			err = view.WriteHistory(s.out, s.style, []durable.Transition{transition}, s.now().Location())
		}
		if err != nil {
			return err
		}
	}
	if record.Status != statechart.Active && !c.json(s) {
		return s.printf("%s is %s in %s\n", s.style.Bold(record.Instance.String()), record.Status, s.style.State(strings.Join(record.State, ", ")))
	}
	return nil
}

// newTransitions returns those at the end of a history that an earlier reading of it did not have; missed says that there
// is nothing left of that, so that there may have been more.
func newTransitions(before, after []durable.Transition) (fresh []durable.Transition, missed bool) {
	same := func(a, b durable.Transition) bool {
		return a.At.Equal(b.At) && a.Event == b.Event && a.Ignored == b.Ignored && slices.Equal(a.From, b.From) && slices.Equal(a.To, b.To)
	}
	for n := max(0, len(after)-len(before)); n < len(after); n++ {
		kept := after[:len(after)-n]
		if slices.EqualFunc(kept, before[len(before)-len(kept):], same) {
			return after[len(kept):], false
		}
	}
	return after, len(before) > 0
}
