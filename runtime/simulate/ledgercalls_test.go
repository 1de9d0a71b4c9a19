package simulate_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/internal/reserved"
	"github.com/settle-run/settle/runtime/statechart"
)

// In this file, the ledger reads the calls that took effect.

// recordCall records a call that took effect. It checks that no effect comes before its commit.
func (s *simulation) recordCall(call takenCall) {
	if call.status == 400 && bytes.Contains(call.answer, []byte("ConditionalCheckFailed")) && (call.target == "dynamodb.PutItem" || call.target == "dynamodb.UpdateItem" && readUpdate(call.request).isClearing()) {
		s.count(countConflict, 1)
	}
	isCommit := call.target == "dynamodb.PutItem" && strings.HasPrefix(call.process, "operator")
	if call.status != 200 || !isCommit && !strings.HasPrefix(call.process, "consumer") {
		return
	}
	if call.target == "states.SendTaskHeartbeat" {
		s.count("heartbeats", 1)
	}
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	switch call.target {
	case "dynamodb.PutItem":
		s.recordCommit(call)
	case "dynamodb.UpdateItem":
		s.recordUpdate(call)
	case "dynamodb.TransactWriteItems":
		s.recordClaim(call)
	case "sqs.SendMessage":
		var message sentMessage
		s.read(call.request, &message)
		s.checkSent(call, message)
	case "sqs.SendMessageBatch":
		for _, message := range s.sentOfBatch(call) {
			s.checkSent(call, message)
		}
	case "states.SendTaskSuccess", "states.SendTaskFailure":
		var answer struct{ TaskToken, Error string }
		s.read(call.request, &answer)
		if !s.ledger.answered[answer.TaskToken] && answer.Error != durable.ErrorParked {
			s.problem("%s answers a task before a commit has the answer: %s", call.process, call.request)
		}
	case "states.StartExecution":
		var started struct{ Name string }
		s.read(call.request, &started)
		s.isCommitted(endOfName(started.Name), call, string(call.request))
	case "scheduler.POST":
		if found := scheduledID.FindSubmatch(call.request); found != nil {
			s.isCommitted(string(found[1]), call, string(call.request))
		} else {
			s.problem("a schedule without deduplication ID: %s", call.request)
		}
	}
}

// read decodes a JSON text. Invalid JSON is a problem.
func (s *simulation) read(text []byte, into any) {
	if err := json.Unmarshal(text, into); err != nil {
		s.problem("reading %s: %v", text, err)
	}
}

// scheduledID matches the deduplication ID in a JSON text that is encoded as a JSON string.
var scheduledID = regexp.MustCompile(`deduplication_id\\":\\"([^\\]+)\\"`)

// isCommitted checks that a commit has stored the effect with the derived ID, if the sent text belongs to an effect.
func (s *simulation) isCommitted(id string, call takenCall, text string) {
	if !s.ledger.committed[id] && !uncommitted.MatchString(text) {
		s.problem("%s %s before a commit has the effect %s", call.process, call.target, id)
	}
}

// uncommitted matches the messages that no commit contains before they are sent: polls and heartbeats, messages that
// are scheduled again, and the message that wakes a migrated instance.
var uncommitted = regexp.MustCompile(`settle\.(token|execution)[.\\"]|\$retries\\*"|/again/|"timer\\*":\\*"migrated\.`)

// sentMessage is a message in a call to SQS.
type sentMessage struct {
	Queue      string                                  `json:"QueueUrl"`
	Group      string                                  `json:"MessageGroupId"`
	Body       string                                  `json:"MessageBody"`
	ID         string                                  `json:"MessageDeduplicationId"`
	Attributes map[string]struct{ StringValue string } `json:"MessageAttributes"`
}

// sentOfBatch returns the messages of a batch that the queue accepted. The queue may refuse some messages of a batch.
func (s *simulation) sentOfBatch(call takenCall) (sent []sentMessage) {
	var batch struct {
		QueueURL string `json:"QueueUrl"`
		Entries  []struct {
			EntryID string `json:"Id"`
			sentMessage
		}
	}
	var answer struct{ Successful []struct{ ID string } }
	s.read(call.request, &batch)
	s.read(call.answer, &answer)
	for _, entry := range batch.Entries {
		if slices.ContainsFunc(answer.Successful, func(taken struct{ ID string }) bool { return taken.ID == entry.EntryID }) {
			entry.Queue = batch.QueueURL
			sent = append(sent, entry.sentMessage)
		}
	}
	return sent
}

