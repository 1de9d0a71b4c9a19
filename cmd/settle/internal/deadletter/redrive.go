package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Outcome is what became of a redrive.
type Outcome struct {
	// Moved are the messages that are in the queue again, in the order in which they were sent.
	Moved []*Message
	// Again counts those that were parked once more meanwhile, and stay.
	Again int
}

// Redrive sends the chosen messages to the queue with the URL, each with its body, group and attributes, and deletes it
// then. What is parked once more meanwhile is not sent again. If a message cannot be sent or deleted, those behind it in
// its group stay. When ctx ends, what was begun with one message is finished, and the others stay.
//
// Sent twice, because the answer of SQS or of this process was lost, a message is recognised: within five minutes by
// its deduplication ID, later by the attributes that the runtime has parked it with.
func (r *Reader) Redrive(ctx context.Context, to string, chosen func(*Message) bool, each func()) (Outcome, error) {
	var outcome Outcome
	var failures []error
	moved, stuck := map[string]bool{}, map[string]bool{}
	for {
		batch, err := r.Next(ctx)
		if err != nil || len(batch) == 0 {
			return outcome, errors.Join(append(failures, err)...)
		}
		for _, m := range batch {
			origin := m.origin()
			switch {
			case ctx.Err() != nil:
				return outcome, errors.Join(append(failures, ctx.Err())...)
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
	}
}

// move sends a message, then deletes it.
func (r *Reader) move(ctx context.Context, to string, m *Message) error {
	if time.Now().Round(0).Add(holdMargin).After(m.until) {
		return fmt.Errorf("message %s of %s was not sent: its visibility timeout is about to end, as after a sleep of this machine; run the command again", m.ID, m.Group)
	}
	ctx, stop := finishing(ctx)
	defer stop()
	input := &sqs.SendMessageInput{QueueUrl: &to, MessageBody: &m.Body, MessageAttributes: m.attributes}
	if m.Group != "" {
		// Another ID than that of its sender: the loop would take an older one for a repeat.
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

// Drop deletes the chosen messages for good, and returns how many those were.
func (r *Reader) Drop(ctx context.Context, chosen func(*Message) bool, each func()) (dropped int, err error) {
	for {
		batch, err := r.Next(ctx)
		if err != nil || len(batch) == 0 {
			return dropped, err
		}
		for _, m := range batch {
			if ctx.Err() != nil {
				return dropped, ctx.Err()
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
	}
}
