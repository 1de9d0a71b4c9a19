package durable

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/canonicaljson"
	"github.com/settle-run/settle/runtime/internal/reserved"
)

// reservedMachines are the IDs that no machine may have.
var reservedMachines = []string{reserved.Alias, reserved.Idempotency, reserved.Limits, reserved.Sends}

// DeduplicationID returns the ID under which a producer queues an event that has an ID of its own. The queue drops a
// repeat of the event for five minutes. It never drops a different event with the same event ID. The function fails if
// the body is not a JSON object.
func DeduplicationID(to instances.ID, eventID string, event []byte) (string, error) {
	digest, err := canonicaljson.EventDigest(event)
	if err != nil {
		return "", err
	}
	// A queue may compare IDs across groups, so the instance's name is part of the ID. The name has one slash and the
	// digest none, so different names, digests or event IDs give different texts. The text is longer than the event ID, so
	// it never equals the event ID.
	text := "$id/" + to.String() + "/" + digest[:readableDigestLen] + "/" + eventID
	refused := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(text) <= deduplicationIDBytesMax && strings.IndexFunc(text, refused) < 0 {
		return text, nil
	}
	sum := sha256.Sum256([]byte(text))
	return "$id-sha256/" + hex.EncodeToString(sum[:]), nil
}

// readableDigestLen is the number of hexadecimal digits of the digest in a readable deduplication ID: 128 bits.
const readableDigestLen = 32
