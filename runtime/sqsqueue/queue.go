package sqsqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// MessageBytesMax is SQS's limit for a message, body and attributes together. It also limits the sum of the messages
// in one SendMessageBatch (SQS API Reference, "SendMessageBatch").
const MessageBytesMax = 1 << 20

// Client is the part of the SQS client that a Queue uses. *sqs.Client implements it.
type Client interface {
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
}

// Queue implements durable.Queue on a FIFO queue and its FIFO dead-letter queue, and producer.Queue. It is safe for
// concurrent use.
type Queue struct {
	client        Client
	url           string
	deadLetterURL string
	// lanes maps the name of each lane except instances.MainLane to the URL of its queue. assign returns the lane of a
	// message that names none. Both are nil without lanes.
	lanes  map[string]string
	assign func(instances.ID) string

	mu sync.Mutex
	// attributes are nil until they are first needed.
	attributes map[string]string
}

var _ durable.Queue = (*Queue)(nil)

// New returns the queue with the given URL. It parks deliveries in the queue with deadLetterURL, which may be empty
// if you only send.
func New(client Client, url, deadLetterURL string) *Queue {
	return &Queue{client: client, url: url, deadLetterURL: deadLetterURL}
}

// WithLanes returns a queue that sends each message to its lane. `arns` maps the name of each lane except
// instances.MainLane, which is q itself, to the ARN of its queue. All queues belong to one Region. `assign` returns the
// lane of a message that names none.
func (q *Queue) WithLanes(arns map[string]string, assign func(instances.ID) string) *Queue {
	if len(arns) == 0 {
		return q
	}
	urls := make(map[string]string, len(arns))
	for lane, arn := range arns {
		urls[lane] = urlOf(q.url, arn)
	}
	return &Queue{client: q.client, url: q.url, deadLetterURL: q.deadLetterURL, lanes: urls, assign: assign}
}

// urlFor returns the URL of the queue for a message to an instance. A lane is unknown if a deployment has removed it.
// Its messages go to the main lane, because the consumer then accepts the instance's events from any lane.
func (q *Queue) urlFor(to instances.ID, lane string) string {
	if lane == "" && q.assign != nil {
		lane = q.assign(to)
	}
	if url, ok := q.lanes[lane]; ok {
		return url
	}
	return q.url
}

// Send sends an event to its instance's group and returns the message ID. SQS drops a second message with the same
// DeduplicationID within five minutes. Errors wrap ErrRefused, ErrNoQueue or ErrDenied. After any other error, the
// message may or may not be sent.
func (q *Queue) Send(ctx context.Context, message durable.Message) (messageID string, err error) {
	messageID, _, err = q.Enqueue(ctx, message)
	return messageID, err
}

// Enqueue works like Send, and also returns the message's sequence number.
func (q *Queue) Enqueue(ctx context.Context, message durable.Message) (messageID, sequenceNumber string, err error) {
	body, url := sendable(message.Body), q.urlFor(message.To, message.Lane)
	output, err := q.client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: &url, MessageBody: &body,
		MessageGroupId:         aws.String(message.To.String()),
		MessageDeduplicationId: &message.DeduplicationID,

		MessageAttributes:       traceAttributes(ctx, len(body)),
		MessageSystemAttributes: traceSystemAttributes(ctx),
	})
	if err != nil {
		return "", "", fmt.Errorf("sending %s to %s at %s: %w", message.DeduplicationID, message.To, url, classify(err))
	}
	return aws.ToString(output.MessageId), aws.ToString(output.SequenceNumber), nil
}

// ARN returns the ARN of the FIFO queue. The first call reads the queue's attributes, which requires the permission
// sqs:GetQueueAttributes. It fails as Send does.
func (q *Queue) ARN(ctx context.Context) (string, error) {
	return q.attribute(ctx, types.QueueAttributeNameQueueArn)
}

// DeadLetterARN returns the ARN of the dead-letter queue in the FIFO queue's redrive policy, or "" without one. It reads
// the attributes as ARN does.
func (q *Queue) DeadLetterARN(ctx context.Context) (string, error) {
	policy, err := q.attribute(ctx, types.QueueAttributeNameRedrivePolicy)
	return DeadLetterARN(policy), err
}

// DeadLetterARN returns the ARN of the dead-letter queue in a RedrivePolicy, or "" if the policy names none.
func DeadLetterARN(redrivePolicy string) string {
	var form struct {
		Target string `json:"deadLetterTargetArn"`
	}
	_ = json.Unmarshal([]byte(redrivePolicy), &form) // An invalid policy has no target.
	return form.Target
}

// attribute returns the queue's ARN or redrive policy. It reads both once and keeps them, because neither changes while a
// process uses the queue.
func (q *Queue) attribute(ctx context.Context, name types.QueueAttributeName) (string, error) {
	q.mu.Lock()
	known := q.attributes
	q.mu.Unlock()
	if known != nil {
		return known[string(name)], nil
	}
	output, err := q.client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &q.url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn, types.QueueAttributeNameRedrivePolicy},
	})
	if err != nil {
		return "", fmt.Errorf("reading the attributes of %s: %w", q.url, classify(err))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.attributes = output.Attributes
	return output.Attributes[string(name)], nil
}

// unsendable escapes the characters that JSON allows and SQS refuses.
var unsendable = strings.NewReplacer("\ufffe", `\ufffe`, "\uffff", `\uffff`)

// sendable escapes the characters that SQS refuses in an event. In JSON, they occur only in strings, where an escape
// means the same as the character.
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
