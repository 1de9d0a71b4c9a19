package readjson

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Keys holds the keys that the JSON of a type may have. Nil accepts every key.
type Keys struct {
	// fields holds the fields of a struct by key. It is nil for other types.
	fields map[string]*Keys
	// names lists the keys of fields in order, for keys that differ in case.
	names []string
	// elem holds the keys of the elements of a slice, an array or a map. inMap is set for a map.
	elem  *Keys
	inMap bool
}

// pointersMax bounds the pointers around a type, which may be a cycle: type A *B; type B *A.
const pointersMax = 100

// KeysOf returns the keys of a type. A type with its own JSON or text methods accepts every key, and so do interfaces.
func KeysOf(typ reflect.Type) *Keys { return keysOf(typ, map[reflect.Type]*Keys{}) }

// keysOf implements KeysOf. `known` holds the results so far. It includes types that are still being read, because
// a type may contain itself.
func keysOf(typ reflect.Type, known map[reflect.Type]*Keys) *Keys {
	for pointers := 0; typ.Kind() == reflect.Pointer && !isOpaque(typ); pointers++ {
		if typ = typ.Elem(); pointers == pointersMax {
			return nil
		}
	}
	if k, ok := known[typ]; ok || isOpaque(typ) {
		return k
	}
	switch typ.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		k := &Keys{inMap: typ.Kind() == reflect.Map}
		known[typ] = k
		if k.elem = keysOf(typ.Elem(), known); k.elem == nil {
			known[typ] = nil
		}
		return known[typ]
	case reflect.Struct:
		k := &Keys{fields: map[string]*Keys{}}
		known[typ] = k
		fields := fieldsOf(typ, nil)
		for i, field := range fields {
			has := func(other keyedField) bool { return other.key == field.key }
			isFirst := slices.IndexFunc(fields, has) == i
			isHidden := slices.ContainsFunc(fields[i+1:], func(other keyedField) bool {
				return has(other) && other.depth == field.depth && other.tagged == field.tagged
			})
			if isFirst && !isHidden { // Like encoding/json, ignore a key that two fields claim equally.
				k.fields[field.key] = keysOf(field.typ, known)
				k.names = append(k.names, field.key)
			}
		}
		return k
	default:
		return nil
	}
}

// isOpaque reports whether the type's own methods write or read its JSON.
func isOpaque(typ reflect.Type) bool {
	writes := func(typ reflect.Type) bool {
		return typ.Implements(reflect.TypeFor[json.Marshaler]()) || typ.Implements(reflect.TypeFor[encoding.TextMarshaler]())
	}
	return decodesItself(typ) || writes(typ) || writes(reflect.PointerTo(typ))
}

// keyedField is a field of a struct or of an embedded struct.
type keyedField struct {
	key    string
	typ    reflect.Type
	depth  int
	tagged bool
}

// fieldsOf returns the fields that encoding/json considers. If fields share a key, the first one is the field that
// encoding/json prefers. `outer` holds the enclosing structs.
func fieldsOf(typ reflect.Type, outer []reflect.Type) []keyedField {
	var fields []keyedField
	if slices.Contains(outer, typ) {
		return nil
	}
	for i := range typ.NumField() {
		field := typ.Field(i)
		tag := field.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		if !isName(name) {
			name = ""
		}
		embedded := field.Type
		if field.Anonymous && embedded.Name() == "" && embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		promotes := field.Anonymous && embedded.Kind() == reflect.Struct
		switch {
		case tag == "-" || !field.IsExported() && !promotes:
		case promotes && name == "":
			fields = append(fields, fieldsOf(embedded, append(outer[:len(outer):len(outer)], typ))...)
		default:
			fields = append(fields, keyedField{cmp.Or(name, field.Name), field.Type, len(outer), name != ""})
		}
	}
	slices.SortStableFunc(fields, func(a, b keyedField) int {
		if a.tagged != b.tagged && a.depth == b.depth {
			return map[bool]int{true: -1, false: 1}[a.tagged]
		}
		return cmp.Compare(a.depth, b.depth)
	})
	return fields
}

// isName reports whether encoding/json accepts the name in a tag.
func isName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
	})
}

