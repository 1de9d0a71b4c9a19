package sqsqueue_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// sendPlain sends a body to a standard queue.
func (f *fixture) sendPlain(url, body string) {
	f.t.Helper()
	if _, err := f.client.SendMessage(f.t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body}); err != nil {
		f.t.Fatal(err)
	}
}

func TestSendTwiceUnderOneIDIsDeliveredOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.send(`{"type":"A"}`, "d-1")
	if again := f.send(`{"type":"A"}`, "d-1"); again != first {
		t.Errorf("got message ID %s for the repeat, want %s", again, first)
	}
	f.send(`{"type":"B"}`, "d-2")
	got := f.deliveries()
	if want := []string{`{"type":"A"}`, `{"type":"B"}`}; !slices.Equal(bodiesOf(got), want) {
		t.Fatalf("got %s, want %s", bodiesOf(got), want)
	}
	if got[0].Group != "signup/ada" || got[0].MessageID != first || got[0].DeduplicationID != "d-1" {
		t.Errorf("got %+v, want group signup/ada, message ID %s and deduplication ID d-1", got[0], first)
	}
}

func TestSendEscapesWhatSQSRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const body = "{\"type\":\"A\",\"text\":\"<&>\ufffe\uffff\ufffd😀\"}"
	f.send(body, "d-1")
	got := f.deliveries()[0].Body
	if strings.ContainsAny(got, "\ufffe\uffff") {
		t.Errorf("got %q, want the noncharacters escaped", got)
	}
	var want, have any
	if json.Unmarshal([]byte(body), &want) != nil || json.Unmarshal([]byte(got), &have) != nil {
		t.Fatalf("got %q, want JSON", got)
	}
	if have.(map[string]any)["text"] != want.(map[string]any)["text"] {
		t.Errorf("got %q, want the same JSON as %q", got, body)
	}
}

func TestSendErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	missing := sqsqueue.New(f.client, f.url+"x.fifo", "")
	long := `{"type":"` + strings.Repeat("x", sqsqueue.MessageBytesMax) + `"}`
	for _, test := range []struct {
		name  string
		queue *sqsqueue.Queue
		body  string
		id    string
		want  error
	}{
		{"no such queue", missing, `{}`, "d", sqsqueue.ErrNoQueue},
		{"too long", f.queue, long, "d", sqsqueue.ErrRefused},
		{"deduplication ID too long", f.queue, `{}`, strings.Repeat("d", 129), sqsqueue.ErrRefused},
		{"standard queue", sqsqueue.New(f.client, f.plain, ""), `{}`, "d", sqsqueue.ErrRefused},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := test.queue.Send(t.Context(), durable.Message{To: ada, Body: []byte(test.body), DeduplicationID: test.id})
			if !errors.Is(err, test.want) || !strings.HasPrefix(err.Error(), "sending "+test.id+" to signup/ada at http://") {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestResolveURLByNameOrURL(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for given, want := range map[string]string{
		"events.fifo": f.url,
		"https://sqs.eu-central-1.amazonaws.com/123456789012/any.fifo": "https://sqs.eu-central-1.amazonaws.com/123456789012/any.fifo",
		"http://localhost:4566/000000000000/any.fifo":                  "http://localhost:4566/000000000000/any.fifo",
	} {
		if got, err := sqsqueue.ResolveURL(t.Context(), f.client, given); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", given, got, err, want)
		}
	}
	_, err := sqsqueue.ResolveURL(t.Context(), f.client, "nowhere.fifo")
	if !errors.Is(err, sqsqueue.ErrNoQueue) || !strings.Contains(err.Error(), `resolving the queue "nowhere.fifo", expected its name or its URL`) {
		t.Errorf("got %v, want ErrNoQueue", err)
	}
}

func TestDelayHidesAGroupAndKeepsItsOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for _, body := range strings.Fields("0 1 2 3 4 5 6 7 8 9 a b") {
			f.send(body, "d-"+body)
		}
		deliveries := f.deliveries()
		if len(deliveries) != 10 {
			t.Fatalf("got %d deliveries, want the 10 of a batch", len(deliveries))
		}
		if err := f.queue.Delay(t.Context(), deliveries, 89*time.Second+time.Nanosecond); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90*time.Second - time.Nanosecond)
		if early := f.deliveries(); len(early) > 0 {
			t.Errorf("got %s before the end of the delay", bodiesOf(early))
		}
		time.Sleep(time.Nanosecond)
		again := f.deliveries()
		if got, want := bodiesOf(again), bodiesOf(deliveries); !slices.Equal(got, want) || again[0].ReceiveCount != 2 {
			t.Errorf("got %s with receive count %d, want %s with 2", got, again[0].ReceiveCount, want)
		}
		if err := f.queue.Delay(t.Context(), again, 0); err != nil {
			t.Fatal(err)
		}
		if got := f.deliveries(); len(got) != 10 {
			t.Errorf("got %d deliveries after a delay of 0, want 10", len(got))
		}
	})
}

func TestDelayEndsBeforeSQSsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.send("A", "d-1")
		deliveries := f.deliveries()
		if err := f.queue.Delay(t.Context(), deliveries, 15*time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15*time.Minute - time.Second) // the longest Lambda invocation
		if err := f.queue.Delay(t.Context(), deliveries, 24*time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sqsqueue.WaitMax)
		if got := f.deliveries(); len(got) != 1 {
			t.Errorf("got %d deliveries after WaitMax, want 1", len(got))
		}
	})
}

