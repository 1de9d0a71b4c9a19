package attribute

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// NestingMax is the maximum nesting depth of lists and maps (DynamoDB Developer Guide, "Service, account, and table
// quotas").
const NestingMax = 32

// InvalidError reports a value that is well-formed on the wire but that DynamoDB rejects with a ValidationException.
type InvalidError struct {
	// Name is the top-level attribute (or placeholder) that holds the value.
	Name string
	// Message is DynamoDB's message.
	Message string
}

// Error implements the error interface.
func (e *InvalidError) Error() string { return e.Message }

// wireValue is the AttributeValue structure of the API reference. Exactly one member of it
// must be set.
type wireValue struct {
	S    *string
	N    *string
	B    *[]byte
	BOOL *bool
	NULL *bool
	M    map[string]wireValue
	L    []wireValue
	SS   []string
	NS   []string
	BS   [][]byte
}

// UnmarshalJSON reads an item, a key or a set of expression values in wire form. It returns an *InvalidError for a
// value that DynamoDB rejects, and an encoding/json error for data that is not an AttributeValue.
func (m *Map) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var wire map[string]wireValue
	if err := decoder.Decode(&wire); err != nil {
		return err
	}
	fields := make(Map, 0, len(wire))
	for _, name := range slices.Sorted(maps.Keys(wire)) {
		value, err := wire[name].value(0)
		if err != nil {
			return &InvalidError{Name: name, Message: err.Error()}
		}
		fields = append(fields, Field{name, value})
	}
	*m = fields
	return nil
}

// value converts the wire form. depth is the current nesting depth of lists and maps.
func (w wireValue) value(depth int) (Value, error) {
	switch types := w.typesSet(); {
	case types == 0:
		return nil, errors.New("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
	case types > 1:
		return nil, errors.New("Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes")
	case depth == NestingMax && (w.M != nil || w.L != nil):
		return nil, errors.New("Nesting Levels have exceeded supported limits")
	}
	switch {
	case w.S != nil:
		return String(*w.S), nil
	case w.N != nil:
		return ParseNumber(*w.N)
	case w.B != nil:
		return Binary(*w.B), nil
	case w.BOOL != nil:
		return Bool(*w.BOOL), nil
	case w.NULL != nil:
		if !*w.NULL {
			return nil, errors.New("One or more parameter values were invalid: Null attribute value types must have the value of true")
		}
		return Null{}, nil
	case w.M != nil:
		return mapOf(w.M, depth+1)
	case w.L != nil:
		return listOf(w.L, depth+1)
	case w.SS != nil:
		return stringSetOf(w.SS)
	case w.NS != nil:
		return numberSetOf(w.NS)
	}
	return binarySetOf(w.BS)
}

func (w wireValue) typesSet() int {
	set := 0
	for _, present := range [...]bool{
		w.S != nil, w.N != nil, w.B != nil, w.BOOL != nil, w.NULL != nil,
		w.M != nil, w.L != nil, w.SS != nil, w.NS != nil, w.BS != nil,
	} {
		if present {
			set++
		}
	}
	return set
}

func mapOf(wire map[string]wireValue, depth int) (Value, error) {
	fields := make(Map, 0, len(wire))
	for _, name := range slices.Sorted(maps.Keys(wire)) {
		value, err := wire[name].value(depth)
		if err != nil {
			return nil, err
		}
		fields = append(fields, Field{name, value})
	}
	return fields, nil
}

func listOf(wire []wireValue, depth int) (Value, error) {
	list := make(List, len(wire))
	for i, element := range wire {
		value, err := element.value(depth)
		if err != nil {
			return nil, err
		}
		list[i] = value
	}
	return list, nil
}

func stringSetOf(wire []string) (Value, error) {
	if len(wire) == 0 {
		return nil, errors.New("One or more parameter values were invalid: An string set  may not be empty")
	}
	set := make(StringSet, len(wire))
	for i, member := range wire {
		set[i] = String(member)
	}
	slices.Sort(set)
	if len(slices.Compact(slices.Clone(set))) < len(set) {
		return nil, fmt.Errorf("One or more parameter values were invalid: Input collection [%s] contains duplicates.", strings.Join(wire, ", "))
	}
	return set, nil
}

func numberSetOf(wire []string) (Value, error) {
	if len(wire) == 0 {
		return nil, errors.New("One or more parameter values were invalid: An number set  may not be empty")
	}
	set := make(NumberSet, len(wire))
	for i, member := range wire {
		number, err := ParseNumber(member)
		if err != nil {
			return nil, err
		}
		set[i] = number
	}
	slices.SortFunc(set, Number.Compare)
	if len(slices.Compact(slices.Clone(set))) < len(set) {
		return nil, errors.New("Input collection contains duplicates")
	}
	return set, nil
}

func binarySetOf(wire [][]byte) (Value, error) {
	if len(wire) == 0 {
		return nil, errors.New("One or more parameter values were invalid: Binary sets should not be empty")
	}
	set := make(BinarySet, len(wire))
	for i, member := range wire {
		set[i] = Binary(member)
	}
	slices.Sort(set)
	if len(slices.Compact(slices.Clone(set))) < len(set) {
		return nil, errors.New("One or more parameter values were invalid: Input collection of type BS contains duplicates.")
	}
	return set, nil
}
