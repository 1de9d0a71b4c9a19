package awslocal_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/awslocal"
)

func TestSQS_old_receipt_handle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1")
		old := q.receive(visible(1))[0]
		time.Sleep(time.Second)
		wantBodies(t, q.receive(), "a1")
		wantCode(t, q.tryDelete(old), "InvalidParameterValue")
		_, err := q.client.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{
			QueueUrl: &q.url, ReceiptHandle: old.ReceiptHandle, VisibilityTimeout: 0,
		})
		wantCode(t, err, "InvalidParameterValue")
		time.Sleep(time.Minute)
		latest := q.receive()
		wantBodies(t, latest, "a1")
		q.delete(latest...)
	})
}

func TestSQS_expired_receipt_handle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1")
		expired := q.receive(visible(1))[0]
		time.Sleep(time.Second)
		wantCode(t, q.tryDelete(expired), "InvalidParameterValue")
		_, err := q.client.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{
			QueueUrl: &q.url, ReceiptHandle: expired.ReceiptHandle, VisibilityTimeout: 9,
		})
		wantCode(t, err, "MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight")
		wantBodies(t, q.receive(), "a1")
	})
}

func TestSQS_delete_twice(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	q.sendAll("a1", "a2")
	a1 := q.receive()[0]
	q.delete(a1)
	q.delete(a1)
	wantBodies(t, q.receive(), "a2")
}

func TestSQS_bad_receipt_handle(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	other := addFIFO(t, q.cloud, "other.fifo", nil)
	other.sendAll("a1")
	elsewhere := other.receive()[0]
	for _, handle := range []string{"garbage", "Z2FyYmFnZQ==", *elsewhere.ReceiptHandle, "A" + (*elsewhere.ReceiptHandle)[1:]} {
		wantCode(t, q.tryDelete(types.Message{ReceiptHandle: &handle}), "ReceiptHandleIsInvalid")
	}
}

func TestSQS_batch_send(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	entries := func(n int) []types.SendMessageBatchRequestEntry {
		var all []types.SendMessageBatchRequestEntry
		for i := range n {
			all = append(all, types.SendMessageBatchRequestEntry{
				Id: aws.String(fmt.Sprint("id", i)), MessageBody: aws.String(fmt.Sprint("a", i)),
				MessageGroupId: aws.String("a"), MessageDeduplicationId: aws.String(fmt.Sprint(i)),
			})
		}
		return all
	}
	send := func(entries []types.SendMessageBatchRequestEntry) (*sqs.SendMessageBatchOutput, error) {
		return q.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &q.url, Entries: entries})
	}

	out, err := send(entries(10))
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for i, e := range out.Successful {
		if *e.Id != fmt.Sprint("id", i) || *e.SequenceNumber <= last || len(*e.SequenceNumber) != 20 {
			t.Fatalf("entry %d is %s with sequence number %s after %s", i, *e.Id, *e.SequenceNumber, last)
		}
		last = *e.SequenceNumber
	}
	wantBodies(t, q.receive(upTo(10)), "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9")

	_, err = send(entries(11))
	wantCode(t, err, "TooManyEntriesInBatchRequest", "AWS.SimpleQueueService.TooManyEntriesInBatchRequest")
	_, err = send(append(entries(1), entries(1)...))
	wantCode(t, err, "BatchEntryIdsNotDistinct", "AWS.SimpleQueueService.BatchEntryIdsNotDistinct")
	_, err = send([]types.SendMessageBatchRequestEntry{})
	wantCode(t, err, "EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest")
	bad := entries(1)
	bad[0].Id = aws.String("not an id")
	_, err = send(bad)
	wantCode(t, err, "InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId")
}

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

func TestSQS_batch_delete(t *testing.T) {
	t.Parallel()
	cloud := awslocal.New(awslocal.Config{})
	q := addFIFO(t, cloud, "queue.fifo", nil)
	for i := range 10 {
		q.send("a", fmt.Sprint("a", i))
	}
	var entries []types.DeleteMessageBatchRequestEntry
	for i, m := range q.receive(upTo(10)) {
		entries = append(entries, types.DeleteMessageBatchRequestEntry{
			Id: aws.String(fmt.Sprint("id", i)), ReceiptHandle: m.ReceiptHandle,
		})
	}
	entries[4].ReceiptHandle = aws.String("garbage")
	out, err := q.client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: &q.url, Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Successful) != 9 || len(out.Failed) != 1 || *out.Failed[0].Id != "id4" ||
		*out.Failed[0].Code != "ReceiptHandleIsInvalid" {
		t.Fatalf("got %+v", out)
	}
	if got := q.attributes("ApproximateNumberOfMessagesNotVisible"); got["ApproximateNumberOfMessagesNotVisible"] != "1" {
		t.Fatalf("in flight: %v, want 1", got)
	}
}

func TestSQS_receive_attempt_id(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1", "a2", "b1")
		attempt := func(id string) option {
			return func(in *sqs.ReceiveMessageInput) { in.ReceiveRequestAttemptId = &id }
		}
		first := q.receive(upTo(2), attempt("one"), visible(30))
		wantBodies(t, first, "a1", "a2")
		time.Sleep(20 * time.Second)
		again := q.receive(upTo(2), attempt("one"), visible(30))
		wantBodies(t, again, "a1", "a2")
		if *first[0].ReceiptHandle != *again[0].ReceiptHandle || receiveCount(again[0]) != "1" {
			t.Fatalf("the retry has another handle or count %s", receiveCount(again[0]))
		}
		wantBodies(t, q.receive(upTo(2), attempt("two")), "b1")

		// The retry has begun the visibility time-out anew.
		time.Sleep(29 * time.Second)
		q.delete(again[0])
		// One of the messages is deleted, so this is no retry any more.
		wantBodies(t, q.receive(upTo(2), attempt("one")))
		q.delete(again[1])

		q.sendAll("c1")
		wantBodies(t, q.receive(attempt("three")), "c1")
		c1 := q.receive(attempt("three"))[0]
		q.setVisibility(c1, 45)
		wantBodies(t, q.receive(attempt("three")))
	})
}
