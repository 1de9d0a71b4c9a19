package awslocal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/infra/awslocal"
)

func TestSQS_batch_of_several_groups_in_queue_order(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	q.sendAll("a1", "b1", "a2", "c1")
	wantBodies(t, q.receive(upTo(10)), "a1", "b1", "a2", "c1")
}

func TestSQS_change_visibility_beyond_12_hours_is_rejected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1")
		m := q.receive(visible(100))[0]
		time.Sleep(time.Second)
		for seconds, code := range map[int32]string{43201: "InvalidParameterValue", 43200: "InvalidParameterValue", -1: "InvalidParameterValue"} {
			_, err := q.client.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{
				QueueUrl: &q.url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds,
			})
			wantCode(t, err, code)
		}
		q.setVisibility(m, 43199)
	})
}

func TestSQS_change_visibility_batch(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	q.sendAll("a1", "b1")
	batch := q.receive(upTo(10))
	id := []string{"one", "two", "bad"}
	garbage := "garbage"
	out, err := q.client.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{
		QueueUrl: &q.url,
		Entries: []types.ChangeMessageVisibilityBatchRequestEntry{
			{Id: &id[0], ReceiptHandle: batch[0].ReceiptHandle, VisibilityTimeout: 0},
			{Id: &id[1], ReceiptHandle: batch[1].ReceiptHandle, VisibilityTimeout: 60},
			{Id: &id[2], ReceiptHandle: &garbage},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Successful) != 2 || len(out.Failed) != 1 || *out.Failed[0].Id != "bad" ||
		*out.Failed[0].Code != "ReceiptHandleIsInvalid" {
		t.Fatalf("got %+v", out)
	}
	wantBodies(t, q.receive(upTo(10)), "a1")
}

func TestKeep_scan_limit_after_a_restart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := awslocal.Config{Data: t.TempDir(), FIFOScanMessagesMax: 3}
		cloud, err := awslocal.Open(config)
		if err != nil {
			t.Fatal(err)
		}
		q := addFIFO(t, cloud, "queue.fifo", nil)
		q.sendAll("c1", "a1", "a2", "a3", "b1")
		hot := q.receive(upTo(3), visible(600))
		wantBodies(t, hot, "c1", "a1", "a2")
		q.delete(hot[0])
		if err := cloud.Close(); err != nil {
			t.Fatal(err)
		}

		cloud, err = awslocal.Open(config)
		if err != nil {
			t.Fatal(err)
		}
		defer cloud.Close()
		q.client = newClient(cloud)
		wantBodies(t, q.receive(upTo(10))) // a1, a2 and a3 are in front of b1
		q.delete(hot[1])
		wantBodies(t, q.receive(upTo(10)), "b1")
	})
}
