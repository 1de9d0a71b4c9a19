package recording

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/settle-run/settle/runtime/internal/plainjson"
)

// redactor replaces the values of keys that a rule names. Equal values get equal replacements. A replacement has the
// JSON type and the form of the value.
type redactor struct {
	key []byte
	// rules holds the ends of key paths: "card.number" is {"card", "number"}.
	rules [][]string
}

// body returns the message of an event without the keys that start with $. One of these keys, $task, holds a task
// token.
func (r redactor) body(text string) (json.RawMessage, error) {
	return r.rewrite(json.RawMessage(text), nil)
}

// value redacts a value under the key.
func (r redactor) value(text json.RawMessage, key string) (json.RawMessage, error) {
	if len(r.rules) == 0 || len(text) == 0 {
		return text, nil
	}
	return r.rewrite(text, []string{key})
}

// rewrite redacts a value with the path of keys. It keeps the order of the keys: if keys differ only in case,
// encoding/json reads the last one.
func (r redactor) rewrite(text json.RawMessage, path []string) (json.RawMessage, error) {
	w := rewriter{redactor: r, decoder: json.NewDecoder(bytes.NewReader(text))}
	w.decoder.UseNumber() // Numbers keep their digits.
	err := w.value(path, false)
	return w.out, err
}

// rewriter copies one JSON value and redacts it.
type rewriter struct {
	redactor
	decoder *json.Decoder
	out     []byte
}

// value copies the next value. `named` is set below a key that a rule names.
func (w *rewriter) value(path []string, named bool) error {
	named = named || w.names(path)
	token, err := w.decoder.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Delim:
		return w.list(token, path, named)
	case string:
		if named {
			return w.write(w.text(token))
		}
	case json.Number:
		if named {
			return w.write(w.number(token))
		}
	case bool:
		return w.write(token && !named)
	}
	return w.write(token)
}

// list copies the rest of an object or an array.
func (w *rewriter) list(open json.Delim, path []string, named bool) error {
	w.out = append(w.out, byte(open))
	for begin := len(w.out); w.decoder.More(); {
		at, below, isOfHost := len(w.out), path, false
		if at > begin {
			w.out = append(w.out, ',')
		}
		if open == '{' {
			token, err := w.decoder.Token()
			if err == nil {
				err = w.write(token)
			}
			if err != nil {
				return err
			}
			key, _ := token.(string)
			w.out = append(w.out, ':')
			isOfHost = len(path) == 0 && strings.HasPrefix(key, "$")
			if len(path) > 0 || key != "type" { // The type belongs to the runtime.
				below = append(slices.Clip(path), key)
			}
		}
		if err := w.value(below, named); err != nil {
			return err
		}
		if isOfHost {
			w.out = w.out[:at]
		}
	}
	w.out = append(w.out, byte(open)+2) // In ASCII, the closing bracket is two places after the opening one.
	_, err := w.decoder.Token()
	return err
}

func (w *rewriter) write(value any) error {
	text, err := plainjson.Marshal(value)
	w.out = append(w.out, text...)
	return err
}

// number returns a whole number with the sign of the value and as many digits as its whole part, so that it fits into
// the same type. Equal numbers below 2^53 get equal replacements, even if they are written differently: 100 and 1e2.
func (r redactor) number(value json.Number) json.Number {
	written := value.String()
	if strings.ContainsAny(written, ".eE") {
		if float, err := value.Float64(); err == nil && math.Abs(float) < 1<<53 {
			written = strconv.FormatFloat(float, 'f', -1, 64)
		}
	}
	if written == "0" || written == "-0" {
		return "0"
	}
	random := r.random(written)
	written, isNegative := strings.CutPrefix(written, "-")
	whole, _, _ := strings.Cut(written, ".")
	whole, _, _ = strings.Cut(strings.ToLower(whole), "e")
	digits := []byte{'1'}
	switch len(whole) {
	case 1:
		digits = []byte{byte('1' + random.IntN(9))}
	case int8Digits:
		digits = append(digits, byte('0'+random.IntN(2)))
	}
	for len(digits) < min(len(whole), int64Digits) {
		digits = append(digits, byte('0'+random.IntN(10)))
	}
	if isNegative {
		digits = append([]byte{'-'}, digits...)
	}
	return json.Number(digits)
}

