package awslocal_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func TestSQS_order_in_group(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	q.sendAll("a1", "a2", "a3", "a4", "a5")
	wantBodies(t, q.receive(upTo(10)), "a1", "a2", "a3", "a4", "a5")
}

func TestSQS_order_one_by_one(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	for i := range 12 {
		for _, group := range []string{"a", "b", "c"} {
			q.send(group, fmt.Sprintf("%s%02d", group, i))
		}
	}
	got := map[string][]string{}
	for range 36 {
		messages := q.receive()
		if len(messages) != 1 {
			t.Fatalf("received %v, want one message", bodies(messages))
		}
		body := *messages[0].Body
		got[body[:1]] = append(got[body[:1]], body)
		q.delete(messages...)
	}
	for group, order := range got {
		for i, body := range order {
			if want := fmt.Sprintf("%s%02d", group, i); body != want {
				t.Fatalf("group %s came as %v", group, order)
			}
		}
	}
	wantBodies(t, q.receive(upTo(10)))
}

func TestSQS_group_lock(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	q.sendAll("a1", "a2", "b1")
	a1 := q.receive()
	wantBodies(t, a1, "a1")
	wantBodies(t, q.receive(upTo(10)), "b1")
	wantBodies(t, q.receive(upTo(10)))
	q.delete(a1...)
	wantBodies(t, q.receive(upTo(10)), "a2")
}

func TestSQS_group_lock_batch(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	q.sendAll("a1", "a2", "a3")
	batch := q.receive(upTo(2))
	wantBodies(t, batch, "a1", "a2")
	q.delete(batch[0])
	wantBodies(t, q.receive(upTo(10)))
	q.delete(batch[1])
	wantBodies(t, q.receive(upTo(10)), "a3")
}

func TestSQS_batch_of_several_groups_in_queue_order(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	q.sendAll("a1", "b1", "a2", "c1")
	wantBodies(t, q.receive(upTo(10)), "a1", "b1", "a2", "c1")
}

func TestSQS_concurrent_consumers_group_lock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		const groups, each, consumers = 5, 20, 8
		for i := range each {
			for g := range groups {
				q.send(fmt.Sprint(g), fmt.Sprintf("%d-%02d", g, i))
			}
		}
		var mu sync.Mutex
		inFlight := map[string]bool{}
		order := map[string][]string{}
		var running sync.WaitGroup
		for range consumers {
			running.Go(func() {
				for {
					messages := q.receive(waiting(5))
					if len(messages) == 0 {
						return
					}
					group := messages[0].Attributes["MessageGroupId"]
					mu.Lock()
					if inFlight[group] {
						t.Errorf("two messages of group %s in flight", group)
					}
					inFlight[group] = true
					order[group] = append(order[group], *messages[0].Body)
					mu.Unlock()

					time.Sleep(100 * time.Millisecond)

					mu.Lock()
					inFlight[group] = false
					mu.Unlock()
					q.delete(messages...)
				}
			})
		}
		running.Wait()
		for g := range groups {
			got := order[fmt.Sprint(g)]
			if len(got) != each {
				t.Fatalf("group %d: received %d messages, want %d: %v", g, len(got), each, got)
			}
			for i, body := range got {
				if want := fmt.Sprintf("%d-%02d", g, i); body != want {
					t.Fatalf("group %d came as %v", g, got)
				}
			}
		}
	})
}

func TestSQS_visibility_expiry_order(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1", "a2")
		wantBodies(t, q.receive(visible(2)), "a1")
		time.Sleep(2*time.Second - time.Nanosecond)
		wantBodies(t, q.receive())
		time.Sleep(time.Nanosecond)
		again := q.receive()
		wantBodies(t, again, "a1")
		if got := receiveCount(again[0]); got != "2" {
			t.Fatalf("ApproximateReceiveCount is %s, want 2", got)
		}
	})
}

func TestSQS_partial_delete_then_expiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1", "a2", "a3", "a4")
		batch := q.receive(upTo(3), visible(5))
		q.delete(batch[0], batch[2])
		wantBodies(t, q.receive(upTo(10)))
		time.Sleep(5 * time.Second)
		wantBodies(t, q.receive(upTo(10)), "a2", "a4")
	})
}

func TestSQS_recv_visibility_override(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, map[string]string{"VisibilityTimeout": "30"})
		q.sendAll("a1")
		q.receive(visible(2))
		time.Sleep(2 * time.Second)
		wantBodies(t, q.receive(), "a1")
		time.Sleep(29 * time.Second)
		wantBodies(t, q.receive())
		time.Sleep(time.Second)
		wantBodies(t, q.receive(), "a1")
	})
}

func TestSQS_change_visibility_0(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	q.sendAll("a1", "a2")
	q.setVisibility(q.receive()[0], 0)
	again := q.receive()
	wantBodies(t, again, "a1")
	if got := receiveCount(again[0]); got != "2" {
		t.Fatalf("ApproximateReceiveCount is %s, want 2", got)
	}
}

func TestSQS_change_visibility_extend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, map[string]string{"VisibilityTimeout": "2"})
		q.sendAll("a1")
		q.setVisibility(q.receive()[0], 60)
		time.Sleep(59 * time.Second)
		wantBodies(t, q.receive())
		time.Sleep(time.Second)
		wantBodies(t, q.receive(), "a1")
	})
}

func TestSQS_change_visibility_beyond_12_hours_is_refused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1")
		m := q.receive(visible(100))[0]
		time.Sleep(time.Second)
		for seconds, code := range map[int32]string{43201: "InvalidParameterValue", 43200: "InvalidParameterValue", -1: "InvalidParameterValue"} {
			_, err := q.client.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{
				QueueUrl: &q.url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds,
			})
			wantCode(t, err, code)
		}
		q.setVisibility(m, 43199)
	})
}

func TestSQS_change_visibility_batch(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	q.sendAll("a1", "b1")
	batch := q.receive(upTo(10))
	id := []string{"one", "two", "bad"}
	garbage := "garbage"
	out, err := q.client.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{
		QueueUrl: &q.url,
		Entries: []types.ChangeMessageVisibilityBatchRequestEntry{
			{Id: &id[0], ReceiptHandle: batch[0].ReceiptHandle, VisibilityTimeout: 0},
			{Id: &id[1], ReceiptHandle: batch[1].ReceiptHandle, VisibilityTimeout: 60},
			{Id: &id[2], ReceiptHandle: &garbage},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Successful) != 2 || len(out.Failed) != 1 || *out.Failed[0].Id != "bad" ||
		*out.Failed[0].Code != "ReceiptHandleIsInvalid" {
		t.Fatalf("got %+v", out)
	}
	wantBodies(t, q.receive(upTo(10)), "a1")
}
