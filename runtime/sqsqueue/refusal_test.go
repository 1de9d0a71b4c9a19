package sqsqueue_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/sqsqueue"
)

// answer is an SQS client that fails every call with the same error.
type answer struct {
	code string
	// query is the error's name in the query protocol, which SQS adds in a header.
	query string
}

func (a answer) Do(*http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/x-amz-json-1.0"}}
	if a.query != "" {
		header.Set("X-Amzn-Query-Error", a.query+";Sender")
	}
	body := `{"__type": "com.amazonaws.sqs#` + a.code + `", "message": "no"}`
	return &http.Response{StatusCode: http.StatusBadRequest, Header: header, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func TestPermanentErrorsAreDistinguishedFromTransientOnes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer
		want, own error // nil: an error that wraps neither
	}{
		{answer{code: "InvalidMessageContents"}, durable.ErrRefused, sqsqueue.ErrRefused},
		{answer{code: "InvalidParameterValue"}, durable.ErrRefused, sqsqueue.ErrRefused},
		{answer{"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"}, durable.ErrDenied, sqsqueue.ErrNoQueue},
		{answer{code: "QueueDoesNotExist"}, durable.ErrDenied, sqsqueue.ErrNoQueue},
		{answer{code: "AccessDeniedException"}, durable.ErrDenied, sqsqueue.ErrDenied},
		{answer{"AccessDenied", "AccessDenied"}, durable.ErrDenied, sqsqueue.ErrDenied},
		{answer{"KmsAccessDenied", "KMS.AccessDeniedException"}, durable.ErrDenied, sqsqueue.ErrDenied},
		{answer{code: "KmsDisabled"}, durable.ErrDenied, sqsqueue.ErrDenied},
		{answer{code: "KmsThrottled"}, nil, nil},
		{answer{code: "RequestThrottled"}, nil, nil},
		{answer{code: "ExpiredTokenException"}, nil, nil},
	} {
		client := sqs.New(sqs.Options{Region: "eu-central-1", BaseEndpoint: aws.String("http://aws.local"), HTTPClient: c.answer, Retryer: aws.NopRetryer{},
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", "")})
		queue := sqsqueue.New(client, "http://aws.local/q.fifo", "http://aws.local/dead.fifo")
		_, sendErr := queue.Send(t.Context(), durable.Message{To: ada, Body: []byte(`{}`), DeduplicationID: "d"})
		parkErr := queue.Park(t.Context(), durable.Delivery{Group: "g", SequenceNumber: "1", Body: "x"}, "r")
		for _, err := range []error{sendErr, parkErr} {
			isRefused, isDenied := errors.Is(err, durable.ErrRefused), errors.Is(err, durable.ErrDenied)
			if err == nil || isRefused != errors.Is(c.want, durable.ErrRefused) || isDenied != errors.Is(c.want, durable.ErrDenied) || c.own != nil && !errors.Is(err, c.own) {
				t.Errorf("%v: got %v, want %v and %v", c.answer, err, c.want, c.own)
			}
		}
	}
}

// TestAParkedCopyNamesItsFirstPlace parks a delivery, sends it again with its attributes, as SQS does when it moves
// messages, and parks it again.
func TestAParkedCopyNamesItsFirstPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		first := instances.Place{Queue: f.arn, SequenceNumber: "18849496460467696128"}
		f.park(durable.Delivery{Queue: first.Queue, Group: "signup/ada", SequenceNumber: first.SequenceNumber, Body: "{}"}, "r")
		var seen []durable.Delivery
		for round := range 2 {
			parked := f.receive(f.deadLetterURL)
			if len(parked) != round+1 { // the first one is no longer in flight
				t.Fatalf("round %d: %d messages are parked", round, len(parked))
			}
			last := parked[round]
			_, err := f.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &f.url, MessageBody: last.Body, MessageGroupId: aws.String("signup/ada"),
				MessageDeduplicationId: last.MessageId, MessageAttributes: last.MessageAttributes})
			if err != nil {
				t.Fatal(err)
			}
			f.poll("events.fifo", sqsqueue.Handler(consumerFunc(func(_ context.Context, deliveries []durable.Delivery) []string {
				seen = append(seen, deliveries...)
				return nil
			})), time.Second)
			f.park(seen[round], "again")
			time.Sleep(visibility)
		}
		for _, delivery := range seen {
			if delivery.ParkedFrom != first || delivery.SequenceNumber == first.SequenceNumber {
				t.Errorf("got %+v from %+v, want %+v", delivery, delivery.ParkedFrom, first)
			}
		}
	})
}

func TestAMessageThatWasNotParkedHasNoPlace(t *testing.T) {
	t.Parallel()
	text := func(s string) events.SQSMessageAttribute {
		return events.SQSMessageAttribute{DataType: "String", StringValue: &s}
	}
	system := map[string]string{"MessageGroupId": "g", "SequenceNumber": "1", "ApproximateReceiveCount": "1", "SentTimestamp": "0"}
	for name, attributes := range map[string]map[string]events.SQSMessageAttribute{
		"none": nil, "only one": {"source_queue": text("arn")}, "empty": {"source_queue": text(""), "sequence_number": text("")},
		"binary": {"source_queue": {DataType: "Binary", BinaryValue: []byte("x")}, "sequence_number": text("1")},
	} {
		delivery, err := sqsqueue.Decode(events.SQSMessage{Attributes: system, MessageAttributes: attributes})
		if err != nil || delivery.ParkedFrom != (instances.Place{}) {
			t.Errorf("%s: got %+v, %v", name, delivery.ParkedFrom, err)
		}
	}
}

func TestADeferredEventIsParkedWithAnyCharacters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.park(durable.Delivery{Group: "g", SequenceNumber: "1", Body: "{\"text\":\"\uffff\ufffe\"}"}, "r")
	if parked := f.receive(f.deadLetterURL); len(parked) != 1 || *parked[0].Body != `{"text":"\uffff\ufffe"}` {
		t.Errorf("want it parked with escapes, got %+v", parked)
	}
}
