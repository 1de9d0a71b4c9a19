package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/cmd/settle/internal/deadletter"
	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

type dlqCommand struct {
	List    dlqListCommand    `cmd:"" help:"List parked events, with the reasons."`
	Show    dlqShowCommand    `cmd:"" help:"Show one parked event, with its payload."`
	Redrive dlqRedriveCommand `cmd:"" help:"Send parked events to the queue again."`
	Drop    dlqDropCommand    `cmd:"" help:"Delete parked events for good."`
}

// Help explains what a dead-letter queue is able to show.
func (*dlqCommand) Help() string {
	return `An event that can never be applied is parked: moved to the dead-letter queue, with the reason and with where it came
from. So is, without a reason, what the queue itself has given up.

A queue cannot be looked into without receiving. These commands receive all that the queue shows, and put back at once
what they do not delete; if they are killed, it is to be seen again five minutes later. Meanwhile nobody else sees it. And
of each instance a FIFO queue shows the first ten events only: the next ones are to be seen when those are redriven or
dropped. redrive and drop go on by themselves until there are no more.

  settle dlq list
  settle dlq redrive --instance signup/42`
}

// dlqFlags are those of the commands that read the dead-letter queue.
type dlqFlags struct {
	awsFlags
	DeadLetterQueue string `name:"dead-letter-queue" default:"settle-dlq.fifo" env:"SETTLE_DEAD_LETTER_QUEUE_URL" placeholder:"NAME|URL" help:"The dead-letter queue (${default})."`
}

// read calls the function with a reader of the queue, and puts back what is left in its hands.
func (f dlqFlags) read(ctx context.Context, s *session, do func(client *sqs.Client, r *deadletter.Reader) error) error {
	loaded, err := f.load(ctx, s)
	if err != nil {
		return err
	}
	client := sqs.NewFromConfig(loaded)
	url, err := sqsqueue.ResolveURL(ctx, client, f.DeadLetterQueue)
	if err != nil {
		return f.explain(s, err)
	}
	r := deadletter.NewReader(client, url)
	err = do(client, r)
	if err != nil {
		err = f.explain(s, err)
	}
	return errors.Join(err, r.Close(ctx))
}

// choiceFlags choose parked events.
type choiceFlags struct {
	Message  []string `arg:"" optional:"" name:"message-id" help:"The IDs of the messages, as list prints them."`
	Instance string   `help:"All events of this instance."`
	All      bool     `help:"All events."`
}

// choice returns what the flags choose, and its name.
func (f choiceFlags) choice() (chosen func(*deadletter.Message) bool, name string, err error) {
	given := 0
	for _, is := range []bool{len(f.Message) > 0, f.Instance != "", f.All} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, "", fmt.Errorf("%w: expected either IDs of messages, or --instance, or --all", errUsage)
	case f.All:
		return func(*deadletter.Message) bool { return true }, "all events", nil
	case f.Instance != "":
		return func(m *deadletter.Message) bool { return m.Group == f.Instance }, "all events of " + f.Instance, nil
	default:
		return func(m *deadletter.Message) bool { return slices.Contains(f.Message, m.ID) }, fmt.Sprintf("%d messages", len(f.Message)), nil
	}
}

// checkFound refuses IDs that were not found among so many messages.
func (f choiceFlags) checkFound(found int) error {
	if len(f.Message) > found {
		return fmt.Errorf("%w: %d of the %d messages are not to be seen in the queue: it shows ten of an instance at a time, and none that somebody else has in hand", errNotFound, len(f.Message)-found, len(f.Message))
	}
	return nil
}

type dlqListCommand struct {
	dlqFlags
	Instance string `help:"Only events of this instance."`
	Limit    int    `default:"100" help:"Stop after this many (${default})."`
	outputFlag
}

// Help shows how to narrow it.
func (*dlqListCommand) Help() string {
	return `Those of an instance stand in their order. If the queue has more than it shows, that is told on standard error.

  settle dlq list
  settle dlq list --instance signup/42 -o json | jq -r '.[].message_id'`
}

// Run lists what the queue shows.
func (c *dlqListCommand) Run(ctx context.Context, s *session) error {
	if c.Limit < 1 {
		return fmt.Errorf("%w: --limit: expected at least 1, got %d", errUsage, c.Limit)
	}
	return c.read(ctx, s, func(_ *sqs.Client, r *deadletter.Reader) error {
		total, _, err := r.Count(ctx)
		if err != nil {
			return err
		}
		found, seen, err := c.find(ctx, s, r)
		if err != nil {
			return err
		}
		if c.json(s) {
			err = s.printJSON(found)
		} else {
			err = view.WriteParked(s.out, s.style, found, s.now())
		}
		if total > seen {
			s.note("The queue has about %d events, and %d were received: of an instance it shows ten at a time, and none that somebody else has in hand.", total, seen)
		}
		return err
	})
}

// find receives until there are no more, or enough.
func (c *dlqListCommand) find(ctx context.Context, s *session, r *deadletter.Reader) (found []view.ParkedEvent, seen int, err error) {
	progress := s.newProgress("events received")
	defer progress.end()
	found = []view.ParkedEvent{}
	for {
		batch, err := r.Next(ctx)
		if err != nil || len(batch) == 0 {
			return found, seen, err
		}
		for _, m := range batch {
			progress.add()
			seen++
			if c.Instance == "" || m.Group == c.Instance {
				found = append(found, view.OfParked(m))
			}
			if len(found) == c.Limit {
				return found, seen, nil
			}
		}
	}
}

