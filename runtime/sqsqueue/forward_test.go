package sqsqueue_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// withLane returns a fixture with the lane `bulk`, to which all instances of the machine `job` belong.
func withLane(t *testing.T) (f *fixture, bulkURL, bulkARN string) {
	t.Helper()
	f = newFixture(t)
	bulkURL, bulkARN = f.create("bulk.fifo", map[string]string{"FifoQueue": "true"})
	f.queue = f.queue.WithLanes(map[string]string{"bulk": bulkARN}, func(id instances.ID) string {
		return map[string]string{"job": "bulk"}[id.Machine]
	})
	return f, bulkURL, bulkARN
}

func TestMessagesGoToTheirLanes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, bulkURL, _ := withLane(t)
		messages := []durable.Message{
			{To: ada, Body: []byte(`"main"`), DeduplicationID: "1"},
			{To: instances.ID{Machine: "job", ID: "1"}, Body: []byte(`"bulk"`), DeduplicationID: "2"},
			{To: instances.ID{Machine: "job", ID: "2"}, Body: []byte(`"main"`), DeduplicationID: "3", Lane: instances.MainLane},
			{To: instances.ID{Machine: "signup", ID: "bob"}, Body: []byte(`"bulk"`), DeduplicationID: "4", Lane: "bulk"},
			{To: instances.ID{Machine: "signup", ID: "eve"}, Body: []byte(`"main"`), DeduplicationID: "5", Lane: "removed"},
		}
		for i, err := range f.queue.SendBatch(t.Context(), messages) {
			if err != nil {
				t.Errorf("message %d: %v", i, err)
			}
		}
		if _, err := f.queue.Send(t.Context(), durable.Message{To: instances.ID{Machine: "job", ID: "3"}, Body: []byte(`"bulk"`), DeduplicationID: "6"}); err != nil {
			t.Error(err)
		}
		for url, want := range map[string]int{f.url: 3, bulkURL: 3} {
			got := f.receive(url)
			if len(got) != want {
				t.Errorf("%s has %d messages, want %d", url, len(got), want)
			}
			for _, message := range got {
				if isBulk := *message.Body == `"bulk"`; isBulk != (url == bulkURL) {
					t.Errorf("%s has %s", url, *message.Body)
				}
			}
		}
	})
}

// TestAForwardedMessageKeepsItsIdentity forwards a parked and redriven message twice: to another lane and back.
func TestAForwardedMessageKeepsItsIdentity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, bulkURL, bulkARN := withLane(t)
		f.send(`{"type":"VERIFY"}`, "d-1")
		first := f.deliveries()[0]
		first.ParkedFrom = instances.Place{Queue: "arn of another queue", SequenceNumber: "7"}
		first.Trace.Parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		time.Sleep(time.Second)
		forward := func(d durable.Delivery, lane, url, arn string) durable.Delivery {
			for range 2 { // A repeat has no effect.
				if err := f.queue.Forward(t.Context(), d, lane); err != nil {
					t.Fatal(err)
				}
			}
			got := f.deliveriesOf(url, arn)
			if len(got) != 1 {
				t.Fatalf("%d messages in the lane %s, want 1", len(got), lane)
			}
			return got[0]
		}
		second := forward(first, "bulk", bulkURL, bulkARN)
		want := first
		want.Queue, want.Forwarding = bulkARN, durable.Forwarding{From: instances.Place{Queue: f.arn, SequenceNumber: first.SequenceNumber}, SentTo: f.arn}
		ignored := cmpopts.IgnoreFields(durable.Delivery{}, "MessageID", "ReceiptHandle", "SequenceNumber")
		if diff := cmp.Diff(want, second, ignored); diff != "" {
			t.Errorf("the copy differs (-want +got):\n%s", diff)
		}
		time.Sleep(visibility) // The first message is now received again, before its copy.
		if err := f.queue.Forward(t.Context(), second, instances.MainLane); err != nil {
			t.Fatal(err)
		}
		back := f.deliveriesOf(f.url, f.arn)
		if len(back) != 2 {
			t.Fatalf("%d messages in the main lane, want the first one and its copy: SQS must not drop a message that comes back", len(back))
		}
		third := back[1]
		if got := (durable.Forwarding{From: instances.Place{Queue: bulkARN, SequenceNumber: second.SequenceNumber}, SentTo: f.arn}); third.Forwarding != got || third.DeduplicationID != "d-1" {
			t.Errorf("after two hops: got %+v under %s, want %+v under d-1", third.Forwarding, third.DeduplicationID, got)
		}
	})
}

// TestTheLargestEventCanBeForwarded checks that the attributes of a forwarded message fit beside the largest event.
func TestTheLargestEventCanBeForwarded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, bulkURL, bulkARN := withLane(t)
		f.send(strings.Repeat("x", producer.EventBytesMax), "d-1")
		d := f.deliveries()[0]
		d.ParkedFrom = instances.Place{Queue: f.arn, SequenceNumber: strings.Repeat("9", 39)}
		if err := f.queue.Forward(t.Context(), d, "bulk"); err != nil {
			t.Fatal(err)
		}
		if got := f.deliveriesOf(bulkURL, bulkARN); len(got) != 1 || got[0].Forwarding.SentTo != f.arn {
			t.Errorf("got %d messages, want the forwarded one", len(got))
		}
	})
}

func TestAnInvalidForwardedAttributeIsIgnored(t *testing.T) {
	t.Parallel()
	good := `{"queue":"arn:aws:sqs:r:1:q.fifo","sequence_number":"7","sent_to":"arn:aws:sqs:r:1:q.fifo","deduplication_id":"d-0","sent_at":1767322700000}`
	// `good` belongs to another deduplication ID. A redriven copy has its own deduplication ID.
	for _, value := range []string{"", "x", "{}", good, `{"queue":"q","sequence_number":"x","sent_to":"q"}`, `{"queue":"q","sequence_number":"` + strings.Repeat("1", 99) + `","sent_to":"q"}`} {
		message := events.SQSMessage{MessageAttributes: map[string]events.SQSMessageAttribute{sqsqueue.AttrForwarded: {DataType: "String", StringValue: &value}}, Attributes: map[string]string{
			"MessageGroupId": "signup/ada", "SequenceNumber": "1", "ApproximateReceiveCount": "1", "SentTimestamp": "1767322800000", "MessageDeduplicationId": "d-1",
		}}
		got, err := sqsqueue.Decode(message)
		if err != nil || got.Forwarding != (durable.Forwarding{}) || got.DeduplicationID != message.Attributes["MessageDeduplicationId"] {
			t.Errorf("%s: got %+v, %v", value, got, err)
		}
	}
}
