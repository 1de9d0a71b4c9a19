package sqs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// reference is a simple, slow FIFO queue: each call searches one slice. It defines the correct behaviour of the model.
type reference struct {
	messages []*referenceMessage
	dead     []string // bodies in the dead-letter queue
	delay    time.Duration
	maxCount int // receives before a message moves to the dead-letter queue; zero means no such queue
	scanMax  int // number of messages in which a receive looks for available groups
}

type referenceMessage struct {
	body, group string
	sequence    int
	count       int
	inFlight    bool
	until       time.Time // end of the delay or of the visibility timeout
}

func (r *reference) locked(now time.Time, group string) bool {
	return slices.ContainsFunc(r.messages, func(m *referenceMessage) bool {
		return m.group == group && m.inFlight && m.until.After(now)
	})
}

// scans reports whether m is one of the messages that a receive scans.
func (r *reference) scans(m *referenceMessage) bool {
	return slices.Contains(r.messages[:min(r.scanMax, len(r.messages))], m)
}

func (r *reference) receive(now time.Time, most int, visibility time.Duration) []*referenceMessage {
	var taken []*referenceMessage
	done := map[string]bool{}
	for _, first := range slices.Clone(r.messages) {
		if done[first.group] || r.locked(now, first.group) || !r.scans(first) {
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
		// The lock takes effect once the group's part of the batch is complete.
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

// held is a receipt that both the model and the reference returned.
type held struct {
	handle  string
	message *referenceMessage
	count   int
}

// valid reports whether a FIFO queue must accept the receipt.
func (h held) valid(now time.Time) bool {
	return h.message.count == h.count && h.message.inFlight && h.message.until.After(now)
}

// pair runs a model and the reference side by side. Every operation applies to both, and their answers must match.
type pair struct {
	*rapid.T
	now      time.Time
	model    *Model
	ref      *reference
	sent     int
	receipts []held
}

func TestFIFO_behaves_like_the_reference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(t)
		do := map[string]func(){"send": p.send, "receive": p.receive, "delete": p.delete, "change": p.change, "wait": p.wait}
		often := []string{"send", "send", "receive", "receive", "delete", "change", "wait"}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			do[rapid.SampledFrom(often).Draw(t, "do")]()
			p.checkNextReceivable()
			if broken := brokenInvariant(p.model.queues["q.fifo"]); broken != "" {
				t.Fatal(broken)
			}
		}
		if diff := cmp.Diff(p.ref.dead, deadLetters(p.model)); diff != "" {
			t.Fatalf("dead-letter queue (-want +got):\n%s", diff)
		}
	})
}

