package payload

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"
)

// Field is a key of a payload and its JSON value.
type Field struct {
	Key   string
	Value json.RawMessage
}

// IsText reports whether the value is a JSON string.
func (f Field) IsText() bool { return len(f.Value) > 0 && f.Value[0] == '"' }

// Sample generates a payload of the type, in the order of its fields. A string is the name of its field, a number is 1,
// a boolean true, a time now, and lists and maps have one element. Optional fields (omitempty, omitzero) are left out
// unless optional is true. Types with their own decoding methods keep their zero value. If the type is nil or does not
// marshal to a JSON object, there are no fields. The type's Validate method may still refuse the sample.
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

// split returns the keys of an object without the runtime's own keys. It returns nil for other JSON.
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
	// inside are the enclosing types, to stop at recursive types.
	inside map[reflect.Type]bool
}

// fill sets a zero value to a sample. It returns false if it leaves the value unchanged.
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
			key, _, optional := keyOf(typ.Field(i))
			if key != "" && (f.optional || !optional) && (v.Field(i).CanSet() || typ.Field(i).Type.Kind() == reflect.Struct) {
				f.fill(v.Field(i), key)
			}
		}
	default: // Functions and channels do not marshal either.
	}
}
