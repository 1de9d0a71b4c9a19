// Package payload reads the Go types of payloads as encoding/json does: which keys they have, and what could be sent.
package payload

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// Keys returns the keys that encoding/json decodes into the fields of a struct, in the order of the fields; false if the type
// is nil, no struct, or has a method of its own to be decoded by, so that only the type itself knows.
func Keys(typ reflect.Type) (keys []string, known bool) {
	if typ = behind(typ); typ == nil || typ.Kind() != reflect.Struct || decodesItself(typ) {
		return nil, false
	}
	walk(typ, map[reflect.Type]bool{}, func(key string) {
		if !slices.Contains(keys, key) && Has(typ, key) { // Of two fields that share a key, encoding/json may take neither.
			keys = append(keys, key)
		}
	})
	return keys, true
}

// Has reports whether encoding/json decodes the key into a field of a struct for which Keys returns true. Keys that differ in
// case only are the same to it.
func Has(typ reflect.Type, key string) (has bool) {
	defer func() {
		if recover() != nil {
			has = true // The panic is that of a field's own method: the key has led there.
		}
	}()
	object, err := json.Marshal(map[string]any{key: nil}) // Null changes nothing, whatever the field's type is.
	if err != nil {
		return false
	}
	decoder := json.NewDecoder(strings.NewReader(string(object)))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(reflect.New(behind(typ)).Interface())
	return err == nil || !strings.HasPrefix(err.Error(), "json: unknown field ")
}

// walk calls found for the key of each field, those of embedded structs in their place.
func walk(typ reflect.Type, inside map[reflect.Type]bool, found func(key string)) {
	if inside[typ] {
		return
	}
	inside[typ] = true
	defer delete(inside, typ)
	for i := range typ.NumField() {
		field := typ.Field(i)
		key, named, _ := keyOf(field)
		switch inner := behind(field.Type); {
		case key == "":
		case field.Anonymous && !named && inner.Kind() == reflect.Struct:
			walk(inner, inside, found)
		case field.IsExported() || field.Anonymous:
			found(key)
		}
	}
}

// keyOf returns the key of a field as its tag has it; "" if encoding/json never looks at it. Named says that the key is the
// tag's, optional that it may be left out.
func keyOf(field reflect.StructField) (key string, named, optional bool) {
	tag := field.Tag.Get("json")
	if tag == "-" || !field.IsExported() && !field.Anonymous {
		return "", false, false
	}
	key, options, _ := strings.Cut(tag, ",")
	for option := range strings.SplitSeq(options, ",") {
		// A struct is never empty.
		optional = optional || option == "omitzero" || option == "omitempty" && field.Type.Kind() != reflect.Struct
	}
	if key == "" {
		return field.Name, false, optional
	}
	return key, true, optional
}

// behind returns what pointers of the type lead to; nil stays nil.
func behind(typ reflect.Type) reflect.Type {
	for typ != nil && typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	return typ
}

// decodesItself reports whether a type has its own methods to be decoded by.
func decodesItself(typ reflect.Type) bool {
	pointer := reflect.PointerTo(typ)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
