package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/deadletter"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// choiceFlags choose parked events.
type choiceFlags struct {
	Message  []string `arg:"" optional:"" name:"message-id" help:"The IDs of the messages, as list prints them."`
	Instance string   `help:"All events of this instance."`
	All      bool     `help:"All events."`
}

// choice is the selection of parked events by choiceFlags.
type choice struct {
	// name describes the selection in prompts and results.
	name   string
	chosen func(*deadletter.Message) bool
	// `named` are the given message IDs, and `unseen` are the IDs among them whose messages were not received yet.
	named, unseen []string
}

// isOne reports whether exactly one value is true.
func isOne(values ...bool) bool {
	return len(slices.DeleteFunc(values, func(is bool) bool { return !is })) == 1
}

// choice checks the flags and returns the selection.
func (f choiceFlags) choice() (*choice, error) {
	switch {
	case !isOne(len(f.Message) > 0, f.Instance != "", f.All):
		return nil, fmt.Errorf("%w: expected either IDs of messages, or --instance, or --all", errUsage)
	case f.All:
		return &choice{name: "all events", chosen: func(*deadletter.Message) bool { return true }}, nil
	case f.Instance != "":
		return &choice{name: "all events of " + f.Instance, chosen: func(m *deadletter.Message) bool { return m.Instance == f.Instance }}, nil
	}
	named := slices.Compact(slices.Sorted(slices.Values(f.Message)))
	c := &choice{name: counted(len(named), "event", "events"), named: named, unseen: slices.Clone(named)}
	c.chosen = func(m *deadletter.Message) bool {
		c.unseen = slices.DeleteFunc(c.unseen, func(id string) bool { return id == m.ID })
		return slices.Contains(named, m.ID)
	}
	return c, nil
}

// check returns an error if some of the given IDs were not received.
func (c *choice) check(s *session) error {
	if len(c.unseen) == 0 {
		return nil
	}
	return notOffered(s, c.unseen, len(c.named))
}

// notOffered returns the error for given messages that the queue does not offer. `of` is the number of all given
// messages.
func notOffered(s *session, ids []string, of int) error {
	which := "message " + ids[0]
	if of > 1 {
		which = fmt.Sprintf("%d of the %d messages, %s", len(ids), of, strings.Join(ids, ", "))
	}
	return fmt.Errorf("%w: the queue does not offer %s: it offers at most ten events of an instance at a time, and none that are in flight; see %s", errNotFound, which, s.hint("dlq list"))
}

type dlqRedriveCommand struct {
	dlqFlags
	choiceFlags
	outputFlag
}

// redriven is the JSON output of dlq redrive.
type redriven struct {
	Redriven int `json:"redriven"`
	// ParkedAgain counts events that were parked again while the command ran.
	ParkedAgain int `json:"parked_again"`
}

// Run sends the events to the queue again.
func (c *dlqRedriveCommand) Run(ctx context.Context, s *session) error {
	choice, err := c.choice()
	if err != nil {
		return err
	}
	var outcome *deadletter.Outcome
	progress := s.newProgress("event redriven", "events redriven")
	err = c.read(ctx, s, progress, func(client *sqs.Client, r *deadletter.Reader, _ deadletter.Content) error {
		url, err := sqsqueue.ResolveURL(ctx, client, c.Queue)
		if err != nil {
			return err
		}
		if err := checkQueues(r.URL(), url, c.DeadLetterQueue, c.Queue); err != nil {
			return err
		}
		done, err := r.Redrive(ctx, url, choice.chosen, progress.add)
		outcome = &done
		if err == nil {
			err = choice.check(s)
		}
		return errors.Join(err, noteOthers(ctx, s, r, len(done.Moved)))
	})
	if outcome == nil {
		return err
	}
	answer := redriven{len(outcome.Moved), outcome.Again}
	said := fmt.Sprintf("%s sent to %s\n", counted(answer.Redriven, "event", "events"), c.Queue)
	if answer.ParkedAgain > 0 {
		said += fmt.Sprintf("%s parked again: see %s\n", counted(answer.ParkedAgain, "of them was", "of them were"), s.hint("dlq list"))
	}
	return c.answerPartly(s, answer, answer == redriven{}, said, err)
}

