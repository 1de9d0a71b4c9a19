package durable_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/waking"
)

// The settings of SQS and Lambda.
const (
	batchSize         = 10
	visibilityTimeout = 6 * time.Minute
	functionTimeout   = time.Minute
	deduplicationTime = 5 * time.Minute
	// invocationsMax bounds a run that never comes to rest.
	invocationsMax = 400
)

// queue is an SQS FIFO queue. It keeps the order of a group, and locks the group while one of its messages is in
// flight. It drops a message whose deduplication ID it has seen in the last five minutes.
type queue struct {
	messages  []*message
	scheduled []scheduled
	sequence  int
	sent      map[string]time.Time
	// asleep lists the instances that nothing would wake.
	asleep []string
}

type message struct {
	durable.Delivery
	visibleAt time.Time
}

type scheduled struct {
	at      time.Time
	message durable.Message
}

func (q *queue) enqueue(m durable.Message) (messageID string) {
	if at, ok := q.sent[m.DeduplicationID]; ok && time.Since(at) < deduplicationTime {
		return ""
	}
	q.sent[m.DeduplicationID] = time.Now()
	q.sequence++
	id := "message-" + strconv.Itoa(q.sequence)
	q.messages = append(q.messages, &message{Delivery: durable.Delivery{
		MessageID: id, Queue: queueARN, Group: m.To.String(), SequenceNumber: strconv.Itoa(q.sequence),
		DeduplicationID: m.DeduplicationID, SentAt: time.Now(), Body: string(m.Body),
	}, visibleAt: time.Now()})
	return id
}

func (q *queue) schedule(at time.Time, m durable.Message) {
	q.scheduled = append(q.scheduled, scheduled{at, m})
}

// fire enqueues the scheduled messages that are due.
func (q *queue) fire() {
	q.scheduled = slices.DeleteFunc(q.scheduled, func(s scheduled) bool {
		if s.at.After(time.Now()) {
			return false
		}
		q.enqueue(s.message)
		return true
	})
}

// receive returns a batch of messages in order. It skips groups with a message in flight.
func (q *queue) receive(size int) (batch []durable.Delivery) {
	q.fire()
	locked := map[string]bool{}
	for _, m := range q.messages {
		if m.visibleAt.After(time.Now()) {
			locked[m.Group] = true
		}
	}
	for _, m := range q.messages {
		if locked[m.Group] || len(batch) == size {
			continue
		}
		m.ReceiveCount++
		m.ReceiptHandle = fmt.Sprintf("%s receipt %d", m.MessageID, m.ReceiveCount)
		m.visibleAt = time.Now().Add(visibilityTimeout)
		batch = append(batch, m.Delivery)
	}
	return batch
}

// hide hides a message for the given time. It returns an error if the message is visible, or another consumer has
// received it.
func (q *queue) hide(d durable.Delivery, wait time.Duration) error {
	for _, m := range q.messages {
		if m.ReceiptHandle == d.ReceiptHandle && m.visibleAt.After(time.Now()) {
			m.visibleAt = time.Now().Add(wait)
			return nil
		}
	}
	return fmt.Errorf("the receipt of %s has expired", d.MessageID)
}

func (q *queue) remove(d durable.Delivery) {
	q.messages = slices.DeleteFunc(q.messages, func(m *message) bool { return m.ReceiptHandle == d.ReceiptHandle })
}

// next returns the time of the next delivery or timer, or the zero time.
func (q *queue) next() (at time.Time) {
	groups := map[string]time.Time{}
	for _, m := range q.messages {
		if groups[m.Group].Before(m.visibleAt) || groups[m.Group].IsZero() {
			groups[m.Group] = m.visibleAt
		}
	}
	for _, visible := range groups {
		if at.IsZero() || visible.Before(at) {
			at = visible
		}
	}
	for _, s := range q.scheduled {
		if at.IsZero() || s.at.Before(at) {
			at = s.at
		}
	}
	return at
}

// post sends events to an instance as a producer does.
func (w *world) post(group string, bodies ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, body := range bodies {
		w.enqueueRaw(group, body)
	}
}

// enqueueRaw does the same as enqueue, for a group that need not be an instance ID.
func (q *queue) enqueueRaw(group, body string) {
	id, err := instances.ParseID(group)
	q.enqueue(durable.Message{To: id, Body: json.RawMessage(body), DeduplicationID: fmt.Sprintf("post %d", q.sequence)})
	if err != nil {
		q.messages[len(q.messages)-1].Group = group
	}
}

// invoke receives a batch and runs one Lambda invocation on it. It returns the bodies of the failed deliveries, or of
// all deliveries if the process died.
func (w *world) invoke() (failed []string) {
	w.mu.Lock()
	batch := w.receive(batchSize)
	w.mu.Unlock()
	return w.handle(batch, functionTimeout)
}

// handle runs one Lambda invocation on the batch and acknowledges the deliveries that have not failed.
func (w *world) handle(batch []durable.Delivery, timeout time.Duration) (failed []string) {
	p := w.start(timeout)
	defer p.cancel()
	again := p.loop.Handle(p.ctx, batch)
	for _, d := range batch {
		acknowledged := !slices.Contains(again, d.MessageID)
		if acknowledged {
			_ = p.call(p.ctx, "Acknowledge", d.Group, func() error {
				w.remove(d)
				w.awake(d.Group)
				return nil
			})
		}
		if p.isDead() || !acknowledged {
			failed = append(failed, d.Body)
		}
	}
	return failed
}

// awake checks that something will wake an instance whose message has left the queue.
func (w *world) awake(id string) {
	record := w.load(id)
	if record.Revision == 0 {
		return
	}
	stored, err := waking.Of(w.machines, record)
	if err == nil {
		var queued, later []string
		for _, m := range w.messages {
			if m.Group == id {
				queued = append(queued, m.Body)
			}
		}
		for _, s := range w.scheduled {
			if s.message.To.String() == id {
				later = append(later, string(s.message.Body))
			}
		}
		err = stored.Check(queued, later)
	}
	if err != nil {
		w.asleep = append(w.asleep, fmt.Sprintf("nothing wakes %s: %v", id, err))
	}
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// run advances time and invokes the function until the queue is empty and no timer is left.
func (w *world) run(t *testing.T) {
	t.Helper()
	w.runUntil(t, time.Time{})
}

// runFor does the same as run, but for at most the given time. Timers that are due later stay scheduled.
func (w *world) runFor(t *testing.T, d time.Duration) {
	t.Helper()
	w.runUntil(t, time.Now().Add(d))
}

func (w *world) runUntil(t *testing.T, end time.Time) {
	t.Helper()
	if problem := w.live(end); problem != "" {
		t.Error(problem)
	}
}

// live does the work of runUntil. It returns the problem, if any.
func (w *world) live(end time.Time) (problem string) {
	for range invocationsMax {
		at := w.next()
		switch {
		case at.IsZero() && len(w.messages) == 0:
			return strings.Join(w.asleep, "\n")
		case !end.IsZero() && at.After(end):
			time.Sleep(time.Until(end))
			return ""
		}
		time.Sleep(time.Until(at))
		w.invoke()
	}
	return fmt.Sprintf("%d invocations, and %d messages are left, the first %+v", invocationsMax, len(w.messages), w.messages[:min(len(w.messages), 1)])
}
