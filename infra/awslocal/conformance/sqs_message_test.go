package conformance_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func attempt(id string) option {
	return func(in *sqs.ReceiveMessageInput) { in.ReceiveRequestAttemptId = &id }
}

func systemAttributes(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	sent := time.Now()
	var numbers []string
	for i := range 8 {
		out := q.send(q.message("a", fmt.Sprint("a", i+1)))
		numbers = append(numbers, fmt.Sprintf("%40s", aws.ToString(out.SequenceNumber)))
	}
	want(t, "sequence numbers, which increase", slices.Sorted(slices.Values(numbers)), numbers)
	time.Sleep(time.Second)
	received := time.Now()
	q.setVisibility(q.receiveOne("a1"), 0)
	time.Sleep(time.Second)
	m := q.receiveOne("a1")
	for name, value := range map[string]string{
		"ApproximateReceiveCount": "2", "MessageGroupId": "a", "MessageDeduplicationId": "a1", "SequenceNumber": strings.TrimSpace(numbers[0]),
	} {
		want(t, name, value, m.Attributes[name])
	}
	for name, instant := range map[string]time.Time{"SentTimestamp": sent, "ApproximateFirstReceiveTimestamp": received} {
		milliseconds, err := strconv.ParseInt(m.Attributes[name], 10, 64)
		must(t, name, err)
		w.wantAt(t, name, time.UnixMilli(milliseconds), instant.Truncate(time.Millisecond))
	}
	if m.Attributes["SenderId"] == "" {
		t.Fatal("SenderId is missing")
	}
}

func systemAttributesSelected(t *testing.T, w *world) {
	q := w.fifo(t, map[string]string{"VisibilityTimeout": "0"})
	q.sendAll("a1")
	for _, test := range []struct {
		what       string
		choose     option
		attributes map[string]string
	}{
		{"MessageSystemAttributeNames", func(in *sqs.ReceiveMessageInput) {
			in.MessageSystemAttributeNames = []types.MessageSystemAttributeName{"MessageGroupId", "MessageDeduplicationId"}
		}, map[string]string{"MessageGroupId": "a", "MessageDeduplicationId": "a1"}},
		{"AttributeNames", func(in *sqs.ReceiveMessageInput) {
			in.MessageSystemAttributeNames = nil
			//nolint:staticcheck // SA1019: tests the deprecated parameter
			in.AttributeNames = []types.QueueAttributeName{"MessageGroupId"}
		}, map[string]string{"MessageGroupId": "a"}},
		{"none", func(in *sqs.ReceiveMessageInput) { in.MessageSystemAttributeNames = nil }, nil},
	} {
		want(t, test.what, test.attributes, q.receiveOne("a1", test.choose).Attributes)
	}
}

func messageAttributes(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	given := map[string]types.MessageAttributeValue{
		"text":     {DataType: aws.String("String"), StringValue: aws.String("grün")},
		"number":   {DataType: aws.String("Number.int"), StringValue: aws.String("42")},
		"trace.id": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 0xff}},
	}
	in := q.message("a", "a1")
	in.MessageAttributes = given
	out := q.send(in)
	m := q.receiveOne("a1")
	want(t, "attributes", given, m.MessageAttributes)
	// A Python script calculated this sum from the description in the SQS Developer Guide.
	const sum = "22c7089977d4c50dd268855bcfbc9ff6"
	want(t, "MD5OfMessageAttributes of the send", sum, aws.ToString(out.MD5OfMessageAttributes))
	want(t, "MD5OfMessageAttributes of the receive", sum, aws.ToString(m.MD5OfMessageAttributes))

	q.setVisibility(m, 0)
	chosen := q.receiveOne("a1", func(in *sqs.ReceiveMessageInput) { in.MessageAttributeNames = []string{"text"} })
	want(t, "the attribute asked for", map[string]types.MessageAttributeValue{"text": given["text"]}, chosen.MessageAttributes)
}

func unicodeBody(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	all := []string{"grün 🦫 漢字", `{"a":"<b>&\"'\\u0000\""}`, "<x>&amp;</x>", "tab\tline\nreturn\r", " ", "\u2028\ufffd\U0010ffff"}
	for i, body := range all {
		in := q.message("a", body)
		in.MessageDeduplicationId = aws.String(strconv.Itoa(i))
		q.send(in) // the SDK verifies MD5OfMessageBody
	}
	want(t, "bodies", all, bodies(q.receive(upTo(10))))
}

