// Package canonicaljson returns one canonical text, and one digest, for equal JSON objects.
package canonicaljson

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

// Object returns the canonical text of a JSON object. Two objects have the same text if they differ only in white
// space, the order of keys, escapes in strings, or the spelling of numbers (1.50 and 15e-1). The text leaves out the
// key `omitted`. Object fails if the input is not a JSON object.
//
// Keys that differ only in case keep their order, because encoding/json decodes them into the same field. RFC 8785
// (JSON Canonicalization Scheme) does not fit: it reads numbers as doubles, so two large integers that differ in the
// last digit would be equal.
func Object(text []byte, omitted string) ([]byte, error) {
	// Valid also limits the nesting to 10,000 levels.
	if !json.Valid(text) || !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return nil, errors.New("expected a JSON object")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return readValue(decoder, omitted)
}

// Equal reports whether two JSON values have the same canonical text. It reports false for invalid JSON.
func Equal(a, b []byte) bool {
	first, errFirst := canonicalOf(a)
	second, errSecond := canonicalOf(b)
	return errFirst == nil && errSecond == nil && bytes.Equal(first, second)
}

// canonicalOf returns the canonical form of a JSON value.
func canonicalOf(value []byte) ([]byte, error) {
	if !json.Valid(value) {
		return nil, errors.New("expected a JSON value")
	}
	return Object(slices.Concat([]byte(`{"":`), value, []byte("}")), "")
}

// EventDigest returns the SHA-256, in hexadecimal, of an event's canonical text without "$id". Two bodies with the same
// digest are the same event. It fails as Object does.
func EventDigest(event []byte) (string, error) {
	canonical, err := Object(event, "$id")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// readValue reads one value and returns its canonical form. If the value is an object, readValue leaves out the key
// `omitted`. Objects inside the value keep this key.
func readValue(decoder *json.Decoder, omitted string) ([]byte, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			return readObject(decoder, omitted)
		}
		return readArray(decoder)
	case json.Number:
		return []byte(spelling(token.String())), nil
	default: // a string, a boolean or null
		return json.Marshal(token)
	}
}

func readArray(decoder *json.Decoder) ([]byte, error) {
	canonical := []byte{'['}
	for decoder.More() {
		element, err := readValue(decoder, "")
		if err != nil {
			return nil, err
		}
		canonical = append(append(canonical, element...), ',')
	}
	_, err := decoder.Token()
	return append(canonical, ']'), err
}

// member is a key of an object and the canonical form of its value.
type member struct {
	key   string
	value []byte
}

func readObject(decoder *json.Decoder, omitted string) ([]byte, error) {
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
		value, err := readValue(decoder, "")
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

// foldKey returns the same text for keys that differ only in case. encoding/json decodes them into the same field.
func foldKey(key string) string {
	return strings.Map(func(r rune) rune {
		for {
			folded := unicode.SimpleFold(r)
			if folded <= r { // the orbit is back at its smallest rune
				return folded
			}
			r = folded
		}
	}, key)
}

// spelling returns one spelling for all JSON numbers of the same value: the significant digits and a power of ten. It
// is exact for any number of digits. A number whose exponent does not fit into 48 bits keeps its spelling.
func spelling(number string) string {
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
