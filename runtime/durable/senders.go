package durable

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// SendersMax is of how many instances one remembers the last send to it, for each queue.
const SendersMax = 50

// LastSend is the last event that another instance has sent to one, and that was applied.
//
// An instance performs its sends in the order of their IDs, and a queue keeps that order: what comes in the same
// queue with an ID at or below the last one is a repeat, however long after. Only a message that the sender itself has
// put there counts so, which its deduplication ID tells: what was parked, or given up by the queue, and is sent again by
// an operator has another one, and may be older and yet not applied.
type LastSend struct {
	// Sender is the sender's name and its creation, as in the IDs of its sends: "order/1@1767322800000".
	Sender string `json:"sender"`
	// ID is that of the send: "3.0".
	ID string `json:"id"`
}

// sendID is the ID of a send between instances, as derivedID makes it.
type sendID struct {
	LastSend
	step, position uint64
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

// isSentAgain reports whether a delivery repeats a send that was applied, or one before it.
func (t *turn) isSentAgain(d Delivery, eventID string) bool {
	send, ok := sendOf(d, eventID)
	if !ok {
		return false
	}
	for _, known := range t.record.LastSends[d.Queue] {
		if known.Sender == send.Sender {
			last, ok := parseSendID(known.Sender + "/" + known.ID)
			return ok && cmp.Or(cmp.Compare(send.step, last.step), cmp.Compare(send.position, last.position)) <= 0
		}
	}
	return false
}

// rememberSend notes a send that is applied.
func (t *turn) rememberSend(d Delivery, eventID string) {
	send, ok := sendOf(d, eventID)
	if !ok {
		return
	}
	others := slices.DeleteFunc(slices.Clone(t.record.LastSends[d.Queue]), func(s LastSend) bool { return s.Sender == send.Sender })
	if t.record.LastSends = maps.Clone(t.record.LastSends); t.record.LastSends == nil {
		t.record.LastSends = map[string][]LastSend{}
	}
	t.record.LastSends[d.Queue] = last(append(others, send.LastSend), SendersMax)
}

// parkedID returns the ID of what was parked, the same for all copies; empty if that cannot be. A delivery can be
// parked more than once (see Queue.Park), and one that comes again may have been: that is noted afterwards.
func (d Delivery) parkedID() string {
	place := d.ParkedFrom
	switch {
	case place != (Place{}):
	case d.ReceiveCount > 1:
		place = Place{Queue: d.Queue, SequenceNumber: d.SequenceNumber}
	default:
		return ""
	}
	queue := sha256.Sum256([]byte(place.Queue))
	return "parked/" + hex.EncodeToString(queue[:8]) + "/" + place.SequenceNumber
}

// isParkedTwice reports whether another copy of what was parked is applied, or the delivery that it was made of.
func (t *turn) isParkedTwice(d Delivery) bool {
	id := d.parkedID()
	return id != "" && slices.Contains(t.record.RecentEvents, id)
}
