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

	"github.com/settle-run/settle/runtime/awslocal"
)

func TestSQS_create_fifo_attrs(t *testing.T) {
	t.Parallel()
	cloud := awslocal.New(awslocal.Config{})
	addFIFO(t, cloud, "dead.fifo", nil)
	given := map[string]string{
		"FifoQueue": "true", "ContentBasedDeduplication": "true", "DeduplicationScope": "messageGroup",
		"FifoThroughputLimit": "perMessageGroupId", "VisibilityTimeout": "360",
		"MessageRetentionPeriod": "1209600", "RedrivePolicy": redrivePolicy("dead.fifo", 5),
	}
	q := addQueue(t, cloud, "queue.fifo", given)
	want := map[string]string{
		"DelaySeconds": "0", "ReceiveMessageWaitTimeSeconds": "0", "MaximumMessageSize": "1048576",
		"SqsManagedSseEnabled": "true", "QueueArn": "arn:aws:sqs:us-east-1:000000000000:queue.fifo",
		"ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesNotVisible": "0",
		"ApproximateNumberOfMessagesDelayed": "0",
	}
	for name, value := range given {
		want[name] = value
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

func TestSQS_create_idempotent(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, map[string]string{"VisibilityTimeout": "60"})
	create := func(attributes map[string]string) (*sqs.CreateQueueOutput, error) {
		return q.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &q.name, Attributes: attributes})
	}
	out, err := create(map[string]string{"FifoQueue": "true", "VisibilityTimeout": "60"})
	if err != nil || *out.QueueUrl != q.url {
		t.Fatalf("with the same attributes: %v, %v; want %s", out, err, q.url)
	}
	_, err = create(map[string]string{"FifoQueue": "true", "VisibilityTimeout": "61"})
	wantCode(t, err, "QueueNameExists", "QueueAlreadyExists")
}

func TestSQS_err_no_such_queue(t *testing.T) {
	t.Parallel()
	client := newClient(awslocal.New(awslocal.Config{}))
	_, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("absent")})
	wantAs(t, err, new(*types.QueueDoesNotExist))
	_, err = client.SendMessage(t.Context(), &sqs.SendMessageInput{
		QueueUrl: aws.String("http://aws.local/000000000000/absent"), MessageBody: aws.String("x"),
	})
	wantAs(t, err, new(*types.QueueDoesNotExist))
}

func TestSQS_err_fifo_params(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	for name, test := range map[string]struct {
		in   sqs.SendMessageInput
		code string
	}{
		"no group":  {sqs.SendMessageInput{MessageDeduplicationId: aws.String("1")}, "MissingParameter"},
		"no dedup":  {sqs.SendMessageInput{MessageGroupId: aws.String("a")}, "InvalidParameterValue"},
		"delay":     {sqs.SendMessageInput{MessageGroupId: aws.String("a"), MessageDeduplicationId: aws.String("1"), DelaySeconds: 5}, "InvalidParameterValue"},
		"bad group": {sqs.SendMessageInput{MessageGroupId: aws.String("a b"), MessageDeduplicationId: aws.String("1")}, "InvalidParameterValue"},
		"long group": {sqs.SendMessageInput{MessageGroupId: aws.String(strings.Repeat("a", 129)),
			MessageDeduplicationId: aws.String("1")}, "InvalidParameterValue"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.in.QueueUrl, test.in.MessageBody = &q.url, aws.String("body")
			_, err := q.client.SendMessage(t.Context(), &test.in)
			wantCode(t, err, test.code)
		})
	}
	for name, attributes := range map[string]map[string]string{
		"name": {"FifoQueue": "true"}, "other.fifo": nil, "a.b.fifo": {"FifoQueue": "true"},
		".fifo": {"FifoQueue": "true"}, strings.Repeat("a", 76) + ".fifo": {"FifoQueue": "true"},
	} {
		_, err := q.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		wantCode(t, err, "InvalidParameterValue")
	}
}

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

func TestSQS_approximate_counts(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	q.sendAll("a1", "a2", "b1", "c1")
	q.receive(upTo(3))
	got := q.attributes("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed")
	want := map[string]string{"ApproximateNumberOfMessages": "1", "ApproximateNumberOfMessagesNotVisible": "3",
		"ApproximateNumberOfMessagesDelayed": "0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("counts (-want +got):\n%s", diff)
	}
}

func TestSQS_set_attributes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, map[string]string{"VisibilityTimeout": "30"})
		q.sendAll("a1", "b1")
		q.receive()
		_, err := q.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{
			QueueUrl: &q.url, Attributes: map[string]string{"VisibilityTimeout": "5"},
		})
		if err != nil {
			t.Fatal(err)
		}
		wantBodies(t, q.receive(), "b1")
		time.Sleep(5 * time.Second)
		wantBodies(t, q.receive(upTo(10)), "b1")
		time.Sleep(25 * time.Second)
		wantBodies(t, q.receive(upTo(10)), "a1", "b1")
	})
}

