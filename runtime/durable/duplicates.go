package durable

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/canonicaljson"
	"github.com/settle-run/settle/runtime/statechart"
)

// askedKey is the key under which a sent event holds the time when the sender's chart requested the send, in
// milliseconds since 1970.
const askedKey = "$asked"

// If SQS accepts a send within sentPromptly of the step that requested it, the accepted message is certain to be the
// first copy. SQS accepts the first copy after the step, and drops further copies for five minutes (SQS Developer
// Guide, "Exactly-once processing in Amazon SQS"). The remaining two minutes allow for clock skew.
const sentPromptly = 3 * time.Minute

// sendOf returns the send of a delivery. ok is false if no instance sent the message, or if the message was redriven
// and so has another deduplication ID. A redriven send must not be compared with the sender's last applied send: it may
// be older, although it was never applied.
func sendOf(d Delivery, eventID string) (send instances.LastSend, ok bool) {
	if eventID == "" || d.DeduplicationID != shortened(eventID) {
		return send, false
	}
	return instances.ParseSend(eventID)
}

// isDuplicate returns skipped if the delivery's event was applied before, and poisoned if the event's ID was used for
// another event.
func (t *turn) isDuplicate(ctx context.Context, d Delivery, eventID string) (verdict, error) {
	if eventID != "" {
		for _, known := range t.draft.Record.RecentEvents {
			if !isRecent(known, eventID) {
				continue
			}
			_, isSend := sendOf(d, eventID)
			head := eventHead(json.RawMessage(d.Body))
			isOfRuntime := isSend || isInternal(head.Type) || head.ID == "" // For these events, the same ID means the same event.
			switch {
			case isOfRuntime || known == recentEvent(eventID, d.Body):
				return skipped, nil
			default:
				return poisoned, fmt.Errorf("another event with the ID %q was applied: give each event an ID of its own", eventID)
			}
		}
	}
	if slices.ContainsFunc(t.draft.Record.RecentEvents, func(known string) bool {
		return strings.HasPrefix(known, placePrefix) && (known == appliedAt(d.place()) || known == appliedAt(d.ParkedFrom))
	}) {
		return skipped, nil
	}
	send, ok := sendOf(d, eventID)
	if !ok {
		return applicable, nil
	}
	isOfSender := func(s *instances.LastSend) bool { return s.Sender == send.Sender }
	last, known := find(t.draft.Record.LastSends[d.sentTo()], isOfSender)
	if !known && d.SentAt.UnixMilli()-askedAt(d.Body) > sentPromptly.Milliseconds() {
		var err error
		if last, known, err = t.loop.ports.Store.LastSend(ctx, t.draft.Record.Instance, d.sentTo(), send.Sender); err != nil {
			return undecided, fmt.Errorf("reading the last send of %s to %s: %w", send.Sender, t.draft.Record.Instance, err)
		}
	}
	if known && !send.After(last) {
		return skipped, nil
	}
	return applicable, nil
}

// askedAt returns the time at which a send was requested, in milliseconds since 1970, or 0 if the event has none.
func askedAt(body string) int64 {
	var form struct {
		Asked int64 `json:"$asked"`
	}
	_ = json.Unmarshal([]byte(body), &form)
	return form.Asked
}

// remember records the keys that identify duplicates of an applied delivery: its event ID or its place, and its
// sender's last send. For an event without an ID, remember records the place if the event was parked before or is
// redelivered, or if the instance was not stored before the event (isUnstored).
func (t *turn) remember(d Delivery, event statechart.Event, isUnstored bool) {
	switch {
	case event.ID != "":
		t.rememberEvent(recentEvent(event.ID, d.Body))
	case isOwn(event.Type) || event.Type == statechart.TimerEvent:
	case d.ParkedFrom != (instances.Place{}):
		t.rememberEvent(appliedAt(d.ParkedFrom))
	case isUnstored || d.ReceiveCount > 1:
		// Another turn may have parked this event before an instance existed that could record the parking. A redrive
		// of the parked event is then a duplicate.
		t.rememberEvent(appliedAt(d.place()))
	}
	send, ok := sendOf(d, event.ID)
	if !ok {
		return
	}
	sends := without(t.draft.Record.LastSends[d.sentTo()], func(s instances.LastSend) bool { return s.Sender == send.Sender })
	all := maps.Clone(t.draft.Record.LastSends)
	if all == nil {
		all = map[string][]instances.LastSend{}
	}
	all[d.sentTo()] = append(sends, send)
	t.draft.Record.LastSends = all
}

// rememberEvent adds an entry to RecentEvents.
func (t *turn) rememberEvent(entry string) {
	t.draft.Record.RecentEvents = appended(t.draft.Record.RecentEvents, entry, t.loop.config.RecentEventsMax)
}

// spillSends moves the sends of the oldest senders out of a record that has more than Config.SendersMax senders for a
// queue. It stores them before the commit that drops them. It moves only sends that an earlier commit has stored as
// applied.
func (t *turn) spillSends(ctx context.Context) error {
	for queue, sends := range t.draft.Record.LastSends {
		excess := len(sends) - t.loop.config.SendersMax
		if excess <= 0 {
			continue
		}
		excess += t.loop.config.SendersMax / 2 // Move many sends at once, so that few commits have to move any.
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

// sendsKeptFor is how long the store keeps the last sends that do not fit into a record. A sender may repeat a send
// until the event that led to the send has left the queue: at most 14 days (SQS Developer Guide, "Amazon SQS message
// quotas").
const sendsKeptFor = 30 * 24 * time.Hour

// recentHashChars is the length of the body's hash in an entry of RecentEvents.
const recentHashChars = 8

// recentEvent returns the entry of RecentEvents for an event with an ID: the ID and a prefix of the body's digest.
func recentEvent(id, body string) string {
	digest, err := canonicaljson.EventDigest([]byte(withoutChain(body)))
	if err != nil { // Impossible: the body was decoded before, so it is an event.
		digest = strings.Repeat("0", recentHashChars)
	}
	return id + "#" + digest[:recentHashChars]
}

// Remembers reports whether the instance recently applied the event. If event is nil, any event with the ID counts.
func Remembers(record instances.Record, eventID string, event []byte) bool {
	return slices.ContainsFunc(record.RecentEvents, func(entry string) bool {
		return isRecent(entry, eventID) && (event == nil || entry == recentEvent(eventID, string(event)))
	})
}

// isRecent reports whether an entry of RecentEvents belongs to the event with the ID.
func isRecent(entry, id string) bool {
	return len(entry) == len(id)+1+recentHashChars && strings.HasPrefix(entry, id+"#")
}

// appliedAt returns the entry of RecentEvents for an applied event without an ID: a key built from the queue and the
// sequence number of its message.
func appliedAt(place instances.Place) string { return placePrefix + keyOf(place) }

// placePrefix is the prefix of the entries that appliedAt returns, even for events that were never parked. Stored items
// contain it, so it must not change.
const placePrefix = "parked/"
