package simulate_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/settle-run/settle/runtime/sqsqueue"
	"github.com/settle-run/settle/runtime/statechart"
)

// ledger is what a simulation knows of the calls that took effect and of what was delivered, whatever the
// runtime makes of it.
type ledger struct {
	mu sync.Mutex
	// accepted are the messages of the FIFO queues, by group and queue, and by sequence number.
	accepted map[string]map[string]accepted
	// committed are the derived IDs of the effects that were stored, ever.
	committed map[string]bool
	// parked are the reasons for which messages were parked, by the deduplication ID that they were parked under.
	parked map[string][]string
	// abandoned are the IDs of the messages that a queue has given up.
	abandoned map[string]bool
	// answered are the tokens whose answers were stored, ever.
	answered map[string]bool
	// parkings are the deduplication IDs under which commits have asked to park messages.
	parkings map[string]bool
	// failed are the derived IDs of the effects that were given up.
	failed map[string]bool
	// stored are the items of instances, as far as the ledger reads them, and lost are the instances whose items are gone.
	stored map[string]stored
	lost   map[string]bool
	// claims are the tokens of the claims that took effect: a claim that is repeated under its token changes nothing.
	claims map[string]bool
	// restored are the instances that an operator has restored.
	restored map[string]restored
	// tenures are those of each alias, in their order.
	tenures map[string][]tenure
}

// stored is what the ledger knows of an instance's item.
type stored struct {
	createdAt time.Time
	revision  int64
	// expireAt is when DynamoDB may delete the item, in seconds since 1970; 0 if never.
	expireAt int64
	// owed is how many effects and answers to tasks the item has that were not performed yet, as far as is known.
	owed int
	// deniedSince is when an effect of the outbox was denied first, zero if none was.
	deniedSince time.Time
}

// accepted is a message that the FIFO queue has accepted.
type accepted struct {
	id, queue, sequence, body, sent string
	// from is where it was parked first, if it is a copy that says so.
	from string
	// redriven says that an operator has sent it.
	redriven bool
	// delivered is when it was delivered last.
	delivered time.Time
}

func acceptedOf(message events.SQSMessage) accepted {
	a := accepted{
		id: message.MessageId, queue: message.EventSourceARN, sequence: message.Attributes["SequenceNumber"], body: message.Body, sent: message.Attributes["SentTimestamp"],
		redriven: strings.HasPrefix(message.Attributes["MessageDeduplicationId"], redrivenPrefix),
	}
	queue, number := message.MessageAttributes[sqsqueue.AttrSourceQueue].StringValue, message.MessageAttributes[sqsqueue.AttrSequenceNumber].StringValue
	if queue != nil && number != nil {
		a.from = *queue + " " + *number
	}
	return a
}

// place is where the message was parked first, or may have been.
func (a accepted) place() string { return cmp.Or(a.from, a.queue+" "+a.sequence) }

// parkingID is the deduplication ID that a message is parked under.
func (a accepted) parkingID() string { return parkingID(a.queue, a.sequence) }

func parkingID(queue, sequence string) string {
	digest := sha256.Sum256([]byte(queue))
	return fmt.Sprintf("parked-%x-%s", digest[:8], sequence)
}

// head is what the model reads of the message; empty if it is no event.
func (a accepted) head() (head head) {
	_ = json.Unmarshal([]byte(a.body), &head)
	return head
}

// isHopeless reports whether the message is one that the chart cannot take when it is new.
func (a accepted) isHopeless() bool {
	return strings.Contains(a.body, failing) || strings.Contains(a.body, huge)
}

// isSend reports whether the message is an event that an instance has sent.
func (a accepted) isSend() bool {
	head := a.head()
	return strings.Contains(head.ID, "@") && !strings.HasPrefix(head.Type, statechart.ReservedPrefix)
}

func newLedger() ledger {
	return ledger{
		accepted: map[string]map[string]accepted{}, committed: map[string]bool{}, parked: map[string][]string{}, abandoned: map[string]bool{}, answered: map[string]bool{},
		parkings: map[string]bool{}, failed: map[string]bool{}, stored: map[string]stored{}, lost: map[string]bool{}, claims: map[string]bool{}, restored: map[string]restored{}, tenures: map[string][]tenure{},
	}
}

// accept notes the messages of a delivery.
func (l *ledger) accept(batch events.SQSEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, message := range batch.Records {
		group := message.Attributes["MessageGroupId"] + " " + message.EventSourceARN
		if l.accepted[group] == nil {
			l.accepted[group] = map[string]accepted{}
		}
		one := acceptedOf(message)
		one.delivered = time.Now()
		l.accepted[group][one.sequence] = one
	}
}

// abandon notes that a queue has given a message up.
func (l *ledger) abandon(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abandoned[id] = true
}

// passesOver reports whether an instance may pass a message over which it has not applied. The queue has given it up, or
// another copy that its sender, an instance, has put there: what came after that copy was applied, so that later ones are
// repeats, until an operator sends the one that was given up.
func (l *ledger) passesOver(message accepted, all []accepted) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.abandoned[message.id] {
		return true
	}
	return !message.redriven && message.isSend() && slices.ContainsFunc(all, func(other accepted) bool {
		return l.abandoned[other.id] && other.body == message.body
	})
}

// of returns the messages of an instance by queue, in the order in which it accepted them.
func (l *ledger) of(instance string) (queues [][]accepted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(l.accepted)) {
		if strings.HasPrefix(key, instance+" ") {
			queues = append(queues, slices.SortedFunc(maps.Values(l.accepted[key]), func(a, b accepted) int {
				return cmp.Or(cmp.Compare(len(a.sequence), len(b.sequence)), cmp.Compare(a.sequence, b.sequence))
			}))
		}
	}
	return queues
}

// sent returns the IDs of the events that instances have sent one another, with the instance where each has arrived.
func (l *ledger) sent(instances []string) map[string]string {
	arrived := map[string]string{}
	for _, name := range instances {
		for _, message := range slices.Concat(l.of(name)...) {
			if message.isSend() {
				arrived[message.head().ID] = name
			}
		}
	}
	return arrived
}

// groups returns the groups that got messages.
func (l *ledger) groups() (groups []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.accepted {
		group, _, _ := strings.Cut(key, " ")
		groups = append(groups, group)
	}
	return groups
}
