package sqsqueue_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/tracing"
)

func (f *fixture) park(delivery durable.Delivery, reason string) {
	f.t.Helper()
	if err := f.queue.Park(f.t.Context(), delivery, reason); err != nil {
		f.t.Fatal(err)
	}
}

// show formats the message attributes as text.
func show(message types.Message) map[string]string {
	attributes := map[string]string{}
	for name, value := range message.MessageAttributes {
		attributes[name] = *value.DataType + " " + *value.StringValue
	}
	return attributes
}

func TestAParkedMessageHasItsReasonAndOrigin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.send("no JSON", "d-1")
		delivery := f.deliveries()[0]
		time.Sleep(visibility)
		f.park(delivery, "not an event: expected a JSON object")

		parked := f.receive(f.deadLetterURL)
		if len(parked) != 1 {
			t.Fatalf("%d parked messages, want 1", len(parked))
		}
		if *parked[0].Body != "no JSON" || parked[0].Attributes["MessageGroupId"] != "signup/ada" {
			t.Errorf("got body %q in group %q, want the delivery's", *parked[0].Body, parked[0].Attributes["MessageGroupId"])
		}
		want := map[string]string{
			"reason":          "String not an event: expected a JSON object",
			"source_queue":    "String " + f.arn,
			"sequence_number": "String " + delivery.SequenceNumber,
			"sent_at":         "String 2000-01-01T00:00:00.000Z",
			"receive_count":   "Number 1",
		}
		if diff := cmp.Diff(want, show(parked[0])); diff != "" {
			t.Errorf("attributes (-want +got):\n%s", diff)
		}
		if again := f.deliveries(); len(again) != 1 {
			t.Errorf("the source queue has %d messages, want 1: parking does not acknowledge", len(again))
		}
	})
}

func TestParkTwiceParksOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	delivery := durable.Delivery{MessageID: "m", Queue: "arn:a", Group: "g", SequenceNumber: "1", ReceiveCount: 1, Body: "x"}
	f.park(delivery, "once")
	delivery.ReceiveCount = 2
	f.park(delivery, "twice")
	elsewhere, later := delivery, delivery
	elsewhere.Queue = "arn:b"
	later.SequenceNumber = "2"
	f.park(elsewhere, "elsewhere")
	f.park(later, "later")

	var reasons []string
	for _, message := range f.receive(f.deadLetterURL) {
		reasons = append(reasons, show(message)["reason"])
	}
	if got, want := strings.Join(reasons, ", "), "String once, String elsewhere, String later"; got != want {
		t.Errorf("parked %s, want %s", got, want)
	}
}

func TestParkAcceptsAnyBodyThatSQSCanDeliver(t *testing.T) {
	t.Parallel()
	queue := strings.Repeat("q", 100)
	for _, test := range []struct {
		name      string
		bodyBytes int
		reason    string
		want      string // the names of the attributes
	}{
		{"short", 10, "r", "reason source_queue sequence_number sent_at receive_count"},
		{"no reason", 10, "", "source_queue sequence_number sent_at receive_count"},
		{"room for a part of the reason", sqsqueue.MessageBytesMax - 300, strings.Repeat("é", 1000), "reason source_queue sequence_number sent_at receive_count"},
		{"room for some attributes", sqsqueue.MessageBytesMax - 150, "r", "source_queue sequence_number"},
		{"room for none", sqsqueue.MessageBytesMax, "r", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			body := strings.Repeat("x", test.bodyBytes)
			f.park(durable.Delivery{Queue: queue, Group: "g", SequenceNumber: "1", ReceiveCount: 1, Body: body}, test.reason)
			parked := f.receive(f.deadLetterURL)
			if len(parked) != 1 || *parked[0].Body != body {
				t.Fatalf("%d parked messages, want the delivery's body", len(parked))
			}
			attributes := show(parked[0])
			for _, name := range strings.Fields("reason source_queue sequence_number sent_at receive_count") {
				if _, got := attributes[name]; got != strings.Contains(test.want, name) {
					t.Errorf("attribute %s: got %t, want %s", name, got, test.want)
				}
			}
		})
	}
}

