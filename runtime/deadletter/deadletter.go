// Package deadletter reads a dead-letter queue without losing or hiding messages. Every message that it does not delete
// becomes visible again.
//
// A FIFO queue offers at most the first ten messages of a group. While they are in flight, it holds back the rest of
// the group. Once they are deleted, it offers the next ones.
package deadletter

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/statechart"
)

const (
	// Hidden is the visibility timeout for readers that move or delete messages.
	Hidden = 5 * time.Minute
	// HiddenLook is the visibility timeout for other readers.
	HiddenLook = 20 * time.Second
	// batchMax is the maximum number of messages that SQS returns at once.
	batchMax = 10
	// receiveWait is the long-poll time. Without long polling, SQS queries only a part of its servers.
	receiveWait = time.Second
	// releaseTimeout limits putBack, which continues after the command was stopped.
	releaseTimeout = 20 * time.Second
	// grace is the time that a call may take after the command was stopped, so that no call is cut off halfway.
	grace = 5 * time.Second
	// holdMargin is the part of Hidden that must be left to move a message. If the timeout ended between the send and
	// the delete, the message would stay in both queues.
	holdMargin = time.Minute
)

// The attributes that EventBridge Scheduler and EventBridge rules add to dead letters. See EventBridge Scheduler User
// Guide, "Configuring a schedule's dead-letter queue", and EventBridge User Guide, "Using dead-letter queues to process
// undelivered events".
const (
	attrErrorCode    = "ERROR_CODE"
	attrErrorMessage = "ERROR_MESSAGE"
)

// Message is a message of the queue. Its JSON form leaves out the body, which may contain a task token.
type Message struct {
	ID string `json:"message_id"`
	// Instance is the name of the instance: the message group or, in a standard queue, the instance of the timer or of the
	// workflow. It is empty if unknown.
	Instance string `json:"instance"`
	// Event is the event's type, EventID its idempotency key. Both are empty if the message is not an event. A timer has
	// the type and the key of the event inside it.
	Event   string `json:"event"`
	EventID string `json:"event_id,omitempty"`
	// Sent is when the message was sent to this queue. If SQS moved it here, Sent is when it was first sent.
	Sent time.Time `json:"since"`
	// Reason is why the runtime parked the message, or why EventBridge could not deliver it. It is empty if SQS moved
	// the message after too many receives.
	Reason string `json:"reason,omitempty"`
	// SourceQueue is the ARN of the queue from which the message was first parked. Sequence is its number there.
	SourceQueue string `json:"source_queue,omitempty"`
	Sequence    string `json:"sequence_number,omitempty"`
	// SentFirst is when the message was sent to SourceQueue, in RFC 3339. Receives is how often it was received there,
	// in decimal digits.
	SentFirst string `json:"sent_at,omitempty"`
	Receives  string `json:"receive_count,omitempty"`
	// Group is the message group, which is the name of the instance. It is empty in a standard queue.
	Group string `json:"-"`
	Body  string `json:"-"`

	attributes map[string]types.MessageAttributeValue
	trace      string
	receipt    string
	// `until` is the end of the visibility timeout by the wall clock. The monotonic clock may stop while the machine
	// sleeps.
	until time.Time
}

// hiddenToken replaces task tokens.
const hiddenToken = "(hidden)"

// taskKey is the key of a waiting task in an event.
const taskKey = "$task"