func TestDelayNamesTheFailedMessagesAndDelaysTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for _, body := range strings.Fields("0 1 2") {
			f.send(body, "d-"+body)
		}
		received := f.deliveries()
		// SQS does not know eleven of the fourteen deliveries. Fourteen deliveries need two calls.
		deliveries := slices.Clone(received[:2])
		for range 11 {
			deliveries = append(deliveries, durable.Delivery{MessageID: "unknown", ReceiptHandle: "?"})
		}
		deliveries = append(deliveries, received[2])
		err := f.queue.Delay(t.Context(), deliveries, 2*visibility)
		if !errors.Is(err, sqsqueue.ErrExpired) || strings.Count(err.Error(), "delaying message unknown at ") != 11 {
			t.Errorf("got %v, want an ErrExpired that names the unknown message eleven times", err)
		}
		for _, delivery := range received {
			if strings.Contains(err.Error(), delivery.MessageID) {
				t.Errorf("the error names %s, which was delayed", delivery.MessageID)
			}
		}
		time.Sleep(2*visibility - time.Second)
		if early := f.deliveries(); len(early) > 0 {
			t.Errorf("got %s before the end of the delay", bodiesOf(early))
		}
	})
}

// TestOneConsumerServesSeveralQueues configures a consumer with the URL of one queue. It delays and acknowledges
// messages of another queue.
func TestOneConsumerServesSeveralQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.send("own", "d-1")
		otherURL, otherARN := f.create("other.fifo", map[string]string{"FifoQueue": "true"})
		other := &fixture{t: t, cloud: f.cloud, client: f.client, queue: sqsqueue.New(f.client, otherURL, ""), url: otherURL, arn: otherARN}
		other.send("kept", "d-1")
		mixed := slices.Concat(f.deliveries(), other.deliveries())
		must(t, f.queue.Delay(t.Context(), mixed, 2*visibility))
		time.Sleep(visibility + time.Second)
		if early := slices.Concat(f.deliveries(), other.deliveries()); len(early) > 0 {
			t.Errorf("got %s before the end of the delay", bodiesOf(early))
		}
		time.Sleep(visibility)
		mixed = slices.Concat(f.deliveries(), other.deliveries())
		must(t, sqsqueue.NewAcknowledger(f.client, f.url).Acknowledge(t.Context(), mixed))
		time.Sleep(2 * visibility)
		if again := slices.Concat(f.deliveries(), other.deliveries()); len(mixed) != 2 || len(again) > 0 {
			t.Errorf("after %s were acknowledged, got %s", bodiesOf(mixed), bodiesOf(again))
		}
	})
}

func TestDelayOfAnExpiredReceiptIsErrExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.send("A", "d-1")
		deliveries := f.deliveries()
		time.Sleep(visibility + time.Second)
		if err := f.queue.Delay(t.Context(), deliveries, time.Minute); !errors.Is(err, sqsqueue.ErrExpired) {
			t.Errorf("not received again: got %v, want ErrExpired", err)
		}
		f.deliveries()
		err := f.queue.Delay(t.Context(), deliveries, time.Minute)
		if !errors.Is(err, sqsqueue.ErrExpired) || !strings.Contains(err.Error(), "delaying message "+deliveries[0].MessageID) {
			t.Errorf("received again: got %v, want an ErrExpired that names the message", err)
		}
		deliveries[0].Queue += "x"
		err = f.queue.Delay(t.Context(), deliveries, time.Minute)
		if !errors.Is(err, sqsqueue.ErrNoQueue) || !strings.Contains(err.Error(), deliveries[0].MessageID) {
			t.Errorf("no queue: got %v, want an ErrNoQueue that names the message", err)
		}
	})
}

// TestAttributesAreReadOnce also checks the sequence number that Enqueue returns.
func TestAttributesAreReadOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	dead := strings.Replace(f.arn, "events.fifo", "dead.fifo", 1)
	for _, want := range []string{"", dead} {
		queue := sqsqueue.New(f.client, f.url, "")
		arn, err := queue.ARN(t.Context())
		if err != nil || arn != f.arn {
			t.Errorf("expected %s, got %s, %v", f.arn, arn, err)
		}
		if got, err := queue.DeadLetterARN(t.Context()); err != nil || got != want {
			t.Errorf("expected the dead-letter queue %q, got %q, %v", want, got, err)
		}
		policy := map[string]string{"RedrivePolicy": `{"deadLetterTargetArn": "` + dead + `", "maxReceiveCount": "3"}`}
		if _, err := f.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &f.url, Attributes: policy}); err != nil {
			t.Fatal(err)
		}
		if got, err := queue.DeadLetterARN(t.Context()); err != nil || got != want {
			t.Errorf("expected the attributes as first read, got %q, %v", got, err)
		}
	}
	_, sequence, err := f.queue.Enqueue(t.Context(), durable.Message{To: ada, Body: []byte(`{"type": "RESEND"}`), DeduplicationID: "one"})
	if received := f.receive(f.url); err != nil || len(received) != 1 || received[0].Attributes["SequenceNumber"] != sequence || sequence == "" {
		t.Errorf("expected one message with the sequence number %q, got %+v, %v", sequence, received, err)
	}
	gone := sqsqueue.New(f.client, f.url+"x", "")
	if _, err := gone.ARN(t.Context()); !errors.Is(err, sqsqueue.ErrNoQueue) {
		t.Errorf("expected ErrNoQueue, got %v", err)
	}
}
