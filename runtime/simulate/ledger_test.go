package simulate_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/settle-run/settle/runtime/durable"
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
	// failed are the derived IDs of the effects that were given up, and created the instances' creations.
	failed  map[string]bool
	created map[string]time.Time
	// owed is how many effects an item has that were not performed yet, as far as is known. lost are the instances whose
	// items are gone.
	owed map[string]int
	lost map[string]bool
	// owners are the instances that have aliases, and whether they have released them.
	owners map[string]owner
}

// accepted is a message that the FIFO queue has accepted.
type accepted struct {
	id, queue, sequence, body, sent string
	// from is where it was parked first, if it is a copy that says so.
	from string
	// redriven says that an operator has sent it.
	redriven bool
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
func (a accepted) parkingID() string {
	queue := sha256.Sum256([]byte(a.queue))
	return fmt.Sprintf("parked-%x-%s", queue[:8], a.sequence)
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
	return ledger{accepted: map[string]map[string]accepted{}, committed: map[string]bool{}, parked: map[string][]string{}, abandoned: map[string]bool{}, answered: map[string]bool{}, failed: map[string]bool{}, created: map[string]time.Time{}, owed: map[string]int{}, lost: map[string]bool{}, owners: map[string]owner{}}
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

// gaveUpTending reports whether an event by which the instance looks after a token was parked: AWS was out of reach for long.
func (l *ledger) gaveUpTending(instance string) bool {
	return slices.ContainsFunc(slices.Concat(l.of(instance)...), func(a accepted) bool {
		return strings.Contains(a.body, `"settle.token"`) && len(l.parked[a.parkingID()]) > 0
	})
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

// take sees a call that took effect, and checks that no effect comes before the commit that has it.
func (s *simulation) take(call takenCall) {
	if call.status == 400 && call.target == "dynamodb.PutItem" && bytes.Contains(call.answer, []byte("ConditionalCheckFailed")) {
		s.count(countConflict, 1)
	}
	if call.status != 200 || !strings.HasPrefix(call.process, "consumer") {
		return
	}
	if call.target == "states.SendTaskHeartbeat" {
		s.count("heartbeats", 1)
	}
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	switch call.target {
	case "dynamodb.PutItem":
		if n := s.ledger.commit(call.request); n > 0 {
			s.problem("an item was deleted that had %d effects to perform: %.300s", n, call.request)
		}
		if of, was := s.ledger.claim(call.request); was != nil {
			s.problem("%s has claimed an alias that %s has", of, was.of)
		}
	case "dynamodb.UpdateItem":
		s.ledger.release(call.request)
		s.ledger.clear(call.request)
		if s.ledger.giveUp(call.request) && !s.plan.denies {
			s.problem("%s gives an effect up, although nothing is denied: %s", call.process, call.request)
		}
	case "sqs.SendMessage":
		var message struct {
			Queue string `json:"QueueUrl"`
			Body  string `json:"MessageBody"`
			ID    string `json:"MessageDeduplicationId"`
		}
		if err := json.Unmarshal(call.request, &message); err != nil {
			s.problem("%v", err)
			return
		}
		switch {
		case strings.HasSuffix(message.Queue, deadLetterName):
			s.ledger.park(call.request)
		case strings.HasSuffix(message.Queue, delayName):
			var delayed struct {
				DeduplicationID string `json:"deduplication_id"`
			}
			if err := json.Unmarshal([]byte(message.Body), &delayed); err != nil {
				s.problem("%v", err)
			}
			s.isCommitted(delayed.DeduplicationID, call)
		default:
			s.isCommitted(message.ID, call)
			if strings.Contains(message.Body, `"settle.token.expired"`) {
				s.count("answers that came too late", 1)
			}
		}
	case "states.SendTaskSuccess", "states.SendTaskFailure":
		var answer struct{ TaskToken, Error string }
		if err := json.Unmarshal(call.request, &answer); err != nil {
			s.problem("%v", err)
		}
		if !s.ledger.answered[answer.TaskToken] && answer.Error != durable.ErrorParked {
			s.problem("%s answers a task before a commit has the answer: %s", call.process, call.request)
		}
	case "states.StartExecution":
		var started struct{ Name string }
		if err := json.Unmarshal(call.request, &started); err != nil {
			s.problem("%v", err)
		}
		s.isCommitted(endOfName(started.Name), call)
	case "scheduler.POST":
		if found := scheduledID.FindSubmatch(call.request); found != nil {
			s.isCommitted(string(found[1]), call)
		} else {
			s.problem("a schedule without deduplication ID: %s", call.request)
		}
	}
}

// scheduledID finds the deduplication ID in a JSON text within JSON.
var scheduledID = regexp.MustCompile(`deduplication_id\\":\\"([^\\]+)\\"`)

func (s *simulation) isCommitted(id string, call takenCall) {
	if !s.ledger.committed[id] && !looksAfter.Match(call.request) {
		s.problem("%s %s before a commit has the effect %s", call.process, call.target, id)
	}
}

// looksAfter finds the messages by which an instance looks after what waits for it: no commit asks for each.
var looksAfter = regexp.MustCompile(`settle\.(token|execution)[.\\"]`)

// commit notes the effects of a stored item, and returns how many an earlier item of the same name took with it.
func (l *ledger) commit(request []byte) (forgotten int) {
	var put struct {
		Item struct {
			Instance  struct{ S string } `json:"instance"`
			CreatedAt struct{ S string } `json:"created_at"`
			Tokens    struct {
				L []struct {
					M struct {
						Key    struct{ S string } `json:"key"`
						Value  struct{ S string } `json:"value"`
						Answer *json.RawMessage   `json:"answer"`
					}
				}
			} `json:"tokens"`
			Outbox struct {
				L []struct {
					M struct {
						ID struct{ S string } `json:"id"`
					}
				}
			} `json:"outbox"`
		}
	}
	if err := json.Unmarshal(request, &put); err != nil {
		panic(err)
	}
	createdAt, err := time.Parse(time.RFC3339Nano, put.Item.CreatedAt.S)
	if err != nil {
		return 0 // It is no instance's.
	}
	if was, ok := l.created[put.Item.Instance.S]; ok && !was.Equal(createdAt) {
		forgotten = l.lose(put.Item.Instance.S)
	}
	l.created[put.Item.Instance.S], l.owed[put.Item.Instance.S] = createdAt, len(put.Item.Outbox.L)
	for _, token := range put.Item.Tokens.L {
		if token.M.Answer != nil {
			l.answered[token.M.Value.S] = true
			l.committed[shortened(derivedID(put.Item.Instance.S, createdAt, "token."+token.M.Key.S+".failed"))] = true
		}
	}
	for _, effect := range put.Item.Outbox.L {
		id := derivedID(put.Item.Instance.S, createdAt, effect.M.ID.S)
		l.committed[shortened(id)] = true
		l.committed[shortened(id+".failed")] = true // That it has failed may be told.
		l.committed[nameEnd(id)] = true
	}
	return forgotten
}

// shortened is the ID as it is used for deduplication.
func shortened(id string) string {
	if len(id) <= 128 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// giveUp notes the effects that are stored as failed for good, and reports whether there are any.
func (l *ledger) giveUp(request []byte) bool {
	var update struct {
		Key struct {
			Instance struct{ S string } `json:"instance"`
		}
		ExpressionAttributeValues struct {
			Failed struct {
				L []struct {
					M struct {
						ID struct{ S string } `json:"id"`
					}
				}
			} `json:":failed"`
		}
	}
	if err := json.Unmarshal(request, &update); err != nil {
		panic(err)
	}
	instance := update.Key.Instance.S
	for _, effect := range update.ExpressionAttributeValues.Failed.L {
		l.failed[derivedID(instance, l.created[instance], effect.M.ID.S)] = true
		l.failed[instance] = true
	}
	return len(update.ExpressionAttributeValues.Failed.L) > 0
}

// park notes a message of the dead-letter queue.
func (l *ledger) park(request []byte) {
	var message struct {
		ID         string                                  `json:"MessageDeduplicationId"`
		Attributes map[string]struct{ StringValue string } `json:"MessageAttributes"`
	}
	if err := json.Unmarshal(request, &message); err != nil {
		panic(err)
	}
	l.parked[message.ID] = append(l.parked[message.ID], message.Attributes["reason"].StringValue)
}
