package sqsqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/durable"
)

// DeleteClient is the part of the SQS client that an Acknowledger uses. *sqs.Client implements it.
type DeleteClient interface {
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
}

// Acknowledger implements durable.Acknowledger on a queue. It needs the permission sqs:DeleteMessage. The function's
// role already has this permission, because an event source mapping needs it. Acknowledger is safe for concurrent use.
type Acknowledger struct {
	client DeleteClient
	url    string
}

var _ durable.Acknowledger = (*Acknowledger)(nil)

// NewAcknowledger returns the acknowledger of the queue with the given URL. It also serves other queues of the same
// Region that feed the same consumer: each delivery names its queue.
func NewAcknowledger(client DeleteClient, url string) *Acknowledger {
	return &Acknowledger{client: client, url: url}
}

// deleteEntriesMax is SQS's limit for one DeleteMessageBatch.
const deleteEntriesMax = 10

// Acknowledge deletes the deliveries. Lambda later deletes them again with their batch, which SQS allows. The error
// names every delivery that was not deleted.
func (a *Acknowledger) Acknowledge(ctx context.Context, deliveries []durable.Delivery) error {
	var failures []error
	for chunk := range chunks(deliveries, deleteEntriesMax) {
		url := urlOf(a.url, chunk[0].Queue)
		entries := make([]types.DeleteMessageBatchRequestEntry, len(chunk))
		for i := range chunk {
			entries[i] = types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &chunk[i].ReceiptHandle}
		}
		output, err := a.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: entries})
		if err != nil {
			failures = append(failures, fmt.Errorf("deleting %d messages of %s: %w", len(chunk), url, classify(err)))
			continue
		}
		for _, failed := range output.Failed {
			if i, err := strconv.Atoi(aws.ToString(failed.Id)); err == nil && i < len(chunk) {
				failures = append(failures, fmt.Errorf("deleting message %s of %s: %w", chunk[i].MessageID, url, classify(entryError(failed))))
			}
		}
	}
	return errors.Join(failures...)
}