// checkSent checks a message that a consumer sent.
func (s *simulation) checkSent(call takenCall, message sentMessage) {
	switch {
	case strings.HasSuffix(message.Queue, deadLetterName):
		if strings.Contains(message.Body, `"settle.timer"`) {
			s.problem("%s parks the firing of a timer: %s", call.process, message.Body)
		}
		if !s.ledger.parkings[message.ID] && s.ledger.hasItem(message.Group, time.Now()) && !call.made.Before(s.ledger.stored[message.Group].since) && s.lab.alone && !s.director.wasFrozen(call.process) {
			s.problem("%s parks a message of %s before a commit asks for it: %s", call.process, message.Group, message.ID)
		}
		s.ledger.parked[message.ID] = append(s.ledger.parked[message.ID], message.Attributes["reason"].StringValue)
	case strings.HasSuffix(message.Queue, delayName):
		var delayed struct {
			DeduplicationID string `json:"deduplication_id"`
		}
		s.read([]byte(message.Body), &delayed)
		s.isCommitted(delayed.DeduplicationID, call, message.Body)
	default:
		s.isCommitted(message.ID, call, message.Body)
		if strings.Contains(message.Body, `"settle.token.expired"`) {
			s.count("answers that came too late", 1)
		}
	}
}

// Attributes of items in DynamoDB's JSON.
type (
	textAttribute   struct{ S string }
	numberAttribute struct{ N string }
	// tokensAttribute holds the tokens of tasks.
	tokensAttribute struct {
		L []struct {
			M struct {
				Key    textAttribute    `json:"key"`
				Value  textAttribute    `json:"value"`
				Answer *json.RawMessage `json:"answer"`
			}
		}
	}
	// outboxAttribute holds an outbox.
	outboxAttribute struct {
		L []struct {
			M struct {
				ID    textAttribute `json:"id"`
				Kind  textAttribute `json:"kind"`
				Event struct {
					M struct{ Queue, SequenceNumber textAttribute }
				} `json:"event"`
			}
		}
	}
)

func (v numberAttribute) int() int64 {
	n, _ := strconv.ParseInt(v.N, 10, 64) // n is 0 without the attribute.
	return n
}

// time returns the time in the attribute; zero without the attribute.
func (v textAttribute) time() time.Time {
	at, _ := time.Parse(time.RFC3339Nano, v.S)
	return at
}

// answers counts the stored answers that have not been given to their tasks.
func (v tokensAttribute) answers() (n int) {
	for _, token := range v.L {
		if token.M.Answer != nil {
			n++
		}
	}
	return n
}

// recordCommit records a stored item of an instance, and its effects.
func (s *simulation) recordCommit(call takenCall) {
	var put struct {
		Item struct {
			Instance    textAttribute   `json:"instance"`
			CreatedAt   textAttribute   `json:"created_at"`
			Revision    numberAttribute `json:"revision"`
			ExpireAt    numberAttribute `json:"expire_at"`
			Tokens      tokensAttribute `json:"tokens"`
			Outbox      outboxAttribute `json:"outbox"`
			DeniedSince textAttribute   `json:"denied_since"`
		}
	}
	s.read(call.request, &put)
	name := put.Item.Instance.S
	createdAt, err := time.Parse(time.RFC3339Nano, put.Item.CreatedAt.S)
	if err != nil {
		s.problem("%s stores an item that is not an instance: %s", call.process, call.request)
		return
	}
	s.storedAt(call, name, stored{createdAt: createdAt, revision: put.Item.Revision.int(), expireAt: put.Item.ExpireAt.int(), owed: len(put.Item.Outbox.L) + put.Item.Tokens.answers(), deniedSince: put.Item.DeniedSince.time()})
	l := &s.ledger
	if strings.HasPrefix(name, fieldsMachine+"/") {
		s.recordFields(call, s.load(name))
	}
	for _, token := range put.Item.Tokens.L {
		if token.M.Answer != nil {
			l.answered[token.M.Value.S] = true
			l.committed[shortened(derivedID(name, createdAt, "token."+token.M.Key.S+".failed"))] = true
		}
	}
	for _, effect := range put.Item.Outbox.L {
		id := derivedID(name, createdAt, effect.M.ID.S)
		if effect.M.Kind.S == string(statechart.Send) && l.restored[name].undone[shortened(id)] {
			s.problem("%s stores a new send of %s, which was restored, under an ID that was used before: %s", call.process, name, id)
		}
		l.committed[shortened(id)] = true
		l.committed[shortened(id+".failed")] = true // the failure of the effect may be reported
		l.committed[nameEnd(id)] = true
		switch place := effect.M.Event.M; effect.M.Kind.S {
		case "park.delivery":
			l.parkings[parkingID(place.Queue.S, place.SequenceNumber.S)] = true
		case string(statechart.ParkEvent):
			l.parkings[parkingID(derivedID(name, createdAt, "deferred"), effect.M.ID.S)] = true
		}
	}
}

