package payload

import (
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Use says how a schema is used.
type Use int

const (
	// Input is for JSON that encoding/json decodes into the type. It requires no key, because a missing key gets its
	// zero value. It allows other keys, because they are ignored.
	Input Use = iota
	// Output is for JSON that encoding/json has encoded from the type. It requires the keys that are always present.
	Output
)

// Schema returns a JSON Schema (draft 2020-12) for values of the type. For a type with its own decoding method, and
// where a type contains itself, the schema is empty and allows every value. A method Validate of the type may be
// stricter.
func Schema(typ reflect.Type, use Use) map[string]any {
	return describer{use: use, inside: map[reflect.Type]bool{}}.schema(typ)
}

type describer struct {
	use Use
	// inside holds the enclosing types, so that schema stops at recursive types.
	inside map[reflect.Type]bool
}

func (d describer) schema(typ reflect.Type) map[string]any {
	isPointer := typ != nil && typ.Kind() == reflect.Pointer
	if typ = behind(typ); typ == nil || d.inside[typ] {
		return map[string]any{}
	}
	d.inside[typ] = true
	defer delete(d.inside, typ)
	schema := d.described(typ)
	if kind, ok := schema["type"]; ok && d.use == Output && (isPointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map) {
		schema["type"] = []any{kind, "null"}
	}
	return schema
}

func (d describer) described(typ reflect.Type) map[string]any {
	pointer := reflect.PointerTo(typ)
	switch {
	case typ == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case typ == reflect.TypeFor[json.Number]():
		return map[string]any{"type": "number"}
	case pointer.Implements(reflect.TypeFor[json.Unmarshaler]()):
		return map[string]any{}
	case pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return map[string]any{"type": "string"}
	}
	switch typ.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return integer(-math.Ldexp(1, typ.Bits()-1), math.Ldexp(1, typ.Bits()-1)-1, typ.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return integer(0, math.Ldexp(1, typ.Bits())-1, typ.Bits())
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Slice, reflect.Array:
		if typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return map[string]any{"type": "array", "items": d.schema(typ.Elem())}
	case reflect.Map:
		schema := map[string]any{"type": "object"}
		if typ.Key().Kind() == reflect.String {
			schema["additionalProperties"] = d.schema(typ.Elem())
		}
		return schema
	case reflect.Struct:
		return d.object(typ)
	default:
		return map[string]any{}
	}
}

// doubleBits is the largest size of an integer type, in bits, whose limits a double-precision number holds exactly.
const doubleBits = 32

// integer returns the schema of an integer. Limits that a reader might round are left out, except the limit 0.
func integer(least, most float64, bits int) map[string]any {
	schema := map[string]any{"type": "integer"}
	if bits <= doubleBits || least == 0 {
		schema["minimum"] = least
	}
	if bits <= doubleBits {
		schema["maximum"] = most
	}
	return schema
}

// object returns the schema of a struct.
func (d describer) object(typ reflect.Type) map[string]any {
	properties, required := map[string]any{}, []any{}
	for _, key := range Keys(typ) {
		field := fieldOf(typ, key)
		schema := d.schema(field.Type)
		if isQuoted(field) {
			schema = map[string]any{"type": "string"}
		}
		properties[key] = schema
		if _, optional := keyOf(field); !optional {
			required = append(required, key)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties}
	if d.use == Output && len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// fieldOf returns the field that encoding/json uses for a key of Keys: the least nested field. If several fields have
// this depth, it is the field with a tag.
func fieldOf(typ reflect.Type, key string) reflect.StructField {
	for level := []reflect.Type{typ}; len(level) > 0; {
		var found []reflect.StructField
		var next []reflect.Type
		for _, typ := range level {
			for i := range typ.NumField() {
				field := typ.Field(i)
				if name, _ := keyOf(field); name == key && !isMerged(field) {
					found = append(found, field)
				}
				if isMerged(field) {
					next = append(next, behind(field.Type))
				}
			}
		}
		for _, field := range found {
			if len(found) == 1 || field.Tag.Get("json") != "" {
				return field
			}
		}
		level = next
	}
	return reflect.StructField{}
}

// isQuoted reports whether a field has the option string and a type to which the option applies.
func isQuoted(field reflect.StructField) bool {
	_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	switch behind(field.Type).Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64, reflect.Uintptr,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return slices.Contains(strings.Split(options, ","), "string")
	default:
		return false
	}
}
