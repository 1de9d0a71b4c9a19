package explore_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// The settings of SQS and Lambda.
const (
	queueARN  = "arn:aws:sqs:eu-west-1:123456789012:events.fifo"
	secondARN = "arn:aws:sqs:eu-west-1:123456789012:second.fifo"
	thirdARN  = "arn:aws:sqs:eu-west-1:123456789012:third.fifo"
	// deduplicationTime is how long SQS remembers deduplication IDs (SQS Developer Guide, "Exactly-once processing").
	deduplicationTime = 5 * time.Minute
	visibilityTimeout = 6 * time.Minute
)

// world is the state outside of processes, as a value. clone copies it. Elements of its maps and slices never change in
// place.
type world struct {
	scenario *scenario
	clock    time.Time
	left     budget
	// faults is how many faults the search had left at the beginning.
	faults int
	// records holds the stored items. `backups` holds the items as they were before the last commit.
	records, backups map[string]stored
	// cached holds the records that processes have put into their caches, the latest first.
	cached    map[string][][]byte
	messages  []message
	scheduled []scheduled
	// sent maps deduplication IDs to the time when SQS saw them. `serial` counts the messages of each lane.
	sent   map[string]time.Time
	serial map[string]int
	parked []parked
	// later holds the posts that producers have yet to send.
	later      []post
	aliases    map[string]alias
	sends      map[string]instances.LastSend
	tasks      map[string]task
	executions map[string]execution
	// denied is set while sending is denied. `deployed` is set once the new version is deployed.
	denied, deployed bool
	// applied holds the applied events of each instance, taken from its commits.
	applied map[string][]string
	// facts holds counts for the properties and the scheduler. A key is a word followed by its subject.
	facts    map[string]int
	problems []string
}

// budget holds how often each thing may still happen.
type budget struct{ Faults, Pauses, Waits, Redrives, Restores, Denials, Olds, Commands, Copies int }

// stored is an item: its JSON, and the values parsed from it.
type stored struct {
	json []byte
	// canon is the part of the item that affects the future.
	canon    string
	log      []string
	services []string
	timers   []time.Time
	revision int64
	expireAt time.Time
	// isAbandoned is set if the item's last failure is that the process died in too many tries.
	isAbandoned bool
	hasEnded    bool
}

type message struct {
	durable.Delivery
	visibleAt time.Time
}

type scheduled struct {
	at      time.Time
	message durable.Message
}

type parked struct {
	durable.Delivery
	reason   string
	redriven bool
}

// alias is the item of an alias in the store. Another instance may claim the alias once it is released.
type alias struct {
	owner    string
	created  int64
	released bool
	expireAt time.Time
}

// task is a Step Functions task that waits.
type task struct {
	group, name, execution string
	entered, beaten        time.Time
	timeout, heartbeat     time.Duration
	aborted                bool
	answer                 string
}

func (t task) isGone(now time.Time) bool {
	return t.answer == "" && (t.aborted || t.timeout > 0 && now.Sub(t.entered) >= t.timeout || t.heartbeat > 0 && now.Sub(t.beaten) >= t.heartbeat)
}

// execution is an execution of a workflow. `end` is its status once it has ended.
type execution struct{ name, group, input, end string }

func (w *world) clone() *world {
	n := *w
	n.records, n.backups, n.sent, n.serial = maps.Clone(w.records), maps.Clone(w.backups), maps.Clone(w.sent), maps.Clone(w.serial)
	n.cached = maps.Clone(w.cached)
	n.sends, n.aliases, n.tasks, n.executions = maps.Clone(w.sends), maps.Clone(w.aliases), maps.Clone(w.tasks), maps.Clone(w.executions)
	n.applied, n.facts = maps.Clone(w.applied), maps.Clone(w.facts)
	n.messages, n.scheduled, n.parked, n.problems, n.later = slices.Clone(w.messages), slices.Clone(w.scheduled), slices.Clone(w.parked), slices.Clone(w.problems), slices.Clone(w.later)
	return &n
}

