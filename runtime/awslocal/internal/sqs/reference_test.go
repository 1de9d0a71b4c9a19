package sqs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// reference is a FIFO queue written for reading only: one slice, searched anew in every
// call. It says what the model must do, at any cost.
type reference struct {
	messages []*referenceMessage
	dead     []string // bodies in the dead-letter queue
	delay    time.Duration
	maxCount int // receives before the dead-letter queue; zero: no such queue
}

type referenceMessage struct {
	body, group string
	sequence    int
	count       int
	inFlight    bool
	until       time.Time // of the delay, or of the visibility time-out
}

func (r *reference) locked(now time.Time, group string) bool {
	return slices.ContainsFunc(r.messages, func(m *referenceMessage) bool {
		return m.group == group && m.inFlight && m.until.After(now)
	})
}

func (r *reference) receive(now time.Time, most int, visibility time.Duration) []*referenceMessage {
	var taken []*referenceMessage
	done := map[string]bool{}
	for _, first := range slices.Clone(r.messages) {
		if done[first.group] || r.locked(now, first.group) {
			continue
		}
		done[first.group] = true
		for _, m := range slices.Clone(r.messages) {
			if m.group != first.group {
				continue
			}
			if len(taken) == most || m.until.After(now) {
				break
			}
			if r.maxCount > 0 && m.count == r.maxCount {
				r.dead = append(r.dead, m.body)
				r.remove(m)
				continue
			}
			m.count++
			taken = append(taken, m)
		}
		// The lock takes hold now that the group's part of the batch is complete.
		for _, m := range taken {
			m.inFlight, m.until = true, now.Add(visibility)
		}
	}
	slices.SortFunc(taken, func(a, b *referenceMessage) int { return a.sequence - b.sequence })
	return taken
}

func (r *reference) remove(m *referenceMessage) {
	r.messages = slices.DeleteFunc(r.messages, func(o *referenceMessage) bool { return o == m })
}

// held is a receipt that the test has been given, by both.
type held struct {
	handle  string
	message *referenceMessage
	count   int
}

// valid says whether a FIFO queue must accept the receipt.
func (h held) valid(now time.Time) bool {
	return h.message.count == h.count && h.message.inFlight && h.message.until.After(now)
}

