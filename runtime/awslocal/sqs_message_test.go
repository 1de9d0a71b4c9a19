package awslocal_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// wantAs fails unless err is an E, which it puts into target.
func wantAs[E error](t *testing.T, err error, target *E) {
	t.Helper()
	if !errors.As(err, target) {
		t.Fatalf("got %v, want an error of type %T", err, *target)
	}
}

func TestSQS_system_attributes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		sent := time.Now()
		first, second := q.send("a", "a1"), q.send("a", "a2")
		if *first.SequenceNumber >= *second.SequenceNumber || len(*first.SequenceNumber) != 20 {
			t.Fatalf("sequence numbers %s and %s, want 20 digits, increasing", *first.SequenceNumber, *second.SequenceNumber)
		}
		time.Sleep(3 * time.Second)
		q.setVisibility(q.receive()[0], 0)
		time.Sleep(3 * time.Second)
		got := q.receive()[0].Attributes
		want := map[string]string{
			"ApproximateReceiveCount":          "2",
			"ApproximateFirstReceiveTimestamp": strconv.FormatInt(sent.Add(3*time.Second).UnixMilli(), 10),
			"SentTimestamp":                    strconv.FormatInt(sent.UnixMilli(), 10),
			"MessageGroupId":                   "a",
			"MessageDeduplicationId":           "a1",
			"SequenceNumber":                   *first.SequenceNumber,
			"SenderId":                         "AIDAAWSLOCAL000000000",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("attributes (-want +got):\n%s", diff)
		}
	})
}

func TestSQS_system_attributes_selected(t *testing.T) {
	t.Parallel()
	for name, choose := range map[string]option{
		"MessageSystemAttributeNames": func(in *sqs.ReceiveMessageInput) {
			in.MessageSystemAttributeNames = []types.MessageSystemAttributeName{"MessageGroupId"}
		},
		"AttributeNames": func(in *sqs.ReceiveMessageInput) {
			in.MessageSystemAttributeNames = nil
			//nolint:staticcheck // SA1019: deprecated for callers, who use it all the same
			in.AttributeNames = []types.QueueAttributeName{"MessageGroupId"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newFIFO(t, nil)
			q.sendAll("a1")
			if diff := cmp.Diff(map[string]string{"MessageGroupId": "a"}, q.receive(choose)[0].Attributes); diff != "" {
				t.Fatalf("attributes (-want +got):\n%s", diff)
			}
			_, err := q.tryReceive(t.Context(), func(in *sqs.ReceiveMessageInput) {
				in.MessageSystemAttributeNames = []types.MessageSystemAttributeName{"Colour"}
			})
			wantCode(t, err, "InvalidAttributeName")
		})
	}
}

func TestSQS_message_attributes(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, map[string]string{"VisibilityTimeout": "0"})
	given := map[string]types.MessageAttributeValue{
		"text":     {DataType: aws.String("String"), StringValue: aws.String("grün")},
		"number":   {DataType: aws.String("Number.int"), StringValue: aws.String("42")},
		"trace.id": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 0xff}},
	}
	out, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{
		QueueUrl: &q.url, MessageBody: aws.String("body"), MessageGroupId: aws.String("a"),
		MessageDeduplicationId: aws.String("1"), MessageAttributes: given,
	})
	if err != nil {
		t.Fatal(err)
	}
	m := q.receive()[0]
	if diff := cmp.Diff(given, m.MessageAttributes, cmpopts.IgnoreUnexported(types.MessageAttributeValue{})); diff != "" {
		t.Fatalf("attributes (-want +got):\n%s", diff)
	}
	// Calculated apart, in Python, by the description in the SQS Developer Guide.
	const sum = "22c7089977d4c50dd268855bcfbc9ff6"
	if got := aws.ToString(m.MD5OfMessageAttributes); got != sum || *out.MD5OfMessageAttributes != sum {
		t.Fatalf("MD5OfMessageAttributes is %s, sent %s, want %s", got, *out.MD5OfMessageAttributes, sum)
	}
	for pattern, want := range map[string]int{"All": 3, ".*": 3, "text": 1, "trace.*": 1, "absent": 0} {
		got := q.receive(func(in *sqs.ReceiveMessageInput) { in.MessageAttributeNames = []string{pattern} })
		if n := len(got[0].MessageAttributes); n != want {
			t.Errorf("%s chose %d attributes, want %d", pattern, n, want)
		}
	}
}

