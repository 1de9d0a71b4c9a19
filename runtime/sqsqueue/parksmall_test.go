package sqsqueue_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/durable"
)

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
