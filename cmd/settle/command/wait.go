package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	smithytime "github.com/aws/smithy-go/time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/statechart"
)

// The polling interval starts at pollFirst and grows to pollMax.
const (
	pollFirst = 100 * time.Millisecond
	pollMax   = 2 * time.Second
)

func nextPoll(pause time.Duration) time.Duration { return min(pause*3/2, pollMax) }

// The values of --wait that are not tags.
const (
	waitSettled = "settled"
	waitDone    = "done"
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

// check refuses a tag that no version of the machine has, if the machine's tags are known.
func (f waitFlags) check(s *session, machine string) error {
	if f.Wait == "" || f.Wait == waitSettled || f.Wait == waitDone {
		return nil
	}
	tags, known := s.tags(machine)
	if !known || slices.Contains(tags, f.Wait) {
		return nil
	}
	expected := []string{waitSettled, waitDone}
	for _, tag := range tags {
		if tag != statechart.Settled {
			expected = append(expected, tag)
		}
	}
	return fmt.Errorf("%w: --wait: machine %s has no tag %q: expected one of %s", errUsage, machine, f.Wait, strings.Join(expected, ", "))
}

func (f waitFlags) timeout() time.Duration {
	if f.Timeout == nil {
		return waitDefault
	}
	return *f.Timeout
}

// waiter sends a message to an instance and waits for the result.
type waiter struct {
	session  *session
	flags    waitFlags
	table    tableFlags
	machines *durable.Machines
	// queue is the queue's name or URL.
	queue string
	// eventID is the event's idempotency key, eventType its type. If the type is empty, the message is not an event of
	// the chart, and await does not check whether it was applied.
	eventID, eventType string

	to        instances.ID
	store     *dynamostore.Store
	messageID string
	// arn is the ARN of the queue, sequence the message's sequence number in it.
	arn, sequence string
	// deadLetterQueue is the name of the dead-letter queue. It is empty if unknown or unreadable.
	deadLetterQueue string
	settings        aws.Config
	// before is the instance as stored before the message was sent.
	before instances.Record
}

// sequenceRecorder records the sequence number of the sent message.
type sequenceRecorder struct {
	*sqs.Client
	sequence string
}

// SendMessage implements sqsqueue.Client.
func (r *sequenceRecorder) SendMessage(ctx context.Context, input *sqs.SendMessageInput, options ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	output, err := r.Client.SendMessage(ctx, input, options...)
	if err == nil {
		r.sequence = aws.ToString(output.SequenceNumber)
	}
	return output, err
}

// send sends the message, and records what await needs to recognise its outcome.
func (w *waiter) send(ctx context.Context, message durable.Message) error {
	defer w.session.newTask("sending to " + message.To.String()).end()
	var err error
	if w.settings, err = w.table.load(ctx, w.session); err != nil {
		return err
	}
	client := &sequenceRecorder{Client: sqs.NewFromConfig(w.settings)}
	url, err := sqsqueue.ResolveURL(ctx, client.Client, w.queue)
	if err != nil {
		return err
	}
	w.to = message.To
	if w.eventID != "" {
		if err := w.reserve(ctx, message); err != nil {
			return err
		}
	}
	if w.flags.Wait != "" {
		if err := w.prepare(ctx, client, url); err != nil {
			return err
		}
	}
	w.messageID, err = sqsqueue.New(client, url, "").Send(ctx, message)
	w.sequence = client.sequence
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: the event may or may not be in %s; check with %s", errInterrupted, w.queue, w.session.hint("get", w.to.String()))
	}
	return err
}

// reserve reserves the event's ID. If the table cannot be written, it warns and continues: the queue and the instance
// still recognise a duplicate by the ID.
func (w *waiter) reserve(ctx context.Context, message durable.Message) error {
	store, err := w.table.store(ctx, w.session)
	if err != nil {
		return err
	}
	err = store.Reserve(ctx, message.To, w.eventID, message.Body, w.session.Now())
	switch {
	case errors.Is(err, dynamostore.ErrIDReused):
		return fmt.Errorf("%w; nothing was sent: use another --id, or send the first event again unchanged", err)
	case errors.Is(err, durable.ErrDenied): // dynamostore.ErrNoTable wraps durable.ErrDenied.
		w.session.note("%s: warning: cannot check whether --id %s was used for another event: %s; sending the event without the check. "+
			"To enable the check, use --table, and allow dynamodb:UpdateItem on the keys idempotency/*", w.session.name(), w.eventID, oneLine(err))
		return nil
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("%w; nothing was sent", err)
	default:
		return err
	}
}

