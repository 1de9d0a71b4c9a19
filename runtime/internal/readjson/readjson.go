// Package readjson decodes JSON with errors for readers who do not know the Go types. The errors quote no values.
package readjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Error reports which value of a JSON document has the wrong kind, in JSON's terms. It quotes no values, which may be
// secret, and only keys that the type declares.
type Error struct {
	// Key is the location of the value: "code", "detail.deep", "labels[0]", or "rows.*" for any key of a map. "" is the
	// document itself.
	Key string
	// Expected and Got describe the expected and the actual value, such as "a string" and "a number".
	Expected, Got string
}

// Error names the location, the expected value and the actual value.
func (e *Error) Error() string {
	where := ""
	if e.Key != "" {
		where = fmt.Sprintf(" under %q", e.Key)
	}
	return "expected " + e.Expected + where + ", got " + e.Got
}

// Unmarshal is json.Unmarshal with errors for readers who do not know the Go types. It returns an *Error, or a
// *json.SyntaxError for invalid JSON.
func Unmarshal(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return Explain(err, data, reflect.TypeOf(into))
	}
	return nil
}

// Explain returns the error of Unmarshal for a document that does not decode into the type. `err` is the error of
// encoding/json, which may quote values and type names.
func Explain(err error, data []byte, typ reflect.Type) error {
	at := place{typ: typ, value: bytes.TrimSpace(data)}
	if len(at.value) > 0 && !json.Valid(data) {
		return SyntaxError(err)
	}
	for range placeDepthMax {
		inner, found := at.inner()
		if !found {
			break
		}
		at = inner
	}
	return at.mismatch()
}

// SyntaxError returns the error of Unmarshal for invalid JSON. The error of encoding/json quotes at most one character.
// For documents nested too deeply, the error is an *Error that names the limit.
func SyntaxError(err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return errors.New("expected JSON")
	}
	if strings.Contains(syntax.Error(), "exceeded max depth") {
		return &Error{Expected: "at most 10,000 levels of nested objects and arrays", Got: "more"}
	}
	return syntax
}

// placeDepthMax is the maximum depth of the search for the wrong value.
const placeDepthMax = 16

// place is a value that does not decode into its type.
type place struct {
	key   string
	typ   reflect.Type
	value json.RawMessage
	// quoted is set if the value is inside a string, because the field has the option ",string".
	quoted bool
}

// inner finds the first wrong value inside this one. It reports false if this value itself is wrong.
func (p place) inner() (place, bool) {
	for p.typ.Kind() == reflect.Pointer {
		p.typ = p.typ.Elem()
	}
	if decodesItself(p.typ) {
		return place{}, false
	}
	switch p.typ.Kind() {
	case reflect.Struct, reflect.Map:
		var object map[string]json.RawMessage
		if json.Unmarshal(p.value, &object) != nil {
			return place{}, false
		}
		for _, key := range slices.Sorted(maps.Keys(object)) {
			alone, err := json.Marshal(map[string]json.RawMessage{key: object[key]})
			if err != nil || decodes(alone, p.typ) {
				continue
			}
			return p.under(key, object[key])
		}
	case reflect.Slice, reflect.Array:
		var elements []json.RawMessage
		if json.Unmarshal(p.value, &elements) != nil {
			return place{}, false
		}
		for i, element := range elements {
			if !decodes(element, p.typ.Elem()) {
				return place{key: p.key + "[" + strconv.Itoa(i) + "]", typ: p.typ.Elem(), value: element}, true
			}
		}
	default:
	}
	return place{}, false
}

// under returns the value under a key of a struct or a map. It reports false if the struct has no field for the key, or
// if the value in the map decodes.
func (p place) under(key string, value json.RawMessage) (place, bool) {
	above := p.key
	if above != "" {
		above += "."
	}
	if p.typ.Kind() == reflect.Map {
		return place{key: above + "*", typ: p.typ.Elem(), value: value}, !decodes(value, p.typ.Elem())
	}
	var found place
	for _, field := range reflect.VisibleFields(p.typ) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" || !field.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = field.Name
		}
		// If keys differ only in case, encoding/json prefers the exact match.
		if name == key || found.typ == nil && strings.EqualFold(name, key) {
			found = place{key: above + name, typ: field.Type, value: value, quoted: strings.Contains(options, "string")}
		}
	}
	return found, found.typ != nil
}

// mismatch returns the error for the place.
func (p place) mismatch() *Error {
	expected, kind := expectation(p.typ)
	got := Kind(p.value)
	if p.quoted && kind != "" {
		expected, kind = expected+" in a string", "a string"
	}
	switch {
	case got == "nothing":
	case kind == "":
		got += " that does not decode"
	case got == kind && kind == "a number":
		got = "a number out of range"
		if bytes.ContainsAny(p.value, ".eE") && !strings.HasPrefix(expected, "a number") {
			got = "a number with a fraction or an exponent"
		}
	case got == kind:
		_, noun, _ := strings.Cut(kind, " ")
		got = "another " + noun
	}
	return &Error{Key: p.key, Expected: expected, Got: got}
}

// expectation describes the JSON that decodes into the type, and names its kind as Kind does. The kind is "" if only
// the type's own methods know which kind they accept.
func expectation(typ reflect.Type) (expected, kind string) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case typ == reflect.TypeFor[time.Time]():
		return "a time such as 2026-01-02T15:04:05Z", "a string"
	case typ == reflect.TypeFor[json.Number]():
		return "a number", "a number"
	case decodesItself(typ):
		return fmt.Sprintf("the JSON of a %v", typ), ""
	}
	switch kind := typ.Kind(); kind {
	case reflect.Bool:
		return "a boolean", "a boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a whole number of %d bits", typ.Bits()), "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return fmt.Sprintf("a non-negative whole number of %d bits", typ.Bits()), "a number"
	case reflect.Float32, reflect.Float64:
		return fmt.Sprintf("a number of %d bits", typ.Bits()), "a number"
	case reflect.String:
		return "a string", "a string"
	case reflect.Slice, reflect.Array:
		if kind == reflect.Slice && typ.Elem().Kind() == reflect.Uint8 {
			return "a string in base64", "a string"
		}
		return "an array", "an array"
	case reflect.Map:
		if key := typ.Key(); key.Kind() != reflect.String && !decodesItself(key) {
			return "an object whose keys are whole numbers", "an object"
		}
		return "an object", "an object"
	case reflect.Struct:
		return "an object", "an object"
	default:
		return fmt.Sprintf("the JSON of a %v", typ), ""
	}
}

// decodesItself reports whether a type has its own unmarshal methods.
func decodesItself(typ reflect.Type) bool {
	pointer := reflect.PointerTo(typ)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// decodes reports whether a value decodes into a type. A panic counts as an error.
func decodes(value []byte, typ reflect.Type) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return json.Unmarshal(value, reflect.New(typ).Interface()) == nil
}

// Kind names the kind of a JSON value, such as "an object". The value must have no surrounding space.
func Kind(value json.RawMessage) string {
	if len(value) == 0 {
		return "nothing"
	}
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		if len(value) == len(`""`) {
			return "an empty string"
		}
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}
