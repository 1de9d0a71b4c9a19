package sqsqueue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/settle-run/settle/infra/awslocal"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// consumerFunc is a sqsqueue.Consumer.
type consumerFunc func(context.Context, []durable.Delivery) []string

func (f consumerFunc) Handle(ctx context.Context, deliveries []durable.Delivery) []string {
	return f(ctx, deliveries)
}

// poll runs a handler on a queue for the given time.
func (f *fixture) poll(queue string, handler any, duration time.Duration) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), duration)
	defer cancel()
	source := awslocal.EventSource{Queue: queue, ReportBatchItemFailures: true}
	if err := f.cloud.Poll(ctx, source, func() awslocal.Invoker { return lambda.NewHandler(handler) }); err != nil {
		f.t.Fatal(err)
	}
}

func TestHandlerDecodesLambdasBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		sent := time.Now().UTC()
		first := f.send(`{"type":"SIGN_UP"}`, "d-1")
		second := f.send(`{"type":"VERIFY"}`, "d-2")

		var batches [][]durable.Delivery
		f.poll("events.fifo", sqsqueue.Handler(consumerFunc(func(_ context.Context, deliveries []durable.Delivery) []string {
			batches = append(batches, deliveries)
			if len(batches) == 1 {
				return []string{second}
			}
			return nil
		})), 10*visibility)

		want := [][]durable.Delivery{
			{
				{MessageID: first, Queue: f.arn, Group: "signup/ada", DeduplicationID: "d-1", ReceiveCount: 1, SentAt: sent, Body: `{"type":"SIGN_UP"}`},
				{MessageID: second, Queue: f.arn, Group: "signup/ada", DeduplicationID: "d-2", ReceiveCount: 1, SentAt: sent, Body: `{"type":"VERIFY"}`},
			},
			{
				{MessageID: second, Queue: f.arn, Group: "signup/ada", DeduplicationID: "d-2", ReceiveCount: 2, SentAt: sent, Body: `{"type":"VERIFY"}`},
			},
		}
		if diff := cmp.Diff(want, batches, cmpopts.IgnoreFields(durable.Delivery{}, "ReceiptHandle", "SequenceNumber")); diff != "" {
			t.Fatalf("deliveries (-want +got):\n%s", diff)
		}
		if a, b, again := batches[0][0].SequenceNumber, batches[0][1].SequenceNumber, batches[1][0].SequenceNumber; a >= b || b != again || len(a) != len(b) {
			t.Errorf("got sequence numbers %s, %s, then %s, want them to increase and to stay", a, b, again)
		}
	})
}

func TestHandlerFailsABatchOfAnotherQueue(t *testing.T) {
	t.Parallel()
	handler := sqsqueue.Handler(consumerFunc(func(context.Context, []durable.Delivery) []string {
		t.Error("the consumer was called")
		return nil
	}))
	_, err := handler(t.Context(), events.SQSEvent{Records: []events.SQSMessage{{MessageId: "m-1"}}})
	if !errors.Is(err, sqsqueue.ErrNotFIFO) {
		t.Errorf("got %v, want ErrNotFIFO", err)
	}
}

func TestEachHandlerFailsSingleMessagesUntilTheyAreDeadLettered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		deadURL, deadARN := f.create("dead", nil)
		url, _ := f.create("delays", map[string]string{"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn": %q, "maxReceiveCount": 2}`, deadARN)})
		for _, body := range []string{"good", "bad", "fine"} {
			f.sendPlain(url, body)
		}

		var log bytes.Buffer
		var handled []string
		handler := sqsqueue.EachHandler(slog.New(slog.NewTextHandler(&log, nil)), func(_ context.Context, body string) error {
			handled = append(handled, body)
			if body == "bad" {
				return errors.New("it is bad")
			}
			return nil
		})
		f.poll("delays", handler, 10*visibility)

		slices.Sort(handled)
		if got, want := strings.Join(handled, " "), "bad bad fine good"; got != want {
			t.Errorf("handled %s, want %s", got, want)
		}
		if n := strings.Count(log.String(), `level=WARN msg="message failed, will be redelivered" error="it is bad"`); n != 2 {
			t.Errorf("got %d warnings, want 2:\n%s", n, &log)
		}
		if dead := f.receive(deadURL); len(dead) != 1 || *dead[0].Body != "bad" {
			t.Errorf("the dead-letter queue has %d messages, want only the bad one", len(dead))
		}
	})
}
