package sqsqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/durable"
)

// MessageBytesMax is SQS's limit for a message, body and attributes together. It also limits the sum of the messages
// in one SendMessageBatch (SQS API Reference, "SendMessageBatch").
const MessageBytesMax = 1 << 20

// Client is the part of the SQS client that a Queue uses. *sqs.Client implements it.
type Client interface {
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
}

// Queue implements durable.Queue on a FIFO queue and its FIFO dead-letter queue. It is safe
// for concurrent use.
type Queue struct {
	client        Client
	url           string
	deadLetterURL string
}

var _ durable.Queue = (*Queue)(nil)

// New returns the queue with the given URL. It parks deliveries in the queue with deadLetterURL, which may be empty
// if you only send.
func New(client Client, url, deadLetterURL string) *Queue {
	return &Queue{client: client, url: url, deadLetterURL: deadLetterURL}
}

// Send sends an event to its instance's group and returns the message ID. SQS drops a second message with the same
// DeduplicationID within five minutes. Errors wrap ErrRefused, ErrNoQueue or ErrDenied. After any other error, the
// message may or may not be sent.
func (q *Queue) Send(ctx context.Context, message durable.Message) (messageID string, err error) {
	body := sendable(message.Body)
	output, err := q.client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl:               &q.url,
		MessageBody:            &body,
		MessageGroupId:         aws.String(message.To.String()),
		MessageDeduplicationId: &message.DeduplicationID,

		MessageAttributes:       traceAttributes(ctx, olderMessageBytesMax-len(body)),
		MessageSystemAttributes: traceSystemAttributes(ctx),
	})
	if err != nil {
		return "", fmt.Errorf("sending %s to %s at %s: %w", message.DeduplicationID, message.To, q.url, classify(err))
	}
	return aws.ToString(output.MessageId), nil
}

// unsendable escapes the characters that JSON allows and SQS refuses.
var unsendable = strings.NewReplacer("\ufffe", `\ufffe`, "\uffff", `\uffff`)

// sendable returns an event with only characters that SQS accepts. In JSON, the others occur only in strings, where
// their escapes mean the same.
func sendable[T json.RawMessage | string](event T) string {
	return unsendable.Replace(string(event))
}

// URLResolver is the part of the SQS client that ResolveURL uses. *sqs.Client implements it.
type URLResolver interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

// ResolveURL returns the URL of a queue that is given by name or by URL. It returns a URL unchanged, without a call.
func ResolveURL(ctx context.Context, client URLResolver, queue string) (string, error) {
	if strings.HasPrefix(queue, "https://") || strings.HasPrefix(queue, "http://") {
		return queue, nil
	}
	output, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &queue})
	if err != nil {
		return "", fmt.Errorf("resolving the queue %q, expected its name or its URL: %w", queue, classify(err))
	}
	return aws.ToString(output.QueueUrl), nil
}