func TestSQS_message_attributes_are_checked(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	text := types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String("x")}
	for name, value := range map[string]types.MessageAttributeValue{
		"AWS.reserved": text, "a..b": text, "sp ace": text, strings.Repeat("n", 257): text,
		"type":   {DataType: aws.String("Colour"), StringValue: aws.String("x")},
		"empty":  {DataType: aws.String("String"), StringValue: aws.String("")},
		"binary": {DataType: aws.String("Binary"), StringValue: aws.String("x")},
		"list":   {DataType: aws.String("String"), StringListValues: []string{"x"}},
	} {
		_, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &q.url, MessageBody: aws.String("body"), MessageGroupId: aws.String("a"),
			MessageDeduplicationId: aws.String("1"), MessageAttributes: map[string]types.MessageAttributeValue{name: value},
		})
		wantCode(t, err, "InvalidParameterValue", "UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation")
	}
}

func TestSQS_trace_header(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	const trace = "Root=1-5759e988-bd862e3fe1be46a994272793"
	send := func(name string) error {
		_, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &q.url, MessageBody: aws.String("body"), MessageGroupId: aws.String("a"), MessageDeduplicationId: aws.String("1"),
			MessageSystemAttributes: map[string]types.MessageSystemAttributeValue{
				name: {DataType: aws.String("String"), StringValue: aws.String(trace)}},
		})
		return err
	}
	wantCode(t, send("Colour"), "InvalidParameterValue")
	if err := send("AWSTraceHeader"); err != nil {
		t.Fatal(err)
	}
	if got := q.receive()[0].Attributes["AWSTraceHeader"]; got != trace {
		t.Fatalf("AWSTraceHeader is %q, want %q", got, trace)
	}
}

func TestSQS_unicode_body(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	all := []string{"grün 🦫 漢字", `{"a":"<b>&\"'\\u0000\""}`, "<x>&amp;</x>", "tab\tline\nreturn\r", " "}
	for i, body := range all {
		id := strconv.Itoa(i)
		_, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &q.url, MessageBody: &body, MessageGroupId: aws.String("a"), MessageDeduplicationId: &id,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wantBodies(t, q.receive(upTo(10)), all...)

	control := "bell\a"
	_, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{
		QueueUrl: &q.url, MessageBody: &control, MessageGroupId: aws.String("a"), MessageDeduplicationId: aws.String("x"),
	})
	wantCode(t, err, "InvalidMessageContents")
}

func TestSQS_size_limit(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	send := func(size int, attributes map[string]types.MessageAttributeValue) error {
		_, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &q.url, MessageBody: aws.String(strings.Repeat("x", size)), MessageGroupId: aws.String("a"),
			MessageDeduplicationId: aws.String(strconv.Itoa(size)), MessageAttributes: attributes,
		})
		return err
	}
	for _, size := range []int{200 << 10, 1 << 20} {
		if err := send(size, nil); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
	wantCode(t, send(1<<20+1, nil), "InvalidParameterValue")
	wantCode(t, send(1<<20, map[string]types.MessageAttributeValue{
		"a": {DataType: aws.String("String"), StringValue: aws.String("x")}}), "InvalidParameterValue")

	half := aws.String(strings.Repeat("x", 1<<19+1))
	_, err := q.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{
		QueueUrl: &q.url,
		Entries: []types.SendMessageBatchRequestEntry{
			{Id: aws.String("1"), MessageBody: half, MessageGroupId: aws.String("a"), MessageDeduplicationId: aws.String("h1")},
			{Id: aws.String("2"), MessageBody: half, MessageGroupId: aws.String("a"), MessageDeduplicationId: aws.String("h2")},
		},
	})
	wantCode(t, err, "BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong")
}

func TestSQS_receive_parameters_are_checked(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	for name, wrong := range map[string]option{
		"MaxNumberOfMessages": upTo(11), "VisibilityTimeout": visible(43201), "WaitTimeSeconds": waiting(21),
	} {
		_, err := q.tryReceive(t.Context(), wrong)
		wantCode(t, err, "InvalidParameterValue")
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
}