// UnknownKeyError reports a key that a type does not have. Key is the location of the key, in the form of Error.Key.
type UnknownKeyError struct{ Key string }

// Error names the key.
func (e *UnknownKeyError) Error() string { return fmt.Sprintf("unknown key %q", e.Key) }

// unknownKeyBytesMax limits the unknown key in a location.
const unknownKeyBytesMax = 64

// Check returns an *UnknownKeyError for the first key that the type does not have. The document must be valid JSON. Like
// encoding/json, Check ignores the case of keys.
func (k *Keys) Check(document []byte) error {
	if k == nil {
		return nil
	}
	s := scanner{text: document}
	if key := s.unknown(k); key != "" {
		return &UnknownKeyError{key}
	}
	return nil
}

// scanner reads valid JSON. On invalid JSON, it may stop early, but it never panics.
type scanner struct {
	text []byte
	at   int
}

// next returns the next byte that is not space, without consuming it. It returns 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.text); s.at++ {
		switch b := s.text[s.at]; b {
		case ' ', '\t', '\r', '\n', ',', ':':
		default:
			return b
		}
	}
	return 0
}

// str consumes a string and returns the text between its quotes.
func (s *scanner) str() []byte {
	start := s.at + 1
	for s.at++; s.at < len(s.text) && s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	end := min(s.at, len(s.text))
	s.at++
	return s.text[min(start, end):end]
}

// skip consumes a value.
func (s *scanner) skip() {
	for depth := 0; ; {
		switch s.next() {
		case 0:
			return
		case '"':
			s.str()
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		default:
			for s.at++; s.at < len(s.text) && !isEnd(s.text[s.at]); s.at++ {
			}
		}
		if depth <= 0 {
			return
		}
	}
}

// isEnd reports whether the byte ends a number or a literal.
func isEnd(b byte) bool {
	return b <= ' ' || b == ',' || b == ':' || b == '}' || b == ']' || b == '{' || b == '[' || b == '"'
}

// unknown consumes a value and returns the location of its first unknown key.
func (s *scanner) unknown(k *Keys) string {
	if k == nil {
		s.skip()
		return ""
	}
	switch s.next() {
	case '{':
		s.at++
		for s.next() == '"' {
			key := s.str()
			inner, ok, label := k.elem, k.inMap, "*"
			if k.fields != nil {
				inner, ok = k.field(key)
				label = ""
			}
			if !ok {
				return shown(key)
			}
			if found := s.unknown(inner); found != "" {
				return joined(label, key, found)
			}
		}
		s.at++
		return ""
	case '[':
		s.at++
		for i := 0; s.next() != ']' && s.next() != 0; i++ {
			if found := s.unknown(k.elem); found != "" {
				if found[0] != '[' {
					found = "." + found
				}
				return "[" + strconv.Itoa(i) + "]" + found
			}
		}
		s.at++
		return ""
	default:
		s.skip()
		return ""
	}
}

// joined puts the label, or the key if the label is empty, before a location.
func joined(label string, key []byte, location string) string {
	if label == "" {
		label = shown(key)
	}
	if location[0] == '[' {
		return label + location
	}
	return label + "." + location
}

// shown returns a key for a location.
func shown(key []byte) string {
	text := unquoted(key)
	if len(text) > unknownKeyBytesMax {
		text = strings.ToValidUTF8(text[:unknownKeyBytesMax], "") + "…"
	}
	return cmp.Or(text, `""`)
}

// unquoted returns the text of a JSON string without its quotes.
func unquoted(key []byte) string {
	var text string
	if json.Unmarshal(append(append([]byte{'"'}, key...), '"'), &text) != nil {
		return string(key)
	}
	return text
}

// field returns the keys of the field named `key`, which is spelled as in the document, without quotes.
func (k *Keys) field(key []byte) (inner *Keys, ok bool) {
	if inner, ok = k.fields[string(key)]; ok {
		return inner, true
	}
	text := string(key)
	if slices.Contains(key, '\\') || !utf8.Valid(key) {
		text = unquoted(key)
	}
	if inner, ok = k.fields[text]; ok {
		return inner, true
	}
	for _, name := range k.names {
		if strings.EqualFold(name, text) {
			return k.fields[name], true
		}
	}
	return nil, false
}
