// Package deadletter reads the messages of a dead-letter queue without losing or hiding any: what was received and not
// deleted is put back.
//
// A FIFO queue shows the first ten messages of a group at most: while they are in the hands of a reader, it keeps the
// rest of the group back, and once they are deleted it shows the next ones.
package deadletter

import (
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

	"github.com/settle-run/settle/runtime/schedule"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

const (
	// Hidden is how long messages stay out of others' sight if the reader dies before it puts them back.
	Hidden = 5 * time.Minute
	// hiddenLook is Hidden of a reader that only looks.
	hiddenLook = 20 * time.Second
	// batchMax is how many messages SQS hands over at a time.
	batchMax = 10
	// receiveWait is how long SQS looks for messages: all its servers, which it does only if it is to wait.
	receiveWait = time.Second
	// releaseTimeout limits the putting back, which goes on when the command was stopped.
	releaseTimeout = 20 * time.Second
	// grace is how long a call goes on that had begun when the command was stopped: none is left half-way.
	grace = 5 * time.Second
	// holdMargin is how much of Hidden must be left for a message to be moved: to send it and not to be able to delete it
	// any more would leave two.
	holdMargin = time.Minute
)

// What EventBridge says of its dead letters, Scheduler's and those of rules (EventBridge Scheduler User Guide, "Configuring a
// schedule's dead-letter queue"; EventBridge User Guide, "Using dead-letter queues to process undelivered events").
const (
	attrErrorCode    = "ERROR_CODE"
	attrErrorMessage = "ERROR_MESSAGE"
)

// Message is a message of the queue.
type Message struct {
	ID string
	// Group is the name of its instance, empty in a standard queue.
	Group string
	// Instance is that of its group or, if it is a timer, the one that it is for. Empty if it tells of none.
	Instance string
	Body     string
	// Sent is when it came into this queue, or when it was sent first if SQS has moved it here.
	Sent time.Time
	// Reason is why the runtime has parked it, or why EventBridge could not bring it; empty if SQS has given it up.
	Reason string
	// SourceQueue and Sequence are where it was parked first.
	SourceQueue, Sequence string
	// SentFirst is when it was sent to that queue, Receives how often it was received there, as texts.
	SentFirst, Receives string

	attributes map[string]types.MessageAttributeValue
	trace      string
	receipt    string
	// until is when it can be received by others again, by the clock on the wall: a machine may have slept.
	until time.Time
}

// Head is what can be told of the message's body: the event's type, and its producer's ID. Of a timer, those of what it brings.
func (m *Message) Head() (eventType, eventID string) {
	body := []byte(m.Body)
	if timer, err := schedule.Read(m.Body); err == nil {
		body = timer.Body
	}
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(body, &keys) // What is no event has neither.
	_, _ = json.Unmarshal(keys["type"], &eventType), json.Unmarshal(keys["$id"], &eventID)
	return eventType, eventID
}

// hiddenToken stands where a task's token was.
const hiddenToken = "(hidden)"

// Shown is the body without the token of a task.
func (m *Message) Shown() string {
	var keys, task map[string]json.RawMessage
	if err := json.Unmarshal([]byte(m.Body), &keys); err != nil {
		if strings.Contains(m.Body, "$task") {
			return fmt.Sprintf("(%d bytes, not a JSON object, hidden because they may contain a task token)", len(m.Body))
		}
		return m.Body
	}
	if len(keys["$task"]) == 0 {
		return m.Body
	}
	hidden := json.RawMessage(strconv.Quote(hiddenToken))
	if json.Unmarshal(keys["$task"], &task) == nil && task["token"] != nil {
		task["token"] = hidden
		if text, err := json.Marshal(task); err == nil {
			hidden = text
		}
	}
	keys["$task"] = hidden
	text, err := json.Marshal(keys)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// origin tells copies of one event from others: a message that is parked again has that of the first time. Empty if it
// has none.
func (m *Message) origin() string {
	if m.SourceQueue == "" || m.Sequence == "" {
		return ""
	}
	return m.SourceQueue + " " + m.Sequence
}

// Reader reads a dead-letter queue. Call Close in the end.
type Reader struct {
	client *sqs.Client
	url    string
	fifo   bool
	hidden time.Duration
	// held are the messages in hand, by ID; seen are all that were.
	held map[string]*Message
	seen map[string]bool
}

// IsFIFO reports whether the queue with the URL is a FIFO queue, whose names SQS has end so.
func IsFIFO(url string) bool { return strings.HasSuffix(url, ".fifo") }

// NewReader returns a reader of the queue with the URL.
func NewReader(client *sqs.Client, url string) *Reader {
	return &Reader{client: client, url: url, fifo: IsFIFO(url), hidden: Hidden, held: map[string]*Message{}, seen: map[string]bool{}}
}

// NewLook returns a reader that moves and deletes nothing: what it has received is to be seen again after 20 seconds, if it dies.
func NewLook(client *sqs.Client, url string) *Reader {
	r := NewReader(client, url)
	r.hidden = hiddenLook
	return r
}

// URL returns that of the queue.
func (r *Reader) URL() string { return r.url }

// InHand returns how many messages the reader has received and neither deleted nor put back.
func (r *Reader) InHand() int { return len(r.held) }

// Content is what a queue says of itself.
type Content struct {
	// Messages is how many it has, InFlight how many of them somebody has in hand; both approximately.
	Messages, InFlight int
	// RedrivePolicy says, as JSON, where it gives up messages to itself; empty if it does not.
	RedrivePolicy string
}

// Content asks the queue.
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

// Next receives up to ten messages that were not received before, those of a group in order. None means that the queue
// shows no more.
func (r *Reader) Next(ctx context.Context) ([]*Message, error) {
	for ctx.Err() == nil {
		received, err := r.receive(ctx)
		if err != nil || len(received) == 0 {
			return nil, err
		}
		var fresh []*Message
		for _, message := range received {
			r.held[message.ID] = message // One whose time was over has a new receipt.
			if !r.seen[message.ID] {
				r.seen[message.ID] = true
				fresh = append(fresh, message)
			}
		}
		if len(fresh) > 0 {
			return fresh, nil
		}
	}
	return nil, ctx.Err()
}

// receive receives once. What SQS has handed over is in hand, though the command was stopped or an answer got lost meanwhile.
func (r *Reader) receive(ctx context.Context) ([]*Message, error) {
	ctx, stop := finishing(ctx)
	defer stop()
	input := &sqs.ReceiveMessageInput{
		QueueUrl: &r.url, MaxNumberOfMessages: batchMax, WaitTimeSeconds: int32(receiveWait / time.Second), VisibilityTimeout: int32(r.hidden / time.Second),
		MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	}
	if r.fifo {
		input.ReceiveRequestAttemptId = aws.String(rand.Text()) // Tried again, it hands over the same messages.
	}
	until := time.Now().Round(0).Add(r.hidden)
	output, err := r.client.ReceiveMessage(ctx, input)
	if err != nil {
		return nil, fmt.Errorf("receiving from %s: %w", r.url, err)
	}
	messages := make([]*Message, len(output.Messages))
	for i, received := range output.Messages {
		messages[i] = read(received)
		messages[i].until = until
	}
	return messages, nil
}

// finishing returns a context that ends a little later than ctx when that is stopped.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			end()
		case <-longer.Done():
		}
	})
	return longer, func() {
		stop()
		end()
	}
}

