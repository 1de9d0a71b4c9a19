package awslocal_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// soakLedger combines the knowledge of all consumers of a FIFO queue. The messages of each group are numbered from 0 in
// sending order. The ledger reports deliveries that no correct queue could have made. It accepts everything that a slow
// consumer or a lost answer can explain.
//
// All times are times of the queue's clock.
type soakLedger struct {
	visibility time.Duration

	mu       sync.Mutex
	groups   [][]entry // by group and number
	gone     int       // number of entries in the state `gone`
	again    int       // number of redeliveries
	outdated int       // number of deliveries recorded after a later delivery of the same message
	faults   []string
}

// entry is one message.
type entry struct {
	state    standing
	receives int       // receive count of the latest known delivery
	until    time.Time // the earliest time at which that delivery's visibility timeout ends
}

// standing is the state of a message, as known to its consumers.
type standing uint8

const (
	queued  standing = iota // not delivered, released, or its visibility timeout has ended
	held                    // delivered, no deletion requested
	leaving                 // deletion requested, answer unknown
	gone                    // deleted
)

// delivery is one received message.
type delivery struct {
	group, number int
	receives      int // ApproximateReceiveCount
	handle        string
}

func newSoakLedger(visibility time.Duration, groups, messages int) *soakLedger {
	l := &soakLedger{visibility: visibility, groups: make([][]entry, groups)}
	for i := range messages {
		l.groups[i%groups] = append(l.groups[i%groups], entry{})
	}
	return l
}

// deliver records the messages of a receive. The consumer sent the request at the time `asked` and got the answer at
// the time `answered`.
func (l *soakLedger) deliver(asked, answered time.Time, batch []delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	inBatch := make(map[[2]int]bool)
	for _, d := range batch {
		e := &l.groups[d.group][d.number]
		switch {
		case d.receives == e.receives:
			l.fault("message %d of group %d was delivered twice with the receive count %d", d.number, d.group, d.receives)
		case d.receives < e.receives:
			l.outdated++
			continue
		case e.state == gone:
			l.fault("message %d of group %d was delivered after its deletion", d.number, d.group)
		}
		if e.receives > 0 {
			l.again++
		}
		l.checkGroup(d, answered, inBatch)
		inBatch[[2]int{d.group, d.number}] = true
		*e = entry{state: held, receives: d.receives, until: asked.Add(l.visibility)}
	}
}

// checkGroup reports an error in two cases. Either a message of d's group is still in flight at the delivery of d, or
// an earlier message of the group is not deleted. Messages of the same batch may be in flight, but must be in order.
func (l *soakLedger) checkGroup(d delivery, answered time.Time, inBatch map[[2]int]bool) {
	for number := range l.groups[d.group] {
		e := &l.groups[d.group][number]
		if inBatch[[2]int{d.group, number}] {
			if number > d.number {
				l.fault("message %d of group %d was delivered after message %d in the same batch", d.number, d.group, number)
			}
			continue
		}
		// If the answer to a deletion is unknown, the message may be deleted. That explains the delivery of the next
		// message, but not another delivery of the message itself.
		inFlight := e.state == held || e.state == leaving && number == d.number
		if inFlight && answered.Before(e.until) {
			l.fault("message %d of group %d was delivered while message %d was in flight, for %v more",
				d.number, d.group, number, e.until.Sub(answered))
		}
		if number < d.number {
			switch e.state {
			case leaving:
				l.leave(e)
			case queued, held:
				l.fault("message %d of group %d was delivered before message %d", d.number, d.group, number)
			}
		}
	}
}

// returning records that the consumer is about to release a delivery.
func (l *soakLedger) returning(d delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := &l.groups[d.group][d.number]; e.state == held && e.receives == d.receives {
		e.state = queued
	}
}

// deleting records that the consumer is about to delete a delivery.
func (l *soakLedger) deleting(d delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := &l.groups[d.group][d.number]; e.state == held && e.receives == d.receives {
		e.state = leaving
	}
}

// deleted records a successful deletion.
func (l *soakLedger) deleted(d delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave(&l.groups[d.group][d.number])
}

// expired records a rejected deletion: the visibility timeout had ended.
func (l *soakLedger) expired(d delivery, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.groups[d.group][d.number]
	if e.receives != d.receives {
		return
	}
	if e.state == gone || at.Before(e.until) {
		l.fault("the deletion of message %d of group %d was rejected %v before its timeout", d.number, d.group, e.until.Sub(at))
	}
	e.state = queued
}

func (l *soakLedger) leave(e *entry) {
	if e.state != gone {
		e.state = gone
		l.gone++
	}
}

func (l *soakLedger) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// progress returns the number of deleted messages and the errors found.
func (l *soakLedger) progress() (gone int, faults []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone, l.faults
}

// missing describes the first few messages that are not deleted.
func (l *soakLedger) missing() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var some []string
	for group, entries := range l.groups {
		for number, e := range entries {
			if e.state != gone && len(some) < 10 {
				some = append(some, fmt.Sprintf("message %d of group %d, delivered %d times", number, group, e.receives))
			}
		}
	}
	return strings.Join(some, "; ")
}

