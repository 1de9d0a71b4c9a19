package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Queues are the dead-letter queues of a stack.
type Queues struct {
	Client *sqs.Client
	URLs   []string
	// Sources maps the URL of each dead-letter queue to the URL of the queue that receives its redriven messages. Only
	// Redrive uses it.
	Sources map[string]string
}

// ErrNotOffered is returned if no queue offers the message. The message may be in flight or gone, or a FIFO queue holds
// it back.
var ErrNotOffered = errors.New("no dead-letter queue offers the message now")

// Count returns the approximate number of messages in the queues. It makes one request for each queue.
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

// Read returns up to `limit` messages that the queues offer, and makes them visible again. If a queue cannot be read, it
// returns the messages of the others, and the error.
func (q Queues) Read(ctx context.Context, limit int) ([]*Message, error) {
	var messages []*Message
	var failures []error
	for _, url := range q.URLs {
		found, err := readQueue(ctx, NewReader(q.Client, url, HiddenLook), limit-len(messages))
		messages = append(messages, found...)
		failures = append(failures, err)
	}
	return messages, errors.Join(failures...)
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

// Redrive sends the message with the ID to the source of its queue, and deletes it from the dead-letter queue. It fails
// with ErrNotOffered, or as Reader.Redrive does.
func (q Queues) Redrive(ctx context.Context, id string) error {
	return q.change(ctx, id, func(ctx context.Context, r *Reader, chosen func(*Message) bool, done func()) error {
		to, known := q.Sources[r.URL()]
		if !known {
			return fmt.Errorf("no source is configured for the dead-letter queue %s", r.URL())
		}
		_, err := r.Redrive(ctx, to, chosen, done)
		return err
	})
}

// Drop deletes the message with the ID. It fails with ErrNotOffered, or as Reader.Drop does.
func (q Queues) Drop(ctx context.Context, id string) error {
	return q.change(ctx, id, func(ctx context.Context, r *Reader, chosen func(*Message) bool, done func()) error {
		_, err := r.Drop(ctx, chosen, done)
		return err
	})
}

// change calls its function argument for each queue until the message is found, even if another queue fails. When the
// function has changed the message, it calls `done`, which ends its context.
func (q Queues) change(ctx context.Context, id string, change func(ctx context.Context, r *Reader, chosen func(*Message) bool, done func()) error) error {
	var failures []error
	for _, url := range q.URLs {
		r, changed := NewReader(q.Client, url, Hidden), false
		within, stop := context.WithCancel(ctx)
		err := change(within, r, func(m *Message) bool { return m.ID == id }, func() { changed = true; stop() })
		stop()
		if changed {
			err = nil // The error only says that the context has ended.
		}
		if err = errors.Join(err, r.Close(ctx)); changed {
			return err
		}
		failures = append(failures, err)
	}
	return cmp.Or(errors.Join(failures...), ErrNotOffered)
}
