package sqsqueue_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/settle-run/settle/runtime/sqsqueue"
)

func TestDecodeRefusesMessagesOfOtherQueues(t *testing.T) {
	t.Parallel()
	fifo := map[string]string{"MessageGroupId": "signup/ada", "SequenceNumber": "18849496460467696128",
		"MessageDeduplicationId": "d-1", "ApproximateReceiveCount": "2", "SentTimestamp": "1772366400123"}
	for _, test := range []struct{ attribute, value, want string }{
		{"MessageGroupId", "", `expected the attributes MessageGroupId and SequenceNumber, got "" and "18849496460467696128": connect the function to the FIFO queue`},
		{"SequenceNumber", "", `got "signup/ada" and ""`},
		{"SequenceNumber", "-1", `got "signup/ada" and "-1"`},
		{"ApproximateReceiveCount", "", `expected numbers as ApproximateReceiveCount and SentTimestamp, got "" and "1772366400123"`},
		{"SentTimestamp", "now", `got "2" and "now"`},
	} {
		attributes := map[string]string{}
		for name, value := range fifo {
			attributes[name] = value
		}
		attributes[test.attribute] = test.value
		good := events.SQSMessage{MessageId: "m-0", Attributes: fifo}
		bad := events.SQSMessage{MessageId: "m-1", EventSourceARN: "arn:aws:sqs:eu-central-1:1:plain", Attributes: attributes}
		_, err := sqsqueue.DecodeAll(events.SQSEvent{Records: []events.SQSMessage{good, bad}})
		if !errors.Is(err, sqsqueue.ErrNotFIFO) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "message m-1 of arn:aws:sqs:eu-central-1:1:plain") {
			t.Errorf("%s %q: got %v, want %s", test.attribute, test.value, err, test.want)
		}
	}
}

func TestRespondReturnsJSONThatLambdaAccepts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		failed []string
		want   string
	}{
		{nil, `{"batchItemFailures":[]}`},
		{[]string{"m-1", "m-2"}, `{"batchItemFailures":[{"itemIdentifier":"m-1"},{"itemIdentifier":"m-2"}]}`},
	} {
		got, err := json.Marshal(sqsqueue.Respond(test.failed))
		if err != nil || string(got) != test.want {
			t.Errorf("%v: got %s, %v, want %s", test.failed, got, err, test.want)
		}
	}
}
