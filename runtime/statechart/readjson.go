package statechart

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// JSONError says which value of a JSON document is not what its reader expects, in JSON's words. It quotes no values, which
// may be secret, and of keys only those that the reader declares.
type JSONError struct {
	// Key is where the value stands: "code", "detail.deep", "labels[0]", or "rows.*" for one under some key of a map. "" is
	// the document itself.
	Key string
	// Expected and Got name what was expected and what came, such as "a string" and "a number".
	Expected, Got string
}

// Error says what was expected where, and what came.
func (e *JSONError) Error() string {
	where := ""
	if e.Key != "" {
		where = fmt.Sprintf(" under %q", e.Key)
	}
	return "expected " + e.Expected + where + ", got " + e.Got
}

// ReadJSON is json.Unmarshal with errors for people who do not know the code: a *JSONError, or a *json.SyntaxError for
// what is no JSON.
func ReadJSON(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return jsonError(err, data, reflect.TypeOf(into))
	}
	return nil
}

// jsonError says why a document does not decode into the type; err is what encoding/json says, which may quote values and
// names types.
func jsonError(err error, data []byte, typ reflect.Type) error {
	at := place{typ: typ, value: bytes.TrimSpace(data)}
	if len(at.value) > 0 && !json.Valid(data) {
		return syntaxError(err)
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

// syntaxError returns the error of encoding/json for what is no JSON, which quotes at most one character, and names the limit
// that it has.
func syntaxError(err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return errors.New("expected JSON")
	}
	if strings.Contains(syntax.Error(), "exceeded max depth") {
		return &JSONError{Expected: "at most 10,000 objects and arrays inside one another, as encoding/json reads", Got: "more"}
	}
	return syntax
}

// placeDepthMax is how many levels down the value is looked for that does not decode.
const placeDepthMax = 16

// place is a value that does not decode into its type.
type place struct {
	key   string
	typ   reflect.Type
	value json.RawMessage
	// quoted says that the value stands in a string, for the option of that name.
	quoted bool
}

// inner finds the first value inside this one that does not decode; false if it is the value as a whole.
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
		for _, key := range sortedKeys(object) {
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

// under is the value under a key of a struct or a map; false if it is not the value that does not decode.
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
		// Of two that differ in case, encoding/json prefers the one that is spelt so.
		if name == key || found.typ == nil && strings.EqualFold(name, key) {
			found = place{key: above + name, typ: field.Type, value: value, quoted: strings.Contains(options, "string")}
		}
	}
	return found, found.typ != nil
}

// mismatch says what the place expects, and what it got.
func (p place) mismatch() *JSONError {
	expected, kind := expectation(p.typ)
	got := jsonKind(p.value)
	if p.quoted && kind != "" {
		expected, kind = expected+" in a string", "a string"
	}
	switch {
	case got == "nothing":
	case kind == "":
		got += " that does not decode"
	case got == kind:
		_, noun, _ := strings.Cut(kind, " ")
		got = "another " + noun
	}
	return &JSONError{Key: p.key, Expected: expected, Got: got}
}

// expectation names what decodes into a type, and its kind as jsonKind does; the kind is "" if only the type itself knows.
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
		return fmt.Sprintf("a whole number from 0 of %d bits", typ.Bits()), "a number"
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

// decodesItself reports whether a type has its own methods to be decoded by.
func decodesItself(typ reflect.Type) bool {
	pointer := reflect.PointerTo(typ)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// decodes reports whether a value decodes into a type; a method of the type that panics does not.
func decodes(value []byte, typ reflect.Type) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return json.Unmarshal(value, reflect.New(typ).Interface()) == nil
}