// wrong records a violation. The text before the colon is its kind.
func (w *world) wrong(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// lane names the unit that SQS locks: a group of a queue.
func lane(queue, group string) string {
	return map[string]string{secondARN: "2:", thirdARN: "3:"}[queue] + group
}

func (m message) lane() string { return lane(m.Queue, m.Group) }

// enqueue sends a message, unless SQS has seen its deduplication ID in the last five minutes.
func (w *world) enqueue(queue, group, body, deduplicationID string, from instances.Place) (messageID string) {
	return w.put(durable.Delivery{Queue: queue, Group: group, DeduplicationID: deduplicationID, SentAt: w.clock, Body: body, ParkedFrom: from}, deduplicationID)
}

// put puts a message into its queue, unless that queue has seen the deduplication ID in the last five minutes.
func (w *world) put(d durable.Delivery, deduplicationID string) (messageID string) {
	seen := deduplicationID
	if w.scenario.lanes {
		seen = d.Queue + " " + deduplicationID
	}
	if at, ok := w.sent[seen]; ok && w.clock.Sub(at) < deduplicationTime {
		return ""
	}
	w.sent[seen] = w.clock
	l := lane(d.Queue, d.Group)
	w.serial[l]++
	d.SequenceNumber = strconv.Itoa(w.serial[l])
	d.MessageID = l + "#" + d.SequenceNumber
	w.messages = append(w.messages, message{Delivery: d})
	return d.MessageID
}

// queuesOfLanes is durable.Config.Lanes in scenarios with lanes.
var queuesOfLanes = map[string]string{"second": secondARN, "third": thirdARN}

// queueOf returns the queue of a lane.
func queueOf(lane string) string {
	return cmp.Or(queuesOfLanes[lane], queueARN)
}

func (w *world) send(m durable.Message) (messageID string) {
	return w.enqueue(queueOf(m.Lane), m.To.String(), string(m.Body), m.DeduplicationID, instances.Place{})
}

// forwarded sends a copy of a delivery to a lane. The copy keeps the deduplication ID and the time of the sender's message.
func (w *world) forwarded(d durable.Delivery, lane string, forwarding durable.Forwarding) {
	if w.scenario.isOneLane {
		w.wrong("forwarded: a message of %s to the lane %s, and all instances share a lane", d.Group, lane)
	}
	c := durable.Delivery{Queue: queueOf(lane), Group: d.Group, DeduplicationID: d.DeduplicationID, SentAt: d.SentAt, Body: d.Body, ParkedFrom: d.ParkedFrom, Forwarding: forwarding}
	w.put(c, "forward "+forwarding.From.Queue+" "+forwarding.From.SequenceNumber)
}

// deniedReceivesMax bounds the retries while sending is denied. Without it, some retries would go on until sending is
// allowed.
const deniedReceivesMax = 4

// lanes returns the number of messages in each lane, and when each lane is unlocked. A FIFO group is locked while one of
// its messages is in flight (SQS Developer Guide, "FIFO queue delivery logic").
func (w *world) lanes() (count map[string]int, free map[string]time.Time) {
	count, free = map[string]int{}, map[string]time.Time{}
	for _, m := range w.messages {
		count[m.lane()]++
		free[m.lane()] = later(free[m.lane()], m.visibleAt)
	}
	for _, m := range w.messages {
		if w.denied && m.ReceiveCount >= deniedReceivesMax {
			delete(count, m.lane())
		}
	}
	return count, free
}

// receive receives the first messages of these lanes, which are then in flight.
func (w *world) receive(from map[string]int) (batch []durable.Delivery) {
	from = maps.Clone(from)
	for i := range w.messages {
		m := &w.messages[i]
		if from[m.lane()] == 0 {
			continue
		}
		from[m.lane()]--
		m.ReceiveCount++
		m.ReceiptHandle = m.MessageID + " " + strconv.Itoa(m.ReceiveCount)
		m.visibleAt = w.clock.Add(visibilityTimeout)
		batch = append(batch, m.Delivery)
	}
	return batch
}

// remove deletes the messages with these receipt handles.
func (w *world) remove(deliveries []durable.Delivery) {
	w.messages = slices.DeleteFunc(w.messages, func(m message) bool {
		return slices.ContainsFunc(deliveries, func(d durable.Delivery) bool { return d.ReceiptHandle == m.ReceiptHandle })
	})
}

// record returns a stored record, or an empty one.
func (w *world) record(id string) (record instances.Record) {
	if s, ok := w.records[id]; ok {
		mustUnmarshal(s.json, &record)
	}
	return record
}

// store stores a record.
func (w *world) store(record instances.Record) stored {
	body, err := json.Marshal(record)
	if err != nil {
		panic(err)
	}
	var snapshot struct {
		Context  book
		Services map[string]struct{ Key string }
		Timers   map[string]struct{ At time.Time }
	}
	mustUnmarshal(record.Snapshot, &snapshot)
	s := stored{json: body, log: snapshot.Context.Log, revision: record.Revision, expireAt: record.ExpireAt, hasEnded: record.Status != statechart.Active,
		isAbandoned: record.Error != nil && isAbandoned(record.Error.Message)}
	for id, service := range snapshot.Services {
		s.services = append(s.services, cmp.Or(service.Key, id))
	}
	for _, timer := range snapshot.Timers {
		s.timers = append(s.timers, timer.At)
	}
	if record.OutboxRevision != 0 {
		record.OutboxRevision = map[bool]int64{true: 1}[record.IsLeft()]
	}
	// These fields do not affect the future.
	record.Skipped, record.Ignored, record.Revision, record.History, record.UpdatedAt = 0, 0, 0, nil, time.Time{}
	canon, _ := json.Marshal(record)
	s.canon = string(canon) + " " + strconv.FormatInt(record.CreatedAt.UnixMilli(), 10)
	w.records[record.Instance.String()] = s
	return s
}

// receiveCountMax caps the receive count. It is more than all limits together, so higher counts make no difference.
const receiveCountMax = 7

// key is the hash of the world's canonical form. Two worlds with the same key have the same future.
func (w *world) key() [16]byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%+v %v %v %q\n", w.left, w.denied, w.deployed, w.problems)
	each(&b, w.records, func(s stored) any { return s.canon })
	if w.left.Restores > 0 {
		each(&b, w.backups, func(s stored) any { return s.canon })
	}
	if w.left.Copies > 0 {
		each(&b, w.cached, func(copies [][]byte) any { return fmt.Sprintf("%s", copies) })
	}
	messages := slices.Clone(w.messages)
	slices.SortStableFunc(messages, func(a, b message) int { return cmp.Compare(a.lane(), b.lane()) })
	for _, m := range messages {
		hidden := "now"
		if wait := m.visibleAt.Sub(w.clock); wait > deduplicationTime {
			hidden = "late"
		} else if wait > 0 {
			hidden = "soon"
		}
		fmt.Fprintln(&b, m.MessageID, m.Body, m.DeduplicationID, min(m.ReceiveCount, receiveCountMax), hidden, m.ParkedFrom, m.SentAt.UnixMilli(), m.Forwarding)
	}
	fmt.Fprintln(&b, len(w.later))
	for _, s := range w.scheduled {
		fmt.Fprintln(&b, s.at.After(w.clock), s.message.To, string(s.message.Body), s.message.DeduplicationID)
	}
	each(&b, w.sent, func(at time.Time) any { return w.clock.Sub(at) < deduplicationTime })
	for _, p := range w.parked {
		fmt.Fprintln(&b, p.MessageID, p.Body, p.redriven)
	}
	each(&b, w.sends, func(s instances.LastSend) any { return s.ID })
	each(&b, w.aliases, func(a alias) any { return fmt.Sprint(a.owner, a.created, a.released) })
	each(&b, w.tasks, func(t task) any { return fmt.Sprint(t.isGone(w.clock), t.answer) })
	each(&b, w.executions, func(e execution) any { return e.end })
	each(&b, w.applied, func(log []string) any { return log })
	each(&b, w.facts, func(n int) any { return n })
	sum := sha256.Sum256(canonical(b.Bytes(), w.clock))
	return [16]byte(sum[:16])
}

