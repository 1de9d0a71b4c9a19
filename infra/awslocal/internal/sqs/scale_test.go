package sqs

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkCycle shows that the cost of a send, receive and delete does not depend on the number of queued messages:
//
//	go test -bench Cycle ./infra/awslocal/internal/sqs
func BenchmarkCycle(b *testing.B) {
	for _, queued := range []int{0, 1_000, 1_000_000} {
		for _, groups := range []int{1, 100_000} {
			b.Run(fmt.Sprintf("queued=%d/groups=%d", queued, groups), func(b *testing.B) {
				now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
				m := filled(b, now, queued, groups)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					now = now.Add(time.Millisecond)
					cycle(b, m, now, queued+i, groups)
				}
			})
		}
	}
}

// filled returns a model whose queue q.fifo holds this many messages in this many groups.
func filled(tb testing.TB, now time.Time, messages, groups int) *Model {
	tb.Helper()
	m := New()
	fill(tb, m, now, messages, groups)
	return m
}

// fill creates the queue q.fifo in m and sends this many messages in this many groups.
func fill(tb testing.TB, m *Model, now time.Time, messages, groups int) {
	tb.Helper()
	if _, err := m.CreateQueue(now, &CreateQueueInput{
		QueueName: "q.fifo", Attributes: map[string]string{"FifoQueue": "true"}}); err != nil {
		tb.Fatal(err)
	}
	for i := range messages {
		send(tb, m, now, i, groups)
	}
}

func send(tb testing.TB, m *Model, now time.Time, i, groups int) {
	tb.Helper()
	id := fmt.Sprint(i)
	if _, err := m.SendMessage(now, &SendMessageInput{QueueUrl: "q.fifo", Message: Message{
		MessageBody: id, MessageGroupId: fmt.Sprint("g", i%groups), MessageDeduplicationId: id}}); err != nil {
		tb.Fatal(err)
	}
}

func cycle(tb testing.TB, m *Model, now time.Time, i, groups int) {
	tb.Helper()
	send(tb, m, now, i, groups)
	out, err := m.ReceiveMessage(now, &ReceiveMessageInput{QueueUrl: "q.fifo"})
	if err != nil || len(out.Messages) != 1 {
		tb.Fatalf("received %v, %v; want one message", out.Messages, err)
	}
	if _, err := m.DeleteMessage(now, &DeleteMessageInput{
		QueueUrl: "q.fifo", ReceiptHandle: out.Messages[0].ReceiptHandle}); err != nil {
		tb.Fatal(err)
	}
}
