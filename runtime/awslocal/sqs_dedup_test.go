package awslocal_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

func TestSQS_dedup_explicit(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	first, second := q.send("a", "a1"), q.send("a", "a1")
	if *first.MessageId != *second.MessageId || *first.SequenceNumber != *second.SequenceNumber {
		t.Fatalf("the duplicate is %s (%s), want the first's %s (%s)",
			*second.MessageId, *second.SequenceNumber, *first.MessageId, *first.SequenceNumber)
	}
	wantBodies(t, q.receive(upTo(10)), "a1")
}

func TestSQS_dedup_after_delete(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, nil)
	q.sendAll("a1")
	q.delete(q.receive()...)
	q.sendAll("a1")
	wantBodies(t, q.receive())
}

func TestSQS_dedup_window(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newFIFO(t, nil)
		q.sendAll("a1")
		q.delete(q.receive()...)
		time.Sleep(4 * time.Minute)
		q.sendAll("a1") // does not begin a window of its own
		time.Sleep(time.Minute - time.Nanosecond)
		q.sendAll("a1")
		wantBodies(t, q.receive())
		time.Sleep(time.Nanosecond)
		q.sendAll("a1")
		wantBodies(t, q.receive(), "a1")
	})
}

func TestSQS_dedup_content_based(t *testing.T) {
	t.Parallel()
	q := newFIFO(t, map[string]string{"ContentBasedDeduplication": "true"})
	send := func(body, id string) {
		t.Helper()
		in := &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &body, MessageGroupId: aws.String("a")}
		if id != "" {
			in.MessageDeduplicationId = &id
		}
		if _, err := q.client.SendMessage(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256([]byte("one"))
	hash := hex.EncodeToString(sum[:])
	send("one", "")
	send("one", "")
	send("other body, the same id", hash)
	send("one", "explicit")
	send("two", "")
	messages := q.receive(upTo(10))
	wantBodies(t, messages, "one", "one", "two")
	if got := messages[0].Attributes["MessageDeduplicationId"]; got != hash {
		t.Fatalf("MessageDeduplicationId is %s, want the SHA-256 %s", got, hash)
	}
}

func TestSQS_dedup_scope(t *testing.T) {
	t.Parallel()
	for scope, want := range map[string][]string{"queue": {"same"}, "messageGroup": {"same", "same"}} {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			q := newFIFO(t, map[string]string{"DeduplicationScope": scope})
			q.send("a", "same")
			q.send("b", "same")
			q.send("b", "same")
			wantBodies(t, q.receive(upTo(10)), want...)
		})
	}
}
