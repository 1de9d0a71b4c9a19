package awslocal_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// polled is the result of a long poll and its duration.
type polled struct {
	messages []types.Message
	err      error
	after    time.Duration
}

// poll starts a long poll of 20 s and waits until it blocks.
func (q queue) poll(ctx context.Context) <-chan polled {
	result := make(chan polled, 1)
	start := time.Now()
	go func() {
		messages, err := q.tryReceive(ctx, waiting(20), upTo(10))
		result <- polled{messages, err, time.Since(start)}
	}()
	synctest.Wait()
	return result
}

func (p polled) want(t *testing.T, after time.Duration, want ...string) {
	t.Helper()
	if p.err != nil {
		t.Fatalf("long poll: %v", p.err)
	}
	wantBodies(t, p.messages, want...)
	if p.after != after {
		t.Fatalf("long poll took %v, want %v", p.after, after)
	}
}

func TestSQS_longpoll_wake_on_expiry_at_its_deadline(t *testing.T) {
	t.Parallel()
	for range 20 { // select chooses one of the ready channels at random
		synctest.Test(t, func(t *testing.T) {
			q := newFIFO(t, nil)
			q.sendAll("a1")
			q.receive(visible(20))
			(<-q.poll(t.Context())).want(t, 20*time.Second, "a1")
		})
	}
}

func TestSQS_longpoll_wake_on_shortened_visibility(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1")
		a1 := q.receive(visible(600))[0]
		poll := q.poll(t.Context())
		q.setVisibility(a1, 4)
		(<-poll).want(t, 4*time.Second, "a1")
	})
}

func TestSQS_longpoll_wake_on_queue_deletion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		first, second := q.poll(t.Context()), q.poll(t.Context())
		if _, err := q.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &q.url}); err != nil {
			t.Fatal(err)
		}
		for _, poll := range []<-chan polled{first, second} {
			p := <-poll
			wantCode(t, p.err, "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue")
		}
	})
}

func TestSQS_longpoll_wake_on_redrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, dlq := newFIFOWithDLQ(t, 1)
		q.sendAll("a1")
		q.receive(visible(1))
		poll := dlq.poll(t.Context())
		time.Sleep(time.Second)
		wantBodies(t, q.receive())
		(<-poll).want(t, time.Second, "a1")
	})
}

func TestSQS_longpoll_default_of_the_queue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, map[string]string{"ReceiveMessageWaitTimeSeconds": "6"})
		start := time.Now()
		wantBodies(t, q.receive())
		wantElapsed(t, start, 6*time.Second)
	})
}

func TestSQS_longpoll_first_come_first_served(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		var polls []<-chan polled
		for range 5 {
			polls = append(polls, q.poll(t.Context()))
		}
		for i, group := range []string{"a", "b", "c", "d", "e"} {
			time.Sleep(time.Second)
			q.send(group, fmt.Sprint(group, i))
		}
		for i, poll := range polls {
			(<-poll).want(t, time.Duration(i+1)*time.Second, fmt.Sprint(string(rune('a'+i)), i))
		}
	})
}

func TestSQS_longpoll_two_waiting_receives_get_one_group_each(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1", "b1")
		a, b := q.receive(visible(3)), q.receive(visible(3))
		wantBodies(t, append(a, b...), "a1", "b1")
		start := time.Now()
		got := make(chan []types.Message)
		for range 2 {
			go func() { got <- q.receive(waiting(20)) }()
		}
		seen := map[string]bool{}
		for range 2 {
			for _, m := range <-got {
				seen[*m.Body] = true
			}
		}
		wantElapsed(t, start, 3*time.Second)
		if !seen["a1"] || !seen["b1"] {
			t.Fatalf("received %v, want a1 and b1", seen)
		}
	})
}
