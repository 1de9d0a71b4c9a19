package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/deadletter"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

type dlqCommand struct {
	List    dlqListCommand    `cmd:"" help:"List parked events with their reasons."`
	Show    dlqShowCommand    `cmd:"" help:"Show one parked event, with its payload."`
	Redrive dlqRedriveCommand `cmd:"" help:"Send parked events to the queue again."`
	Drop    dlqDropCommand    `cmd:"" help:"Delete parked events."`
}

// dlqFlags are the flags of commands that read the dead-letter queue.
type dlqFlags struct {
	awsFlags
	DeadLetterQueue string `name:"dead-letter-queue" default:"settle-dlq.fifo" env:"SETTLE_DEAD_LETTER_QUEUE_URL" placeholder:"NAME|URL" help:"The dead-letter queue (${default})."`
	Queue           string `default:"settle.fifo" env:"SETTLE_QUEUE_URL" placeholder:"NAME|URL" help:"The queue that the dead-letter queue belongs to (${default}). redrive sends events there. It is refused as --dead-letter-queue."`
}

// read calls `do` with a reader of the queue and the queue's attributes, and then returns the reader's messages to the
// queue. It refuses a queue that cannot be a dead-letter queue before it receives anything. `do` must not write to
// standard output: a write to a closed output ends the process before the messages are returned.
func (f dlqFlags) read(ctx context.Context, s *session, progress *progress, do func(client *sqs.Client, r *deadletter.Reader, has deadletter.Content) error) error {
	defer progress.end()
	if err := f.checkQueue(); err != nil {
		return err
	}
	progress.say("looking for " + f.DeadLetterQueue)
	loaded, err := f.load(ctx, s)
	if err != nil {
		return err
	}
	client := sqs.NewFromConfig(loaded)
	url, err := sqsqueue.ResolveURL(ctx, client, f.DeadLetterQueue)
	if err != nil {
		return f.explain(s, err)
	}
	progress.say("")
	r := deadletter.NewReader(client, url, deadletter.Hidden)
	has, err := r.Content(ctx)
	if err == nil {
		err = f.checkSwapped(has.RedrivePolicy)
	}
	if err == nil {
		err = do(client, r, has)
	}
	if err != nil {
		err = f.explain(s, stopped(ctx, err))
	}
	return errors.Join(err, r.Close(ctx))
}

type dlqListCommand struct {
	dlqFlags
	Instance string `help:"Only events of this instance."`
	Limit    int    `default:"100" help:"Stop after this many (${default})."`
	outputFlag
}

// Run lists the events that the queue offers.
func (c *dlqListCommand) Run(ctx context.Context, s *session) error {
	if c.Limit < 1 {
		return fmt.Errorf("%w: --limit: expected at least 1, got %d", errUsage, c.Limit)
	}
	var total, seen int
	found := []view.ParkedEvent{}
	progress := s.newProgress("event received", "events received")
	err := c.read(ctx, s, progress, func(_ *sqs.Client, r *deadletter.Reader, has deadletter.Content) error {
		total = has.Messages
		for m, err := range r.All(ctx) {
			if err != nil {
				return err
			}
			progress.add()
			seen++
			if c.Instance == "" || m.Instance == c.Instance {
				found = append(found, view.ParkedEvent{Message: m})
			}
			if len(found) == c.Limit {
				break
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case c.json(s):
		err = s.printJSON(found)
	case len(found) > 0:
		err = view.WriteParked(s.Out, s.style, found, s.Now())
	case total > seen:
		err = s.printf("No events to show.\n")
	default:
		err = s.printf("%s", nothingParked(c.Instance))
	}
	switch {
	case total > seen && len(found) == c.Limit:
		s.note("The queue has about %s. These are the first %d: raise --limit for more.", counted(total, "event", "events"), c.Limit)
	case total > seen:
		s.note("The queue has about %s, and offered %d: at most ten of an instance at a time, and none that are in flight.",
			counted(total, "event", "events"), seen)
	}
	return err
}

// nothingParked returns the text for an empty list of parked events. `instance` is empty for a list of all instances.
func nothingParked(instance string) string {
	if instance != "" {
		return fmt.Sprintf("No parked events of %s.\n", console.Escape(instance))
	}
	return "No parked events.\n"
}

type dlqShowCommand struct {
	dlqFlags
	Message string `arg:"" name:"message-id" help:"The ID of the message, as list prints it."`
	outputFlag
}

// Run shows one event.
func (c *dlqShowCommand) Run(ctx context.Context, s *session) error {
	var found *deadletter.Message
	progress := s.newProgress("event received", "events received")
	err := c.read(ctx, s, progress, func(_ *sqs.Client, r *deadletter.Reader, _ deadletter.Content) error {
		for m, err := range r.All(ctx) {
			if err != nil {
				return err
			}
			progress.add()
			if m.ID == c.Message {
				found = m
				return nil
			}
		}
		return notOffered(s, []string{c.Message}, 1)
	})
	if found == nil {
		return err
	}
	shown := view.WithEvent(found)
	return errors.Join(err, c.answer(s, shown, func() error { return shown.WriteText(s.Out, s.style, s.Now()) }))
}

// liveQueues are the queues of settle dev that are not dead-letter queues.
var liveQueues = []string{stack.Queue, stack.DelayQueue, stack.ExecutionsQueue}

// queueName returns the name of a queue from its name or its URL.
func queueName(queue string) string {
	queue = strings.TrimRight(queue, "/")
	return queue[strings.LastIndexByte(queue, '/')+1:]
}

// queueOfARN returns the name of the queue with the ARN.
func queueOfARN(arn string) string { return arn[strings.LastIndexByte(arn, ':')+1:] }

// checkQueue refuses a live queue as dead-letter queue: receiving from a live queue delays its events, and dropping its
// events loses them. It compares names only. That is enough, because SQS requires a dead-letter queue to be in the
// account and Region of its queue, where no two queues have the same name.
func (f dlqFlags) checkQueue() error {
	switch name := queueName(f.DeadLetterQueue); {
	case name == queueName(f.Queue):
		return fmt.Errorf("%w: --queue and --dead-letter-queue: expected a queue and its dead-letter queue, got %s for both; "+
			"they default to SETTLE_QUEUE_URL and SETTLE_DEAD_LETTER_QUEUE_URL", errUsage, name)
	case f.Local && slices.Contains(liveQueues, name):
		return fmt.Errorf("%w: --dead-letter-queue: expected a dead-letter queue, such as %s, got %s, which is a live queue",
			errUsage, stack.DeadLetterQueue, name)
	default:
		return nil
	}
}

// checkSwapped refuses a queue whose RedrivePolicy names --queue as its dead-letter queue.
func (f dlqFlags) checkSwapped(policy string) error {
	if target := queueOfARN(sqsqueue.DeadLetterARN(policy)); target != "" && target == queueName(f.Queue) {
		return fmt.Errorf("%w: --queue and --dead-letter-queue are swapped, or SETTLE_QUEUE_URL and SETTLE_DEAD_LETTER_QUEUE_URL are: "+
			"%s is the dead-letter queue of %s", errUsage, target, queueName(f.DeadLetterQueue))
	}
	return nil
}