func sizeLimit(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	send := func(size int, attributes map[string]types.MessageAttributeValue) error {
		in := q.message("a", strings.Repeat("x", size))
		in.MessageDeduplicationId, in.MessageAttributes = aws.String(fmt.Sprint(size)), attributes
		_, err := w.sqs.SendMessage(t.Context(), in)
		return err
	}
	const limit = 1 << 20
	for _, size := range []int{200 << 10, limit} {
		must(t, fmt.Sprint(size, " bytes"), send(size, nil))
		m := q.receive()
		want(t, "received", 1, len(m))
		want(t, "length", size, len(*m[0].Body))
		q.delete(m...)
	}
	wantCode(t, "1 MiB and a byte", send(limit+1, nil), "InvalidParameterValue")
	wantCode(t, "1 MiB with attributes", send(limit-2, map[string]types.MessageAttributeValue{
		"a": {DataType: aws.String("String"), StringValue: aws.String("x")}}), "InvalidParameterValue")
	wantBodies(t, q.receive())

	batch := entries("a", 2)
	for more, code := range []string{"", "BatchRequestTooLong"} {
		batch[0].MessageBody, batch[1].MessageBody = aws.String(strings.Repeat("x", limit/2)), aws.String(strings.Repeat("x", limit/2+more))
		_, err := w.sqs.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &q.url, Entries: batch})
		want(t, fmt.Sprint("a batch of 1 MiB and ", more, " bytes"), code, errorCode(err))
	}
	q.wantCounts(2, 0, 0)
}

// entries returns a batch of n messages of a group.
func entries(group string, n int) []types.SendMessageBatchRequestEntry {
	var all []types.SendMessageBatchRequestEntry
	for i := range n {
		all = append(all, types.SendMessageBatchRequestEntry{
			Id: aws.String(fmt.Sprint("id", i)), MessageBody: aws.String(fmt.Sprint(group, i)),
			MessageGroupId: &group, MessageDeduplicationId: aws.String(fmt.Sprint(group, i)),
		})
	}
	return all
}

func batchSend(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	send := func(entries []types.SendMessageBatchRequestEntry) (*sqs.SendMessageBatchOutput, error) {
		return w.sqs.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &q.url, Entries: entries})
	}
	_, err := send(entries("a", 11))
	wantCode(t, "11 entries", err, "TooManyEntriesInBatchRequest")
	twice := entries("a", 2)
	twice[1].Id = twice[0].Id
	_, err = send(twice)
	wantCode(t, "an ID twice", err, "BatchEntryIdsNotDistinct")
	q.wantCounts(0, 0, 0)

	out, err := send(entries("a", 10))
	must(t, "SendMessageBatch", err)
	want(t, "successes", 10, len(out.Successful))
	last := ""
	for i, e := range out.Successful {
		want(t, "entry", fmt.Sprint("id", i), *e.Id)
		if number := aws.ToString(e.SequenceNumber); number <= last {
			t.Fatalf("sequence number %q after %q, want them to increase", number, last)
		}
		last = *e.SequenceNumber
	}
	wantBodies(t, q.receive(upTo(10)), "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9")
}

func batchDelete(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	received := func(group string) (handles []types.DeleteMessageBatchRequestEntry) {
		_, err := w.sqs.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &q.url, Entries: entries(group, 10)})
		must(t, "SendMessageBatch", err)
		for i, m := range q.receive(upTo(10)) {
			handles = append(handles, types.DeleteMessageBatchRequestEntry{Id: aws.String(fmt.Sprint("id", i)), ReceiptHandle: m.ReceiptHandle})
		}
		want(t, "received", 10, len(handles))
		return handles
	}
	remove := func(handles []types.DeleteMessageBatchRequestEntry) *sqs.DeleteMessageBatchOutput {
		out, err := w.sqs.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: &q.url, Entries: handles})
		must(t, "DeleteMessageBatch", err)
		return out
	}
	want(t, "ten deletes in a call", 10, len(remove(received("a")).Successful))
	q.wantCounts(0, 0, 0)

	handles := received("b")
	handles[4].ReceiptHandle = aws.String("garbage")
	out := remove(handles)
	want(t, "successes", 9, len(out.Successful))
	want(t, "failures", 1, len(out.Failed))
	want(t, "the entry that failed", "id4 ReceiptHandleIsInvalid", *out.Failed[0].Id+" "+strings.TrimPrefix(*out.Failed[0].Code, "AWS.SimpleQueueService."))
	q.wantCounts(0, 1, 0)
}

func standardDelay(t *testing.T, w *world) {
	q := w.queue(t, w.name(), nil)
	send := func(body string, delay int32) error {
		_, err := w.sqs.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: &q.url, MessageBody: &body, MessageGroupId: aws.String("tenant"), DelaySeconds: delay})
		return err
	}
	wantCode(t, "901 s", send("too late", 901), "InvalidParameterValue")
	must(t, "900 s", send("late", 900))
	sending := time.Now()
	must(t, "3 s", send("soon", 3))
	sent := time.Now()
	must(t, "no delay", send("now", 0))
	must(t, "no delay", send("now", 0))
	// No message waits for the one before it, and no message in flight locks another.
	for range 2 {
		q.receiveOne("now", visible(60))
	}
	w.untilJustBefore(t, sending.Add(3*time.Second))
	wantBodies(t, q.receive(upTo(10)))
	w.until(sent.Add(3 * time.Second))
	q.delete(q.receiveOne("soon", upTo(10)))
	if !w.virtual() {
		return
	}
	w.untilJustBefore(t, sent.Add(900*time.Second))
	q.delete(q.receive(upTo(10))...)
	wantBodies(t, q.receive(upTo(10)))
	w.until(sent.Add(900 * time.Second))
	q.receiveOne("late", upTo(10))
}
