package durable

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// LastSend is the last event that another instance has sent to this one, and that was applied.
//
// An instance performs its sends to another in the order of their IDs, and a queue keeps that order. So a message in the same
// queue with an ID at or below the last one is a duplicate, however late. This holds only for messages that the sender itself
// put there. Their deduplication IDs show it: a message that an operator redrives has another one, and may be older and yet not applied.
type LastSend struct {
	// Sender is the sender's name and its creation, as in the IDs of its sends: "order/1@1767322800000".
	Sender string `json:"sender"`
	// ID is that of the send: "3.0".
	ID string `json:"id"`
}

// askedKey is the key of a send under which it says when the sender's chart asked for it, in milliseconds since 1970.
const askedKey = "$asked"

// sentPromptly is how long after its step a send is the first copy for certain. SQS drops copies within five minutes of the first
// one that it has accepted (SQS Developer Guide, "Exactly-once processing in Amazon SQS"), and that was accepted after the
// step. The two minutes between are for clocks that differ.
const sentPromptly = 3 * time.Minute

// sendID is the ID of a send between instances, as derivedID makes it.
type sendID struct {
	LastSend
	step, position uint64
}

// compare orders the sends of one sender.
func (s sendID) compare(other sendID) int {
	return cmp.Or(cmp.Compare(s.step, other.step), cmp.Compare(s.position, other.position))
}

// parseSendID reads the ID of a send; ok is false if it is none.
func parseSendID(id string) (s sendID, ok bool) {
	slash := strings.LastIndexByte(id, '/')
	at := strings.LastIndexByte(id[:max(slash, 0)], '@')
	if at < 0 {
		return s, false
	}
	s.LastSend = LastSend{Sender: id[:slash], ID: id[slash+1:]}
	step, position, _ := strings.Cut(s.ID, ".")
	_, nameErr := ParseInstanceID(id[:at])
	_, createdErr := strconv.ParseInt(id[at+1:slash], 10, 64)
	var stepErr, positionErr error
	s.step, stepErr = strconv.ParseUint(step, 10, 64)
	s.position, positionErr = strconv.ParseUint(position, 10, 64)
	return s, nameErr == nil && createdErr == nil && stepErr == nil && positionErr == nil
}

// sendOf returns the send that a delivery is, if its sender has put it into the queue.
func sendOf(d Delivery, eventID string) (s sendID, ok bool) {
	if eventID == "" || d.DeduplicationID != shortened(eventID) {
		return s, false
	}
	return parseSendID(eventID)
}

// Position returns where the send is in the order of its sender: the count of its step, and its position in the step.
func (s LastSend) Position() (step, position uint64) {
	id, _ := parseSendID(s.Sender + "/" + s.ID)
	return id.step, id.position
}

// After reports whether the send comes after another of the same sender.
func (s LastSend) After(other LastSend) bool {
	mine, ok := parseSendID(s.Sender + "/" + s.ID)
	theirs, known := parseSendID(other.Sender + "/" + other.ID)
	return ok && (!known || mine.compare(theirs) > 0)
}

// isDuplicate decides about a delivery whose event may have been applied: skipped if it was, poisoned if its ID was used for
// another event.
func (t *turn) isDuplicate(ctx context.Context, d Delivery, eventID string) (verdict, error) {
	if eventID != "" {
		for _, known := range t.draft.Record.RecentEvents {
			if known == recentEvent(eventID, d.Body) {
				return skipped, nil
			}
			_, isSend := sendOf(d, eventID)
			if isRecent(known, eventID) && (isSend || strings.HasPrefix(eventID, taskIDPrefix)) {
				return skipped, nil // The runtime has made the ID: it means the same event.
			}
			if isRecent(known, eventID) {
				return poisoned, fmt.Errorf("another event with the ID %q was applied: give each event an ID of its own", eventID)
			}
		}
	}
	for _, place := range []Place{d.place(), d.ParkedFrom} {
		if slices.Contains(t.draft.Record.RecentEvents, appliedAt(place)) {
			return skipped, nil
		}
	}
	send, ok := sendOf(d, eventID)
	if !ok {
		return applicable, nil
	}
	isOfSender := func(s *LastSend) bool { return s.Sender == send.Sender }
	last, known := find(t.draft.Record.LastSends[d.Queue], isOfSender)
	if !known && d.SentAt.UnixMilli()-askedAt(d.Body) > sentPromptly.Milliseconds() {
		var err error
		if last, known, err = t.loop.ports.Store.LastSend(ctx, t.draft.Record.Instance, d.Queue, send.Sender); err != nil {
			return undecided, fmt.Errorf("reading the last send of %s to %s: %w", send.Sender, t.draft.Record.Instance, err)
		}
	}
	if known && !send.After(last) {
		return skipped, nil
	}
	return applicable, nil
}