// answerPartly prints the answer of a command that may have failed after it changed the queue, and returns the error.
// If the command failed before any change, answerPartly prints an answer only as JSON.
func (f outputFlag) answerPartly(s *session, answer any, unchanged bool, said string, err error) error {
	if err != nil && unchanged && !f.json(s) {
		return err
	}
	return errors.Join(err, f.answer(s, answer, func() error { return s.printf("%s", said) }))
}

// noteOthers prints a note if nothing was moved and other readers hold messages in flight.
func noteOthers(ctx context.Context, s *session, r *deadletter.Reader, moved int) error {
	if moved > 0 {
		return nil
	}
	has, err := r.Content(ctx)
	if others := has.InFlight - r.InHand(); err == nil && others > 0 {
		s.note("About %s in flight: try again in a moment.", counted(others, "event is", "events are"))
	}
	return err
}

// checkQueues returns an error if only one of the two queues is a FIFO queue. `from` and `to` are their URLs.
// `deadLetterQueue` and `queue` are the values of the flags. Call it before anything is received.
func checkQueues(from, to, deadLetterQueue, queue string) error {
	if deadletter.IsFIFO(from) == deadletter.IsFIFO(to) {
		return nil
	}
	kinds := map[bool]string{true: "a FIFO queue", false: "a standard queue"}
	return fmt.Errorf("%w: --queue: expected %s like the dead-letter queue %s, got %s", errUsage, kinds[deadletter.IsFIFO(from)], deadLetterQueue, queue)
}

type dlqDropCommand struct {
	dlqFlags
	choiceFlags
	Yes bool `short:"y" help:"Do not ask for confirmation."`
	outputFlag
}

// dropped is the JSON output of dlq drop.
type dropped struct {
	Dropped int `json:"dropped"`
}

// Run deletes the events.
func (c *dlqDropCommand) Run(ctx context.Context, s *session) error {
	choice, err := c.choice()
	if err != nil {
		return err
	}
	if !c.Yes {
		if some, err := c.ask(ctx, s, choice); err != nil || !some {
			return err
		}
	}
	var answer *dropped
	progress := s.newProgress("event dropped", "events dropped")
	err = c.read(ctx, s, progress, func(_ *sqs.Client, r *deadletter.Reader, _ deadletter.Content) error {
		n, err := r.Drop(ctx, choice.chosen, progress.add)
		answer = &dropped{n}
		if err == nil {
			err = choice.check(s)
		}
		return errors.Join(err, noteOthers(ctx, s, r, n))
	})
	if answer == nil {
		return err
	}
	return c.answerPartly(s, answer, answer.Dropped == 0, counted(answer.Dropped, "event", "events")+" dropped\n", err)
}

// ask asks for confirmation and returns true. If the queue is empty, it does not ask: it prints that there is nothing
// to drop, and returns false.
func (c *dlqDropCommand) ask(ctx context.Context, s *session, choice *choice) (some bool, err error) {
	if err := s.canConfirm(); err != nil {
		return false, err
	}
	about := 0
	progress := s.newProgress("event received", "events received")
	err = c.read(ctx, s, progress, func(_ *sqs.Client, r *deadletter.Reader, has deadletter.Content) error {
		if about = has.Messages; about > 0 {
			return nil
		}
		batch, err := r.Next(ctx) // A count of 0 can be a minute old, so look for messages.
		about = len(batch)
		return err
	})
	if err != nil {
		return false, err
	}
	if about == 0 {
		switch {
		case len(choice.named) > 0:
			return false, choice.check(s)
		case c.json(s):
			return false, s.printJSON(dropped{})
		default:
			return false, s.printf("%s", nothingParked(c.Instance))
		}
	}
	question := "Permanently drop " + choice.name + " in " + c.DeadLetterQueue
	if c.All {
		question += fmt.Sprintf(", about %d", about)
	}
	return true, s.confirm(ctx, question+"?", "nothing was dropped")
}
