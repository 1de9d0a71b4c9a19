package attribute

import (
	"slices"
	"strings"
)

// Equal reports whether two values have the same type and are equal. Sets are equal if they have the same members. An
// absent value (nil) is not equal to any value, not even to another absent one.
func Equal(a, b Value) bool {
	if a == nil || b == nil || a.Type() != b.Type() {
		return false
	}
	switch a := a.(type) {
	case Map:
		return slices.EqualFunc(a, b.(Map), func(x, y Field) bool { return x.Name == y.Name && Equal(x.Value, y.Value) })
	case List:
		return slices.EqualFunc(a, b.(List), Equal)
	case StringSet:
		return slices.Equal(a, b.(StringSet))
	case NumberSet:
		return slices.Equal(a, b.(NumberSet))
	case BinarySet:
		return slices.Equal(a, b.(BinarySet))
	}
	return a == b // Both values are scalars.
}

// Compare orders two values of the same ordered type: numbers by value, strings by their UTF-8 bytes, binaries by
// their unsigned bytes. ok is false for other types and for values of different types.
func Compare(a, b Value) (order int, ok bool) {
	switch a := a.(type) {
	case String:
		if b, same := b.(String); same {
			return strings.Compare(string(a), string(b)), true
		}
	case Number:
		if b, same := b.(Number); same {
			return a.Compare(b), true
		}
	case Binary:
		if b, same := b.(Binary); same {
			return strings.Compare(string(a), string(b)), true
		}
	}
	return 0, false
}
