package sqsqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

const deleteURL = "http://aws.local/q.fifo"

// deleting is an SQS client that deletes messages, except those with a receipt in `failed`. A call with a receipt in
// `lost` deletes nothing and returns that receipt's error.
type deleting struct {
	failed map[string]types.BatchResultErrorEntry
	lost   map[string]error
	// deleted lists the deleted receipts, by call.
	deleted [][]string
}

func (d *deleting) DeleteMessageBatch(_ context.Context, input *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	if url := aws.ToString(input.QueueUrl); url != deleteURL {
		return nil, fmt.Errorf("got the queue %q, want %q", url, deleteURL)
	}
	output := &sqs.DeleteMessageBatchOutput{}
	var deleted []string
	for _, entry := range input.Entries {
		receipt := aws.ToString(entry.ReceiptHandle)
		if err := d.lost[receipt]; err != nil {
			return nil, err
		}
		if failure, isFailed := d.failed[receipt]; isFailed {
			failure.Id = entry.Id
			output.Failed = append(output.Failed, failure)
			continue
		}
		deleted = append(deleted, receipt)
	}
	d.deleted = append(d.deleted, deleted)
	return output, nil
}

// received returns n deliveries, m0 with the receipt r0, m1 with r1 and so on.
func received(n int) (deliveries []durable.Delivery) {
	for i := range n {
		deliveries = append(deliveries, durable.Delivery{MessageID: fmt.Sprint("m", i), ReceiptHandle: fmt.Sprint("r", i)})
	}
	return deliveries
}

func TestAcknowledgingDeletesTenMessagesACall(t *testing.T) {
	t.Parallel()
	client := &deleting{}
	if err := sqsqueue.NewAcknowledger(client, deleteURL).Acknowledge(t.Context(), received(12)); err != nil {
		t.Error(err)
	}
	want := [][]string{{"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9"}, {"r10", "r11"}}
	if !slices.EqualFunc(client.deleted, want, slices.Equal) {
		t.Errorf("deleted %q, want %q", client.deleted, want)
	}
}

func TestAcknowledgeNamesTheFailedEntriesAndDeletesTheOthers(t *testing.T) {
	t.Parallel()
	client := &deleting{failed: map[string]types.BatchResultErrorEntry{
		"r1":  {Code: aws.String("ReceiptHandleIsInvalid"), Message: aws.String("it is not valid"), SenderFault: true},
		"r11": {Code: aws.String("InternalError"), Message: aws.String("try later")},
	}}
	err := sqsqueue.NewAcknowledger(client, deleteURL).Acknowledge(t.Context(), received(13))
	if !errors.Is(err, sqsqueue.ErrExpired) {
		t.Errorf("got %v, want ErrExpired for an invalid receipt", err)
	}
	lines := strings.Split(fmt.Sprint(err), "\n")
	want := [][2]string{{"deleting message m1 of " + deleteURL + ": ", "it is not valid"}, {"deleting message m11 of " + deleteURL + ": ", "InternalError: try later"}}
	if !slices.EqualFunc(lines, want, func(line string, parts [2]string) bool {
		return strings.HasPrefix(line, parts[0]) && strings.Contains(line, parts[1])
	}) {
		t.Errorf("got the errors %q, want the errors of m1 and m11: %q", lines, want)
	}
	if deleted := slices.Concat(client.deleted...); !slices.Equal(deleted, strings.Fields("r0 r2 r3 r4 r5 r6 r7 r8 r9 r10 r12")) {
		t.Errorf("deleted %q, want all but r1 and r11", deleted)
	}
}

func TestAcknowledgeContinuesAfterAFailedCall(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection lost")
	client := &deleting{lost: map[string]error{"r3": broken}}
	err := sqsqueue.NewAcknowledger(client, deleteURL).Acknowledge(t.Context(), received(12))
	if !errors.Is(err, broken) || !strings.HasPrefix(fmt.Sprint(err), "deleting 10 messages of "+deleteURL+": ") {
		t.Errorf("got %v, want that deleting 10 messages failed with %q", err, broken)
	}
	if want := [][]string{{"r10", "r11"}}; !slices.EqualFunc(client.deleted, want, slices.Equal) {
		t.Errorf("deleted %q, want %q", client.deleted, want)
	}
}
