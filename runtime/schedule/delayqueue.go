package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/internal/plainjson"
)

// HopMax is the longest delay of one SQS message.
const HopMax = 15 * time.Minute

// Client is the part of the SQS client that a DelayQueue uses. *sqs.Client implements it.
type Client interface {
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
}

// DelayQueue implements durable.Timers on a standard SQS queue. A Forwarder must handle its messages. It is safe for
// concurrent use.
type DelayQueue struct {
	client Client
	url    string
	now    func() time.Time
}

var _ durable.Timers = (*DelayQueue)(nil)

// NewDelayQueue returns the delay queue with the given URL. The delay queue computes delays with the clock `now`.
func NewDelayQueue(client Client, url string, now func() time.Time) *DelayQueue {
	return &DelayQueue{client: client, url: url, now: now}
}

// Schedule ensures that the message is sent to the FIFO queue, no earlier than `at`. If `at` has passed, the message is
// sent immediately. Errors wrap durable.ErrRefused or durable.ErrDenied. After any other error, the message may or may
// not be sent.
func (q *DelayQueue) Schedule(ctx context.Context, at time.Time, message durable.Message) error {
	return q.put(ctx, delay(ctx, at, message))
}

// Cancel does nothing: a queued message cannot be removed.
func (q *DelayQueue) Cancel(context.Context, string) error { return nil }

// put sends the message to the delay queue, for one hop.
func (q *DelayQueue) put(ctx context.Context, message delayed) error {
	body, err := plainjson.Marshal(message)
	if err != nil {
		return fmt.Errorf("delaying %s to %s: %w", message.DeduplicationID, message.To, err)
	}
	_, err = q.client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl:     &q.url,
		MessageBody:  aws.String(string(body)),
		DelaySeconds: hopSeconds(message.At.Sub(q.now())),
	})
	if err != nil {
		return fmt.Errorf("delaying %s to %s at %s: %w", message.DeduplicationID, message.To, q.url, classify(err))
	}
	return nil
}

// hopSeconds returns the delay of the next hop in seconds. It rounds up, so that no message arrives just before it is
// due and needs another hop.
func hopSeconds(rest time.Duration) int32 {
	return int32((min(max(rest, 0), HopMax) + time.Second - 1) / time.Second)
}
