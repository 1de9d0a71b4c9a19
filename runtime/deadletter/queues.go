package deadletter

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Queues are the dead-letter queues of a stack, for a reader that only shows their messages.
type Queues struct {
	Client *sqs.Client
	URLs   []string
}

// Count returns about how many messages the queues have. It makes one request for each queue.
func (q Queues) Count(ctx context.Context) (int, error) {
	count := 0
	for _, url := range q.URLs {
		content, err := NewReader(q.Client, url, HiddenLook).Content(ctx)
		if err != nil {
			return 0, err
		}
		count += content.Messages
	}
	return count, nil
}

// Read returns up to `limit` messages that the queues offer, and makes them visible again.
func (q Queues) Read(ctx context.Context, limit int) ([]*Message, error) {
	var messages []*Message
	for _, url := range q.URLs {
		found, err := readQueue(ctx, NewReader(q.Client, url, HiddenLook), limit-len(messages))
		messages = append(messages, found...)
		if err != nil {
			return messages, err
		}
	}
	return messages, nil
}

func readQueue(ctx context.Context, r *Reader, limit int) ([]*Message, error) {
	var messages []*Message
	var failed error
	for m, err := range r.All(ctx) {
		if failed = err; err != nil || len(messages) == limit {
			break
		}
		messages = append(messages, m)
	}
	return messages, errors.Join(failed, r.Close(ctx))
}