// int8Digits and int64Digits are the numbers of digits of the largest int8, 127, and the largest int64. A number with
// as many digits as the largest value of a signed type fits into the type if it begins with 1. For int8, it must begin
// with 10 or 11.
const (
	int8Digits  = 3
	int64Digits = 19
)

// text returns a text of the same form: a digit for each digit, a letter for each letter, and all other characters
// unchanged. So a format check, for example of an address or a code, still passes. Letters up to f stay in that range,
// because an ID may be hexadecimal.
func (r redactor) text(value string) string {
	random := r.random(value)
	return strings.Map(func(c rune) rune {
		switch {
		case c >= '0' && c <= '9':
			return '0' + random.Int32N(10)
		case c >= 'a' && c <= 'f':
			return 'a' + random.Int32N(6)
		case c >= 'A' && c <= 'F':
			return 'A' + random.Int32N(6)
		case unicode.IsUpper(c):
			return 'G' + random.Int32N(20)
		case unicode.IsLetter(c), unicode.IsMark(c):
			return 'g' + random.Int32N(20)
		case unicode.IsNumber(c):
			return '0' + random.Int32N(10)
		default:
			return c
		}
	}, value)
}

// random returns random numbers that depend only on the value and the key.
func (r redactor) random(value string) *rand.Rand {
	hash := hmac.New(sha256.New, r.key)
	hash.Write([]byte(value))
	return rand.New(rand.NewChaCha8([32]byte(hash.Sum(nil))))
}

// names reports whether a rule names the end of the path. Case does not count, because encoding/json ignores it too.
func (r redactor) names(path []string) bool {
	for _, rule := range r.rules {
		if len(path) > 0 && strings.EqualFold(path[len(path)-1], strings.Join(rule, ".")) {
			return true // The key itself contains the dots.
		}
		if len(rule) > len(path) {
			continue
		}
		same := true
		for i, key := range path[len(path)-len(rule):] {
			same = same && strings.EqualFold(key, rule[i])
		}
		if same {
			return true
		}
	}
	return false
}

// snapshot redacts the parts of a snapshot that belong to the chart: the context, the output, and the events that wait
// in timers or are deferred.
func (r redactor) snapshot(text json.RawMessage) (json.RawMessage, error) {
	if len(r.rules) == 0 {
		return text, nil
	}
	var keys, timers map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, err
	}
	var err error
	for _, key := range []string{"context", "output"} {
		if keys[key], err = r.value(keys[key], key); err != nil {
			return nil, err
		}
		if keys[key] == nil {
			delete(keys, key)
		}
	}
	if keys["timers"] != nil {
		if err = json.Unmarshal(keys["timers"], &timers); err != nil {
			return nil, err
		}
		for id := range timers {
			if timers[id], err = r.waiting(timers[id]); err != nil {
				return nil, err
			}
		}
		if keys["timers"], err = plainjson.Marshal(timers); err != nil {
			return nil, err
		}
	}
	if keys["deferred"] != nil {
		var deferred []json.RawMessage
		if err = json.Unmarshal(keys["deferred"], &deferred); err != nil {
			return nil, err
		}
		for i := range deferred {
			if deferred[i], err = r.waiting(deferred[i]); err != nil {
				return nil, err
			}
		}
		if keys["deferred"], err = plainjson.Marshal(deferred); err != nil {
			return nil, err
		}
	}
	return plainjson.Marshal(keys)
}

// waiting redacts the event in a timer or in a deferred event.
func (r redactor) waiting(text json.RawMessage) (json.RawMessage, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil || keys["event"] == nil {
		return text, err
	}
	var err error
	if keys["event"], err = r.body(string(keys["event"])); err != nil {
		return nil, err
	}
	if id := keys["id"]; id != nil {
		if keys["id"], err = r.value(id, "$id"); err != nil {
			return nil, err
		}
	}
	return plainjson.Marshal(keys)
}
