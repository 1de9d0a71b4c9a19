package conformance_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func createFIFOAttrs(t *testing.T, w *world) {
	given := map[string]string{
		"FifoQueue": "true", "ContentBasedDeduplication": "true", "DeduplicationScope": "messageGroup",
		"FifoThroughputLimit": "perMessageGroupId", "VisibilityTimeout": "360", "MessageRetentionPeriod": "1209600",
	}
	maps.Copy(given, redriveTo(w.fifo(t, nil), 5))
	q := w.queue(t, w.name()+".fifo", given)
	got := q.attributes(types.QueueAttributeNameAll)
	for name, value := range given {
		if name == "RedrivePolicy" {
			want(t, name, fromJSON(t, value), fromJSON(t, got[name]))
			continue
		}
		want(t, name, value, got[name])
	}
	want(t, "DelaySeconds", "0", got["DelaySeconds"])
	want(t, "the end of QueueArn", ":"+q.name, got["QueueArn"][strings.LastIndexByte(got["QueueArn"], ':'):])
	want(t, "asked for one", map[string]string{"VisibilityTimeout": "360"}, q.attributes("VisibilityTimeout"))
}

func fromJSON(t *testing.T, text string) (value map[string]any) {
	t.Helper()
	must(t, "reading "+text, json.Unmarshal([]byte(text), &value))
	return value
}

func createIdempotent(t *testing.T, w *world) {
	q := w.fifo(t, map[string]string{"VisibilityTimeout": "60"})
	create := func(visibility string) (*sqs.CreateQueueOutput, error) {
		return w.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{
			QueueName: &q.name, Attributes: map[string]string{"FifoQueue": "true", "VisibilityTimeout": visibility}})
	}
	out, err := create("60")
	must(t, "the same attributes", err)
	want(t, "QueueUrl", q.url, *out.QueueUrl)
	_, err = create("61")
	wantCode(t, "another attribute", err, "QueueNameExists", "QueueAlreadyExists")
}

func errNoSuchQueue(t *testing.T, w *world) {
	absent := w.queue(t, w.name(), nil)
	_, err := w.sqs.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &absent.url})
	must(t, "DeleteQueue", err)
	_, err = w.sqs.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &absent.name})
	wantAs(t, "GetQueueUrl", err, new(*types.QueueDoesNotExist))
	_, err = w.sqs.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &absent.url, MessageBody: aws.String("x")})
	wantAs(t, "SendMessage", err, new(*types.QueueDoesNotExist))
	_, err = absent.tryReceive(t.Context())
	wantAs(t, "ReceiveMessage", err, new(*types.QueueDoesNotExist))
}

func errFIFOParams(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	for _, test := range []struct {
		what   string
		change func(*sqs.SendMessageInput)
		code   string
	}{
		{"no group", func(in *sqs.SendMessageInput) { in.MessageGroupId = nil }, "MissingParameter"},
		{"no deduplication ID", func(in *sqs.SendMessageInput) { in.MessageDeduplicationId = nil }, "InvalidParameterValue"},
		{"a delay", func(in *sqs.SendMessageInput) { in.DelaySeconds = 5 }, "InvalidParameterValue"},
		{"a group with a space", func(in *sqs.SendMessageInput) { in.MessageGroupId = aws.String("a b") }, "InvalidParameterValue"},
		{"a group of 129 characters", func(in *sqs.SendMessageInput) { in.MessageGroupId = aws.String(strings.Repeat("a", 129)) }, "InvalidParameterValue"},
	} {
		in := q.message("a", "a1")
		test.change(in)
		_, err := w.sqs.SendMessage(t.Context(), in)
		wantCode(t, test.what, err, test.code)
	}
	wantBodies(t, q.receive())
	for _, test := range []struct {
		what, name string
		attributes map[string]string
	}{
		{"a FIFO queue without .fifo", w.name(), map[string]string{"FifoQueue": "true"}},
		{"a standard queue with .fifo", w.name() + ".fifo", nil},
		{"a dot in the name", w.name() + ".b.fifo", map[string]string{"FifoQueue": "true"}},
		{"81 characters", strings.Repeat("a", 76) + ".fifo", map[string]string{"FifoQueue": "true"}},
	} {
		_, err := w.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &test.name, Attributes: test.attributes})
		wantCode(t, test.what, err, "InvalidParameterValue")
	}
}

