package sqsqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/durable"
)

// WaitMax is the longest delay. SQS allows twelve hours from the receipt, and a Lambda invocation may have received
// the message up to fifteen minutes ago.
const WaitMax = 12*time.Hour - 15*time.Minute

// visibilityBatchMax is SQS's limit for one ChangeMessageVisibilityBatch.
const visibilityBatchMax = 10

// Delay hides the deliveries for the given time from now, rounded up to the second and limited to WaitMax. It changes
// them in order. If some fail, it still changes the others. The error names the failed ones: they stay hidden only
// for the queue's visibility timeout.
func (q *Queue) Delay(ctx context.Context, deliveries []durable.Delivery, wait time.Duration) error {
	seconds := int32((min(max(wait, 0), WaitMax) + time.Second - 1) / time.Second)
	var failures []error
	for chunk := range chunks(deliveries, visibilityBatchMax) {
		failures = append(failures, q.delay(ctx, chunk, seconds))
	}
	return errors.Join(failures...)
}

func (q *Queue) delay(ctx context.Context, deliveries []durable.Delivery, seconds int32) error {
	entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, len(deliveries))
	for i, delivery := range deliveries {
		entries[i] = types.ChangeMessageVisibilityBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), ReceiptHandle: aws.String(delivery.ReceiptHandle), VisibilityTimeout: seconds,
		}
	}
	url := urlOf(q.url, deliveries[0].Queue)
	output, err := q.client.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &url, Entries: entries})
	if err != nil {
		return fmt.Errorf("delaying messages %s to %s at %s: %w", deliveries[0].MessageID, deliveries[len(deliveries)-1].MessageID, url, classify(err))
	}
	var failures []error
	for _, failed := range output.Failed {
		id := aws.ToString(failed.Id)
		if i, err := strconv.Atoi(id); err == nil && i >= 0 && i < len(deliveries) {
			id = deliveries[i].MessageID
		}
		failures = append(failures, fmt.Errorf("delaying message %s at %s: %w", id, url, classify(entryError(failed))))
	}
	return errors.Join(failures...)
}
