// Package payload inspects the Go types of payloads as encoding/json sees them: their keys, sample values and JSON schemas.
package payload

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Keys returns the keys that encoding/json decodes into the fields of a struct, in the order of the fields. It returns
// nil if the type is nil, not a struct, or has its own decoding method.
func Keys(typ reflect.Type) (keys []string) {
	if typ = behind(typ); typ == nil || typ.Kind() != reflect.Struct || decodesItself(typ) {
		return nil
	}
	for _, field := range fields(typ) {
		key, _ := keyOf(field)
		if isMerged(field) {
			continue
		}
		// If two fields share a key, encoding/json may use neither.
		if key != "" && !slices.Contains(keys, key) && len(Unknown(typ, map[string]any{key: nil})) == 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// fields returns the fields of a struct and of its embedded structs. `outer` holds the embedding structs.
func fields(typ reflect.Type, outer ...reflect.Type) (all []reflect.StructField) {
	for i := range typ.NumField() {
		field := typ.Field(i)
		all = append(all, field)
		if inner := behind(field.Type); field.Anonymous && inner.Kind() == reflect.Struct && !slices.Contains(outer, inner) {
			all = append(all, fields(inner, append(outer, inner)...)...)
		}
	}
	return all
}

// Unknown returns the keys of an object that encoding/json does not decode into a value of the type, at any depth. It
// ignores case, as encoding/json does. A nil type has no keys. Unknown removes the returned keys from the object.
func Unknown(typ reflect.Type, object map[string]any) (keys []string) {
	defer func() { _ = recover() }() // If a field's own decoding method panics, the key belongs to that field.
	if typ == nil {
		typ = reflect.TypeFor[struct{}]()
	}
	for {
		text, err := json.Marshal(object)
		if err != nil {
			return keys
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(reflect.New(behind(typ)).Interface())
		if err == nil {
			return keys
		}
		name, found := strings.CutPrefix(err.Error(), "json: unknown field ")
		key, err := strconv.Unquote(name)
		if !found || err != nil || slices.Contains(keys, key) {
			return keys
		}
		keys = append(keys, key)
		remove(object, key)
	}
}

// remove removes the key from all objects in a value.
func remove(value any, key string) {
	switch v := value.(type) {
	case map[string]any:
		delete(v, key)
		for _, inner := range v {
			remove(inner, key)
		}
	case []any:
		for _, inner := range v {
			remove(inner, key)
		}
	}
}

// keyOf returns the key of a field, or "" if encoding/json ignores the field. `optional` is true if the key may be left
// out.
func keyOf(field reflect.StructField) (key string, optional bool) {
	tag := field.Tag.Get("json")
	if tag == "-" || !field.IsExported() && !field.Anonymous {
		return "", false
	}
	key, options, _ := strings.Cut(tag, ",")
	for option := range strings.SplitSeq(options, ",") {
		// omitempty never leaves out a struct.
		optional = optional || option == "omitzero" || option == "omitempty" && field.Type.Kind() != reflect.Struct
	}
	return cmp.Or(key, field.Name), optional
}

// isMerged reports whether encoding/json merges the keys of an embedded struct into the outer object.
func isMerged(field reflect.StructField) bool {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return field.Anonymous && name == "" && behind(field.Type).Kind() == reflect.Struct
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

// Field is a key of a payload and its JSON value.
type Field struct {
	Key   string
	Value json.RawMessage
}

// IsText reports whether the value is a JSON string.
func (f Field) IsText() bool { return len(f.Value) > 0 && f.Value[0] == '"' }

// Sample generates a payload of the type, in the order of its fields. A string is the name of its field, a number is 1,
// a boolean is true, a time is `now`, and lists and maps have one element. Optional fields (omitempty, omitzero) are
// left out unless `optional` is true. Types with their own decoding methods keep their zero value. If the type is nil
// or does not marshal to a JSON object, there are no fields. The type's Validate method may still refuse the sample.
func Sample(typ reflect.Type, now time.Time, optional bool) (fields []Field) {
	if typ == nil {
		return nil
	}
	defer func() {
		if recover() != nil { // A method of the type panicked.
			fields = nil
		}
	}()
	value := reflect.New(typ)
	f := filler{now: now, optional: optional, inside: map[reflect.Type]bool{}}
	f.fill(value.Elem(), "key")
	text, err := json.Marshal(value.Interface())
	if err != nil {
		return nil
	}
	return split(text)
}

// split returns the keys of a JSON object with their values, except reserved keys. It returns nil for other JSON.
func split(text []byte) (fields []Field) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return nil
	}
	for decoder.More() {
		token, err := decoder.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return nil
		}
		field := Field{Key: key}
		if err := decoder.Decode(&field.Value); err != nil {
			return nil
		}
		if !Reserved(key) {
			fields = append(fields, field)
		}
	}
	return fields
}

// Reserved reports whether a key of an event does not belong to its payload: "type", and keys that begin with $.
func Reserved(key string) bool { return key == "type" || len(key) > 0 && key[0] == '$' }

type filler struct {
	now      time.Time
	optional bool
	// inside holds the enclosing types, so that fill stops at recursive types.
	inside map[reflect.Type]bool
}

// fill sets a zero value to a sample. Inside a value of the same type, it returns false and changes nothing.
func (f filler) fill(v reflect.Value, name string) bool {
	typ := v.Type()
	if f.inside[typ] {
		return false
	}
	f.inside[typ] = true
	defer delete(f.inside, typ)
	switch {
	case typ == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(f.now.UTC().Truncate(time.Second)))
		return true
	case typ == reflect.TypeFor[json.Number]():
		v.SetString("1")
		return true
	case typ.Kind() != reflect.Pointer && decodesItself(typ):
		return true
	}
	switch typ.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	case reflect.String:
		v.SetString(name)
	case reflect.Interface:
		if typ.NumMethod() == 0 {
			v.Set(reflect.ValueOf(name))
		}
	case reflect.Pointer:
		pointed := reflect.New(typ.Elem())
		if !f.fill(pointed.Elem(), name) {
			return false
		}
		v.Set(pointed)
	default:
		f.fillMany(v, name)
	}
	return true
}

// fillMany fills composite values.
func (f filler) fillMany(v reflect.Value, name string) {
	typ := v.Type()
	switch typ.Kind() {
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(name))
			return
		}
		v.Set(reflect.MakeSlice(typ, 1, 1))
		if !f.fill(v.Index(0), name) {
			v.SetLen(0)
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), name)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(typ))
		key, value := reflect.New(typ.Key()).Elem(), reflect.New(typ.Elem()).Elem()
		if f.fill(key, "key") && f.fill(value, name) {
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range typ.NumField() {
			key, optional := keyOf(typ.Field(i))
			if key != "" && (f.optional || !optional) && (v.Field(i).CanSet() || typ.Field(i).Type.Kind() == reflect.Struct) {
				f.fill(v.Field(i), key)
			}
		}
	default: // Values of other kinds, such as functions, do not marshal to JSON.
	}
}
