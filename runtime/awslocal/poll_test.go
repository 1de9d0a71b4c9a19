package awslocal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/awslocal"
)

// function is an Invoker that notes when it got which bodies.
type function struct {
	mu    sync.Mutex
	start time.Time
	calls []string // "<seconds>s [bodies]"
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

// count returns how often the function was invoked.
func (f *function) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

// wantCalls fails unless the function got exactly these batches.
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
	go func() { done <- q.cloud.Poll(ctx, source, invoke) }()
	q.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			q.t.Errorf("Poll: %v", err)
		}
	})
}

func succeed(context.Context, events.SQSEvent) (any, error) { return nil, nil }

func TestLambda_event(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		var got events.SQSEvent
		q.start(awslocal.EventSource{}, newFunction(func(_ context.Context, event events.SQSEvent) (any, error) {
			got = event
			return nil, nil
		}))
		sent := time.Now()
		out, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &q.url, MessageBody: aws.String(`{"type":"<VERIFY>"}`), MessageGroupId: aws.String("signup/42"),
			MessageDeduplicationId: aws.String("1"), MessageAttributes: map[string]types.MessageAttributeValue{
				"kind": {DataType: aws.String("String"), StringValue: aws.String("x")},
				"blob": {DataType: aws.String("Binary"), BinaryValue: []byte{1, 2}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stamp := fmt.Sprint(sent.UnixMilli())
		want := events.SQSEvent{Records: []events.SQSMessage{{
			MessageId: *out.MessageId, ReceiptHandle: got.Records[0].ReceiptHandle,
			Body: `{"type":"<VERIFY>"}`, Md5OfBody: *out.MD5OfMessageBody, Md5OfMessageAttributes: *out.MD5OfMessageAttributes,
			Attributes: map[string]string{
				"ApproximateReceiveCount": "1", "SentTimestamp": stamp, "ApproximateFirstReceiveTimestamp": stamp,
				"SequenceNumber": *out.SequenceNumber, "MessageGroupId": "signup/42", "MessageDeduplicationId": "1",
				"SenderId": "AIDAAWSLOCAL000000000",
			},
			MessageAttributes: map[string]events.SQSMessageAttribute{
				"kind": {DataType: "String", StringValue: aws.String("x"), StringListValues: []string{}, BinaryListValues: [][]byte{}},
				"blob": {DataType: "Binary", BinaryValue: []byte{1, 2}, StringListValues: []string{}, BinaryListValues: [][]byte{}},
			},
			EventSource: "aws:sqs", EventSourceARN: "arn:aws:sqs:us-east-1:000000000000:queue.fifo", AWSRegion: "us-east-1",
		}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("event (-want +got):\n%s", diff)
		}
		if got.Records[0].ReceiptHandle == "" {
			t.Fatal("the record has no receipt handle")
		}
	})
}

func TestLambda_esm_fifo_partial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1", "b1", "c1")
		failing := true
		f := newFunction(func(_ context.Context, event events.SQSEvent) (any, error) {
			var response events.SQSEventResponse
			for _, r := range event.Records {
				if r.Body == "b1" && failing {
					response.BatchItemFailures = append(response.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: r.MessageId})
				}
			}
			failing = false
			return response, nil
		})
		q.start(awslocal.EventSource{ReportBatchItemFailures: true}, f)
		time.Sleep(5 * time.Minute)
		f.wantCalls(t, "0s [a1 b1 c1]", "30s [b1]")
	})
}

// What counts as success of a batch, by what the function answers.
func TestLambda_batch_response(t *testing.T) {
	t.Parallel()
	const success, failure = 1, 2 // invocations within a visibility time-out
	for name, test := range map[string]struct {
		answer      string
		invocations int32
	}{
		"no answer":                {``, success},
		"null":                     {`null`, success},
		"empty object":             {`{}`, success},
		"null list":                {`{"batchItemFailures":null}`, success},
		"empty list":               {`{"batchItemFailures":[]}`, success},
		"other key":                {`{"BatchItemFailures":[{"itemIdentifier":"x"}]}`, success},
		"not JSON":                 {`{"batchItemFailures":`, failure},
		"not an object":            {`["x"]`, failure},
		"list of strings":          {`{"batchItemFailures":["x"]}`, failure},
		"no itemIdentifier":        {`{"batchItemFailures":[{}]}`, failure},
		"null item":                {`{"batchItemFailures":[null]}`, failure},
		"misspelt itemIdentifier":  {`{"batchItemFailures":[{"ItemIdentifier":"x"}]}`, failure},
		"null itemIdentifier":      {`{"batchItemFailures":[{"itemIdentifier":null}]}`, failure},
		"empty itemIdentifier":     {`{"batchItemFailures":[{"itemIdentifier":""}]}`, failure},
		"unknown itemIdentifier":   {`{"batchItemFailures":[{"itemIdentifier":"x"}]}`, failure},
		"numeric itemIdentifier":   {`{"batchItemFailures":[{"itemIdentifier":1}]}`, failure},
		"ignored unless mapped so": {`{"batchItemFailures":[{"itemIdentifier":"x"}]}`, success},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newFIFO(t, nil)
				q.sendAll("a1")
				var invocations atomic.Int32
				q.start(awslocal.EventSource{ReportBatchItemFailures: name != "ignored unless mapped so"},
					invoker(func(context.Context, []byte) ([]byte, error) {
						invocations.Add(1)
						return []byte(test.answer), nil
					}))
				time.Sleep(31 * time.Second)
				if got := invocations.Load(); got != test.invocations {
					t.Fatalf("%d invocations, want %d", got, test.invocations)
				}
			})
		})
	}
}

