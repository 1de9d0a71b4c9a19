package conformance_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// queue is a queue accessed through the SDK.
type queue struct {
	t    *testing.T
	w    *world
	name string
	url  string
}

// fifo creates a FIFO queue.
func (w *world) fifo(t *testing.T, attributes map[string]string) queue {
	t.Helper()
	all := map[string]string{"FifoQueue": "true"}
	maps.Copy(all, attributes)
	return w.queue(t, w.name()+".fifo", all)
}

func (w *world) queue(t *testing.T, name string, attributes map[string]string) queue {
	t.Helper()
	out, err := w.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	must(t, "CreateQueue", err)
	return queue{t: t, w: w, name: name, url: *out.QueueUrl}
}

// message returns a SendMessage request for a group of a FIFO queue. The body is also the deduplication ID.
func (q queue) message(group, body string) *sqs.SendMessageInput {
	return &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &body, MessageGroupId: &group, MessageDeduplicationId: &body}
}

func (q queue) send(in *sqs.SendMessageInput) *sqs.SendMessageOutput {
	q.t.Helper()
	out, err := q.w.sqs.SendMessage(q.t.Context(), in)
	must(q.t, "SendMessage", err)
	return out
}

// sendAll sends each body to the group named by its first letter.
func (q queue) sendAll(bodies ...string) {
	q.t.Helper()
	for _, body := range bodies {
		q.send(q.message(body[:1], body))
	}
}

type option func(*sqs.ReceiveMessageInput)

func upTo(n int32) option { return func(in *sqs.ReceiveMessageInput) { in.MaxNumberOfMessages = n } }
func visible(seconds int32) option {
	return func(in *sqs.ReceiveMessageInput) { in.VisibilityTimeout = seconds }
}
func waiting(seconds int32) option {
	return func(in *sqs.ReceiveMessageInput) { in.WaitTimeSeconds = seconds }
}

// receive receives one message with all attributes, unless options change that.
func (q queue) receive(options ...option) []types.Message {
	q.t.Helper()
	messages, err := q.tryReceive(q.t.Context(), options...)
	must(q.t, "ReceiveMessage", err)
	return messages
}

// receiveOne fails unless exactly the message with this body is received.
func (q queue) receiveOne(body string, options ...option) types.Message {
	q.t.Helper()
	messages := q.receive(options...)
	wantBodies(q.t, messages, body)
	return messages[0]
}

func (q queue) tryReceive(ctx context.Context, options ...option) ([]types.Message, error) {
	in := &sqs.ReceiveMessageInput{
		QueueUrl:                    &q.url,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		MessageAttributeNames:       []string{"All"},
	}
	for _, option := range options {
		option(in)
	}
	out, err := q.w.sqs.ReceiveMessage(ctx, in)
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

func (q queue) tryDelete(handle *string) error {
	_, err := q.w.sqs.DeleteMessage(q.t.Context(), &sqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: handle})
	return err
}

func (q queue) delete(messages ...types.Message) {
	q.t.Helper()
	for _, m := range messages {
		must(q.t, "DeleteMessage "+*m.Body, q.tryDelete(m.ReceiptHandle))
	}
}

func (q queue) setVisibility(m types.Message, seconds int32) {
	q.t.Helper()
	_, err := q.w.sqs.ChangeMessageVisibility(q.t.Context(), &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &q.url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds,
	})
	must(q.t, "ChangeMessageVisibility "+*m.Body, err)
}

func (q queue) attributes(names ...types.QueueAttributeName) map[string]string {
	q.t.Helper()
	out, err := q.w.sqs.GetQueueAttributes(q.t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &q.url, AttributeNames: names})
	must(q.t, "GetQueueAttributes", err)
	return out.Attributes
}

func (q queue) setAttribute(name, value string) {
	q.t.Helper()
	_, err := q.w.sqs.SetQueueAttributes(q.t.Context(), &sqs.SetQueueAttributesInput{
		QueueUrl: &q.url, Attributes: map[string]string{name: value}})
	must(q.t, "SetQueueAttributes", err)
}

// wantCounts fails unless the queue has these numbers of visible, in-flight and delayed messages.
func (q queue) wantCounts(visible, inFlight, delayed int) {
	q.t.Helper()
	names := []types.QueueAttributeName{
		"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"}
	counts := map[string]string{}
	for i, n := range []int{visible, inFlight, delayed} {
		counts[string(names[i])] = fmt.Sprint(n)
	}
	want(q.t, "counts", counts, q.attributes(names...))
}

// redriveTo returns the attributes of a queue with the dead-letter queue dlq.
func redriveTo(dlq queue, maxReceiveCount int) map[string]string {
	return map[string]string{"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":"%s","maxReceiveCount":%d}`,
		dlq.attributes("QueueArn")["QueueArn"], maxReceiveCount)}
}

func bodies(messages []types.Message) []string {
	var all []string
	for _, m := range messages {
		all = append(all, aws.ToString(m.Body))
	}
	return all
}

// wantBodies fails unless the messages have these bodies in this order.
func wantBodies(t *testing.T, messages []types.Message, all ...string) {
	t.Helper()
	if got := bodies(messages); fmt.Sprint(got) != fmt.Sprint(all) {
		t.Fatalf("received %v, want %v", got, all)
	}
}

// wantReceiveCount fails unless the message has this receive count.
func wantReceiveCount(t *testing.T, m types.Message, count string) {
	t.Helper()
	want(t, "ApproximateReceiveCount of "+*m.Body, count, m.Attributes["ApproximateReceiveCount"])
}

// polled is the result of a long poll and the time when it returned.
type polled struct {
	messages []types.Message
	err      error
	at       time.Time
}

// poll starts a long poll of 20 s and waits until it blocks.
func (q queue) poll(ctx context.Context, options ...option) <-chan polled {
	result := make(chan polled, 1)
	go func() {
		messages, err := q.tryReceive(ctx, append([]option{waiting(20), upTo(10)}, options...)...)
		result <- polled{messages, err, time.Now()}
	}()
	q.w.settle()
	return result
}

// wantPolled fails unless the long poll returns these messages at this time.
func (q queue) wantPolled(poll <-chan polled, at time.Time, all ...string) {
	q.t.Helper()
	p := <-poll
	must(q.t, "the long poll", p.err)
	wantBodies(q.t, p.messages, all...)
	q.w.wantAt(q.t, "the long poll", p.at, at)
}
