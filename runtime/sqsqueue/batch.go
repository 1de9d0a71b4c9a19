package sqsqueue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// SendBatchMax is the maximum number of messages that SendBatch accepts. It is SQS's limit for one SendMessageBatch
// (SQS API Reference, "SendMessageBatch").
const SendBatchMax = 10

// SendBatch sends events to different instances in one request, or in several if the events together are longer than
// MessageBytesMax. It returns one error for each message, in order: nil if the message was sent, else an error like
// Send's. Retry the failed messages under the same DeduplicationID.
//
// A batch with more than SendBatchMax messages, or with two messages to one instance, is the caller's error. SendBatch
// then sends nothing, and no error wraps ErrRefused. Two messages to one instance could be reordered: SQS may accept
// the second and fail the first.
func (q *Queue) SendBatch(ctx context.Context, messages []durable.Message) []error {
	errs := make([]error, len(messages))
	if err := checkBatch(messages); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	byURL := map[string][]types.SendMessageBatchRequestEntry{}
	for i, message := range messages {
		url := q.urlFor(message.To, message.Lane)
		byURL[url] = append(byURL[url], entryOf(ctx, i, message))
	}
	for _, url := range slices.Sorted(maps.Keys(byURL)) {
		q.sendAll(ctx, url, byURL[url], messages, errs)
	}
	return errs
}

// sendAll sends entries to one queue, in one request or in several, and sets the errors of their messages.
func (q *Queue) sendAll(ctx context.Context, url string, entries []types.SendMessageBatchRequestEntry, messages []durable.Message, errs []error) {
	for start := 0; start < len(entries); {
		end := start + 1
		for size := entryBytes(entries[start]); end < len(entries); end++ {
			if size += entryBytes(entries[end]); size > MessageBytesMax {
				break
			}
		}
		if end == start+1 || !q.sendEntries(ctx, url, entries[start:end], messages, errs) {
			for _, entry := range entries[start:end] {
				i := indexOf(entry)
				_, errs[i] = q.Send(ctx, messages[i])
			}
		}
		start = end
	}
}

// indexOf returns the position of the entry's message, which entryOf has put into the ID.
func indexOf(entry types.SendMessageBatchRequestEntry) int {
	i, _ := strconv.Atoi(aws.ToString(entry.Id))
	return i
}

// checkBatch returns an error if the messages cannot be sent as a batch.
func checkBatch(messages []durable.Message) error {
	if len(messages) > SendBatchMax {
		return fmt.Errorf("sending a batch: expected at most %d messages, got %d", SendBatchMax, len(messages))
	}
	seen := map[instances.ID]bool{}
	for _, message := range messages {
		if seen[message.To] {
			return fmt.Errorf("sending a batch: expected messages to different instances, got two for %s", message.To)
		}
		seen[message.To] = true
	}
	return nil
}

// entryOf returns message i as an entry of a batch. The entry's ID is i.
func entryOf(ctx context.Context, i int, message durable.Message) types.SendMessageBatchRequestEntry {
	body := sendable(message.Body)
	return types.SendMessageBatchRequestEntry{
		Id:                     aws.String(strconv.Itoa(i)),
		MessageBody:            &body,
		MessageGroupId:         aws.String(message.To.String()),
		MessageDeduplicationId: &message.DeduplicationID,

		MessageAttributes:       traceAttributes(ctx, len(body)),
		MessageSystemAttributes: traceSystemAttributes(ctx),
	}
}

// entryBytes returns the part of MessageBytesMax that an entry takes: body and message attributes. System attributes do
// not count (SQS API Reference, "SendMessage", MessageSystemAttributes).
func entryBytes(entry types.SendMessageBatchRequestEntry) int {
	size := len(aws.ToString(entry.MessageBody))
	for name, attribute := range entry.MessageAttributes {
		size += len(name) + len(aws.ToString(attribute.DataType)) + len(aws.ToString(attribute.StringValue))
	}
	return size
}

// sendEntries sends entries to one queue in one request and sets the errors of their messages. It returns false if SQS refuses the
// request as a whole: nothing was sent, and the response does not name the message at fault.
func (q *Queue) sendEntries(ctx context.Context, url string, entries []types.SendMessageBatchRequestEntry, messages []durable.Message, errs []error) bool {
	output, err := q.client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: entries})
	var tooLong *types.BatchRequestTooLong
	if err != nil {
		if err = classify(err); errors.As(err, &tooLong) || errors.Is(err, ErrRefused) {
			return false
		}
		output = &sqs.SendMessageBatchOutput{}
	} else {
		err = errors.New("expected SQS to report the message as sent or failed, got neither")
	}
	outcomes := map[string]error{}
	for _, sent := range output.Successful {
		outcomes[aws.ToString(sent.Id)] = nil
	}
	for _, failed := range output.Failed {
		outcomes[aws.ToString(failed.Id)] = classify(entryError(failed))
	}
	for _, entry := range entries {
		outcome, ok := outcomes[aws.ToString(entry.Id)]
		if !ok {
			outcome = err
		}
		if i := indexOf(entry); outcome != nil {
			errs[i] = fmt.Errorf("sending %s to %s at %s: %w", messages[i].DeduplicationID, messages[i].To, url, outcome)
		}
	}
	return true
}
