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

// ledger records the calls that took effect and the deliveries, independently of the runtime.
type ledger struct {
	mu sync.Mutex
	// accepted holds the messages of the FIFO queues, by group and queue, and by sequence number.
	accepted map[string]map[string]accepted
	// committed holds the derived IDs of all effects ever stored.
	committed map[string]bool
	// parked holds the reasons of parked messages, by the deduplication ID of the dead letter.
	parked map[string][]string
	// abandoned holds the IDs of messages that a queue gave up on after too many receives.
	abandoned map[string]bool
	// answered holds the tokens of all answers ever stored.
	answered map[string]bool
	// parkings holds the deduplication IDs under which commits asked to park messages.
	parkings map[string]bool
	// failed holds the derived IDs of effects that were dropped.
	failed map[string]bool
	// stored holds the items of instances, reduced to the data that the ledger uses. `lost` holds the instances whose
	// items were deleted.
	stored map[string]stored
	lost   map[string]bool
	// claims holds the client request tokens of the transactions that claimed or released aliases. A repeated
	// transaction changes nothing.
	claims map[string]bool
	// restored holds the instances that an operator restored.
	restored map[string]restored
	// builds holds the build of each consumer: 0 is the one before the deployment, and 1 the one after it. `shelved` holds
	// the instances of the machine with two builds.
	builds  map[string]int
	shelved map[string]shelved
	// tenures lists for each alias the periods in which an instance had it, in order.
	tenures map[string][]tenure
}

// stored is the ledger's copy of an instance's item.
type stored struct {
	createdAt time.Time
	// `since` is the time at which the item of this instance was first written.
	since    time.Time
	revision int64
	// expireAt is when DynamoDB may delete the item, in seconds since 1970; 0 if never.
	expireAt int64
	// owed is the number of effects and task answers that the item still contains.
	owed int
	// deniedSince is the time of the first denial of an effect in the outbox; zero if there was none.
	deniedSince time.Time
}

// accepted is a message that the FIFO queue has accepted.
type accepted struct {
	id, queue, sequence, body, sent string
	// `from` is the place (queue and sequence number) at which the message was first parked. It is empty unless an
	// operator sent the message again with its attributes.
	from string
	// redriven means that an operator sent the message again.
	redriven bool
	// delivered is the time of the last delivery.
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

// place returns the place at which the message was first parked, or its own place if it was not parked before.
func (a accepted) place() string { return cmp.Or(a.from, a.queue+" "+a.sequence) }

// parkingID returns the deduplication ID under which a message is parked.
func (a accepted) parkingID() string { return parkingID(a.queue, a.sequence) }

func parkingID(queue, sequence string) string {
	digest := sha256.Sum256([]byte(queue))
	return fmt.Sprintf("parked-%x-%s", digest[:8], sequence)
}

// head decodes the part of the message that the model uses; zero if it is not an event.
func (a accepted) head() (head head) {
	_ = json.Unmarshal([]byte(a.body), &head)
	return head
}

// isHopeless reports whether the first version of a chart fails on the message, or the message makes the snapshot too
// large.
func (a accepted) isHopeless() bool {
	return strings.Contains(a.body, failing) || strings.Contains(a.body, huge)
}

// isSend reports whether the message is an event from an instance.
func (a accepted) isSend() bool {
	head := a.head()
	return strings.Contains(head.ID, "@") && !strings.HasPrefix(head.Type, statechart.ReservedPrefix)
}

func newLedger() ledger {
	return ledger{
		accepted: map[string]map[string]accepted{}, committed: map[string]bool{}, parked: map[string][]string{}, abandoned: map[string]bool{}, answered: map[string]bool{},
		parkings: map[string]bool{}, failed: map[string]bool{}, stored: map[string]stored{}, lost: map[string]bool{}, claims: map[string]bool{}, restored: map[string]restored{}, tenures: map[string][]tenure{},
		builds: map[string]int{}, shelved: map[string]shelved{},
	}
}

// accept records the messages of a delivery.
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

// begin records the build of a process.
func (l *ledger) begin(process string, isDeployed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isDeployed {
		l.builds[process] = 1
	}
}

// abandon records that a queue gave up on a message.
func (l *ledger) abandon(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abandoned[id] = true
}

// passesOver reports whether an instance may skip a message that it has not applied. It may skip a message that the
// queue gave up on. It may also skip an event from another instance, if the queue gave up on another copy of this
// event, or if that copy was parked because processes died. Once a later event of the same sender is applied, the
// remaining copies count as duplicates. A copy that an operator resends does not.
func (l *ledger) passesOver(message accepted, all []accepted) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.abandoned[message.id] {
		return true
	}
	if message.redriven || !message.isSend() {
		return false
	}
	return slices.ContainsFunc(all, func(other accepted) bool {
		isParked := other.id != message.id && slices.ContainsFunc(l.parked[other.parkingID()], func(reason string) bool { return strings.Contains(reason, noEnd) })
		return (l.abandoned[other.id] || isParked) && other.body == message.body
	})
}

// of returns the messages of an instance by queue, in the order of their acceptance.
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

// sent maps the IDs of the events that instances sent to one another to the instances that received them.
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

// groups returns the groups that received messages.
func (l *ledger) groups() (groups []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.accepted {
		group, _, _ := strings.Cut(key, " ")
		groups = append(groups, group)
	}
	return groups
}
