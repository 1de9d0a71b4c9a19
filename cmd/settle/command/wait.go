package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// waitFlags are the flags of commands that can wait for the result.
type waitFlags struct {
	Wait    string         `placeholder:"TAG|settled|done" help:"Wait until the instance has the tag, is settled, or is done. send first waits until its event has been applied."`
	Timeout *time.Duration `placeholder:"1m" help:"How long --wait waits (1m). The exit code is 5 if the time runs out."`
}

// waitDefault is the default of --timeout.
const waitDefault = time.Minute

// eventIgnored is printed after the state of an instance that ignored the event.
const eventIgnored = " (the event was ignored)"

func (f waitFlags) validate() error {
	switch {
	case f.Timeout == nil:
		return nil
	case f.Wait == "":
		return fmt.Errorf("%w: --timeout: expected --wait with it, got none", errUsage)
	case *f.Timeout <= 0:
		return fmt.Errorf("%w: --timeout: expected more than zero, got %v", errUsage, *f.Timeout)
	default:
		return nil
	}
}

// check refuses a tag that no version of a known machine has.
func (f waitFlags) check(known *durable.Machines, machine string) error {
	if err := producer.CheckCondition(known, machine, producer.Condition(f.Wait)); f.Wait != "" && errors.Is(err, producer.ErrCondition) {
		return fmt.Errorf("%w: --wait: %w", errUsage, err)
	}
	return nil
}

func (f waitFlags) timeout() time.Duration {
	if f.Timeout == nil {
		return waitDefault
	}
	return *f.Timeout
}

// waiter sends an event to an instance and waits for the result.
type waiter struct {
	session  *session
	flags    waitFlags
	machines *durable.Machines
	// queueFlag is the queue's name or URL, as given.
	queueFlag string
	*producer.Producer
	queue *sqsqueue.Queue
	sent  producer.Sent
	// deadLetterQueue is the name of the dead-letter queue. It is empty if unknown or unreadable.
	deadLetterQueue string
	settings        aws.Config
}

// connect creates the clients for the table and the queue.
func (w *waiter) connect(ctx context.Context, table tableFlags) error {
	var err error
	if w.settings, err = table.load(ctx, w.session); err != nil {
		return err
	}
	client := sqs.NewFromConfig(w.settings)
	url, err := sqsqueue.ResolveURL(ctx, client, w.queueFlag)
	if err != nil {
		return err
	}
	store, err := table.store(ctx, w.session)
	if err != nil {
		return err
	}
	w.queue = sqsqueue.New(client, url, "")
	w.Producer = producer.New(w.machines, w.queue, store, w.session.Now)
	return nil
}

// send reserves the event's ID and queues the event. With --wait, it records what await needs to recognise the outcome.
func (w *waiter) send(ctx context.Context, table tableFlags, event producer.Event) error {
	defer w.session.newTask("sending to " + event.Message.To.String()).end()
	err := w.connect(ctx, table)
	if err == nil {
		err = w.reserve(ctx, event)
	}
	if err != nil {
		return err
	}
	w.sent = producer.Sent{Event: event}
	if w.flags.Wait != "" {
		if w.sent, err = w.Watch(ctx, event); err != nil {
			return err
		}
		arn, err := w.queue.DeadLetterARN(ctx)
		if err != nil {
			return err
		}
		w.deadLetterQueue = queueOfARN(arn)
	}
	w.sent, err = w.SendWatched(ctx, w.sent)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: the event may or may not be in %s; check with %s", errInterrupted, w.queueFlag, w.session.hint("get", event.Message.To.String()))
	}
	return err
}

// reserve reserves the event's ID. If it cannot write the table, it warns and continues: the queue and the instance
// still recognise a duplicate by the ID.
func (w *waiter) reserve(ctx context.Context, event producer.Event) error {
	err := w.Reserve(ctx, event)
	switch {
	case errors.Is(err, dynamostore.ErrIDReused):
		return fmt.Errorf("%w; nothing was sent: use another --id, or send the first event again unchanged", err)
	case errors.Is(err, durable.ErrDenied): // dynamostore.ErrNoTable wraps durable.ErrDenied.
		w.session.note("%s: warning: cannot check whether --id %s was used for another event: %s; sending the event without the check. "+
			"To enable the check, use --table, and allow dynamodb:UpdateItem on the keys idempotency/*", w.session.name(), event.ID, oneLine(err))
		return nil
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("%w; nothing was sent", err)
	default:
		return err
	}
}

// await polls until the instance meets the condition of --wait. Unless the message was only a wake-up, the instance
// must first have applied the event. `ignored` reports whether the event is known to have been ignored.
func (w *waiter) await(outer context.Context) (shown view.Instance, ignored bool, err error) {
	ctx, stop := context.WithTimeoutCause(outer, w.flags.timeout(), errTimeUp)
	defer stop()
	to, until := w.sent.Message.To, producer.Condition(w.flags.Wait)
	progress := w.session.newTask("waiting for " + to.String())
	defer progress.end()
	where := fmt.Sprintf("%s does not exist yet: the event may have been parked, see %s", to, w.hintParked())
	looks := lookTimer{next: lookFirst}
	each := func(ctx context.Context, poll producer.Poll) error {
		if poll.Record.Revision == 0 {
			if looks.due(ctx, poll.Waited) {
				if err := w.checkParked(ctx); err != nil {
					return err
				}
			}
		} else if where, err = w.where(poll.Record); err != nil {
			return err
		} else if !poll.Applied {
			where += ", and the event has not been applied yet"
		}
		progress.say("waiting: " + where)
		return nil
	}
	outcome, err := w.Await(ctx, w.sent, until, each)
	var parked *producer.ParkedError
	switch {
	case err == nil:
		shown, err = view.Of(w.machines, outcome.Record)
		return shown, outcome.Ignored, err
	case errors.As(err, &parked):
		err = w.parked(parked)
	case !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded): // Keep this error: it explains why the wait ended.
	case outer.Err() != nil:
		err = fmt.Errorf("%w while waiting for %s: the event was sent, as message %s; %s", errInterrupted, until, w.sent.MessageID, where)
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: waited %v for %s; the event was sent, as message %s; %s", errTimeUp, w.flags.timeout(), until, w.sent.MessageID, where)
	}
	return shown, false, err
}

// where returns the state of the instance in one line.
func (w *waiter) where(record instances.Record) (string, error) {
	shown, err := view.Of(w.machines, record)
	return shown.Summary(console.Style{}), err
}
