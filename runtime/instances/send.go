package instances

import (
	"cmp"
	"strconv"
	"strings"
)

// LastSend is the last applied event from another instance. A queue delivers the sends of a sender in the order of
// their IDs, so a send with an earlier ID is a duplicate.
type LastSend struct {
	// Sender is the sender's name and time of creation, as in the IDs of its sends: "order/1@1767322800000".
	Sender string `json:"sender"`
	ID     string `json:"id"` // such as "3.0"
}

// ParseSend parses the ID of a send, which is the ID of its event ($id): "order/1@1767322800000/3.0". ok is false for
// any other ID.
func ParseSend(id string) (send LastSend, ok bool) {
	slash := strings.LastIndexByte(id, '/')
	at := strings.LastIndexByte(id[:max(slash, 0)], '@')
	if at < 0 {
		return send, false
	}
	send = LastSend{Sender: id[:slash], ID: id[slash+1:]}
	step, position, _ := strings.Cut(send.ID, ".")
	_, nameErr := ParseID(id[:at])
	_, createdErr := strconv.ParseInt(id[at+1:slash], 10, 64)
	_, stepErr := strconv.ParseUint(step, 10, 64)
	_, positionErr := strconv.ParseUint(position, 10, 64)
	return send, nameErr == nil && createdErr == nil && stepErr == nil && positionErr == nil
}

// Position returns the number of the sender's step that made the send, and the send's position in that step.
func (s LastSend) Position() (step, position uint64) {
	before, after, _ := strings.Cut(s.ID, ".")
	step, _ = strconv.ParseUint(before, 10, 64)
	position, _ = strconv.ParseUint(after, 10, 64)
	return step, position
}

// After reports whether the send comes after another send of the same sender.
func (s LastSend) After(other LastSend) bool {
	step, position := s.Position()
	otherStep, otherPosition := other.Position()
	return cmp.Or(cmp.Compare(step, otherStep), cmp.Compare(position, otherPosition)) > 0
}
