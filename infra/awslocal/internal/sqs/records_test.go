package sqs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/settle-run/settle/infra/awslocal/internal/record/recordtest"
)

func restored(t interface{ Fatal(...any) }, k recordtest.Kept, scanMax int) *Model {
	m := New()
	m.LimitScan(scanMax)
	if err := m.Restore(k.Each); err != nil {
		t.Fatal(err)
	}
	m.Keep()
	return m
}

// twins holds two models that must return the same answers. From time to time, the test replaces the second model,
// `restart`, with a copy restored from its records.
type twins struct {
	*rapid.T
	now            time.Time
	model, restart *Model
	kept           recordtest.Kept
	handles        []string
}

func TestRestore_answers_like_the_original_model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &twins{T: t, now: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC), model: New(), restart: New(), kept: recordtest.Kept{}}
		scanMax := rapid.SampledFrom([]int{1, 3, ScanMessagesMax}).Draw(t, "scanMax")
		w.model.LimitScan(scanMax)
		w.restart.LimitScan(scanMax)
		w.restart.Keep()
		for _, in := range []string{
			`{"QueueName": "dead.fifo", "Attributes": {"FifoQueue": "true"}}`, `{"QueueName": "dead"}`,
			`{"QueueName": "q.fifo", "Attributes": {"FifoQueue": "true", "RedrivePolicy": "{\"deadLetterTargetArn\":\"` + QueueARN("dead.fifo") + `\",\"maxReceiveCount\":2}"}}`,
			`{"QueueName": "q", "Attributes": {"RedrivePolicy": "{\"deadLetterTargetArn\":\"` + QueueARN("dead") + `\",\"maxReceiveCount\":2}"}, "tags": {"team": "a"}}`,
		} {
			w.call("CreateQueue", in)
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			w.step()
			if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
				w.kept.Apply(w.restart.TakeRecords())
				w.restart = restored(t, w.kept, scanMax)
			}
		}
		for _, queue := range []string{"q", "q.fifo", "dead", "dead.fifo"} {
			w.call("GetQueueAttributes", fmt.Sprintf(`{"QueueUrl": %q, "AttributeNames": ["All"]}`, queue))
			w.call("ListQueueTags", fmt.Sprintf(`{"QueueUrl": %q}`, queue))
		}
		w.checkRecordsGo()
	})
}

// call makes a call on both models, compares the answers and stores receipt handles.
func (w *twins) call(operation, body string) {
	want, wantErr := w.model.Call(w.now, "http://aws.local", operation, []byte(body))
	got, gotErr := w.restart.Call(w.now, "http://aws.local", operation, []byte(body))
	if string(want) != string(got) || fmt.Sprint(wantErr) != fmt.Sprint(gotErr) {
		w.Fatalf("%s %s at %v\nwant %s %v\ngot  %s %v", operation, body, w.now, want, wantErr, got, gotErr)
	}
	for _, part := range strings.Split(string(want), `"ReceiptHandle":"`)[1:] {
		handle, _, _ := strings.Cut(part, `"`)
		w.handles = append(w.handles, handle)
	}
	for _, queue := range []string{"q", "q.fifo", "dead.fifo"} {
		at, ok := w.model.NextReceivable(w.now, queue)
		if gotAt, gotOK := w.restart.NextReceivable(w.now, queue); ok != gotOK || !at.Equal(gotAt) {
			w.Fatalf("NextReceivable of %s after %s %s: want %v %v, got %v %v", queue, operation, body, at, ok, gotAt, gotOK)
		}
	}
}

func (w *twins) one(of ...string) string { return rapid.SampledFrom(of).Draw(w.T, "one") }

func (w *twins) number(least, most int) int { return rapid.IntRange(least, most).Draw(w.T, "number") }