func newPair(t *rapid.T) *pair {
	p := &pair{T: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), model: New(), ref: &reference{
		delay:    time.Duration(rapid.IntRange(0, 3).Draw(t, "delay")) * time.Second,
		maxCount: rapid.IntRange(0, 3).Draw(t, "maxReceiveCount"),
		scanMax:  rapid.SampledFrom([]int{1, 2, 4, 7, ScanMessagesMax}).Draw(t, "scanMax"),
	}}
	p.model.LimitScan(p.ref.scanMax)
	attributes := map[string]string{"FifoQueue": "true", "DelaySeconds": fmt.Sprint(p.ref.delay.Seconds())}
	if p.ref.maxCount > 0 {
		attributes["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn":"%s","maxReceiveCount":%d}`,
			QueueARN("dead.fifo"), p.ref.maxCount)
	}
	for _, in := range []*CreateQueueInput{
		{QueueName: "dead.fifo", Attributes: map[string]string{"FifoQueue": "true"}},
		{QueueName: "q.fifo", Attributes: attributes},
	} {
		if _, err := p.model.CreateQueue(p.now, in); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *pair) send() {
	m := &referenceMessage{body: fmt.Sprint(p.sent), sequence: p.sent, until: p.now.Add(p.ref.delay),
		group: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(p.T, "group")}
	p.sent++
	p.ref.messages = append(p.ref.messages, m)
	if _, err := p.model.SendMessage(p.now, &SendMessageInput{QueueUrl: "q.fifo", Message: Message{
		MessageBody: m.body, MessageGroupId: m.group, MessageDeduplicationId: m.body}}); err != nil {
		p.Fatal(err)
	}
}

func (p *pair) receive() {
	most := rapid.IntRange(1, 4).Draw(p.T, "most")
	seconds := rapid.IntRange(1, 4).Draw(p.T, "visibility")
	want := p.ref.receive(p.now, most, time.Duration(seconds)*time.Second)
	got, err := p.model.ReceiveMessage(p.now, &ReceiveMessageInput{QueueUrl: "q.fifo", MaxNumberOfMessages: &most,
		VisibilityTimeout: &seconds, MessageSystemAttributeNames: []string{"ApproximateReceiveCount"}})
	if err != nil {
		p.Fatal(err)
	}
	var wantLines, gotLines []string
	for _, m := range want {
		wantLines = append(wantLines, fmt.Sprint(m.body, " for the time ", m.count))
	}
	for _, m := range got.Messages {
		gotLines = append(gotLines, fmt.Sprint(m.Body, " for the time ", m.Attributes["ApproximateReceiveCount"]))
	}
	if diff := cmp.Diff(wantLines, gotLines); diff != "" {
		p.Fatalf("received (-want +got):\n%s", diff)
	}
	for i, m := range got.Messages {
		p.receipts = append(p.receipts, held{m.ReceiptHandle, want[i], want[i].count})
	}
}

func (p *pair) delete() {
	if len(p.receipts) == 0 {
		return
	}
	h := rapid.SampledFrom(p.receipts).Draw(p.T, "receipt")
	_, err := p.model.DeleteMessage(p.now, &DeleteMessageInput{QueueUrl: "q.fifo", ReceiptHandle: h.handle})
	gone := !slices.Contains(p.ref.messages, h.message)
	if want := gone || h.valid(p.now); (err == nil) != want {
		p.Fatalf("deleting %s: got %v, want success %v", h.message.body, err, want)
	}
	if err == nil {
		p.ref.remove(h.message)
	}
}

func (p *pair) change() {
	if len(p.receipts) == 0 {
		return
	}
	h := rapid.SampledFrom(p.receipts).Draw(p.T, "receipt")
	seconds := rapid.IntRange(0, 4).Draw(p.T, "seconds")
	_, err := p.model.ChangeMessageVisibility(p.now, &ChangeMessageVisibilityInput{
		QueueUrl: "q.fifo", ReceiptHandle: h.handle, VisibilityTimeout: &seconds})
	want := slices.Contains(p.ref.messages, h.message) && h.valid(p.now)
	if (err == nil) != want {
		p.Fatalf("changing %s: got %v, want success %v", h.message.body, err, want)
	}
	if err == nil {
		h.message.until = p.now.Add(time.Duration(seconds) * time.Second)
	}
}

func (p *pair) wait() {
	p.now = p.now.Add(time.Duration(rapid.IntRange(1, 3).Draw(p.T, "seconds")) * time.Second)
}

// checkNextReceivable fails if a long poll on the model would miss a message, or would retry at once and find none.
func (p *pair) checkNextReceivable() {
	next, ok := p.model.NextReceivable(p.now, "q.fifo")
	for at := p.now; at.Before(p.now.Add(5 * time.Second)); at = at.Add(time.Second) {
		i := slices.IndexFunc(p.ref.messages, func(m *referenceMessage) bool { return p.receivable(m, at) })
		if i >= 0 && (!ok || next.After(at)) {
			p.Fatalf("%s can be received at %v, but NextReceivable says %v, %v", p.ref.messages[i].body, at, next, ok)
		}
		if i < 0 && ok && next.Equal(at) && at.Equal(p.now) {
			p.Fatalf("nothing can be received at %v, but NextReceivable says %v", at, next)
		}
	}
}

// receivable reports whether a receive at a later time finds m if no other call is made.
func (p *pair) receivable(m *referenceMessage, at time.Time) bool {
	head := slices.IndexFunc(p.ref.messages, func(o *referenceMessage) bool { return o.group == m.group })
	return p.ref.messages[head] == m && !m.until.After(at) && !p.ref.locked(at, m.group) && p.ref.scans(m)
}

// brokenInvariant returns the invariant that a queue violates, or "".
func brokenInvariant(q *queue) string {
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
	if broken := q.backlog.broken(slices.Collect(maps.Values(q.messages))); broken != "" {
		return broken
	}
	if inFlightNow != q.inFlight || delayedNow != q.delayed {
		return fmt.Sprintf("%d in flight and %d delayed, counted as %d and %d", inFlightNow, delayedNow, q.inFlight, q.delayed)
	}
	return ""
}

// broken returns the difference between b and the backlog of these messages, or "".
func (b *backlog) broken(messages []*message) string {
	slices.SortFunc(messages, func(a, b *message) int { return int(a.sequence) - int(b.sequence) })
	scanned := min(b.scanMax, len(messages))
	var edge, last *message
	for i, m := range messages {
		if m.older != last || last != nil && last.newer != m {
			return fmt.Sprintf("message %d is not linked to the next older one", m.serial)
		}
		if last = m; i == scanned-1 {
			edge = m
		}
	}
	if b.edge != edge || b.last != last || b.scanned != scanned {
		return fmt.Sprintf("a receive scans %d messages to %v; the last is %v; want %d to %v and %v",
			b.scanned, b.edge, b.last, scanned, edge, last)
	}
	return ""
}

// deadLetters returns the bodies in the dead-letter queue, in order.
func deadLetters(model *Model) []string {
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