func each[V any](b *bytes.Buffer, of map[string]V, text func(V) any) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintln(b, name, text(of[name]))
	}
	b.WriteByte('\n')
}

// canonical replaces milliseconds since 1970 with numbers in the order of their appearance, and times with P for past
// or F for future.
func canonical(text []byte, now time.Time) []byte {
	out := make([]byte, 0, len(text))
	seen := map[string]int{}
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' }
	for i := 0; i < len(text); {
		end := i
		for end < len(text) && isDigit(text[end]) {
			end++
		}
		switch {
		case end == i:
			end++
			out = append(out, text[i])
		case end-i == 13, end-i == 16: // Microseconds count the steps of a rearmed instance.
			n, ok := seen[string(text[i:end])]
			if !ok {
				n = len(seen)
				seen[string(text[i:end])] = n
			}
			out = strconv.AppendInt(append(out, 'T'), int64(n), 10)
		case end-i == 4 && end+6 < len(text) && text[end] == '-' && text[end+6] == 'T':
			end = i + bytes.IndexByte(text[i:], 'Z') + 1
			at, err := time.Parse(time.RFC3339Nano, string(text[i:end]))
			if err != nil {
				panic(err)
			}
			out = append(out, map[bool]byte{true: 'F', false: 'P'}[at.After(now)])
		default:
			out = append(out, text[i:end]...)
		}
		i = end
	}
	return out
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func mustUnmarshal(data []byte, into any) {
	if err := json.Unmarshal(data, into); err != nil {
		panic(err)
	}
}

// count returns how many lines of an instance's log have the prefix.
func (w *world) count(id, prefix string) (n int) {
	for _, line := range w.applied[id] {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}