// read returns a message as it was received.
func read(received types.Message) *Message {
	text := func(name string) string { return aws.ToString(received.MessageAttributes[name].StringValue) }
	millis, _ := strconv.ParseInt(received.Attributes["SentTimestamp"], 10, 64)
	m := &Message{
		ID: aws.ToString(received.MessageId), Group: received.Attributes["MessageGroupId"], Body: aws.ToString(received.Body), Sent: time.UnixMilli(millis).UTC(),
		Reason: text(sqsqueue.AttrReason), SourceQueue: text(sqsqueue.AttrSourceQueue), Sequence: text(sqsqueue.AttrSequenceNumber),
		SentFirst: text(sqsqueue.AttrSentAt), Receives: text(sqsqueue.AttrReceiveCount),
		attributes: received.MessageAttributes, trace: received.Attributes["AWSTraceHeader"], receipt: aws.ToString(received.ReceiptHandle),
	}
	if m.Instance = m.Group; m.Instance == "" {
		if timer, err := schedule.Read(m.Body); err == nil {
			m.Instance = timer.To.String()
		}
	}
	if code := text(attrErrorCode); m.Reason == "" && code != "" {
		m.Reason = "EventBridge could not deliver it: " + code + ": " + text(attrErrorMessage)
	}
	return m
}

// Delete deletes a message for good.
func (r *Reader) Delete(ctx context.Context, m *Message) error {
	ctx, stop := finishing(ctx)
	defer stop()
	if _, err := r.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &r.url, ReceiptHandle: &m.receipt}); err != nil {
		return fmt.Errorf("deleting message %s from %s: %w", m.ID, r.url, err)
	}
	delete(r.held, m.ID)
	return nil
}

// Close puts back all messages in hand, so that they can be received again at once, though ctx may be over.
func (r *Reader) Close(ctx context.Context) error {
	return r.PutBack(ctx, func(*Message) bool { return true })
}

// PutBack is Close for the chosen messages. A FIFO queue shows the later messages of a group only together with the earlier ones, or
// once those are gone.
func (r *Reader) PutBack(ctx context.Context, chosen func(*Message) bool) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer stop()
	var failures []error
	now := time.Now().Round(0)
	maps.DeleteFunc(r.held, func(_ string, m *Message) bool { return !now.Before(m.until) }) // They are back already.
	var back []string
	for id, m := range r.held {
		if chosen(m) {
			back = append(back, id)
		}
	}
	slices.Sort(back)
	for ids := range slices.Chunk(back, batchMax) {
		input := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &r.url}
		for i, id := range ids {
			input.Entries = append(input.Entries, types.ChangeMessageVisibilityBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &r.held[id].receipt})
		}
		output, err := r.client.ChangeMessageVisibilityBatch(ctx, input)
		if err == nil && len(output.Failed) > 0 {
			err = fmt.Errorf("%d of %d refused, the first because %s", len(output.Failed), len(ids), aws.ToString(output.Failed[0].Message))
		}
		if err != nil {
			failures = append(failures, err)
		}
	}
	maps.DeleteFunc(r.held, func(_ string, m *Message) bool { return chosen(m) })
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("returning messages to %s, where they reappear within %v in any case: %w", r.url, r.hidden, err)
	}
	return nil
}
