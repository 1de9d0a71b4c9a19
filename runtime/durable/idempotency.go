package durable

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/settle-run/settle/runtime/internal/canonicaljson"
	"github.com/settle-run/settle/runtime/internal/reserved"
)

// reservedMachines are the IDs that no machine may have.
var reservedMachines = []string{reserved.Alias, reserved.Idempotency, reserved.Sends}

// DeduplicationID returns the ID under which a producer queues an event that has an ID of its own. The queue drops a repeat
// of the event for five minutes. It never drops another event under the same event ID, because the digest of the body is
// part of the result. It fails if the body is no JSON object.
//
// The name of the instance is part of it too, because a queue may compare IDs across groups. The result is readable where
// SQS allows that, and a hash elsewhere. It never equals the ID of a send between instances.
func DeduplicationID(to InstanceID, eventID string, event []byte) (string, error) {
	digest, err := canonicaljson.EventDigest(event)
	if err != nil {
		return "", err
	}
	// An instance's name has one slash and the digest none, so no two triples give the same text. The text is longer than
	// the event ID, so it never equals it.
	text := "$id/" + to.String() + "/" + digest[:readableDigestLen] + "/" + eventID
	refused := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(text) <= deduplicationIDBytesMax && strings.IndexFunc(text, refused) < 0 {
		return text, nil
	}
	sum := sha256.Sum256([]byte(text))
	return "$id-sha256/" + hex.EncodeToString(sum[:]), nil
}

// readableDigestLen is how many hexadecimal digits of a digest a readable deduplication ID has: 128 bits.
const readableDigestLen = 32