// prepare records the queue's attributes and the instance before the message is sent.
func (w *waiter) prepare(ctx context.Context, client *sequenceRecorder, url string) error {
	names := []types.QueueAttributeName{types.QueueAttributeNameQueueArn, types.QueueAttributeNameRedrivePolicy}
	output, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: names})
	if err != nil {
		return fmt.Errorf("getting the ARN of %s: %w", url, err)
	}
	w.arn = output.Attributes[string(names[0])]
	w.deadLetterQueue = deadLetterQueueOf(output.Attributes[string(names[1])])
	if w.store, err = w.table.store(ctx, w.session); err != nil {
		return err
	}
	w.before, err = w.store.Load(ctx, w.to)
	return err
}

// await polls until the instance meets the condition of --wait. ignored reports whether the event is known to have been
// ignored.
func (w *waiter) await(outer context.Context) (shown view.Instance, ignored bool, err error) {
	ctx, stop := context.WithTimeoutCause(outer, w.flags.timeout(), errTimeUp)
	defer stop()
	progress := w.session.newTask("waiting for " + w.to.String())
	defer progress.end()
	where := fmt.Sprintf("%s does not exist yet: the event may have been parked, see %s", w.to, w.hintParked())
	looks := lookTimer{next: lookFirst}
	for pause := pollFirst; ; pause = nextPoll(pause) {
		record, err := w.store.Load(ctx, w.to)
		if err == nil && record.Revision == 0 && looks.due(ctx, pause) {
			err = w.checkParked(ctx)
		}
		if err == nil && record.Revision > 0 {
			shown, err = view.Of(w.machines, record)
			where = shown.Summary(console.Style{})
		}
		reached := false
		if err == nil && record.Revision > 0 {
			if w.eventType != "" && !w.isApplied(record) {
				where += ", and the event has not been applied yet"
			} else {
				reached, err = w.reached(record, shown)
			}
		}
		if err == nil && !reached {
			progress.say("waiting: " + where)
			err = smithytime.SleepWithContext(ctx, pause)
		}
		if reached {
			return shown, w.isIgnored(record), nil
		}
		if err != nil {
			switch {
			case !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded): // Keep this error: it explains the end of the wait.
			case outer.Err() != nil:
				err = fmt.Errorf("%w while waiting for %s: the event was sent, as message %s; %s", errInterrupted, w.flags.Wait, w.messageID, where)
			case ctx.Err() != nil:
				err = fmt.Errorf("%w: waited %v for %s; the event was sent, as message %s; %s", errTimeUp, w.flags.timeout(), w.flags.Wait, w.messageID, where)
			}
			return shown, false, err
		}
	}
}

// isIgnored reports whether the applied event is known to have been ignored: since the send, the history has recorded
// events of its type, and all of them were ignored.
func (w *waiter) isIgnored(record instances.Record) bool {
	transitions, missed := newTransitions(w.before.History, record.History)
	ignored := false
	for _, transition := range transitions {
		if transition.Event == w.eventType {
			if !transition.Ignored {
				return false
			}
			ignored = true
		}
	}
	repeat := w.eventID != "" && durable.Remembers(w.before, w.eventID)
	return ignored && !missed && !repeat
}

// isApplied reports whether the event was applied, ignored or parked. A duplicate leaves no trace but its ID, which the
// instance remembers from the first delivery.
func (w *waiter) isApplied(record instances.Record) bool {
	applied := record.Watermark[w.arn]
	return cmp.Or(cmp.Compare(len(applied), len(w.sequence)), cmp.Compare(applied, w.sequence)) >= 0 ||
		w.eventID != "" && durable.Remembers(record, w.eventID)
}

// reached reports whether the instance meets the condition of --wait. It fails if the instance can no longer meet it.
func (w *waiter) reached(record instances.Record, shown view.Instance) (bool, error) {
	if f := record.Error; f != nil && (w.before.Error == nil || *f != *w.before.Error) && (f.Event == w.eventType || f.Event == "") {
		return false, w.parked(f.Message)
	}
	switch over := shown.Status != statechart.Active; {
	case w.flags.Wait == waitSettled:
		return shown.Settled, nil
	case w.flags.Wait == waitDone && shown.Status == statechart.Done:
		return true, nil
	case w.flags.Wait != waitDone && slices.Contains(shown.Tags, w.flags.Wait):
		return true, nil
	case over:
		said := ""
		if w.isIgnored(record) {
			said = eventIgnored
		}
		return false, fmt.Errorf("waited for %s, but %s ended without it: it is %s in %s%s", w.flags.Wait, w.to, shown.Status, strings.Join(shown.State, ", "), said)
	default:
		return false, nil
	}
}
