package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Outcome is the result of a redrive.
type Outcome struct {
	// Moved lists the messages sent to the queue, in order.
	Moved []*Message
	// Again is the number of messages that were parked again meanwhile. They stay in the dead-letter queue.
	Again int
}

// Redrive sends the chosen messages to the queue with the URL `to`, each with its body, group and attributes. It then
// deletes them from the dead-letter queue. If a message is parked again meanwhile, Redrive does not send it a second
// time. If a message cannot be sent or deleted, the later messages of its group stay. When ctx ends, Redrive finishes
// the current message and leaves the others.
//
// If the response to a send or delete is lost, a later redrive sends the message a second time. It is recognised as a
// duplicate: within five minutes by its deduplication ID, later by the attributes that the runtime added when it parked
// the message.
func (r *Reader) Redrive(ctx context.Context, to string, chosen func(*Message) bool, each func()) (Outcome, error) {
	var outcome Outcome
	var failures []error
	moved, stuck := map[string]bool{}, map[string]bool{}
	for m, err := range r.All(ctx) {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			failures = append(failures, err)
			break
		}
		origin := m.origin()
		switch {
		case !chosen(m) || stuck[m.Group]:
			continue
		case moved[origin]:
			outcome.Again++
			continue
		}
		if err := r.move(ctx, to, m); err != nil {
			failures = append(failures, err)
			stuck[m.Group] = m.Group != ""
			continue
		}
		moved[origin] = origin != ""
		outcome.Moved = append(outcome.Moved, m)
		each()
	}
	return outcome, errors.Join(failures...)
}

// move sends a message and then deletes it.
func (r *Reader) move(ctx context.Context, to string, m *Message) error {
	if time.Now().Round(0).Add(holdMargin).After(m.until) {
		return fmt.Errorf("message %s of %s was not sent: its visibility timeout is about to end, as after a sleep of this machine; run the command again", m.ID, m.Group)
	}
	ctx, stop := finishing(ctx)
	defer stop()
	input := &sqs.SendMessageInput{QueueUrl: &to, MessageBody: &m.Body, MessageAttributes: m.attributes}
	if m.Group != "" {
		// A new deduplication ID marks a redrive. With the sender's own ID, the loop would drop the message as a
		// duplicate if the instance has applied a later send of the same sender.
		input.MessageGroupId, input.MessageDeduplicationId = &m.Group, aws.String("redrive-"+m.ID)
	}
	if m.trace != "" {
		input.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{
			"AWSTraceHeader": {DataType: aws.String("String"), StringValue: &m.trace},
		}
	}
	if _, err := r.client.SendMessage(ctx, input); err != nil {
		return fmt.Errorf("sending message %s of %s to %s: %w", m.ID, m.Group, to, err)
	}
	if err := r.Delete(ctx, m); err != nil {
		return fmt.Errorf("message %s was sent to %s, but is still parked: %w", m.ID, to, err)
	}
	return nil
}

// Drop deletes the chosen messages, and returns how many it deleted.
func (r *Reader) Drop(ctx context.Context, chosen func(*Message) bool, each func()) (dropped int, err error) {
	for m, err := range r.All(ctx) {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return dropped, err
		}
		if !chosen(m) {
			continue
		}
		if err := r.Delete(ctx, m); err != nil {
			return dropped, err
		}
		dropped++
		each()
	}
	return dropped, nil
}
