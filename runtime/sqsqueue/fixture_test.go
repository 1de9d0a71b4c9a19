package sqsqueue_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

var ada = instances.ID{Machine: "signup", ID: "ada"}

// visibility is the queues' visibility timeout.
const visibility = 60 * time.Second

// fixture holds the local queues, and the queue under test, which uses them.
type fixture struct {
	t                         *testing.T
	cloud                     *awslocal.Cloud
	client                    *sqs.Client
	queue                     *sqsqueue.Queue
	url, deadLetterURL, plain string
	arn                       string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, cloud: awslocal.New(awslocal.Config{})}
	f.client = sqs.New(sqs.Options{
		Region:       awslocal.Region,
		BaseEndpoint: aws.String("http://aws.local"),
		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
		HTTPClient:   f.cloud.HTTPClient(),
	})
	fifo := map[string]string{"FifoQueue": "true"}
	f.deadLetterURL, _ = f.create("dead.fifo", fifo)
	f.url, f.arn = f.create("events.fifo", fifo)
	f.plain, _ = f.create("plain", nil)
	f.queue = sqsqueue.New(f.client, f.url, f.deadLetterURL)
	return f
}

func (f *fixture) create(name string, attributes map[string]string) (url, arn string) {
	f.t.Helper()
	all := map[string]string{"VisibilityTimeout": fmt.Sprint(visibility.Seconds())}
	maps.Copy(all, attributes)
	output, err := f.client.CreateQueue(f.t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: all})
	if err != nil {
		f.t.Fatal(err)
	}
	return *output.QueueUrl, fmt.Sprintf("arn:aws:sqs:%s:%s:%s", awslocal.Region, awslocal.Account, name)
}

func (f *fixture) send(body, deduplicationID string) (messageID string) {
	f.t.Helper()
	id, err := f.queue.Send(f.t.Context(), durable.Message{To: ada, Body: []byte(body), DeduplicationID: deduplicationID})
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

// receive receives up to ten messages of a queue.
func (f *fixture) receive(url string) []types.Message {
	f.t.Helper()
	output, err := f.client.ReceiveMessage(f.t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return output.Messages
}

// deliveries receives from the FIFO queue like Lambda.
func (f *fixture) deliveries() []durable.Delivery {
	f.t.Helper()
	return f.deliveriesOf(f.url, f.arn)
}

// deliveriesOf receives from a queue like Lambda.
func (f *fixture) deliveriesOf(url, arn string) []durable.Delivery {
	f.t.Helper()
	var event events.SQSEvent
	for _, message := range f.receive(url) {
		attributes := map[string]events.SQSMessageAttribute{}
		for name, value := range message.MessageAttributes {
			attributes[name] = events.SQSMessageAttribute{DataType: *value.DataType, StringValue: value.StringValue}
		}
		event.Records = append(event.Records, events.SQSMessage{
			MessageId: *message.MessageId, ReceiptHandle: *message.ReceiptHandle, Body: *message.Body,
			Attributes: message.Attributes, MessageAttributes: attributes, EventSourceARN: arn,
		})
	}
	deliveries, err := sqsqueue.DecodeAll(event)
	if err != nil {
		f.t.Fatal(err)
	}
	return deliveries
}

func bodiesOf(deliveries []durable.Delivery) []string {
	var bodies []string
	for _, delivery := range deliveries {
		bodies = append(bodies, delivery.Body)
	}
	return bodies
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
