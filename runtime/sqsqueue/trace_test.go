package sqsqueue_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/tracing"
)

var trace = tracing.Trace{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", AWS: "Root=1-5759e988-bd862e3fe1be46a994272793"}

// received returns the first message of the queue, with its attributes, as Lambda passes it to a function.
func (f *fixture) received(url string) events.SQSMessage {
	f.t.Helper()
	messages := f.receive(url)
	if len(messages) != 1 {
		f.t.Fatalf("got %d messages, want 1", len(messages))
	}
	message := events.SQSMessage{
		MessageId: *messages[0].MessageId, ReceiptHandle: *messages[0].ReceiptHandle, Body: *messages[0].Body,
		Attributes: messages[0].Attributes, EventSourceARN: f.arn, MessageAttributes: map[string]events.SQSMessageAttribute{},
	}
	for name, value := range messages[0].MessageAttributes {
		message.MessageAttributes[name] = events.SQSMessageAttribute{StringValue: value.StringValue, DataType: *value.DataType}
	}
	return message
}

func TestTheQueueAndTheDeadLetterQueueKeepTheTrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		_, err := f.queue.Send(tracing.With(t.Context(), trace), durable.Message{To: ada, Body: []byte(`{"type":"VERIFY"}`), DeduplicationID: "d"})
		must(t, err)
		delivery, err := sqsqueue.Decode(f.received(f.url))
		must(t, err)
		if diff := cmp.Diff(trace, delivery.Trace); diff != "" {
			t.Errorf("trace (-want +got):\n%s", diff)
		}
		f.park(delivery, "a reason")
		if parked := f.received(f.deadLetterURL); aws.ToString(parked.MessageAttributes[sqsqueue.AttrTraceparent].StringValue) != trace.Parent {
			t.Errorf("got the attributes %v, want the trace among them", parked.MessageAttributes)
		}
	})
}

func TestAMessageWithoutATraceOrRoomForItHasNoTrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.send(`{"type":"VERIFY"}`, "d-1")
		if message := f.received(f.url); len(message.MessageAttributes) > 0 || message.Attributes["AWSTraceHeader"] != "" {
			t.Errorf("got the attributes %v and %v, want no trace", message.MessageAttributes, message.Attributes)
		}
		f = newFixture(t)
		body := `{"type":"VERIFY","code":"` + strings.Repeat("1", sqsqueue.MessageBytesMax-27) + `"}`
		_, err := f.queue.Send(tracing.With(t.Context(), trace), durable.Message{To: ada, Body: []byte(body), DeduplicationID: "d-2"})
		must(t, err)
		if message := f.received(f.url); len(message.Body) != sqsqueue.MessageBytesMax || len(message.MessageAttributes) > 0 {
			t.Errorf("got %d bytes with the attributes %v, want the longest message without attributes", len(message.Body), message.MessageAttributes)
		}
	})
}

func TestATraceDoesNotMakeAMessageTooLongFor256KiB(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.client.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &f.url, Attributes: map[string]string{"MaximumMessageSize": "262144"}})
	must(t, err)
	body := []byte(strings.Repeat("x", 256<<10))
	ctx := tracing.With(t.Context(), trace)
	_, err = f.queue.Send(ctx, durable.Message{To: ada, Body: body, DeduplicationID: "d-1"})
	must(t, err)
	for _, err := range f.queue.SendBatch(ctx, []durable.Message{{To: ada, Body: body, DeduplicationID: "d-2"}, {To: instances.ID{Machine: "signup", ID: "bob"}, Body: body, DeduplicationID: "d-3"}}) {
		must(t, err)
	}
}

func TestATraceHeaderThatSQSWouldRefuseIsNotSent(t *testing.T) {
	t.Parallel()
	const root = "Root=1-5759e988-bd862e3fe1be46a994272793"
	for header, isSent := range map[string]bool{
		root: true, root + ";Parent=53995c3f42cd8ad8;Sampled=1": true, "Self=1-67891234-12456789abcdef012345678;" + root: true, root + ";Parent=53995c3f42cd8ad8;Sampled=0;Lineage=a87bd80c:1|68fd508a:5": true,
		"Root=dummy": false, root + ";Note=any": false, root + "\n": false, strings.Repeat("x", 1000): false,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			_, err := f.queue.Send(tracing.With(t.Context(), tracing.Trace{AWS: header}), durable.Message{To: ada, Body: []byte(`{"type":"VERIFY"}`), DeduplicationID: "d"})
			must(t, err)
			if got := f.received(f.url).Attributes["AWSTraceHeader"]; (got == header) != isSent || got != "" && !isSent {
				t.Errorf("%q: got %q, want it sent: %v", header, got, isSent)
			}
		})
	}
}

func TestAnInvalidTraceIsIgnored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.send(`{"type":"VERIFY"}`, "d-1")
		message := f.received(f.url)
		message.MessageAttributes[sqsqueue.AttrTraceparent] = events.SQSMessageAttribute{StringValue: aws.String(trace.Parent + "-more"), DataType: "String"}
		message.Attributes["AWSTraceHeader"] = strings.Repeat("x", 1000)
		delivery, err := sqsqueue.Decode(message)
		if err != nil || delivery.Trace != (tracing.Trace{}) {
			t.Errorf("got %+v and %v, want no trace and no error", delivery.Trace, err)
		}
	})
}
