package awslocal_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/settle-run/settle/infra/awslocal"
)

// queue is a queue of a Cloud, accessed through the SDK.
type queue struct {
	t      *testing.T
	cloud  *awslocal.Cloud
	client *sqs.Client
	name   string
	url    string
}

func newClient(cloud *awslocal.Cloud) *sqs.Client {
	return sqs.New(sqs.Options{
		Region:       awslocal.Region,
		BaseEndpoint: aws.String("http://aws.local"),
		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
		HTTPClient:   cloud.HTTPClient(),
	})
}

// newFIFO creates a FIFO queue in a new Cloud.
func newFIFO(t *testing.T, attributes map[string]string) queue {
	t.Helper()
	cloud := awslocal.New(awslocal.Config{})
	return addFIFO(t, cloud, "queue.fifo", attributes)
}

func addFIFO(t *testing.T, cloud *awslocal.Cloud, name string, attributes map[string]string) queue {
	t.Helper()
	all := map[string]string{"FifoQueue": "true"}
	maps.Copy(all, attributes)
	return addQueue(t, cloud, name, all)
}

func addQueue(t *testing.T, cloud *awslocal.Cloud, name string, attributes map[string]string) queue {
	t.Helper()
	q := queue{t: t, cloud: cloud, client: newClient(cloud), name: name}
	out, err := q.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		t.Fatalf("CreateQueue: %v", err)
	}
	q.url = *out.QueueUrl
	return q
}

// send sends a body to a group. The body is also the deduplication ID.
func (q queue) send(group, body string) *sqs.SendMessageOutput {
	q.t.Helper()
	out, err := q.client.SendMessage(q.t.Context(), &sqs.SendMessageInput{
		QueueUrl: &q.url, MessageBody: &body, MessageGroupId: &group, MessageDeduplicationId: &body,
	})
	if err != nil {
		q.t.Fatalf("SendMessage %s: %v", body, err)
	}
	return out
}

// sendAll sends each body to the group named by its first letter.
func (q queue) sendAll(bodies ...string) {
	q.t.Helper()
	for _, body := range bodies {
		q.send(body[:1], body)
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

// receive receives one message with all system attributes, unless options change that.
func (q queue) receive(options ...option) []types.Message {
	q.t.Helper()
	messages, err := q.tryReceive(q.t.Context(), options...)
	if err != nil {
		q.t.Fatalf("ReceiveMessage: %v", err)
	}
	return messages
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
	out, err := q.client.ReceiveMessage(ctx, in)
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

func (q queue) tryDelete(m types.Message) error {
	_, err := q.client.DeleteMessage(q.t.Context(), &sqs.DeleteMessageInput{
		QueueUrl: &q.url, ReceiptHandle: m.ReceiptHandle,
	})
	return err
}

func (q queue) delete(messages ...types.Message) {
	q.t.Helper()
	for _, m := range messages {
		if err := q.tryDelete(m); err != nil {
			q.t.Fatalf("DeleteMessage %s: %v", *m.Body, err)
		}
	}
}

func (q queue) setVisibility(m types.Message, seconds int32) {
	q.t.Helper()
	_, err := q.client.ChangeMessageVisibility(q.t.Context(), &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &q.url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds,
	})
	if err != nil {
		q.t.Fatalf("ChangeMessageVisibility %s: %v", *m.Body, err)
	}
}

func (q queue) attributes(names ...types.QueueAttributeName) map[string]string {
	q.t.Helper()
	out, err := q.client.GetQueueAttributes(q.t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &q.url, AttributeNames: names,
	})
	if err != nil {
		q.t.Fatalf("GetQueueAttributes: %v", err)
	}
	return out.Attributes
}

func bodies(messages []types.Message) []string {
	var all []string
	for _, m := range messages {
		all = append(all, *m.Body)
	}
	return all
}

// wantBodies fails unless the messages have these bodies in this order.
func wantBodies(t *testing.T, messages []types.Message, want ...string) {
	t.Helper()
	if got := bodies(messages); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("received %v, want %v", got, want)
	}
}

// wantCode fails unless err has one of the AWS error codes.
func wantCode(t *testing.T, err error, codes ...string) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) {
		t.Fatalf("got %v, want an error with code %v", err, codes)
	}
	for _, code := range codes {
		if api.ErrorCode() == code {
			return
		}
	}
	t.Fatalf("got code %s (%s), want %v", api.ErrorCode(), api.ErrorMessage(), codes)
}

// wantElapsed fails unless exactly this much virtual time has passed since start.
func wantElapsed(t *testing.T, start time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(start); got != want {
		t.Fatalf("took %v, want %v", got, want)
	}
}