func TestFIFO_behaves_like_the_reference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		ref := &reference{
			delay:    time.Duration(rapid.IntRange(0, 3).Draw(t, "delay")) * time.Second,
			maxCount: rapid.IntRange(0, 3).Draw(t, "maxReceiveCount"),
		}
		model := New()
		create := func(name string, attributes map[string]string) {
			attributes["FifoQueue"] = "true"
			if _, err := model.CreateQueue(now, &CreateQueueInput{QueueName: name, Attributes: attributes}); err != nil {
				t.Fatal(err)
			}
		}
		create("dead.fifo", map[string]string{})
		attributes := map[string]string{"DelaySeconds": fmt.Sprint(ref.delay.Seconds())}
		if ref.maxCount > 0 {
			attributes["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn":"%s","maxReceiveCount":%d}`,
				QueueARN("dead.fifo"), ref.maxCount)
		}
		create("q.fifo", attributes)

		var receipts []held
		sent := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"send", "send", "receive", "receive", "delete", "change", "wait"}).Draw(t, "do") {
			case "send":
				m := &referenceMessage{body: fmt.Sprint(sent), group: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group"),
					sequence: sent, until: now.Add(ref.delay)}
				sent++
				ref.messages = append(ref.messages, m)
				if _, err := model.SendMessage(now, &SendMessageInput{QueueUrl: "q.fifo", Message: Message{
					MessageBody: m.body, MessageGroupId: m.group, MessageDeduplicationId: m.body}}); err != nil {
					t.Fatal(err)
				}
			case "receive":
				most := rapid.IntRange(1, 4).Draw(t, "most")
				seconds := rapid.IntRange(1, 4).Draw(t, "visibility")
				receipts = append(receipts, receiveBoth(t, model, ref, now, most, seconds)...)
			case "delete":
				if len(receipts) == 0 {
					continue
				}
				h := rapid.SampledFrom(receipts).Draw(t, "receipt")
				_, err := model.DeleteMessage(now, &DeleteMessageInput{QueueUrl: "q.fifo", ReceiptHandle: h.handle})
				gone := !slices.Contains(ref.messages, h.message)
				if want := gone || h.valid(now); (err == nil) != want {
					t.Fatalf("deleting %s: got %v, want success %v", h.message.body, err, want)
				}
				if err == nil {
					ref.remove(h.message)
				}
			case "change":
				if len(receipts) == 0 {
					continue
				}
				h := rapid.SampledFrom(receipts).Draw(t, "receipt")
				seconds := rapid.IntRange(0, 4).Draw(t, "seconds")
				_, err := model.ChangeMessageVisibility(now, &ChangeMessageVisibilityInput{
					QueueUrl: "q.fifo", ReceiptHandle: h.handle, VisibilityTimeout: &seconds})
				want := slices.Contains(ref.messages, h.message) && h.valid(now)
				if (err == nil) != want {
					t.Fatalf("changing %s: got %v, want success %v", h.message.body, err, want)
				}
				if err == nil {
					h.message.until = now.Add(time.Duration(seconds) * time.Second)
				}
			case "wait":
				now = now.Add(time.Duration(rapid.IntRange(1, 3).Draw(t, "seconds")) * time.Second)
			}
			checkNextReceivable(t, model, ref, now)
			if err := checkInvariants(model.queues["q.fifo"]); err != "" {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(ref.dead, deadLetters(model, now)); diff != "" {
			t.Fatalf("dead-letter queue (-want +got):\n%s", diff)
		}
	})
}

func receiveBoth(t *rapid.T, model *Model, ref *reference, now time.Time, most, seconds int) []held {
	want := ref.receive(now, most, time.Duration(seconds)*time.Second)
	got, err := model.ReceiveMessage(now, &ReceiveMessageInput{QueueUrl: "q.fifo", MaxNumberOfMessages: &most,
		VisibilityTimeout: &seconds, MessageSystemAttributeNames: []string{"ApproximateReceiveCount"}})
	if err != nil {
		t.Fatal(err)
	}
	var wantLines, gotLines []string
	var receipts []held
	for _, m := range want {
		wantLines = append(wantLines, fmt.Sprint(m.body, " for the time ", m.count))
	}
	for i, m := range got.Messages {
		gotLines = append(gotLines, fmt.Sprint(m.Body, " for the time ", m.Attributes["ApproximateReceiveCount"]))
		if i < len(want) {
			receipts = append(receipts, held{m.ReceiptHandle, want[i], want[i].count})
		}
	}
	if diff := cmp.Diff(wantLines, gotLines); diff != "" {
		t.Fatalf("received (-want +got):\n%s", diff)
	}
	return receipts
}

// checkNextReceivable fails if the model would let a long poll sleep past a message.
func checkNextReceivable(t *rapid.T, model *Model, ref *reference, now time.Time) {
	next, ok := model.NextReceivable(now, "q.fifo")
	for at := now; at.Before(now.Add(5 * time.Second)); at = at.Add(time.Second) {
		for i, m := range ref.messages {
			head := !slices.ContainsFunc(ref.messages[:i], func(o *referenceMessage) bool { return o.group == m.group })
			if head && !m.until.After(at) && !ref.locked(at, m.group) && (!ok || next.After(at)) {
				t.Fatalf("%s can be received at %v, but NextReceivable says %v, %v", m.body, at, next, ok)
			}
		}
	}
}

// checkInvariants says which invariant of a queue does not hold.
func checkInvariants(q *queue) string {
	inFlightNow, delayedNow := 0, 0
	for _, m := range q.messages {
		switch m.state {
		case inFlight:
			inFlightNow++
		case delayed:
			delayedNow++
		}
		if waits := m.state != available; waits != (m.deadlineIndex != absent) {
			return fmt.Sprintf("message %d: state %d, place among deadlines %d", m.serial, m.state, m.deadlineIndex)
		}
	}
	for _, g := range q.groups {
		if g.head == nil {
			return "group " + g.id + " is empty"
		}
		if g.ready() != (g.readyIndex != absent) {
			return fmt.Sprintf("group %s: ready is %v, place among the ready %d", g.id, g.ready(), g.readyIndex)
		}
	}
	if inFlightNow != q.inFlight || delayedNow != q.delayed {
		return fmt.Sprintf("%d in flight and %d delayed, counted as %d and %d", inFlightNow, delayedNow, q.inFlight, q.delayed)
	}
	return ""
}

func deadLetters(model *Model, now time.Time) []string {
	var all []string
	q := model.queues["dead.fifo"]
	for _, m := range q.messages {
		all = append(all, fmt.Sprintf("%020d %s", m.sequence, m.body))
	}
	slices.Sort(all)
	for i := range all {
		_, all[i], _ = strings.Cut(all[i], " ")
	}
	return all
}