func (w *twins) step() {
	queue := w.one("q", "q.fifo", "q.fifo", "q.fifo", "dead", "dead.fifo")
	fifo := strings.HasSuffix(queue, ".fifo")
	switch w.one("send", "send", "send", "receive", "receive", "receive", "attempt", "delete", "change", "wait", "wait", "settings", "tags", "purge", "recreate") {
	case "send":
		in := fmt.Sprintf(`"MessageBody": "%d"`, w.number(0, 5))
		if fifo {
			in += fmt.Sprintf(`, "MessageGroupId": %q, "MessageDeduplicationId": "%d"`, w.one("a", "b"), w.number(0, 12))
		} else {
			in += fmt.Sprintf(`, "DelaySeconds": %d`, w.number(0, 2))
		}
		if w.number(0, 2) == 0 {
			in += `, "MessageAttributes": {"s": {"DataType": "String", "StringValue": "v"}, "b": {"DataType": "Binary.x", "BinaryValue": "AP8="}},
				"MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}}`
		}
		w.call("SendMessage", fmt.Sprintf(`{"QueueUrl": %q, %s}`, queue, in))
	case "receive":
		w.call("ReceiveMessage", fmt.Sprintf(`{"QueueUrl": %q, "MaxNumberOfMessages": %d, "VisibilityTimeout": %d,
			"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}`, queue, w.number(1, 4), w.number(0, 3)))
	case "attempt":
		w.call("ReceiveMessage", fmt.Sprintf(`{"QueueUrl": "q.fifo", "MaxNumberOfMessages": 2, "VisibilityTimeout": %d,
			"ReceiveRequestAttemptId": %q}`, w.number(1, 400), w.one("x", "x/y")))
	case "delete", "change":
		if len(w.handles) > 0 {
			handle := rapid.SampledFrom(w.handles).Draw(w.T, "handle")
			w.call("ChangeMessageVisibility", fmt.Sprintf(`{"QueueUrl": %q, "ReceiptHandle": %q, "VisibilityTimeout": %s}`, queue, handle, w.one("0", "1", "5", "43199")))
			if w.number(0, 1) == 0 {
				w.call("DeleteMessage", fmt.Sprintf(`{"QueueUrl": %q, "ReceiptHandle": %q}`, queue, handle))
			}
		}
	case "wait":
		seconds := rapid.SampledFrom([]int{1, 1, 2, 60, 150, 400}).Draw(w.T, "seconds")
		w.now = w.now.Add(time.Duration(seconds)*time.Second + 7)
	case "settings":
		in := fmt.Sprintf(`"DelaySeconds": "%d", "MessageRetentionPeriod": "%s"`, w.number(0, 2), w.one("60", "345600"))
		if fifo {
			in += fmt.Sprintf(`, "DeduplicationScope": %q`, w.one("queue", "messageGroup"))
		}
		w.call("SetQueueAttributes", fmt.Sprintf(`{"QueueUrl": %q, "Attributes": {%s}}`, queue, in))
	case "tags":
		if w.number(0, 1) == 0 {
			w.call("TagQueue", fmt.Sprintf(`{"QueueUrl": %q, "Tags": {%q: "v"}}`, queue, w.one("a", "b")))
		} else {
			w.call("UntagQueue", fmt.Sprintf(`{"QueueUrl": %q, "TagKeys": [%q, "team"]}`, queue, w.one("a", "b")))
		}
	case "purge":
		w.call("PurgeQueue", fmt.Sprintf(`{"QueueUrl": %q}`, queue))
	case "recreate":
		operation := w.one("DeleteQueue", "CreateQueue", "CreateQueue")
		in := map[string]string{
			"DeleteQueue": fmt.Sprintf(`{"QueueUrl": %q}`, queue),
			"CreateQueue": fmt.Sprintf(`{"QueueName": %q, "Attributes": {"FifoQueue": "%v"}}`, queue, fifo),
		}[operation]
		w.call(operation, in)
		w.call("ListQueues", `{}`)
	}
}

// checkRecordsGo advances the time past the longest retention period and fails if records of messages remain.
func (w *twins) checkRecordsGo() {
	w.now = w.now.Add(15 * 24 * time.Hour)
	for _, queue := range []string{"q", "q.fifo", "dead", "dead.fifo"} {
		w.call("ReceiveMessage", fmt.Sprintf(`{"QueueUrl": %q}`, queue))
	}
	for w.attempts() > 0 {
		before := w.attempts()
		w.call("ReceiveMessage", `{"QueueUrl": "q.fifo", "ReceiveRequestAttemptId": "z"}`)
		if w.attempts() >= before {
			w.Fatalf("got %d attempts both before and after the call, expected fewer after it", before)
		}
	}
	w.kept.Apply(w.restart.TakeRecords())
	for _, key := range slices.Sorted(maps.Keys(w.kept)) {
		switch kind, name, _ := strings.Cut(key, "/"); kind {
		case serialKey, queueKind, sentKind: // may remain: the next send removes an expired deduplication ID
		case deletedKind:
			if _, ok := w.model.deleted[name]; !ok {
				w.Fatalf("got the record %q, expected its removal when the queue is created again", key)
			}
		case attemptKind:
			if _, ok := w.model.queues["q.fifo"]; ok {
				w.Fatalf("got the record %q, expected its removal after it expired", key)
			}
		default:
			w.Fatalf("got the record %q, expected its removal with its message", key)
		}
	}
}