type invoker func(ctx context.Context, payload []byte) ([]byte, error)

func (i invoker) Invoke(ctx context.Context, payload []byte) ([]byte, error) { return i(ctx, payload) }

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
		// a and b first, then as much of c as fits; the rest of c waits for its group.
		f.wantCalls(t, "0s [a1 b1 a2 b2 c0 c1 c2 c3 c4 c5]", "1s [c6 c7 c8 c9 c10]")
	})
}

func TestLambda_poller_one_invocation_in_flight_a_group(t *testing.T) {
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
		if most != 3 {
			t.Errorf("up to %d invocations at once, want 3: Concurrency", most)
		}
	})
}

func TestLambda_poller_failed_batch_comes_again_after_its_visibility_timeout(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(ctx context.Context) error{
		"error":    func(context.Context) error { return errors.New("out of order") },
		"panic":    func(context.Context) error { panic("out of order") },
		"time-out": func(ctx context.Context) error { <-ctx.Done(); return nil },
		"late":     func(context.Context) error { time.Sleep(11 * time.Second); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newFIFO(t, map[string]string{"VisibilityTimeout": "60"})
				q.sendAll("a1", "a2", "b1")
				f := newFunction(nil)
				f.do = func(ctx context.Context, _ events.SQSEvent) (any, error) {
					if f.count() == 1 {
						return nil, fail(ctx)
					}
					return nil, nil
				}
				// The time-out of the visibility begins when the batch is received.
				q.start(awslocal.EventSource{Timeout: 10 * time.Second}, f)
				time.Sleep(10 * time.Minute)
				f.wantCalls(t, "0s [a1 a2 b1]", "1m0s [a1 a2 b1]")
			})
		})
	}
}

func TestLambda_poller_leaves_the_visibility_that_the_function_has_set(t *testing.T) {
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

func TestLambda_poller_does_not_delete_what_was_redelivered(t *testing.T) {
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

func TestLambda_poller_moves_poison_to_the_dead_letter_queue(t *testing.T) {
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
		if err := q.cloud.Poll(ctx, awslocal.EventSource{Queue: q.name}, f); err != nil {
			t.Fatal(err)
		}
		wantElapsed(t, start, 2*time.Second)
		if got := q.attributes("ApproximateNumberOfMessagesNotVisible"); got["ApproximateNumberOfMessagesNotVisible"] != "0" {
			t.Fatalf("in flight: %v, want 0: the invocation has finished", got)
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
		// A poller that polls would take 15 million virtual calls for this year.
		time.Sleep(365 * 24 * time.Hour)
		wantElapsed(t, start, 365*24*time.Hour)
	})
}

func TestLambda_poller_refuses_what_lambda_refuses(t *testing.T) {
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
		err := q.cloud.Poll(t.Context(), source, newFunction(succeed))
		wantMessage(t, err, name)
	}
}

func TestLambda_poller_ends_with_its_queue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		done := make(chan error)
		go func() { done <- q.cloud.Poll(t.Context(), awslocal.EventSource{Queue: q.name}, newFunction(succeed)) }()
		synctest.Wait()
		if _, err := q.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &q.url}); err != nil {
			t.Fatal(err)
		}
		wantMessage(t, <-done, "QueueDoesNotExist")
	})
}

// The event is JSON as Lambda writes it: names and forms, not just what Go reads from it.
func TestLambda_event_json(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		var payload map[string][]map[string]json.RawMessage
		q.start(awslocal.EventSource{}, invoker(func(_ context.Context, p []byte) ([]byte, error) {
			return nil, json.Unmarshal(p, &payload)
		}))
		q.sendAll("a1")
		synctest.Wait()
		record := payload["Records"][0]
		for name, want := range map[string]string{
			"body": `"a1"`, "messageAttributes": `{}`, "eventSource": `"aws:sqs"`, "awsRegion": `"us-east-1"`,
		} {
			if got := string(record[name]); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
	})
}
