package awslocal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/settle-run/settle/infra/awslocal"
)

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

// The event must be JSON as Lambda writes it, including names and formats that Go's decoder would not check.
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

// The function's answer decides whether the batch succeeds.
func TestLambda_batch_response(t *testing.T) {
	t.Parallel()
	const success, failure = 1, 2 // invocations in 31 s: a failed batch is redelivered after 30 s
	for name, test := range map[string]struct {
		answer      string
		invocations int32
	}{
		"no answer":               {``, success},
		"null":                    {`null`, success},
		"empty object":            {`{}`, success},
		"null list":               {`{"batchItemFailures":null}`, success},
		"empty list":              {`{"batchItemFailures":[]}`, success},
		"other key":               {`{"BatchItemFailures":[{"itemIdentifier":"x"}]}`, success},
		"not JSON":                {`{"batchItemFailures":`, failure},
		"not an object":           {`["x"]`, failure},
		"list of strings":         {`{"batchItemFailures":["x"]}`, failure},
		"no itemIdentifier":       {`{"batchItemFailures":[{}]}`, failure},
		"null item":               {`{"batchItemFailures":[null]}`, failure},
		"misspelt itemIdentifier": {`{"batchItemFailures":[{"ItemIdentifier":"x"}]}`, failure},
		"null itemIdentifier":     {`{"batchItemFailures":[{"itemIdentifier":null}]}`, failure},
		"empty itemIdentifier":    {`{"batchItemFailures":[{"itemIdentifier":""}]}`, failure},
		"unknown itemIdentifier":  {`{"batchItemFailures":[{"itemIdentifier":"x"}]}`, failure},
		"numeric itemIdentifier":  {`{"batchItemFailures":[{"itemIdentifier":1}]}`, failure},
		"ignored without ReportBatchItemFailures": {`{"batchItemFailures":[{"itemIdentifier":"x"}]}`, success},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newFIFO(t, nil)
				q.sendAll("a1")
				var invocations atomic.Int32
				q.start(awslocal.EventSource{ReportBatchItemFailures: name != "ignored without ReportBatchItemFailures"},
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
