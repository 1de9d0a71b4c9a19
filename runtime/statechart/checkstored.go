package statechart

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// checkStored finds context fields that the JSON form omits. Restoring a snapshot would lose them, and the chart's
// behaviour would depend on when the snapshot is restored.
func (c *compiler) checkStored(context reflect.Type) {
	w := storedWalk{known: map[storedType]bool{}, find: func(typ reflect.Type, field string) {
		c.find(nil, fmt.Sprintf("has a context whose field %v.%s is not stored", typ, field),
			fmt.Sprintf("export it with a unique JSON name, or add MarshalJSON and UnmarshalJSON to %v", typ))
	}}
	w.visit(context, true)
}

// storedType is a type that occurs in the context. The field addressable reports whether the type's values at that
// place are addressable. Marshal methods with pointer receivers apply only to addressable values. Map values are not
// addressable.
type storedType struct {
	typ         reflect.Type
	addressable bool
}

type storedWalk struct {
	known map[storedType]bool
	find  func(typ reflect.Type, field string)
}

func (w *storedWalk) visit(typ reflect.Type, addressable bool) {
	at := storedType{typ, addressable}
	if w.known[at] || marshals(typ) || addressable && marshals(reflect.PointerTo(typ)) {
		return
	}
	w.known[at] = true
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice:
		w.visit(typ.Elem(), true)
	case reflect.Map:
		w.visit(typ.Elem(), false)
	case reflect.Array:
		w.visit(typ.Elem(), addressable)
	case reflect.Struct:
		var fields []storedField
		w.collect(typ, nil, &fields)
		for i := range fields {
			if fields[i].hidden(fields) {
				w.find(fields[i].of, fields[i].Name)
				continue
			}
			w.visit(fields[i].Type, addressable)
		}
	}
}

func marshals(typ reflect.Type) bool {
	return typ.Implements(reflect.TypeFor[json.Marshaler]()) || typ.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// storedField is a field of a struct or of an embedded struct, with its encoding/json key.
type storedField struct {
	reflect.StructField
	of     reflect.Type
	key    string
	tagged bool
	depth  int
}

// collect appends the fields that encoding/json considers, including fields of embedded structs, and records a finding
// for each other field. `outer` holds the enclosing structs.
func (w *storedWalk) collect(typ reflect.Type, outer []reflect.Type, into *[]storedField) {
	for _, around := range outer {
		if around == typ {
			return
		}
	}
	for i := range typ.NumField() {
		field := typ.Field(i)
		if field.Name == "_" {
			continue
		}
		tag := field.Tag.Get("json")
		key, _, _ := strings.Cut(tag, ",")
		embedded := field.Type
		if field.Anonymous && embedded.Name() == "" && embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		promotes := field.Anonymous && embedded.Kind() == reflect.Struct
		// encoding/json encodes a pointer to an unexported embedded struct but cannot decode it.
		written := field.IsExported() || promotes && field.Type.Kind() != reflect.Pointer
		switch {
		case tag == "-" || !written:
			w.find(typ, field.Name)
		case promotes && key == "":
			w.collect(embedded, append(outer[:len(outer):len(outer)], typ), into)
		default:
			f := storedField{StructField: field, of: typ, key: key, tagged: key != "", depth: len(outer)}
			if !f.tagged {
				f.key = field.Name
			}
			*into = append(*into, f)
		}
	}
}

// hidden reports whether another field with the same key hides the field from encoding/json. The shallowest field wins.
// Among equally deep fields, a field with a tag wins. If several fields remain, encoding/json encodes none of them.
func (f *storedField) hidden(among []storedField) bool {
	for i := range among {
		other := &among[i]
		if other == f || other.key != f.key {
			continue
		}
		if other.depth < f.depth || other.depth == f.depth && (other.tagged || !f.tagged) {
			return true
		}
	}
	return false
}
