package sqs

import (
	"fmt"
	"math"
	"testing"
	"time"
)

var backlogNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// The oldest messages, as many as a receive scans, belong to one locked group.
func TestReceive_looks_for_groups_in_the_first_120000_messages(t *testing.T) {
	t.Parallel()
	m := filled(t, backlogNow, 120_000, 1)
	sendTo(t, m, "free", "behind")
	hot := receiveAll(t, m, 10)
	if len(hot) != 10 || hot[0].Body != "0" {
		t.Fatalf("received %d messages, want the first 10 of the hot group", len(hot))
	}
	if got := receiveAll(t, m, 10); len(got) != 0 {
		t.Fatalf("received %q behind 120,000 messages of a locked group", got[0].Body)
	}
	deleteMessage(t, m, hot[0])
	if got := receiveAll(t, m, 10); len(got) != 1 || got[0].Body != "behind" {
		t.Fatalf("received %d messages once 119,999 remain in front, want the one of the other group", len(got))
	}
}

func TestReceive_returns_nothing_from_FIFO_queue_with_120000_messages_in_flight(t *testing.T) {
	t.Parallel()
	m := New()
	m.LimitScan(math.MaxInt)
	const groups = 17_144 // the last receive would exceed 120,000 with its seventh message
	fill(t, m, backlogNow, 7*groups, groups)
	received := 0
	var last ReceivedMessage
	for {
		got := receiveAll(t, m, 7)
		if len(got) == 0 {
			break
		}
		received, last = received+len(got), got[0]
	}
	if received != 120_000 {
		t.Fatalf("received %d messages without deleting any, want 120,000", received)
	}
	deleteMessage(t, m, last)
	if got := receiveAll(t, m, 7); len(got) != 1 {
		t.Fatalf("received %d messages after a deletion, want one", len(got))
	}
}

// A standard queue has no groups that could lock each other.
func TestReceive_scans_a_whole_standard_queue(t *testing.T) {
	t.Parallel()
	m := New()
	m.LimitScan(2)
	if _, err := m.CreateQueue(backlogNow, &CreateQueueInput{QueueName: "q"}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := m.SendMessage(backlogNow, &SendMessageInput{QueueUrl: "q", Message: Message{MessageBody: fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	most := 10
	out, err := m.ReceiveMessage(backlogNow, &ReceiveMessageInput{QueueUrl: "q", MaxNumberOfMessages: &most})
	if err != nil || len(out.Messages) != 5 {
		t.Fatalf("received %d messages, %v; want 5", len(out.Messages), err)
	}
}

func sendTo(t *testing.T, m *Model, group, body string) {
	t.Helper()
	if _, err := m.SendMessage(backlogNow, &SendMessageInput{QueueUrl: "q.fifo", Message: Message{
		MessageBody: body, MessageGroupId: group, MessageDeduplicationId: body}}); err != nil {
		t.Fatal(err)
	}
}

func receiveAll(t *testing.T, m *Model, most int) []ReceivedMessage {
	t.Helper()
	out, err := m.ReceiveMessage(backlogNow, &ReceiveMessageInput{QueueUrl: "q.fifo", MaxNumberOfMessages: &most})
	if err != nil {
		t.Fatal(err)
	}
	return out.Messages
}

func deleteMessage(t *testing.T, m *Model, message ReceivedMessage) {
	t.Helper()
	if _, err := m.DeleteMessage(backlogNow, &DeleteMessageInput{QueueUrl: "q.fifo", ReceiptHandle: message.ReceiptHandle}); err != nil {
		t.Fatal(err)
	}
}
