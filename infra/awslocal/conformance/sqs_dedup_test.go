package conformance_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

func dedupExplicit(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	first, second := q.send(q.message("a", "a1")), q.send(q.message("a", "a1"))
	want(t, "MessageId of the second", *first.MessageId, *second.MessageId)
	q.receiveOne("a1", upTo(10))
}

func dedupAfterDelete(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1")
	q.delete(q.receiveOne("a1"))
	q.sendAll("a1")
	wantBodies(t, q.receive(upTo(10)))
	q.wantCounts(0, 0, 0)
}

func dedupWindow(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1")
	sent := time.Now()
	q.delete(q.receiveOne("a1"))
	time.Sleep(4 * time.Minute)
	q.sendAll("a1") // the duplicate does not start a new window
	w.untilJustBefore(t, sent.Add(5*time.Minute))
	q.sendAll("a1")
	wantBodies(t, q.receive())
	w.until(sent.Add(5 * time.Minute))
	q.sendAll("a1")
	q.receiveOne("a1", upTo(10))
}

func dedupContentBased(t *testing.T, w *world) {
	q := w.fifo(t, map[string]string{"ContentBasedDeduplication": "true"})
	send := func(body, id string) *sqs.SendMessageOutput {
		in := q.message("a", body)
		in.MessageDeduplicationId = nil
		if id != "" {
			in.MessageDeduplicationId = &id
		}
		return q.send(in)
	}
	sum := sha256.Sum256([]byte("one"))
	hash := hex.EncodeToString(sum[:])
	first := send("one", "")
	want(t, "MessageId of the same body", *first.MessageId, *send("one", "").MessageId)
	send("another body, the same ID", hash)
	send("one", "another-ID")
	send("two", "")
	messages := q.receive(upTo(10))
	wantBodies(t, messages, "one", "one", "two")
	want(t, "MessageDeduplicationId", hash, messages[0].Attributes["MessageDeduplicationId"])
}

func dedupScope(t *testing.T, w *world) {
	for scope, all := range map[string][]string{"queue": {"same"}, "messageGroup": {"same", "same"}} {
		q := w.fifo(t, map[string]string{"DeduplicationScope": scope})
		for _, group := range []string{"a", "b", "b"} {
			q.send(q.message(group, "same"))
		}
		wantBodies(t, q.receive(upTo(10)), all...)
	}
}
