// Package payload inspects the Go types of payloads as encoding/json sees them: their keys, and sample values.
package payload

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// Keys returns the keys that encoding/json decodes into the fields of a struct, in the order of the fields. known is
// false if the type is nil, not a struct, or has its own decoding method.
func Keys(typ reflect.Type) (keys []string, known bool) {
	if typ = behind(typ); typ == nil || typ.Kind() != reflect.Struct || decodesItself(typ) {
		return nil, false
	}
	walk(typ, map[reflect.Type]bool{}, func(key string) {
		if !slices.Contains(keys, key) && Has(typ, key) { // If two fields share a key, encoding/json may use neither.
			keys = append(keys, key)
		}
	})
	return keys, true
}

// Has reports whether encoding/json decodes the key into a field of a struct for which Keys returns true. It ignores
// case, as encoding/json does.
func Has(typ reflect.Type, key string) (has bool) {
	defer func() {
		if recover() != nil {
			has = true // A field's own method panicked, so the key leads to a field.
		}
	}()
	object, err := json.Marshal(map[string]any{key: nil}) // null is valid for all types and changes nothing.
	if err != nil {
		return false
	}
	decoder := json.NewDecoder(strings.NewReader(string(object)))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(reflect.New(behind(typ)).Interface())
	return err == nil || !strings.HasPrefix(err.Error(), "json: unknown field ")
}

// walk calls found for the key of each field. Embedded structs are expanded in place.
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

// keyOf returns the key of a field, or "" if encoding/json ignores the field. named is true if the key comes from the
// tag, optional if the key may be left out.
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

// behind dereferences pointer types. nil stays nil.
func behind(typ reflect.Type) reflect.Type {
	for typ != nil && typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	return typ
}

// decodesItself reports whether a type has its own decoding methods.
func decodesItself(typ reflect.Type) bool {
	pointer := reflect.PointerTo(typ)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