func approximateCounts(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1", "a2", "b1", "c1")
	q.wantCounts(4, 0, 0)
	batch := q.receive(upTo(3), visible(2))
	received := time.Now()
	q.wantCounts(1, 3, 0)
	q.delete(batch[0])
	q.wantCounts(1, 2, 0)
	w.until(received.Add(2 * time.Second))
	q.wantCounts(3, 0, 0)
}

func setAttributes(t *testing.T, w *world) {
	q := w.fifo(t, map[string]string{"VisibilityTimeout": "8"})
	q.sendAll("a1", "b1")
	q.receiveOne("a1")
	first := time.Now()
	q.setAttribute("VisibilityTimeout", "2")
	want(t, "VisibilityTimeout", "2", q.attributes("VisibilityTimeout")["VisibilityTimeout"])
	q.receiveOne("b1")
	second := time.Now()
	w.untilJustBefore(t, second.Add(2*time.Second))
	wantBodies(t, q.receive(upTo(10)))
	w.until(second.Add(2 * time.Second))
	q.receiveOne("b1", upTo(10), visible(60))
	w.untilJustBefore(t, first.Add(8*time.Second))
	wantBodies(t, q.receive(upTo(10)))
	w.until(first.Add(8 * time.Second))
	q.receiveOne("a1", upTo(10))
}

func queueDelay(t *testing.T, w *world) {
	q := w.fifo(t, map[string]string{"DelaySeconds": "2"})
	q.sendAll("a1")
	sent := time.Now()
	q.wantCounts(0, 0, 1)
	wantBodies(t, q.receive())
	q.wantPolled(q.poll(t.Context()), sent.Add(2*time.Second), "a1")
}

func purgeDeleteQueue(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1", "b1")
	q.receiveOne("a1")
	_, err := w.sqs.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &q.url})
	must(t, "PurgeQueue", err)
	q.wantCounts(0, 0, 0)
	q.sendAll("a2")
	q.receiveOne("a2", upTo(10))
	_, err = w.sqs.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &q.url})
	wantCode(t, "a second purge within a minute", err, "PurgeQueueInProgress")

	_, err = w.sqs.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &q.url})
	must(t, "DeleteQueue", err)
	_, err = q.tryReceive(t.Context())
	wantAs(t, "ReceiveMessage", err, new(*types.QueueDoesNotExist))
	create := func() error {
		_, err := w.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &q.name, Attributes: map[string]string{"FifoQueue": "true"}})
		return err
	}
	wantCode(t, "the same name within a minute", create(), "QueueDeletedRecently")
	if w.virtual() {
		time.Sleep(time.Minute)
		must(t, "the same name after a minute", create())
		wantBodies(t, q.receive(upTo(10)))
	}
}

func listTags(t *testing.T, w *world) {
	prefix := w.name()
	for _, name := range []string{"-b", "-a", "-c"} {
		w.queue(t, prefix+name, nil)
	}
	w.queue(t, w.name(), nil)
	var urls []string
	pages := sqs.NewListQueuesPaginator(w.sqs, &sqs.ListQueuesInput{QueueNamePrefix: &prefix, MaxResults: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		must(t, "ListQueues", err)
		if len(page.QueueUrls) > 2 {
			t.Fatalf("a page of %d, want at most 2", len(page.QueueUrls))
		}
		urls = append(urls, page.QueueUrls...)
	}
	listed := map[string]bool{}
	for _, url := range urls {
		listed[url[strings.LastIndexByte(url, '/')+1:]] = true
	}
	want(t, "queues", map[string]bool{prefix + "-a": true, prefix + "-b": true, prefix + "-c": true}, listed)
	want(t, "URLs", 3, len(urls))

	url := urls[0]
	_, err := w.sqs.TagQueue(t.Context(), &sqs.TagQueueInput{QueueUrl: &url, Tags: map[string]string{"a": "1", "b": "2"}})
	must(t, "TagQueue", err)
	_, err = w.sqs.UntagQueue(t.Context(), &sqs.UntagQueueInput{QueueUrl: &url, TagKeys: []string{"a"}})
	must(t, "UntagQueue", err)
	out, err := w.sqs.ListQueueTags(t.Context(), &sqs.ListQueueTagsInput{QueueUrl: &url})
	must(t, "ListQueueTags", err)
	want(t, "tags", map[string]string{"b": "2"}, out.Tags)
}