// askedAt returns when a send was asked for, in milliseconds since 1970, or 0 if it does not say.
func askedAt(body string) int64 {
	var form struct {
		Asked int64 `json:"$asked"`
	}
	_ = json.Unmarshal([]byte(body), &form)
	return form.Asked
}

// remember records how duplicates of an applied delivery can be recognised: by the event's ID, by its sender, and by its place
// if it was parked before, or if isUnstored says that the instance was not stored before it.
func (t *turn) remember(d Delivery, event statechart.Event, isUnstored bool) {
	switch {
	case event.ID != "":
		t.rememberEvent(recentEvent(event.ID, d.Body))
	case isOwn(event.Type) || event.Type == statechart.TimerEvent:
	case d.ParkedFrom != (Place{}):
		t.rememberEvent(appliedAt(d.ParkedFrom))
	case isUnstored || d.ReceiveCount > 1:
		// Another turn may have parked this event before there was an instance that could show it. Its redrive is a duplicate.
		t.rememberEvent(appliedAt(d.place()))
	}
	send, ok := sendOf(d, event.ID)
	if !ok {
		return
	}
	sends := without(t.draft.Record.LastSends[d.Queue], func(s LastSend) bool { return s.Sender == send.Sender })
	all := maps.Clone(t.draft.Record.LastSends)
	if all == nil {
		all = map[string][]LastSend{}
	}
	all[d.Queue] = append(sends, send.LastSend)
	t.draft.Record.LastSends = all
}

// rememberEvent keeps an entry of RecentEvents.
func (t *turn) rememberEvent(entry string) {
	t.draft.Record.RecentEvents = last(append(slices.Clip(t.draft.Record.RecentEvents), entry), t.loop.config.RecentEventsMax)
}

// spillSends moves the sends of the oldest senders out of a record that has more than Config.SendersMax of a queue. They are
// stored before the commit that drops them, and only if an earlier commit has stored that they are applied.
func (t *turn) spillSends(ctx context.Context) error {
	for queue, sends := range t.draft.Record.LastSends {
		excess := len(sends) - t.loop.config.SendersMax
		if excess <= 0 {
			continue
		}
		excess += t.loop.config.SendersMax / 2 // Many at once, so that few commits have to.
		n := 0
		for n < min(excess, len(sends)) && slices.Contains(t.stored.Record.LastSends[queue], sends[n]) {
			n++
		}
		if n == 0 {
			continue
		}
		if err := t.loop.ports.Store.KeepSends(ctx, t.draft.Record.Instance, queue, sends[:n], t.now().Add(sendsKeptFor)); err != nil {
			return fmt.Errorf("storing the last sends to %s: %w", t.draft.Record.Instance, err)
		}
		all := maps.Clone(t.draft.Record.LastSends)
		all[queue] = slices.Clone(sends[n:])
		t.draft.Record.LastSends = all
	}
	return nil
}

// sendsKeptFor is how long the store keeps the last sends that do not fit into a record. A sender sends again for as long as its event
// is in the queue: at most 14 days (SQS Developer Guide, "Amazon SQS message quotas").
const sendsKeptFor = 30 * 24 * time.Hour

// recentHashChars is the length of the hash of the body in an entry of RecentEvents.
const recentHashChars = 8

// recentEvent is the entry of RecentEvents for an event with an ID: the ID, and the beginning of the body's digest.
func recentEvent(id, body string) string {
	digest, err := EventDigest([]byte(body))
	if err != nil { // It was decoded before, so it is an event.
		digest = strings.Repeat("0", recentHashChars)
	}
	return id + "#" + digest[:recentHashChars]
}

// Remembers reports whether an event with the producer's ID is among the last that were applied.
func (r Record) Remembers(eventID string) bool {
	return slices.ContainsFunc(r.RecentEvents, func(entry string) bool { return isRecent(entry, eventID) })
}

// isRecent reports whether an entry of RecentEvents is of the event with the ID.
func isRecent(entry, id string) bool {
	return len(entry) == len(id)+1+recentHashChars && strings.HasPrefix(entry, id+"#")
}

// appliedAt is the entry of RecentEvents for an event without an ID that was applied from a place.
func appliedAt(place Place) string { return "parked/" + place.key() }

// compareSequence compares two sequence numbers of a queue: decimal digits, of which SQS
// promises that they increase. The empty one is before all others.
func compareSequence(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
