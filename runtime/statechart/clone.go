package statechart

import (
	"fmt"
	"reflect"
	"time"
)

// contextCloner returns a function that deep-copies a context, or nil if plain assignment is a full copy. If C or *C
// has a method Clone() C, the result calls that method.
func contextCloner[C any]() (func(C) C, error) {
	if reflect.TypeFor[*C]().Implements(reflect.TypeFor[interface{ Clone() C }]()) {
		return func(c C) C { return any(&c).(interface{ Clone() C }).Clone() }, nil
	}
	flat, err := flatType(reflect.TypeFor[C](), map[reflect.Type]bool{})
	if err != nil || flat {
		return nil, err
	}
	return func(c C) C {
		var copied C
		deepCopy(reflect.ValueOf(&copied).Elem(), reflect.ValueOf(&c).Elem(), 0)
		return copied
	}, nil
}

// flatType reports whether assignment copies a value of the type completely. `known` caches results. A recursive type
// contains itself through a pointer, a slice or a map, and none of these is flat.
func flatType(typ reflect.Type, known map[reflect.Type]bool) (flat bool, err error) {
	if typ == reflect.TypeFor[time.Time]() {
		return true, nil
	}
	if flat, ok := known[typ]; ok {
		return flat, nil
	}
	known[typ] = false
	defer func() { known[typ] = flat }()
	switch typ.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return false, fmt.Errorf("has a context with a %v, which cannot be stored", typ)
	case reflect.Interface:
		return false, nil
	case reflect.Pointer, reflect.Slice, reflect.Map:
		_, err := flatType(typ.Elem(), known)
		return false, err
	case reflect.Array:
		return flatType(typ.Elem(), known)
	case reflect.Struct:
		flat = true
		for i := range typ.NumField() {
			field := typ.Field(i)
			inner, err := flatType(field.Type, known)
			if err != nil {
				return false, err
			}
			if !inner && !field.IsExported() {
				return false, fmt.Errorf("has a context whose unexported field %v.%s cannot be copied", typ, field.Name)
			}
			flat = flat && inner
		}
		return flat, nil
	default:
		return true, nil
	}
}

// contextDepthMax limits the depth of references in a context. A context that contains itself is endless and has no
// JSON form.
const contextDepthMax = 1000

// deepCopy copies a value and everything it refers to. It panics beyond contextDepthMax.
func deepCopy(into, from reflect.Value, depth int) {
	if depth++; depth > contextDepthMax {
		panic(ownPanic(fmt.Sprintf("the context refers to values more than %d deep (contextDepthMax); does it contain itself?", contextDepthMax)))
	}
	switch from.Kind() {
	case reflect.Pointer:
		if !from.IsNil() {
			into.Set(reflect.New(from.Type().Elem()))
			deepCopy(into.Elem(), from.Elem(), depth)
		}
	case reflect.Interface:
		if !from.IsNil() {
			inner := reflect.New(from.Elem().Type()).Elem()
			deepCopy(inner, from.Elem(), depth)
			into.Set(inner)
		}
	case reflect.Slice:
		if !from.IsNil() {
			into.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				deepCopy(into.Index(i), from.Index(i), depth)
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			into.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for it := from.MapRange(); it.Next(); {
				value := reflect.New(from.Type().Elem()).Elem()
				deepCopy(value, it.Value(), depth)
				into.SetMapIndex(it.Key(), value)
			}
		}
	case reflect.Struct:
		into.Set(from)
		if from.Type() != reflect.TypeFor[time.Time]() {
			for i := range from.NumField() {
				if into.Field(i).CanSet() {
					deepCopy(into.Field(i), from.Field(i), depth)
				}
			}
		}
	case reflect.Array:
		for i := range from.Len() {
			deepCopy(into.Index(i), from.Index(i), depth)
		}
	default:
		into.Set(from)
	}
}
