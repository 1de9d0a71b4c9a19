package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	smithytime "github.com/aws/smithy-go/time"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

type watchCommand struct {
	tableFlags
	placeFlags
	Every    *time.Duration `placeholder:"2s" help:"How often to read, instead of the defaults above."`
	Instance string         `arg:"" optional:"" help:"The instance, such as signup/42. It need not exist yet."`
	outputFlag
}

// watchEveryLeast is the shortest interval that --every accepts.
const watchEveryLeast = 100 * time.Millisecond

// watched is a transition as printed in JSON.
type watched struct {
	Instance string `json:"instance"`
	instances.Transition
	// Revision is the item's revision at the time of the read. The transition was stored with this revision or an earlier
	// one.
	Revision int64 `json:"revision"`
}

func (c *watchCommand) validate() error {
	switch {
	case (c.Instance == "") == (c.Machine == ""):
		return fmt.Errorf("%w: expected either an instance, such as signup/42, or --machine", errUsage)
	case c.Instance != "" && (c.State != "" || c.Tag != ""):
		return fmt.Errorf("%w: --state and --tag: expected --machine with them, got an instance", errUsage)
	case c.Every != nil && *c.Every < watchEveryLeast:
		return fmt.Errorf("%w: --every: expected at least %v, got %v", errUsage, watchEveryLeast, *c.Every)
	default:
		return nil
	}
}

// Run prints transitions until the instance ends or ctx ends.
func (c *watchCommand) Run(ctx context.Context, s *session) error {
	if err := c.validate(); err != nil {
		return err
	}
	known, err := s.machines()
	if err != nil {
		return err
	}
	filter, err := c.filter(s, known)
	if err != nil {
		return err
	}
	var id instances.ID
	if c.Instance != "" {
		if id, err = instances.ParseID(c.Instance); err != nil {
			return err
		}
		if _, err := known.Lookup(id.Machine); err != nil {
			return err
		}
	}
	store, err := c.store(ctx, s)
	if err != nil {
		return err
	}
	begun := s.machineNow()
	w := &watch{session: s, flags: c, machines: known, store: store,
		log: view.NewLog(s.Out, s.style, s.Now().Location(), c.Machine != "")}
	if c.Machine != "" {
		filter.Status = statechart.Active
		err = w.several(ctx, filter)
	} else {
		err = w.one(ctx, id)
	}
	if ctx.Err() != nil && (err == nil || errors.Is(stopped(ctx, err), errInterrupted)) {
		s.breakLine()
		if c.Machine != "" {
			s.note("Used %s in %v.", counted(int(s.read.units()), "read unit", "read units"), s.machineNow().Sub(begun).Truncate(time.Second))
		}
		return nil // The user has stopped the command.
	}
	return c.explain(s, err)
}

// watch is the state of a running watch command.
type watch struct {
	session  *session
	flags    *watchCommand
	machines *durable.Machines
	store    *dynamostore.Store
	log      *view.Log
	// failures counts consecutive failed reads.
	failures int
}

// one prints the transitions of one instance until it ends.
func (w *watch) one(ctx context.Context, id instances.ID) error {
	seen := instances.Record{Revision: -1}
	for pause := producer.PollFirst; ctx.Err() == nil; pause = producer.NextPoll(pause) {
		record, err := w.store.Load(ctx, id)
		retry, err := w.handleError(ctx, seen.Revision < 0, err)
		if err != nil {
			return err
		}
		if retry == 0 && record.Revision != seen.Revision {
			if err := w.print(seen, record); err != nil {
				return err
			}
			if record.Revision > 0 && record.Status != statechart.Active {
				return nil
			}
			seen, pause = record, producer.PollFirst
		}
		if w.flags.Every != nil {
			pause = *w.flags.Every
		}
		if err := w.pause(ctx, cmp.Or(retry, pause)); err != nil {
			return err
		}
	}
	return nil
}

// pause waits for the next read. It returns errUnread if standard output is closed. Without this check, the command
// would poll until the next transition, because only a failed write ends it.
func (w *watch) pause(ctx context.Context, d time.Duration) error {
	err := smithytime.SleepWithContext(ctx, d)
	if err == nil && w.session.StdoutClosed() {
		return errUnread
	}
	return err
}

// print prints the changes between two reads.
func (w *watch) print(seen, record instances.Record) error {
	s := w.session
	switch {
	case record.Revision == 0 && seen.Revision < 0:
		s.note("%s does not exist yet: its first event creates it.", record.Instance)
		return nil
	case record.Revision == 0:
		s.note("%s no longer exists.", record.Instance)
		return nil
	case seen.Revision < 0 && !w.flags.json(s):
		shown, err := view.Of(w.machines, record)
		if err != nil {
			return err
		}
		return s.printf("%s", s.style.Fold(shown.Summary(s.style)+"\n"))
	case seen.Revision < 0:
		return nil
	}
	for _, transition := range w.fresh(seen, record) {
		if err := w.write(transition); err != nil {
			return err
		}
	}
	return w.writeEnd(record)
}

// fresh returns the transitions since the last read. It prints a note if some may be missing.
func (w *watch) fresh(seen, record instances.Record) []watched {
	transitions, missed := instances.NewTransitions(seen.History, record.History)
	if missed {
		w.session.note("Some transitions of %s were missed here.", record.Instance)
	}
	fresh := make([]watched, len(transitions))
	for i, transition := range transitions {
		fresh[i] = watched{record.Instance.String(), transition, record.Revision}
	}
	return fresh
}

func (w *watch) write(transition watched) error {
	if w.flags.json(w.session) {
		return w.session.printLine(transition)
	}
	return w.log.Write(transition.Instance, transition.Transition)
}

// writeEnd prints a line if the instance has ended.
func (w *watch) writeEnd(record instances.Record) error {
	s := w.session
	if record.Status == statechart.Active || w.flags.json(s) {
		return nil
	}
	return s.printf("%s", s.style.Fold(fmt.Sprintf("%s is %s in %s\n", s.style.Bold(record.Instance.String()), record.Status, s.style.State(strings.Join(record.State, ", ")))))
}

// watchBackoff is the backoff after a read has failed despite the SDK's retries.
var watchBackoff = statechart.RetryPolicy{Attempts: math.MaxInt, Interval: time.Second, Rate: 2, IntervalMax: 30 * time.Second}

// handleError handles the error of a read. If the error is temporary, handleError prints it and returns the time until
// the next attempt. It returns every other error, and every error of the first read, as `lasting`. On success, it
// returns zero values.
func (w *watch) handleError(ctx context.Context, first bool, err error) (again time.Duration, lasting error) {
	switch {
	case err == nil && w.failures > 0:
		w.session.note("AWS answers again.")
		w.failures = 0
		return 0, nil
	case err == nil:
		return 0, nil
	case first || ctx.Err() != nil || !isTemporary(err):
		return 0, err
	}
	w.failures++
	again, _ = watchBackoff.Next(w.failures)
	w.session.note("%s: %s; trying again in %v", w.session.name(), oneLine(err), again)
	return again, nil
}

// isTemporary reports whether the SDK would retry the error.
func isTemporary(err error) bool { return retry.NewStandard().IsErrorRetryable(err) }