func TestSoakLedger_reports_errors_and_accepts_correct_deliveries(t *testing.T) {
	t.Parallel()
	const visibility = 2 * time.Second
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	seconds := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	receive := func(asked, answered float64, batch ...delivery) func(*soakLedger) {
		return func(l *soakLedger) { l.deliver(seconds(asked), seconds(answered), batch) }
	}
	of := func(number, receives int) delivery { return delivery{number: number, receives: receives} }
	returning := func(d delivery) func(*soakLedger) { return func(l *soakLedger) { l.returning(d) } }
	deleting := func(d delivery) func(*soakLedger) { return func(l *soakLedger) { l.deleting(d) } }
	deleted := func(d delivery) func(*soakLedger) { return func(l *soakLedger) { l.deleting(d); l.deleted(d) } }
	expired := func(at float64, d delivery) func(*soakLedger) {
		return func(l *soakLedger) { l.expired(d, seconds(at)) }
	}

	for name, test := range map[string]struct {
		steps []func(*soakLedger)
		want  []string
	}{
		"one after the other": {steps: []func(*soakLedger){
			receive(0, 1, of(0, 1)), deleted(of(0, 1)), receive(0.5, 1, of(1, 1), of(2, 1))}},
		"again after its timeout": {steps: []func(*soakLedger){receive(0, 1, of(0, 1)), receive(1.9, 2, of(0, 2))}},
		"again before its timeout": {steps: []func(*soakLedger){receive(0, 1, of(0, 1)), receive(1, 1.9, of(0, 2))},
			want: []string{"message 0 of group 0 was delivered while message 0 was in flight, for 100ms more"}},
		"another message while it is held": {steps: []func(*soakLedger){receive(0, 1, of(0, 1)), receive(1, 1.9, of(1, 1))},
			want: []string{"message 1 of group 0 was delivered while message 0 was in flight, for 100ms more",
				"message 1 of group 0 was delivered before message 0"}},
		"the rest of a batch while its first is held": {steps: []func(*soakLedger){
			receive(0, 1, of(0, 1), of(1, 1)), deleted(of(1, 1)), receive(1, 1.5, of(2, 1))},
			want: []string{"message 2 of group 0 was delivered while message 0 was in flight, for 500ms more",
				"message 2 of group 0 was delivered before message 0"}},
		"the first of a batch, released while the rest is held": {steps: []func(*soakLedger){
			receive(0, 1, of(0, 1), of(1, 1)), returning(of(0, 1)), receive(1, 1.5, of(0, 2))},
			want: []string{"message 0 of group 0 was delivered while message 1 was in flight, for 500ms more"}},
		"a batch that was released": {steps: []func(*soakLedger){
			receive(0, 1, of(0, 1), of(1, 1)), returning(of(0, 1)), returning(of(1, 1)), receive(1, 1.5, of(0, 2), of(1, 2))}},
		"the next message after a lost deletion answer": {steps: []func(*soakLedger){
			receive(0, 1, of(0, 1)), deleting(of(0, 1)), receive(1, 1.5, of(1, 1))}},
		"the same message after a lost deletion": {steps: []func(*soakLedger){
			receive(0, 1, of(0, 1)), deleting(of(0, 1)), receive(1, 1.5, of(0, 2))},
			want: []string{"message 0 of group 0 was delivered while message 0 was in flight, for 500ms more"}},
		"the same message after its deletion was known to succeed": {steps: []func(*soakLedger){
			receive(0, 1, of(0, 1)), deleting(of(0, 1)), receive(1, 1.5, of(1, 1)), receive(4, 5, of(0, 2))},
			want: []string{"message 0 of group 0 was delivered after its deletion"}},
		"after its deletion": {steps: []func(*soakLedger){receive(0, 1, of(0, 1)), deleted(of(0, 1)), receive(4, 5, of(0, 2))},
			want: []string{"message 0 of group 0 was delivered after its deletion"}},
		"a copy": {steps: []func(*soakLedger){receive(0, 1, of(0, 1)), deleted(of(0, 1)), receive(4, 5, of(0, 1))},
			want: []string{"message 0 of group 0 was delivered twice with the receive count 1"}},
		"too early": {steps: []func(*soakLedger){receive(0, 1, of(1, 1))},
			want: []string{"message 1 of group 0 was delivered before message 0"}},
		"a batch in the wrong order": {steps: []func(*soakLedger){receive(0, 1, of(1, 1), of(0, 1))},
			want: []string{"message 1 of group 0 was delivered before message 0",
				"message 0 of group 0 was delivered after message 1 in the same batch"}},
		"overtaken before it was recorded": {steps: []func(*soakLedger){
			receive(3, 4, of(0, 2)), deleted(of(0, 2)), receive(0, 5, of(0, 1)), deleted(of(0, 1))}},
		"rejected after its timeout": {steps: []func(*soakLedger){receive(0, 1, of(0, 1)), deleting(of(0, 1)), expired(2, of(0, 1))}},
		"rejected before its timeout": {steps: []func(*soakLedger){receive(0, 1, of(0, 1)), deleting(of(0, 1)), expired(1.5, of(0, 1))},
			want: []string{"the deletion of message 0 of group 0 was rejected 500ms before its timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newSoakLedger(visibility, 1, 3)
			for _, step := range test.steps {
				step(l)
			}
			if _, got := l.progress(); cmp.Diff(test.want, got) != "" {
				t.Errorf("faults (-want +got):\n%s", cmp.Diff(test.want, got))
			}
		})
	}
}