// storedAt records a write of an instance's item. It checks that the write raised the revision by one, and that no
// item with effects to perform was deleted before.
func (s *simulation) storedAt(call takenCall, name string, now stored) {
	was, known := s.ledger.stored[name]
	if now.revision != was.revision+1 && (now.revision != 1 || s.ledger.hasItem(name, time.Now())) {
		s.problem("%s stores revision %d of %s, which has revision %d", call.process, now.revision, name, was.revision)
	}
	// A message that outlives its instance's item may start the instance again, with the same created_at.
	if known && (!was.createdAt.Equal(now.createdAt) || now.revision == 1) {
		if n := s.ledger.recordDeletion(name); n > 0 {
			s.problem("an item was deleted that had %d effects to perform: %.300s", n, call.request)
		}
	}
	if now.expireAt > 0 && now.owed > 0 {
		s.problem("%s has %s expire, which has %d effects to perform", call.process, name, now.owed)
	}
	if now.since = time.Now(); known && was.createdAt.Equal(now.createdAt) {
		now.since = was.since
	}
	s.ledger.stored[name] = now
}

// hasItem reports whether an instance has an item that DynamoDB may not have deleted yet.
func (l *ledger) hasItem(name string, now time.Time) bool {
	item, ok := l.stored[name]
	return ok && (item.expireAt == 0 || item.expireAt > now.Unix())
}

// shortened returns the form of the ID that serves as a deduplication ID.
func shortened(id string) string {
	if len(id) <= 128 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// itemUpdate is an UpdateItem: it clears the outbox of an instance, releases an alias, or stores the last send of a
// sender.
type itemUpdate struct {
	Key struct {
		Instance textAttribute `json:"instance"`
	}
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues struct {
		Next        numberAttribute `json:":next"`
		ExpireAt    numberAttribute `json:":expire_at"`
		DeniedSince textAttribute   `json:":denied_since"`
		Outbox      outboxAttribute `json:":outbox"`
		Tokens      tokensAttribute `json:":tokens"`
		Failed      struct {
			L []struct {
				M struct {
					ID textAttribute `json:"id"`
				}
			}
		} `json:":failed_effects"`
	}
}

func readUpdate(request []byte) (update itemUpdate) {
	if err := json.Unmarshal(request, &update); err != nil {
		panic(err)
	}
	return update
}

// isClearing reports whether the update clears an instance's outbox.
func (u itemUpdate) isClearing() bool { return u.ExpressionAttributeNames["#outbox"] != "" }

// recordUpdate records the effect of an update.
func (s *simulation) recordUpdate(call takenCall) {
	update, l := readUpdate(call.request), &s.ledger
	name := update.Key.Instance.S
	if _, isAlias := l.tenures[name]; isAlias {
		l.recordTenure(name, "", time.Time{})
	}
	if strings.HasPrefix(name, reserved.Sends+"/") {
		s.count("last sends of senders that were moved out of their receivers' items", 1)
	}
	if !update.isClearing() {
		return
	}
	values, was := update.ExpressionAttributeValues, l.stored[name]
	createdAt := was.createdAt
	s.storedAt(call, name, stored{createdAt: createdAt, revision: values.Next.int(), expireAt: values.ExpireAt.int(), owed: len(values.Outbox.L) + values.Tokens.answers(), deniedSince: values.DeniedSince.time()})
	for _, effect := range values.Outbox.L {
		if !l.committed[shortened(derivedID(name, createdAt, effect.M.ID.S))] {
			s.problem("%s leaves an effect in the outbox of %s that no commit has: %s", call.process, name, effect.M.ID.S)
		}
	}
	for _, effect := range values.Failed.L {
		id := derivedID(name, createdAt, effect.M.ID.S)
		if patience := cmp.Or(s.plan.config.DeniedWaitMax, time.Hour) - 2*clockSkewMax; !l.failed[id] && (was.deniedSince.IsZero() || time.Since(was.deniedSince) < patience) {
			s.problem("%s drops %s after less than %v: it was first denied at %v", call.process, id, patience, was.deniedSince)
		}
		l.failed[id] = true
		l.failed[name] = true
	}
	if len(values.Failed.L) > 0 && !s.plan.denies {
		s.problem("%s drops an effect, but nothing is denied: %s", call.process, call.request)
	}
}
