package awslocal_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/infra/awslocal"
)

func TestSQS_attributes_are_checked(t *testing.T) {
	t.Parallel()
	client := newClient(awslocal.New(awslocal.Config{}))
	for _, test := range []struct{ queue, name, value, code string }{
		{"q", "VisibilityTimeout", "43201", "InvalidAttributeValue"},
		{"q", "DelaySeconds", "901", "InvalidAttributeValue"},
		{"q", "MessageRetentionPeriod", "59", "InvalidAttributeValue"},
		{"q", "MaximumMessageSize", "1048577", "InvalidAttributeValue"},
		{"q", "ReceiveMessageWaitTimeSeconds", "x", "InvalidAttributeValue"},
		{"q.fifo", "DeduplicationScope", "group", "InvalidAttributeValue"},
		{"q.fifo", "FifoThroughputLimit", "perMessageGroupId", "InvalidAttributeValue"},
		{"q", "ContentBasedDeduplication", "true", "InvalidAttributeName"},
		{"q", "Policy", "{}", "InvalidAttributeName"},
		{"q", "KmsMasterKeyId", "alias/aws/sqs", "InvalidAttributeName"},
		{"q", "Colour", "red", "InvalidAttributeName"},
	} {
		attributes := map[string]string{test.name: test.value}
		if strings.HasSuffix(test.queue, ".fifo") {
			attributes["FifoQueue"] = "true"
		}
		_, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &test.queue, Attributes: attributes})
		wantCode(t, err, test.code)
		if !strings.Contains(err.Error(), test.name) {
			t.Errorf("the error does not name %s: %v", test.name, err)
		}
	}
}

func TestSQS_changed_queue_delay_applies_to_delayed_messages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, map[string]string{"DelaySeconds": "600"})
		start := time.Now()
		q.sendAll("a1")
		_, err := q.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{
			QueueUrl: &q.url, Attributes: map[string]string{"DelaySeconds": "3"},
		})
		if err != nil {
			t.Fatal(err)
		}
		wantBodies(t, q.receive(waiting(20)), "a1")
		wantElapsed(t, start, 3*time.Second)
	})
}

func TestSQS_retention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, map[string]string{"MessageRetentionPeriod": "60"})
		q.sendAll("a1")
		q.receive(visible(600))
		time.Sleep(50 * time.Second)
		q.sendAll("a2")
		// a1 is in flight. The end of its retention period unlocks the group.
		start := time.Now()
		wantBodies(t, q.receive(waiting(20)), "a2")
		wantElapsed(t, start, 10*time.Second)
	})
}

func TestSQS_standard_queue_has_no_lock_and_no_deduplication(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := addQueue(t, awslocal.New(awslocal.Config{}), "standard", nil)
		for range 3 {
			_, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{
				QueueUrl: &q.url, MessageBody: aws.String("same"), MessageGroupId: aws.String("tenant")})
			if err != nil {
				t.Fatal(err)
			}
		}
		first := q.receive(visible(1))[0]
		wantBodies(t, q.receive(upTo(10)), "same", "same")
		if got := first.Attributes["MessageGroupId"]; got != "tenant" {
			t.Fatalf("MessageGroupId is %q, want tenant", got)
		}
		time.Sleep(time.Second)
		q.delete(first) // A standard queue accepts an expired handle if the message was not received again.
		time.Sleep(time.Minute)
		wantBodies(t, q.receive(upTo(10)), "same", "same")
		_, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &q.url, MessageBody: aws.String("x"), MessageDeduplicationId: aws.String("x")})
		wantCode(t, err, "InvalidParameterValue")
	})
}

func TestSQS_same_calls_return_the_same_answers(t *testing.T) {
	t.Parallel()
	run := func() (answers string) {
		synctest.Test(t, func(t *testing.T) {
			q := newFIFO(t, nil)
			for _, body := range []string{"a1", "b1", "a2"} {
				answers += fmt.Sprintln(*q.send(body[:1], body).MessageId)
			}
			for _, m := range q.receive(upTo(10)) {
				answers += fmt.Sprintln(*m.ReceiptHandle, m.Attributes)
			}
		})
		return answers
	}
	if diff := cmp.Diff(run(), run()); diff != "" {
		t.Fatalf("two runs differ:\n%s", diff)
	}
}

func TestSQS_all_attributes(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	want := map[string]string{
		"DelaySeconds": "0", "ReceiveMessageWaitTimeSeconds": "0", "MaximumMessageSize": "1048576", "VisibilityTimeout": "30",
		"MessageRetentionPeriod": "345600", "SqsManagedSseEnabled": "true", "FifoQueue": "true",
		"ContentBasedDeduplication": "false", "DeduplicationScope": "queue", "FifoThroughputLimit": "perQueue",
		"QueueArn":                    "arn:aws:sqs:us-east-1:000000000000:queue.fifo",
		"ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesNotVisible": "0",
		"ApproximateNumberOfMessagesDelayed": "0",
	}
	got := q.attributes(types.QueueAttributeNameAll)
	for _, name := range []string{"CreatedTimestamp", "LastModifiedTimestamp"} {
		if got[name] == "" {
			t.Errorf("%s is missing", name)
		}
		delete(got, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"FifoQueue": "true"}, q.attributes("FifoQueue", "Policy")); diff != "" {
		t.Errorf("chosen attributes (-want +got):\n%s", diff)
	}
}

// AWS promises increasing numbers only within a queue. A reader must not compare them with the numbers of a deleted
// queue.
func TestSQS_recreated_queue_numbers_its_messages_anew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(awslocal.New(awslocal.Config{}))
		var numbers []string
		for range 2 {
			queue, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("q.fifo"), Attributes: map[string]string{"FifoQueue": "true"}})
			if err != nil {
				t.Fatal(err)
			}
			for _, body := range []string{"a", "b"} {
				sent, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue.QueueUrl, MessageBody: &body, MessageGroupId: aws.String("g"), MessageDeduplicationId: &body})
				if err != nil {
					t.Fatal(err)
				}
				numbers = append(numbers, *sent.SequenceNumber)
			}
			if _, err := client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: queue.QueueUrl}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute + time.Second)
		}
		if numbers[0] != numbers[2] || numbers[1] != numbers[3] || numbers[0] >= numbers[1] {
			t.Errorf("got %v, want the same increasing numbers twice", numbers)
		}
	})
}