// Shown returns the body with all task tokens hidden, wherever in the body they are.
func (m *Message) Shown() string {
	decoder := json.NewDecoder(strings.NewReader(m.Body))
	decoder.UseNumber()
	var body any
	if err := decoder.Decode(&body); err != nil || decoder.More() {
		if strings.Contains(m.Body, taskKey) {
			return fmt.Sprintf("(%d bytes, not JSON, hidden because they may contain a task token)", len(m.Body))
		}
		return m.Body
	}
	shown, found := withoutTokens(body)
	if !found {
		return m.Body
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// withoutTokens replaces task tokens in a decoded JSON value. It also replaces each text that may contain one.
func withoutTokens(value any) (shown any, found bool) {
	each := func(part any) any {
		part, inPart := withoutTokens(part)
		found = found || inPart
		return part
	}
	switch value := value.(type) {
	case map[string]any:
		for key, part := range value {
			if key != taskKey {
				value[key] = each(part)
				continue
			}
			found = true
			if task, ok := part.(map[string]any); ok && task["token"] != nil {
				task["token"] = hiddenToken
			} else {
				value[key] = hiddenToken
			}
		}
	case []any:
		for i, part := range value {
			value[i] = each(part)
		}
	case string:
		if strings.Contains(value, taskKey) {
			return hiddenToken, true
		}
	}
	return value, found
}

// origin identifies the event across copies: a message that is parked again keeps its first origin. An unknown origin
// is empty.
func (m *Message) origin() string {
	if m.SourceQueue == "" || m.Sequence == "" {
		return ""
	}
	return m.SourceQueue + " " + m.Sequence
}

// Reader reads a dead-letter queue. Call Close when done.
type Reader struct {
	client *sqs.Client
	url    string
	hidden time.Duration
	// inHand has the received messages that were neither deleted nor returned, by ID. `seen` has the IDs of all
	// received messages.
	inHand map[string]*Message
	seen   map[string]bool
	// `cut` has the groups, each with true if its last batch was full, so that the queue may hold back messages of it.
	cut map[string]bool
}

// IsFIFO reports whether the URL belongs to a FIFO queue. SQS requires their names to end with ".fifo".
func IsFIFO(url string) bool { return strings.HasSuffix(url, ".fifo") }

// NewReader returns a reader of the queue with the URL. If the process dies, the messages in hand reappear after the
// visibility timeout `hidden`.
func NewReader(client *sqs.Client, url string, hidden time.Duration) *Reader {
	return &Reader{client: client, url: url, hidden: hidden, inHand: map[string]*Message{}, seen: map[string]bool{}, cut: map[string]bool{}}
}

// URL returns the URL of the queue.
func (r *Reader) URL() string { return r.url }

// InHand returns how many messages the reader has received and neither deleted nor returned.
func (r *Reader) InHand() int { return len(r.inHand) }

// Content has the attributes of a queue.
type Content struct {
	// Messages is the number of messages in the queue. InFlight is the number of those in flight. Both are approximate.
	Messages, InFlight int
	// RedrivePolicy is the queue's own redrive policy as JSON, or empty.
	RedrivePolicy string
}

// Content reads the queue's attributes.
func (r *Reader) Content(ctx context.Context) (Content, error) {
	names := []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameRedrivePolicy}
	output, err := r.client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &r.url, AttributeNames: names})
	if err != nil {
		return Content{}, fmt.Errorf("counting the messages of %s: %w", r.url, err)
	}
	visible, _ := strconv.Atoi(output.Attributes[string(names[0])])
	inFlight, _ := strconv.Atoi(output.Attributes[string(names[1])])
	return Content{visible + inFlight, inFlight, output.Attributes[string(names[2])]}, nil
}

// Next receives up to ten messages that were not received before, in order within each group. An empty result means
// that the queue offers no more.
func (r *Reader) Next(ctx context.Context) ([]*Message, error) {
	for ctx.Err() == nil {
		received, err := r.receive(ctx)
		if err != nil || len(received) == 0 {
			return nil, err
		}
		for _, m := range received {
			r.cut[m.Group] = len(received) == batchMax && received[0].Group != ""
		}
		if fresh := r.fresh(received); len(fresh) > 0 {
			return fresh, nil
		}
	}
	return nil, ctx.Err()
}

// fresh returns the messages that were not received before.
func (r *Reader) fresh(received []*Message) []*Message {
	return slices.DeleteFunc(received, func(m *Message) bool {
		seen := r.seen[m.ID]
		r.seen[m.ID] = true
		return seen
	})
}

// receive receives once. Even if the command is stopped meanwhile, the received messages are recorded.
func (r *Reader) receive(ctx context.Context) ([]*Message, error) {
	ctx, stop := finishing(ctx)
	defer stop()
	input := &sqs.ReceiveMessageInput{
		QueueUrl: &r.url, MaxNumberOfMessages: batchMax, WaitTimeSeconds: int32(receiveWait / time.Second), VisibilityTimeout: int32(r.hidden / time.Second),
		MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	}
	if IsFIFO(r.url) {
		input.ReceiveRequestAttemptId = aws.String(rand.Text()) // A retried call returns the same messages.
	}
	until := time.Now().Round(0).Add(r.hidden)
	output, err := r.client.ReceiveMessage(ctx, input)
	if err != nil {
		return nil, fmt.Errorf("receiving from %s: %w", r.url, err)
	}
	messages := make([]*Message, len(output.Messages))
	for i, received := range output.Messages {
		m := read(received)
		m.until = until
		messages[i], r.inHand[m.ID] = m, m // A message that is received again has a new receipt.
	}
	return messages, nil
}

