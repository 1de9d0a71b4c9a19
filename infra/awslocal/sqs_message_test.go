package awslocal_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

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

func TestSQS_message_attributes_are_chosen_by_name_and_prefix(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, map[string]string{"VisibilityTimeout": "0"})
	text := types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String("x")}
	_, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{
		QueueUrl: &q.url, MessageBody: aws.String("body"), MessageGroupId: aws.String("a"), MessageDeduplicationId: aws.String("1"),
		MessageAttributes: map[string]types.MessageAttributeValue{"text": text, "number": text, "trace.id": text},
	})
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]int{"All": 3, ".*": 3, "text": 1, "trace.*": 1, "absent": 0} {
		got := q.receive(func(in *sqs.ReceiveMessageInput) { in.MessageAttributeNames = []string{pattern} })
		if n := len(got[0].MessageAttributes); n != want {
			t.Errorf("%s chose %d attributes, want %d", pattern, n, want)
		}
	}
}

func TestSQS_control_characters_are_rejected(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	_, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{
		QueueUrl: &q.url, MessageBody: aws.String("bell\a"), MessageGroupId: aws.String("a"), MessageDeduplicationId: aws.String("x"),
	})
	wantCode(t, err, "InvalidMessageContents")
}

func TestSQS_system_attributes_are_checked(t *testing.T) {
	t.Parallel()
	_, err := newFIFO(t, nil).tryReceive(t.Context(), func(in *sqs.ReceiveMessageInput) {
		in.MessageSystemAttributeNames = []types.MessageSystemAttributeName{"Colour"}
	})
	wantCode(t, err, "InvalidAttributeName")
}