type dlqShowCommand struct {
	dlqFlags
	Message string `arg:"" name:"message-id" help:"The ID of the message, as list prints it."`
	outputFlag
}

// Help tells what is not shown.
func (*dlqShowCommand) Help() string {
	return `Shown are the event with its payload, why it was parked, and where it came from. The token of a task is not.

  settle dlq show 5fea7756-0ea4-451a-a703-a558b933e274`
}

// Run shows one event.
func (c *dlqShowCommand) Run(ctx context.Context, s *session) error {
	return c.read(ctx, s, func(_ *sqs.Client, r *deadletter.Reader) error {
		for {
			batch, err := r.Next(ctx)
			if err != nil {
				return err
			}
			if len(batch) == 0 {
				return choiceFlags{Message: []string{c.Message}}.checkFound(0)
			}
			for _, m := range batch {
				if m.ID != c.Message {
					continue
				}
				if c.json(s) {
					return s.printJSON(view.OfParked(m).WithEvent(m))
				}
				return view.OfParked(m).WithEvent(m).WriteText(s.out, s.style, s.now())
			}
		}
	})
}

type dlqRedriveCommand struct {
	dlqFlags
	Queue string `default:"settle.fifo" env:"SETTLE_QUEUE_URL" placeholder:"NAME|URL" help:"The queue to send them to (${default})."`
	choiceFlags
	outputFlag
}

// Help tells what an event keeps.
func (*dlqRedriveCommand) Help() string {
	return `The events are sent to the queue, each with its body, its instance and all attributes, those of an instance in their order,
and deleted here then. So what was parked is applied once, however often it is redriven, as long as fewer than 50 other
events come between (docs/guarantees.md). Of one instance, redrive all: what was parked later may depend on what was parked
before.

An event that is parked once more meanwhile stays, and is counted. If one cannot be sent, those behind it of its
instance stay too.

  settle dlq redrive --instance signup/42
  settle dlq redrive 5fea7756-0ea4-451a-a703-a558b933e274
  settle dlq redrive --all
  settle dlq redrive --all --dead-letter-queue settle-delay-dlq --queue settle-delay`
}

// redriven is the answer.
type redriven struct {
	Redriven int `json:"redriven"`
	// ParkedAgain counts those that came back while the command ran.
	ParkedAgain int `json:"parked_again"`
}

// Run sends the events again.
func (c *dlqRedriveCommand) Run(ctx context.Context, s *session) error {
	chosen, _, err := c.choice()
	if err != nil {
		return err
	}
	return c.read(ctx, s, func(client *sqs.Client, r *deadletter.Reader) error {
		url, err := sqsqueue.ResolveURL(ctx, client, c.Queue)
		if err != nil {
			return err
		}
		progress := s.newProgress("events redriven")
		outcome, err := r.Redrive(ctx, url, chosen, progress.add)
		progress.end()
		if err == nil {
			err = c.checkFound(len(outcome.Moved))
		}
		answer := redriven{len(outcome.Moved), outcome.Again}
		if c.json(s) {
			return errors.Join(err, s.printJSON(answer))
		}
		said := fmt.Sprintf("%d events are in %s again\n", answer.Redriven, c.Queue)
		if answer.ParkedAgain > 0 {
			said += fmt.Sprintf("%d of them were parked again: settle dlq list tells why\n", answer.ParkedAgain)
		}
		return errors.Join(err, s.printf("%s", said))
	})
}

type dlqDropCommand struct {
	dlqFlags
	choiceFlags
	Yes bool `short:"y" help:"Do not ask."`
	outputFlag
}

// Help tells that there is no way back.
func (*dlqDropCommand) Help() string {
	return `The events are deleted for good, those of an instance beyond the first ten and those that are parked meanwhile too. It
asks before, and without a terminal to ask on wants --yes.

  settle dlq drop 5fea7756-0ea4-451a-a703-a558b933e274
  settle dlq drop --instance signup/42 --yes`
}

// Run deletes the events.
func (c *dlqDropCommand) Run(ctx context.Context, s *session) error {
	chosen, name, err := c.choice()
	if err != nil {
		return err
	}
	if !c.Yes {
		if err := s.confirm("Drop " + name + " in " + c.DeadLetterQueue + " for good?"); err != nil {
			return err
		}
	}
	return c.read(ctx, s, func(_ *sqs.Client, r *deadletter.Reader) error {
		progress := s.newProgress("events dropped")
		dropped, err := r.Drop(ctx, chosen, progress.add)
		progress.end()
		if err == nil {
			err = c.checkFound(dropped)
		}
		if c.json(s) {
			return errors.Join(err, s.printJSON(map[string]int{"dropped": dropped}))
		}
		return errors.Join(err, s.printf("%d events are gone\n", dropped))
	})
}

// confirm asks somebody at a terminal.
func (s *session) confirm(question string) error {
	if !s.asked {
		return fmt.Errorf("%w: expected --yes, as there is no terminal to ask on", errUsage)
	}
	_, _ = fmt.Fprintf(s.errOut, "%s [y/N] ", question)
	var answer string
	_, _ = fmt.Fscanln(s.in, &answer) // An empty line is no answer.
	if answer != "y" && answer != "Y" && answer != "yes" {
		return errors.New("not confirmed, nothing was dropped")
	}
	return nil
}