// finishing returns a context that ends some time after ctx is canceled.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, end) })
	return longer, func() {
		stop()
		end()
	}
}

// read converts a received message.
func read(received types.Message) *Message {
	text := func(name string) string { return aws.ToString(received.MessageAttributes[name].StringValue) }
	millis, _ := strconv.ParseInt(received.Attributes["SentTimestamp"], 10, 64)
	m := &Message{
		ID: aws.ToString(received.MessageId), Group: received.Attributes["MessageGroupId"], Body: aws.ToString(received.Body), Sent: time.UnixMilli(millis).UTC(),
		Reason: text(sqsqueue.AttrReason), SourceQueue: text(sqsqueue.AttrSourceQueue), Sequence: text(sqsqueue.AttrSequenceNumber),
		SentFirst: text(sqsqueue.AttrSentAt), Receives: text(sqsqueue.AttrReceiveCount),
		attributes: received.MessageAttributes, trace: received.Attributes["AWSTraceHeader"], receipt: aws.ToString(received.ReceiptHandle),
	}
	body := []byte(m.Body)
	m.Instance = m.Group
	if timer, err := schedule.Read(m.Body); err == nil {
		body, m.Instance = timer.Body, cmp.Or(m.Group, timer.To.String())
	} else if m.Group == "" {
		m.Instance = starterOf(body)
	}
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(body, &keys) // A body that is not a JSON object has neither type nor ID.
	_, _ = json.Unmarshal(keys["type"], &m.Event), json.Unmarshal(keys["$id"], &m.EventID)
	if code := text(attrErrorCode); m.Reason == "" && code != "" {
		m.Reason = "EventBridge could not deliver it: " + code + ": " + text(attrErrorMessage)
	}
	return m
}

// starterOf returns the instance that started the execution whose end EventBridge reports. It is empty if no instance
// started the execution, or if EventBridge left out the execution's input.
func starterOf(body []byte) string {
	var change struct {
		Detail struct{ Name, Input string }
	}
	if json.Unmarshal(body, &change) != nil {
		return ""
	}
	message, ok, err := durable.ExecutionEnd([]byte(change.Detail.Input), statechart.ExecutionEnded{Name: change.Detail.Name})
	if err != nil || !ok {
		return ""
	}
	return message.To.String()
}

// Delete deletes a message.
func (r *Reader) Delete(ctx context.Context, m *Message) error {
	ctx, stop := finishing(ctx)
	defer stop()
	if _, err := r.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &r.url, ReceiptHandle: &m.receipt}); err != nil {
		return fmt.Errorf("deleting message %s from %s: %w", m.ID, r.url, err)
	}
	delete(r.inHand, m.ID)
	return nil
}

// Close makes all messages in hand visible again. It works even if ctx has ended.
func (r *Reader) Close(ctx context.Context) error {
	return r.putBack(ctx, func(*Message) bool { return true })
}

// putBack makes the chosen messages in hand visible again, even if ctx has ended. A FIFO queue offers the later
// messages of a group only together with the earlier ones, or once those are deleted.
func (r *Reader) putBack(ctx context.Context, chosen func(*Message) bool) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer stop()
	var failures []error
	now := time.Now().Round(0)
	maps.DeleteFunc(r.inHand, func(_ string, m *Message) bool { return !now.Before(m.until) }) // These messages are visible already.
	var back []string
	for id, m := range r.inHand {
		if chosen(m) {
			back = append(back, id)
		}
	}
	slices.Sort(back)
	for ids := range slices.Chunk(back, batchMax) {
		input := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &r.url}
		for i, id := range ids {
			input.Entries = append(input.Entries, types.ChangeMessageVisibilityBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &r.inHand[id].receipt})
		}
		output, err := r.client.ChangeMessageVisibilityBatch(ctx, input)
		if err == nil && len(output.Failed) > 0 {
			err = fmt.Errorf("%d of %d refused, the first because %s", len(output.Failed), len(ids), aws.ToString(output.Failed[0].Message))
		}
		if err != nil {
			failures = append(failures, err)
		}
	}
	maps.DeleteFunc(r.inHand, func(_ string, m *Message) bool { return chosen(m) })
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("returning messages to %s, where they reappear within %v in any case: %w", r.url, r.hidden, err)
	}
	return nil
}
