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

// DeleteClient is the part of the SQS client that an Acknowledger uses; *sqs.Client has it.
type DeleteClient interface {
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
}

// Acknowledger implements durable.Acknowledger on a queue. The permission that it needs, sqs:DeleteMessage, is one that an
// event source mapping cannot do without. It is safe for concurrent use.
type Acknowledger struct {
	client DeleteClient
	url    string
}

var _ durable.Acknowledger = (*Acknowledger)(nil)

// NewAcknowledger returns the acknowledger of the queue with the given URL, and of others of its Region that feed the same
// consumer: a delivery says which it is from.
func NewAcknowledger(client DeleteClient, url string) *Acknowledger {
	return &Acknowledger{client: client, url: url}
}

// deleteEntriesMax is how many messages one call deletes.
const deleteEntriesMax = 10

// Acknowledge deletes the deliveries. Lambda deletes them once more with their batch, which SQS takes. Errors name all
// that were not deleted.
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
