// Package document represents the JSON values of state machines as nil, bool, string, json.Number, []any and
// map[string]any, so that numbers keep all digits. Values are immutable. A change copies the parts that it changes.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Decode decodes text, which must be exactly one JSON value.
func Decode(text string) (any, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("the text is not valid UTF-8")
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the text is empty")
		}
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("unexpected data after the JSON value")
	}
	return value, nil
}

// Encode encodes a value as JSON without white space, with object members sorted by name. Numbers keep their text.
func Encode(value any) string {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic("document: cannot encode a value as JSON: " + err.Error()) // cannot happen: values come from Decode or from this program
	}
	return strings.TrimSuffix(buffer.String(), "\n")
}

// Int returns n as a json.Number.
func Int(n int) json.Number { return json.Number(strconv.Itoa(n)) }

// Equal reports whether two values are the same JSON value. Numbers are compared by value, so 1 equals 1.0.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && CompareNumbers(a, b) == 0
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !Equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			other, ok := b[name]
			if !ok || !Equal(value, other) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

// CompareNumbers returns a negative number if a is less than b, zero if they are equal, and a positive number if a is
// greater. It compares 64-bit integers exactly and other numbers as float64.
func CompareNumbers(a, b json.Number) int {
	x, errX := strconv.ParseInt(string(a), 10, 64)
	y, errY := strconv.ParseInt(string(b), 10, 64)
	if errX == nil && errY == nil {
		return compare(x, y)
	}
	return compare(Float(a), Float(b))
}

func compare[N int64 | float64](x, y N) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// Float returns the float64 nearest to n, or an infinity if n is too large.
func Float(n json.Number) float64 {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0 // unreachable: Decode returns only valid numbers
	}
	return f
}