func TestSQS_queue_delay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, map[string]string{"DelaySeconds": "2"})
		start := time.Now()
		q.sendAll("a1")
		if got := q.attributes("ApproximateNumberOfMessagesDelayed"); got["ApproximateNumberOfMessagesDelayed"] != "1" {
			t.Fatalf("delayed: %v, want 1", got)
		}
		wantBodies(t, q.receive())
		wantBodies(t, q.receive(waiting(20)), "a1")
		wantElapsed(t, start, 2*time.Second)
	})
}

func TestSQS_queue_delay_changed_holds_for_delayed_messages(t *testing.T) {
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
		// The end of a1 unlocks the group, a1 being in flight.
		start := time.Now()
		wantBodies(t, q.receive(waiting(20)), "a2")
		wantElapsed(t, start, 10*time.Second)
	})
}

func TestSQS_purge_delete_queue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1", "b1")
		q.receive()
		purge := func() error {
			_, err := q.client.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &q.url})
			return err
		}
		if err := purge(); err != nil {
			t.Fatal(err)
		}
		wantCode(t, purge(), "PurgeQueueInProgress", "AWS.SimpleQueueService.PurgeQueueInProgress")
		q.sendAll("a2")
		wantBodies(t, q.receive(upTo(10)), "a2")
		time.Sleep(time.Minute)
		if err := purge(); err != nil {
			t.Fatal(err)
		}

		if _, err := q.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &q.url}); err != nil {
			t.Fatal(err)
		}
		_, err := q.tryReceive(t.Context())
		wantAs(t, err, new(*types.QueueDoesNotExist))
		create := func() error {
			_, err := q.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{
				QueueName: &q.name, Attributes: map[string]string{"FifoQueue": "true"}})
			return err
		}
		wantCode(t, create(), "QueueDeletedRecently", "AWS.SimpleQueueService.QueueDeletedRecently")
		time.Sleep(time.Minute)
		if err := create(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSQS_list_tags(t *testing.T) {
	t.Parallel()
	cloud := awslocal.New(awslocal.Config{})
	for _, name := range []string{"job-b", "job-a", "job-c", "signup"} {
		addQueue(t, cloud, name, nil)
	}
	client := newClient(cloud)
	var urls []string
	pages := sqs.NewListQueuesPaginator(client, &sqs.ListQueuesInput{
		QueueNamePrefix: aws.String("job-"), MaxResults: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(page.QueueUrls) > 2 {
			t.Fatalf("a page of %d, want at most 2", len(page.QueueUrls))
		}
		urls = append(urls, page.QueueUrls...)
	}
	const base = "http://aws.local/000000000000/"
	if diff := cmp.Diff([]string{base + "job-a", base + "job-b", base + "job-c"}, urls); diff != "" {
		t.Fatalf("queues (-want +got):\n%s", diff)
	}

	url := urls[0]
	if _, err := client.TagQueue(t.Context(), &sqs.TagQueueInput{QueueUrl: &url, Tags: map[string]string{"a": "1", "b": "2"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UntagQueue(t.Context(), &sqs.UntagQueueInput{QueueUrl: &url, TagKeys: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	out, err := client.ListQueueTags(t.Context(), &sqs.ListQueueTagsInput{QueueUrl: &url})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"b": "2"}, out.Tags); diff != "" {
		t.Fatalf("tags (-want +got):\n%s", diff)
	}
}

func TestSQS_standard_queue_delays_messages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := addQueue(t, awslocal.New(awslocal.Config{}), "delays", nil)
		send := func(body string, delay int32) error {
			_, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{
				QueueUrl: &q.url, MessageBody: &body, DelaySeconds: delay})
			return err
		}
		for body, delay := range map[string]int32{"late": 900, "soon": 5} {
			if err := send(body, delay); err != nil {
				t.Fatal(err)
			}
		}
		wantCode(t, send("too late", 901), "InvalidParameterValue")
		start := time.Now()
		wantBodies(t, q.receive(upTo(10)))
		wantBodies(t, q.receive(upTo(10), waiting(20)), "soon")
		wantElapsed(t, start, 5*time.Second)
		time.Sleep(895*time.Second - time.Nanosecond)
		q.delete(q.receive()...) // "soon", redelivered
		wantBodies(t, q.receive(upTo(10)))
		time.Sleep(time.Nanosecond)
		wantBodies(t, q.receive(upTo(10)), "late")
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
		q.delete(first) // expired, not received again: a standard queue deletes
		time.Sleep(time.Minute)
		wantBodies(t, q.receive(upTo(10)), "same", "same")
		_, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &q.url, MessageBody: aws.String("x"), MessageDeduplicationId: aws.String("x")})
		wantCode(t, err, "InvalidParameterValue")
	})
}

func TestSQS_the_same_calls_give_the_same_answers(t *testing.T) {
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
