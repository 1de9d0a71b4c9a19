package xstatejson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/settle-run/settle/runtime/internal/plainjson"
)

// Limits of a document.
const (
	// DocumentBytesMax is the maximum length of a document.
	DocumentBytesMax = 4 << 20
	// JSONDepthMax is the maximum nesting depth of objects and arrays. A state takes two levels.
	JSONDepthMax = 256
)

type kind int

const (
	null kind = iota
	boolean
	number
	text
	array
	object
)

func (k kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// value is a JSON value that preserves the order of keys.
type value struct {
	kind kind
	// text is a string, or a number as written.
	text  string
	truth bool
	items []value
	// members are in JavaScript's enumeration order.
	members []member
}

type member struct {
	key string
	value
}

// get returns the value of a key, or nil.
func (v *value) get(key string) *value {
	for i := range v.members {
		if v.members[i].key == key {
			return &v.members[i].value
		}
	}
	return nil
}

// raw encodes the value as JSON, with its keys in order.
func (v *value) raw() json.RawMessage { return v.append(nil) }

func (v *value) append(to []byte) []byte {
	switch v.kind {
	case boolean:
		return strconv.AppendBool(to, v.truth)
	case number:
		return append(to, v.text...)
	case text:
		return append(to, quote(v.text)...)
	case array:
		to = append(to, '[')
		for i := range v.items {
			if i > 0 {
				to = append(to, ',')
			}
			to = v.items[i].append(to)
		}
		return append(to, ']')
	case object:
		to = append(to, '{')
		for i := range v.members {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(append(to, quote(v.members[i].key)...), ':')
			to = v.members[i].append(to)
		}
		return append(to, '}')
	default:
		return append(to, "null"...)
	}
}

// quote encodes a string as JSON.
func quote(s string) []byte {
	text, _ := plainjson.Marshal(s) // cannot fail for a string
	return text
}

func parse(data []byte) (value, error) {
	if len(data) > DocumentBytesMax {
		return value{}, fmt.Errorf("expected at most %d bytes (DocumentBytesMax), got %d", DocumentBytesMax, len(data))
	}
	if !utf8.Valid(data) {
		return value{}, errors.New("expected JSON in UTF-8")
	}
	p := parser{json.NewDecoder(bytes.NewReader(data)), data}
	p.UseNumber()
	v, err := p.value("", 0)
	if err != nil {
		return value{}, err
	}
	end := p.InputOffset()
	if _, err := p.Token(); !errors.Is(err, io.EOF) {
		return value{}, fmt.Errorf("expected the end of the document at byte %d, got %s: remove the text after the machine", end, p.quoted(end))
	}
	return v, nil
}

type parser struct {
	*json.Decoder
	data []byte
}

// quotedRunesMax is the maximum number of characters quoted in a message.
const quotedRunesMax = 10

// quoted quotes the document from a byte offset on.
func (p parser) quoted(from int64) string {
	rest := []rune(string(p.data[from:min(from+utf8.UTFMax*(quotedRunesMax+1), int64(len(p.data)))]))
	if len(rest) > quotedRunesMax {
		return fmt.Sprintf("%q and more", string(rest[:quotedRunesMax]))
	}
	return strconv.Quote(string(rest))
}

// failed returns the error for an invalid token.
func (p parser) failed(path string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || p.InputOffset() == int64(len(p.data)) {
		return fmt.Errorf("%sexpected more JSON at byte %d, got the end of the document: it may be truncated", prefix(path), len(p.data))
	}
	return fmt.Errorf("%sexpected JSON at byte %d, got %s: look for a missing or extra comma, colon, quote or bracket", prefix(path), p.InputOffset(), p.quoted(p.InputOffset()))
}

func (p parser) value(path string, depth int) (value, error) {
	if depth > JSONDepthMax {
		return value{}, fmt.Errorf("%s: expected a nesting of at most %d (JSONDepthMax)", path, JSONDepthMax)
	}
	token, err := p.Token()
	if err != nil {
		return value{}, p.failed(path, err)
	}
	switch token := token.(type) {
	case bool:
		return value{kind: boolean, truth: token}, nil
	case json.Number:
		return value{kind: number, text: token.String()}, nil
	case string:
		return value{kind: text, text: token}, nil
	case json.Delim:
		if token == '[' {
			return p.array(path, depth)
		}
		return p.object(path, depth)
	default:
		return value{}, nil
	}
}

func (p parser) array(path string, depth int) (value, error) {
	v := value{kind: array}
	for p.More() {
		item, err := p.value(fmt.Sprintf("%s[%d]", path, len(v.items)), depth+1)
		if err != nil {
			return value{}, err
		}
		v.items = append(v.items, item)
	}
	return v, p.end(path)
}

func (p parser) object(path string, depth int) (value, error) {
	v := value{kind: object}
	seen := map[string]bool{}
	for p.More() {
		token, err := p.Token()
		if err != nil {
			return value{}, p.failed(path, err)
		}
		key, _ := token.(string)
		at := join(path, key)
		if seen[key] {
			return value{}, fmt.Errorf("%s: duplicate key", at)
		}
		seen[key] = true
		item, err := p.value(at, depth+1)
		if err != nil {
			return value{}, err
		}
		v.members = append(v.members, member{key, item})
	}
	slices.SortStableFunc(v.members, func(a, b member) int { return compareKeys(a.key, b.key) })
	return v, p.end(path)
}

// end consumes the end of an array or an object.
func (p parser) end(path string) error {
	if _, err := p.Token(); err != nil {
		return p.failed(path, err)
	}
	return nil
}

// compareKeys compares keys in JavaScript's enumeration order: integers first, ascending, then all others in their
// original order (ECMAScript, OrdinaryOwnPropertyKeys).
func compareKeys(a, b string) int {
	i, aIsIndex := arrayIndex(a)
	k, bIsIndex := arrayIndex(b)
	switch {
	case aIsIndex && bIsIndex:
		return int(i) - int(k)
	case aIsIndex:
		return -1
	case bIsIndex:
		return 1
	default:
		return 0
	}
}

// arrayIndex reports whether a key is an integer below 2^32 - 1 in its shortest form.
func arrayIndex(key string) (uint32, bool) {
	i, err := strconv.ParseUint(key, 10, 32)
	if err != nil || i == 1<<32-1 || strconv.FormatUint(i, 10) != key {
		return 0, false
	}
	return uint32(i), true
}

// join appends a key to a JSON path: states.a.on.E. It quotes a key that is not a plain name.
func join(path, key string) string {
	if !plain(key) {
		return fmt.Sprintf("%s[%s]", path, quote(key))
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func plain(key string) bool {
	for _, r := range key {
		if r != '_' && r != '-' && r != '$' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return key != ""
}

// prefix returns the beginning of a message about a path.
func prefix(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}