// TestTheLargestEventKeepsEveryAttribute sends and parks the largest event that a producer accepts. The redrive of a
// parked message needs its source queue and its sequence number.
func TestTheLargestEventKeepsEveryAttribute(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	body := []byte(strings.Repeat("x", producer.EventBytesMax))
	_, err := f.queue.Send(tracing.With(t.Context(), trace), durable.Message{To: ada, Body: body, DeduplicationID: "d"})
	must(t, err)
	delivery, err := sqsqueue.Decode(f.received(f.url))
	must(t, err)
	if delivery.Trace != trace {
		t.Errorf("got the trace %+v, want %+v", delivery.Trace, trace)
	}
	delivery.ParkedFrom = instances.Place{Queue: strings.Repeat("q", 200), SequenceNumber: strings.Repeat("9", 41)}
	f.park(delivery, strings.Repeat("r", sqsqueue.ReasonBytesMax))
	parked := f.receive(f.deadLetterURL)
	if attributes := show(parked[0]); len(*parked[0].Body) != len(body) || len(attributes) != 6 || attributes["reason"] != "String "+strings.Repeat("r", sqsqueue.ReasonBytesMax) {
		t.Errorf("parked %d bytes with %d attributes, want %d with 6 and the whole reason", len(*parked[0].Body), len(attributes), len(body))
	}
}

func TestReasonIsCutAtACharacterAndPrintable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, reason, want string }{
		{"whole", "über", "über"},
		{"control characters", "a\x00b\x1bc\td\uffff", "a\ufffdb\ufffdc\td\ufffd"},
		{"invalid UTF-8", "a\xffb", "a\ufffdb"},
		{"long", strings.Repeat("é", 3000), strings.Repeat("é", 2046) + "…"},
		{"as long as it may be", strings.Repeat("é", 2048), strings.Repeat("é", 2048)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.park(durable.Delivery{Queue: "q", Group: "g", SequenceNumber: "1", Body: "x"}, test.reason)
			got := strings.TrimPrefix(show(f.receive(f.deadLetterURL)[0])["reason"], "String ")
			if got != test.want || len(got) > sqsqueue.ReasonBytesMax || !utf8.ValidString(got) {
				t.Errorf("got %q (%d bytes), want %q", got, len(got), test.want)
			}
		})
	}
}

func TestParkWithoutADeadLetterQueueIsAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	err := sqsqueue.New(f.client, f.url, "").Park(t.Context(), durable.Delivery{MessageID: "m-1"}, "r")
	if err == nil || err.Error() != "parking message m-1: expected the URL of a dead-letter queue, got none" {
		t.Errorf("got %v", err)
	}
}

// A queue keeps its MaximumMessageSize when SQS raises the quota (SQS API Reference, SetQueueAttributes).
func TestParkInAQueueOfASmallerMaximumMessageSize(t *testing.T) {
	t.Parallel()
	const small, kept = 256 << 10, "source_queue sequence_number"
	for _, test := range []struct {
		name      string
		sizeMax   string
		bodyBytes int
		want      string // the names of the attributes
	}{
		{"256 KiB, room for some attributes", "262144", small - 150, kept},
		{"256 KiB, room for none", "262144", small, ""},
		{"2 KiB, room for none", "2048", 2048, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			_, err := f.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{
				QueueUrl: &f.deadLetterURL, Attributes: map[string]string{"MaximumMessageSize": test.sizeMax}})
			must(t, err)
			body := strings.Repeat("x", test.bodyBytes)
			f.park(durable.Delivery{Queue: strings.Repeat("q", 100), Group: "g", SequenceNumber: "1", ReceiveCount: 1, Body: body}, "r")
			parked := f.receive(f.deadLetterURL)
			if len(parked) != 1 || *parked[0].Body != body {
				t.Fatalf("%d parked messages, want the delivery's body", len(parked))
			}
			for name := range show(parked[0]) {
				if !strings.Contains(test.want, name) {
					t.Errorf("got attribute %s, want %q", name, test.want)
				}
			}
			if got := len(show(parked[0])); got != len(strings.Fields(test.want)) {
				t.Errorf("got %d attributes, want %q", got, test.want)
			}
		})
	}
}
