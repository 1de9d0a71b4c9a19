package conformance_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

func visibilityExpiryOrder(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1", "a2")
	q.receiveOne("a1", visible(2))
	received := time.Now()
	w.untilJustBefore(t, received.Add(2*time.Second))
	wantBodies(t, q.receive(upTo(10)))
	w.until(received.Add(2 * time.Second))
	again := q.receive(upTo(10))
	wantBodies(t, again, "a1", "a2")
	wantReceiveCount(t, again[0], "2")
	wantReceiveCount(t, again[1], "1")
}

func partialDeleteThenExpiry(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1", "a2", "a3", "a4")
	batch := q.receive(upTo(3), visible(3))
	received := time.Now()
	wantBodies(t, batch, "a1", "a2", "a3")
	q.delete(batch[0], batch[2])
	w.untilJustBefore(t, received.Add(3*time.Second))
	wantBodies(t, q.receive(upTo(10)))
	w.until(received.Add(3 * time.Second))
	again := q.receive(upTo(10))
	wantBodies(t, again, "a2", "a4")
	wantReceiveCount(t, again[0], "2")
}

func recvVisibilityOverride(t *testing.T, w *world) {
	q := w.fifo(t, map[string]string{"VisibilityTimeout": "4"})
	q.sendAll("a1", "b1")
	q.receiveOne("a1", visible(2))
	shorter := time.Now()
	q.receiveOne("b1", visible(60))
	w.untilJustBefore(t, shorter.Add(2*time.Second))
	wantBodies(t, q.receive())
	w.until(shorter.Add(2 * time.Second))
	q.receiveOne("a1", upTo(10))
	asTheQueueSays := time.Now()
	w.untilJustBefore(t, asTheQueueSays.Add(4*time.Second))
	wantBodies(t, q.receive(upTo(10)))
	w.until(asTheQueueSays.Add(4 * time.Second))
	q.receiveOne("a1", upTo(10))
}

func changeVisibility0(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1", "a2")
	q.setVisibility(q.receiveOne("a1"), 0)
	wantReceiveCount(t, q.receiveOne("a1"), "2")
}

func changeVisibilityExtend(t *testing.T, w *world) {
	q := w.fifo(t, map[string]string{"VisibilityTimeout": "2"})
	q.sendAll("a1")
	m := q.receiveOne("a1")
	q.setVisibility(m, 5)
	changed := time.Now()
	w.untilJustBefore(t, changed.Add(5*time.Second))
	wantBodies(t, q.receive())
	w.until(changed.Add(5 * time.Second))
	q.receiveOne("a1")
}

func oldReceiptHandle(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1")
	old := q.receiveOne("a1", visible(1))
	w.until(time.Now().Add(time.Second))
	q.receiveOne("a1", visible(2))
	again := time.Now()
	wantCode(t, "deleting with the first handle", q.tryDelete(old.ReceiptHandle), "InvalidParameterValue", "ReceiptHandleIsInvalid")
	q.wantCounts(0, 1, 0)
	w.until(again.Add(2 * time.Second))
	q.delete(q.receiveOne("a1"))
	q.wantCounts(0, 0, 0)
}

func expiredReceiptHandle(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1")
	expired := q.receiveOne("a1", visible(1))
	w.until(time.Now().Add(time.Second))
	wantCode(t, "deleting after the timeout", q.tryDelete(expired.ReceiptHandle), "InvalidParameterValue", "ReceiptHandleIsInvalid")
	q.receiveOne("a1")
}

func deleteTwice(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1", "a2")
	a1 := q.receiveOne("a1")
	q.delete(a1)
	q.delete(a1)
	q.receiveOne("a2", upTo(10))
}

func badReceiptHandle(t *testing.T, w *world) {
	q, other := w.fifo(t, nil), w.fifo(t, nil)
	other.sendAll("a1")
	elsewhere := other.receiveOne("a1")
	for _, handle := range []*string{aws.String("garbage"), aws.String("Z2FyYmFnZQ=="), elsewhere.ReceiptHandle} {
		wantCode(t, "deleting with "+*handle, q.tryDelete(handle), "ReceiptHandleIsInvalid")
	}
	other.wantCounts(0, 1, 0)
}

func dlq(t *testing.T, w *world) {
	dead := w.fifo(t, nil)
	q := w.fifo(t, redriveTo(dead, 2))
	sent := q.send(q.message("a", "a1"))
	q.sendAll("a2", "b1")
	for range 2 {
		q.receiveOne("a1", visible(1))
		w.until(time.Now().Add(time.Second))
	}
	wantBodies(t, dead.receive())
	q.receiveOne("a2") // the third receive
	m := dead.receiveOne("a1")
	want(t, "MessageGroupId", "a", m.Attributes["MessageGroupId"])
	want(t, "MessageDeduplicationId", *sent.MessageId, m.Attributes["MessageDeduplicationId"])
	want(t, "MessageId", *sent.MessageId, *m.MessageId)
	q.receiveOne("b1")
	wantBodies(t, q.receive(upTo(10)))
	dead.delete(m)
}

func dlqViaChangeVisibility(t *testing.T, w *world) {
	dead := w.fifo(t, nil)
	q := w.fifo(t, redriveTo(dead, 2))
	q.sendAll("a1", "a2")
	for range 2 {
		q.setVisibility(q.receiveOne("a1"), 0)
	}
	wantBodies(t, dead.receive())
	q.receiveOne("a2")
	want(t, "MessageGroupId", "a", dead.receiveOne("a1").Attributes["MessageGroupId"])
}

func receiveAttemptID(t *testing.T, w *world) {
	q := w.fifo(t, nil)
	q.sendAll("a1", "a2", "b1")
	id := "attempt-1"
	other := "attempt-2"
	first := q.receive(upTo(2), visible(60), attempt(id))
	wantBodies(t, first, "a1", "a2")
	again := q.receive(upTo(2), visible(60), attempt(id))
	wantBodies(t, again, "a1", "a2")
	q.receiveOne("b1", upTo(10), attempt(other))
	for _, m := range again {
		wantReceiveCount(t, m, "1")
		q.delete(m)
	}
	q.wantCounts(0, 1, 0)
}
