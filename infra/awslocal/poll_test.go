package awslocal_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/infra/awslocal"
)

// function is an Invoker that records when it received which bodies.
type function struct {
	mu    sync.Mutex
	start time.Time
	calls []string // each call as "<seconds>s [bodies]"
	do    func(ctx context.Context, event events.SQSEvent) (any, error)
}

func newFunction(do func(ctx context.Context, event events.SQSEvent) (any, error)) *function {
	return &function{start: time.Now(), do: do}
}

func (f *function) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return lambda.NewHandler(func(ctx context.Context, event events.SQSEvent) (any, error) {
		var bodies []string
		for _, r := range event.Records {
			bodies = append(bodies, r.Body)
		}
		f.mu.Lock()
		f.calls = append(f.calls, fmt.Sprint(time.Since(f.start), " ", bodies))
		f.mu.Unlock()
		return f.do(ctx, event)
	}).Invoke(ctx, payload)
}

// count returns the number of invocations.
func (f *function) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

// wantCalls fails unless the function received exactly these batches.
func (f *function) wantCalls(t *testing.T, want ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if diff := cmp.Diff(want, f.calls); diff != "" {
		t.Fatalf("invocations (-want +got):\n%s", diff)
	}
}

// start polls q until the test ends.
func (q queue) start(source awslocal.EventSource, invoke awslocal.Invoker) {
	q.t.Helper()
	source.Queue = q.name
	ctx, stop := context.WithCancel(q.t.Context())
	done := make(chan error, 1)
	go func() { done <- q.cloud.Poll(ctx, source, func() awslocal.Invoker { return invoke }) }()
	q.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			q.t.Errorf("Poll: %v", err)
		}
	})
}

func succeed(context.Context, events.SQSEvent) (any, error) { return nil, nil }

func TestLambda_poller_batches_in_queue_order(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1", "b1", "a2", "b2")
		for i := range 11 {
			q.send("c", fmt.Sprint("c", i))
		}
		f := newFunction(func(context.Context, events.SQSEvent) (any, error) {
			time.Sleep(time.Second)
			return nil, nil
		})
		q.start(awslocal.EventSource{}, f)
		time.Sleep(time.Minute)
		// The first batch has all messages of the groups a and b, and as many messages of c as fit. The rest of c waits until
		// its group is unlocked.
		f.wantCalls(t, "0s [a1 b1 a2 b2 c0 c1 c2 c3 c4 c5]", "1s [c6 c7 c8 c9 c10]")
	})
}

func TestLambda_poller_one_invocation_in_flight_per_group(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		var mu sync.Mutex
		inFlight := map[string]int{}
		most := 0
		f := newFunction(func(_ context.Context, event events.SQSEvent) (any, error) {
			group := event.Records[0].Attributes["MessageGroupId"]
			mu.Lock()
			inFlight[group]++
			if inFlight[group] > 1 {
				t.Errorf("two invocations have messages of group %s", group)
			}
			total := 0
			for _, n := range inFlight {
				total += n
			}
			most = max(most, total)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			inFlight[group]--
			mu.Unlock()
			return nil, nil
		})
		q.start(awslocal.EventSource{BatchSize: 1, Concurrency: 3}, f)
		for i := range 4 {
			for _, group := range []string{"a", "b", "c", "d"} {
				q.send(group, fmt.Sprint(group, i))
			}
		}
		time.Sleep(time.Minute)
		if got := f.count(); got != 16 {
			t.Errorf("%d invocations, want 16", got)
		}
		mu.Lock()
		defer mu.Unlock()
		if most != 3 {
			t.Errorf("up to %d concurrent invocations, want Concurrency, which is 3", most)
		}
	})
}

func TestLambda_poller_failed_batch_is_redelivered_after_its_visibility_timeout(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fail   func(ctx context.Context) error
		reason string
	}{
		"error":   {func(context.Context) error { return errors.New("out of order") }, "the function failed: out of order"},
		"panic":   {func(context.Context) error { panic("out of order") }, "the function failed: panic: out of order"},
		"timeout": {func(ctx context.Context) error { <-ctx.Done(); return nil }, "the function timed out after 10s"},
		"late":    {func(context.Context) error { time.Sleep(11 * time.Second); return nil }, "the function timed out after 10s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newFIFO(t, map[string]string{"VisibilityTimeout": "60"})
				q.sendAll("a1", "a2", "b1")
				f := newFunction(nil)
				f.do = func(ctx context.Context, _ events.SQSEvent) (any, error) {
					if f.count() == 1 {
						return nil, test.fail(ctx)
					}
					return nil, nil
				}
				// The queue redelivers every failed batch after 60 s, because the visibility timeout starts when the batch is
				// received.
				reasons := make(chan error, 10)
				q.start(awslocal.EventSource{Timeout: 10 * time.Second, OnFailure: func(err error) { reasons <- err }}, f)
				time.Sleep(10 * time.Minute)
				f.wantCalls(t, "0s [a1 a2 b1]", "1m0s [a1 a2 b1]")
				wantMessage(t, <-reasons, "a batch of 3 messages of queue.fifo: "+test.reason)
			})
		})
	}
}

