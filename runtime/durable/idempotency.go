package durable

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// IdempotencyMachine is an ID that no machine may have: stores keep the event IDs that callers have used under it.
const IdempotencyMachine = "idempotency"

// SendsMachine is an ID that no machine may have: stores keep the last sends under it that do not fit into a record.
const SendsMachine = "sends"

// reservedMachines are the IDs that no machine may have.
var reservedMachines = []string{AliasMachine, IdempotencyMachine, SendsMachine}

// DeduplicationID returns the ID under which a producer queues an event that has an ID of its own. The queue drops a repeat
// of the event for five minutes. It never drops another event under the same event ID, because the digest of the body is
// part of the result. It fails as EventDigest does.
//
// The name of the instance is part of it too, because a queue may compare IDs across groups. The result is readable where
// SQS allows that, and a hash elsewhere. It never equals the ID of a send between instances.
func DeduplicationID(to InstanceID, eventID string, event []byte) (string, error) {
	digest, err := EventDigest(event)
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

// EventDigest returns a SHA-256 in hexadecimal that two bodies share if they are the same event: JSON objects that differ
// at most in white space, the order of keys, escapes in strings, the spelling of numbers (1.50 and 15e-1), and "$id".
// It fails if the body is no JSON object.
//
// Of keys that are equal but for case, the order counts, because encoding/json decodes them into the same field.
func EventDigest(event []byte) (string, error) {
	// Valid also limits the nesting, to 10,000 levels.
	if !json.Valid(event) || !bytes.HasPrefix(bytes.TrimLeft(event, " \t\r\n"), []byte("{")) {
		return "", errors.New("expected an event as a JSON object")
	}
	decoder := json.NewDecoder(bytes.NewReader(event))
	decoder.UseNumber()
	canonical, err := canonicalValue(decoder, "$id")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// canonicalValue reads one value and returns its canonical form. An object comes without the key omitted; the values
// inside it are whole.
func canonicalValue(decoder *json.Decoder, omitted string) ([]byte, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			return canonicalObject(decoder, omitted)
		}
		return canonicalArray(decoder)
	case json.Number:
		return []byte(canonicalNumber(token.String())), nil
	default: // a string, a boolean or null
		return json.Marshal(token)
	}
}

func canonicalArray(decoder *json.Decoder) ([]byte, error) {
	canonical := []byte{'['}
	for decoder.More() {
		element, err := canonicalValue(decoder, "")
		if err != nil {
			return nil, err
		}
		canonical = append(append(canonical, element...), ',')
	}
	_, err := decoder.Token()
	return append(canonical, ']'), err
}

// member is a key of an object with the canonical form of its value.
type member struct {
	key   string
	value []byte
}

func canonicalObject(decoder *json.Decoder, omitted string) ([]byte, error) {
	var members []member
	folded := map[string]bool{}
	sortable := true
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key, ok := token.(string)
		if !ok {
			return nil, fmt.Errorf("expected a key, got %v", token)
		}
		value, err := canonicalValue(decoder, "")
		if err != nil {
			return nil, err
		}
		if omitted != "" && key == omitted {
			continue
		}
		members = append(members, member{key, value})
		fold := foldKey(key)
		sortable, folded[fold] = sortable && !folded[fold], true
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	if sortable {
		slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.key, b.key) })
	}
	canonical := []byte{'{'}
	for _, m := range members {
		key, err := json.Marshal(m.key)
		if err != nil {
			return nil, err
		}
		canonical = append(append(append(canonical, key...), ':'), m.value...)
		canonical = append(canonical, ',')
	}
	return append(canonical, '}'), nil
}

// foldKey returns the same text for keys that encoding/json decodes into the same field: those that are equal but for case.
func foldKey(key string) string {
	return strings.Map(func(r rune) rune {
		for {
			folded := unicode.SimpleFold(r)
			if folded <= r { // The orbit begins anew, at its smallest rune.
				return folded
			}
			r = folded
		}
	}, key)
}

// canonicalNumber returns one spelling for all JSON numbers of a value: its significant digits and a power of ten. It is
// exact for any number of digits. A number whose exponent does not fit into 48 bits keeps its spelling.
func canonicalNumber(number string) string {
	unsigned, negative := strings.CutPrefix(strings.ToLower(number), "-")
	mantissa, power, scientific := strings.Cut(unsigned, "e")
	exponent := int64(0)
	if scientific {
		var err error
		if exponent, err = strconv.ParseInt(power, 10, 48); err != nil {
			return number
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	significant := strings.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(significant) - len(fraction))
	sign := ""
	if negative {
		sign = "-"
	}
	return sign + significant + "e" + strconv.FormatInt(exponent, 10)
}
