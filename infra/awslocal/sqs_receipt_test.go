package awslocal_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func TestSQS_batch_send_entry_fails_alone(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	out, err := q.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{
		QueueUrl: &q.url,
		Entries: []types.SendMessageBatchRequestEntry{
			{Id: aws.String("no-group"), MessageBody: aws.String("x"), MessageDeduplicationId: aws.String("x")},
			{Id: aws.String("good"), MessageBody: aws.String("b1"), MessageGroupId: aws.String("b"), MessageDeduplicationId: aws.String("b1")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Successful) != 1 || *out.Successful[0].Id != "good" || len(out.Failed) != 1 ||
		*out.Failed[0].Id != "no-group" || *out.Failed[0].Code != "MissingParameter" || !out.Failed[0].SenderFault {
		t.Fatalf("got %+v", out)
	}
	wantBodies(t, q.receive(), "b1")
}

func TestSQS_malformed_batches_are_rejected(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	half := strings.Repeat("x", 1<<19+1)
	entry := func(id, body string) types.SendMessageBatchRequestEntry {
		return types.SendMessageBatchRequestEntry{
			Id: &id, MessageBody: &body, MessageGroupId: aws.String("a"), MessageDeduplicationId: &id}
	}
	for code, entries := range map[string][]types.SendMessageBatchRequestEntry{
		"EmptyBatchRequest":   {},
		"InvalidBatchEntryId": {entry("not an id", "x")},
		"BatchRequestTooLong": {entry("1", half), entry("2", half)},
	} {
		_, err := q.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &q.url, Entries: entries})
		wantCode(t, err, code, "AWS.SimpleQueueService."+code)
	}
}

func TestSQS_change_visibility_with_a_stale_handle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1")
		change := func(m types.Message) error {
			_, err := q.client.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{
				QueueUrl: &q.url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 9,
			})
			return err
		}
		first := q.receive(visible(1))[0]
		time.Sleep(time.Second)
		wantCode(t, change(first), "MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight")
		second := q.receive()[0]
		wantCode(t, change(first), "InvalidParameterValue")
		wantCode(t, q.tryDelete(first), "InvalidParameterValue")
		time.Sleep(29 * time.Second)
		q.delete(second) // the rejected calls have not changed its timeout
	})
}

func TestSQS_forged_receipt_handle(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	q.sendAll("a1")
	m := q.receive()[0]
	forged := "A" + (*m.ReceiptHandle)[1:]
	m.ReceiptHandle = aws.String(forged[:4] + "B" + forged[5:])
	wantCode(t, q.tryDelete(m), "ReceiptHandleIsInvalid")
}

func TestSQS_receive_attempt_id_is_invalid_after_a_change(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1", "a2")
		attempt := func(id string) option {
			return func(in *sqs.ReceiveMessageInput) { in.ReceiveRequestAttemptId = &id }
		}
		q.receive(upTo(2), attempt("one"), visible(30))
		time.Sleep(20 * time.Second)
		again := q.receive(upTo(2), attempt("one"), visible(30))
		wantBodies(t, again, "a1", "a2")
		time.Sleep(29 * time.Second)
		q.delete(again[0]) // the retry has restarted the visibility timeout
		wantBodies(t, q.receive(upTo(2), attempt("one")))
		q.delete(again[1])

		q.sendAll("c1")
		q.receive(attempt("two"))
		q.setVisibility(q.receive(attempt("two"))[0], 45)
		wantBodies(t, q.receive(attempt("two")))
	})
}