func TestLambda_poller_keeps_the_visibility_set_by_the_function(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1", "b1")
		f := newFunction(nil)
		f.do = func(_ context.Context, event events.SQSEvent) (any, error) {
			if f.count() > 1 {
				return nil, nil
			}
			for i, seconds := range []int32{5, 100} {
				q.setVisibility(types.Message{ReceiptHandle: &event.Records[i].ReceiptHandle, Body: &event.Records[i].Body}, seconds)
			}
			return nil, errors.New("out of order")
		}
		q.start(awslocal.EventSource{}, f)
		time.Sleep(10 * time.Minute)
		f.wantCalls(t, "0s [a1 b1]", "5s [a1]", "1m40s [b1]")
	})
}

func TestLambda_poller_does_not_delete_redelivered_messages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1")
		f := newFunction(nil)
		f.do = func(_ context.Context, event events.SQSEvent) (any, error) {
			if f.count() == 1 {
				q.setVisibility(types.Message{ReceiptHandle: &event.Records[0].ReceiptHandle, Body: &event.Records[0].Body}, 0)
			}
			return nil, nil
		}
		q.start(awslocal.EventSource{}, f)
		time.Sleep(10 * time.Minute)
		f.wantCalls(t, "0s [a1]", "0s [a1]")
	})
}

func TestLambda_poller_moves_poison_messages_to_the_dead_letter_queue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, dlq := newFIFOWithDLQ(t, 2)
		q.sendAll("a1", "a2")
		f := newFunction(func(_ context.Context, event events.SQSEvent) (any, error) {
			if event.Records[0].Body == "a1" {
				return nil, errors.New("poison")
			}
			return nil, nil
		})
		q.start(awslocal.EventSource{BatchSize: 1}, f)
		time.Sleep(10 * time.Minute)
		f.wantCalls(t, "0s [a1]", "30s [a1]", "1m0s [a2]")
		wantBodies(t, dlq.receive(), "a1")
	})
}

func TestLambda_poller_waits_for_invocations_in_flight_when_it_stops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1")
		ctx, stop := context.WithCancel(t.Context())
		start := time.Now()
		f := newFunction(func(ctx context.Context, _ events.SQSEvent) (any, error) {
			time.Sleep(2 * time.Second)
			return nil, ctx.Err()
		})
		time.AfterFunc(time.Second, stop)
		if err := q.cloud.Poll(ctx, awslocal.EventSource{Queue: q.name}, func() awslocal.Invoker { return f }); err != nil {
			t.Fatal(err)
		}
		wantElapsed(t, start, 2*time.Second)
		if got := q.attributes("ApproximateNumberOfMessagesNotVisible"); got["ApproximateNumberOfMessagesNotVisible"] != "0" {
			t.Fatalf("in flight: %v, want 0 after the invocation has finished", got)
		}
		q.sendAll("b1")
		time.Sleep(time.Minute)
		f.wantCalls(t, "0s [a1]")
	})
}

func TestLambda_poller_idle_makes_no_calls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.start(awslocal.EventSource{}, newFunction(succeed))
		start := time.Now()
		// A poller that makes long polls of 20 s would make 1.6 million calls in this virtual year.
		time.Sleep(365 * 24 * time.Hour)
		wantElapsed(t, start, 365*24*time.Hour)
	})
}

func TestLambda_poller_rejects_invalid_sources(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	for name, source := range map[string]awslocal.EventSource{
		"EventSource.Queue":        {},
		"QueueDoesNotExist":        {Queue: "absent.fifo"},
		"EventSource.BatchSize":    {Queue: q.name, BatchSize: 11},
		"EventSource.Timeout":      {Queue: q.name, Timeout: time.Hour},
		"EventSource.Concurrency":  {Queue: q.name, Concurrency: -1},
		"Queue visibility timeout": {Queue: q.name, Timeout: 31 * time.Second},
	} {
		err := q.cloud.Poll(t.Context(), source, func() awslocal.Invoker { return newFunction(succeed) })
		wantMessage(t, err, name)
	}
}

func TestLambda_poller_ends_with_its_queue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		done := make(chan error)
		go func() {
			done <- q.cloud.Poll(t.Context(), awslocal.EventSource{Queue: q.name}, func() awslocal.Invoker { return newFunction(succeed) })
		}()
		synctest.Wait()
		if _, err := q.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &q.url}); err != nil {
			t.Fatal(err)
		}
		wantMessage(t, <-done, "QueueDoesNotExist")
	})
}

// environment is an Invoker that records whether it was called while it was busy.
type environment struct {
	busy    atomic.Bool
	overlap *atomic.Bool
}

func (e *environment) Invoke(context.Context, []byte) ([]byte, error) {
	if e.busy.Swap(true) {
		e.overlap.Store(true)
	}
	time.Sleep(time.Second)
	e.busy.Store(false)
	return nil, nil
}

func TestLambda_poller_starts_environments_that_handle_one_invocation_at_a_time(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		for i := range 12 {
			q.send(fmt.Sprint("group", i), fmt.Sprint("body", i))
		}
		var started atomic.Int32
		var overlap atomic.Bool
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		source := awslocal.EventSource{Queue: q.name, BatchSize: 1, Concurrency: 3}
		done := make(chan error, 1)
		go func() {
			done <- q.cloud.Poll(ctx, source, func() awslocal.Invoker {
				started.Add(1)
				return &environment{overlap: &overlap}
			})
		}()
		time.Sleep(time.Minute)
		if started.Load() != 3 || overlap.Load() {
			t.Errorf("got %d environments for a concurrency of 3, concurrent use: %t", started.Load(), overlap.Load())
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