// attempts returns the number of receive attempts of the FIFO queue that the two models remember together.
func (w *twins) attempts() int {
	count := 0
	for _, m := range []*Model{w.model, w.restart} {
		if q, ok := m.queues["q.fifo"]; ok {
			count += len(q.attempts.order)
		}
	}
	return count
}

func TestRestore_names_the_unreadable_record(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := New()
	m.Keep()
	k := recordtest.Kept{}
	if _, err := m.CreateQueue(now, &CreateQueueInput{QueueName: "q.fifo", Attributes: map[string]string{"FifoQueue": "true"}}); err != nil {
		t.Fatal(err)
	}
	send(t, m, now, 1, 1)
	if _, err := m.ReceiveMessage(now, &ReceiveMessageInput{QueueUrl: "q.fifo", ReceiveRequestAttemptId: "x"}); err != nil {
		t.Fatal(err)
	}
	k.Apply(m.TakeRecords())
	if len(k) != 6 {
		t.Fatalf("expected records of the serial, the queue, the message (two), its deduplication ID and the attempt; got %q", slices.Sorted(maps.Keys(k)))
	}
	for key, value := range k {
		broken := maps.Clone(k)
		broken[key] = append(slices.Clone(value), 1)
		if err := New().Restore(broken.Each); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q of SQS: its value is 1 bytes longer", key)) {
			t.Errorf("%s with an extra byte: got %v, expected an error that names it", key, err)
		}
	}
	for key, want := range map[string]string{
		"body/q.fifo/0000000000000002":    "expected body and state of the message 2",
		"message/q.fifo/0000000000000002": "expected body and state of the message 2",
		"queue/q.fifo":                    "expected a record of the queue itself",
	} {
		broken := maps.Clone(k)
		delete(broken, key)
		if err := New().Restore(broken.Each); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: got %v, expected %q", key, err, want)
		}
	}
	broken := maps.Clone(k)
	broken["future/q.fifo/x"] = nil
	if err := New().Restore(broken.Each); err == nil || !strings.Contains(err.Error(), `"future/q.fifo/x" of SQS: expected a kind of record that this build knows`) {
		t.Errorf("an unknown kind: got %v", err)
	}
}

// The number of records of a call must not depend on the number of messages in the queue.
func TestTakeRecords_returns_the_changed_records(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := filled(t, now, 1000, 10)
	m.Keep()
	send(t, m, now, 1000, 10)
	records := m.TakeRecords()
	keys := func() (all []string) {
		for _, r := range records {
			all = append(all, r.Key)
		}
		return all
	}
	serial := fmt.Sprintf("%016x", 1002)
	if want := []string{"serial", "body/q.fifo/" + serial, "message/q.fifo/" + serial, "sent/q.fifo/ 1000"}; !slices.Equal(keys(), want) {
		t.Errorf("a send has the records %q, want %q", keys(), want)
	}
	out, err := m.ReceiveMessage(now, &ReceiveMessageInput{QueueUrl: "q.fifo"})
	if err != nil {
		t.Fatal(err)
	}
	records = m.TakeRecords()
	if want := []string{"message/q.fifo/0000000000000002"}; !slices.Equal(keys(), want) {
		t.Errorf("a receive has the records %q, want %q", keys(), want)
	}
	if _, err := m.DeleteMessage(now, &DeleteMessageInput{QueueUrl: "q.fifo", ReceiptHandle: out.Messages[0].ReceiptHandle}); err != nil {
		t.Fatal(err)
	}
	records = m.TakeRecords()
	if want := []string{"message/q.fifo/0000000000000002", "body/q.fifo/0000000000000002"}; !slices.Equal(keys(), want) || records[0].Value != nil || records[1].Value != nil {
		t.Errorf("a deletion has the records %q, want %q, both without a value", keys(), want)
	}
}
