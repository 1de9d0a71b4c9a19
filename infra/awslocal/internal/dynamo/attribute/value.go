// Package attribute implements DynamoDB's attribute values: their types, wire form, numbers, order, equality and
// size.
//
// Values are immutable. A change copies only the values along the changed path. Old images, stored items and answers
// share the other parts.
package attribute

import (
	"slices"
	"strings"
)

// Value is an attribute value: one of String, Number, Binary, Bool, Null, Map, List, StringSet, NumberSet and
// BinarySet. A nil Value stands for an absent attribute.
type Value interface {
	// Type returns the value's DynamoDB type descriptor.
	Type() Type
}

// Type is a DynamoDB type descriptor in wire form.
type Type string

// The type descriptors of the DynamoDB API reference, "AttributeValue".
const (
	TypeString    Type = "S"
	TypeNumber    Type = "N"
	TypeBinary    Type = "B"
	TypeBool      Type = "BOOL"
	TypeNull      Type = "NULL"
	TypeMap       Type = "M"
	TypeList      Type = "L"
	TypeStringSet Type = "SS"
	TypeNumberSet Type = "NS"
	TypeBinarySet Type = "BS"
)

// ParseType returns the type descriptor in text. ok is false if text is not a type descriptor.
func ParseType(text string) (Type, bool) {
	switch t := Type(text); t {
	case TypeString, TypeNumber, TypeBinary, TypeBool, TypeNull,
		TypeMap, TypeList, TypeStringSet, TypeNumberSet, TypeBinarySet:
		return t, true
	}
	return "", false
}

type (
	// String is UTF-8 text. It may be empty unless it is a key.
	String string
	// Binary holds raw bytes, encoded in base64 on the wire.
	Binary string
	// Bool is a boolean.
	Bool bool
	// Null is the null value.
	Null struct{}
	// List is an ordered collection of values of any types.
	List []Value
	// StringSet is a set of strings. Invariant: not empty, sorted, no duplicates.
	StringSet []String
	// NumberSet is a set of numbers. Invariant: not empty, sorted, no duplicates.
	NumberSet []Number
	// BinarySet is a set of binaries. Invariant: not empty, sorted, no duplicates.
	BinarySet []Binary
)

// Type implements Value.
func (String) Type() Type { return TypeString }

// Type implements Value.
func (Number) Type() Type { return TypeNumber }

// Type implements Value.
func (Binary) Type() Type { return TypeBinary }

// Type implements Value.
func (Bool) Type() Type { return TypeBool }

// Type implements Value.
func (Null) Type() Type { return TypeNull }

// Type implements Value.
func (Map) Type() Type { return TypeMap }

// Type implements Value.
func (List) Type() Type { return TypeList }

// Type implements Value.
func (StringSet) Type() Type { return TypeStringSet }

// Type implements Value.
func (NumberSet) Type() Type { return TypeNumberSet }

// Type implements Value.
func (BinarySet) Type() Type { return TypeBinarySet }

// Field is one named value of a Map.
type Field struct {
	Name  string
	Value Value
}

// Map is a value of type M. An item is the Map of its top-level attributes. Map is a sorted slice instead of a Go
// map, because its order is deterministic and many small items need less memory.
//
// Invariant: sorted by Name, no duplicates, no nil Value.
type Map []Field

// NewMap returns the map of the given fields, which it sorts in place. If several fields have the same name, it keeps
// an arbitrary one.
func NewMap(fields ...Field) Map {
	slices.SortFunc(fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(fields, func(a, b Field) bool { return a.Name == b.Name })
}

func (m Map) find(name string) (int, bool) {
	return slices.BinarySearchFunc(m, name, func(f Field, name string) int { return strings.Compare(f.Name, name) })
}

// Get returns the value of a field, or nil if it is absent.
func (m Map) Get(name string) Value {
	if i, found := m.find(name); found {
		return m[i].Value
	}
	return nil
}

// With returns a copy of m in which the field called `name` has the given value.
func (m Map) With(name string, value Value) Map {
	i, found := m.find(name)
	if found {
		changed := slices.Clone(m)
		changed[i].Value = value
		return changed
	}
	changed := make(Map, 0, len(m)+1)
	changed = append(changed, m[:i]...)
	changed = append(changed, Field{name, value})
	return append(changed, m[i:]...)
}

// Without returns a copy of m without the field called `name`.
func (m Map) Without(name string) Map {
	i, found := m.find(name)
	if !found {
		return m
	}
	changed := make(Map, 0, len(m)-1)
	changed = append(changed, m[:i]...)
	return append(changed, m[i+1:]...)
}
