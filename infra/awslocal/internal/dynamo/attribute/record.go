package attribute

import (
	"errors"

	"github.com/settle-run/settle/infra/awslocal/internal/record"
)

// recordTypes maps the type numbers of records to types. The numbers are part of the file format and must not change.
var recordTypes = [...]Type{
	TypeString, TypeNumber, TypeBinary, TypeBool, TypeNull, TypeMap, TypeList, TypeStringSet, TypeNumberSet, TypeBinarySet,
}

// Record encodes m as a part of a record. Unlike the wire form, it has no depth limit, because an update can nest
// deeper than a request may.
func (m Map) Record(e *record.Encoder) {
	e.Uint(uint64(len(m)))
	for _, field := range m {
		e.String(field.Name)
		recordValue(e, field.Value)
	}
}

func recordValue(e *record.Encoder, value Value) {
	for number, typ := range recordTypes {
		if typ == value.Type() {
			e.Uint(uint64(number))
		}
	}
	switch value := value.(type) {
	case String:
		e.String(string(value))
	case Number:
		recordNumber(e, value)
	case Binary:
		e.String(string(value))
	case Bool:
		e.Bool(bool(value))
	case Null:
	case Map:
		value.Record(e)
	case List:
		recordList(e, value, recordValue)
	case StringSet:
		recordList(e, value, func(e *record.Encoder, s String) { e.String(string(s)) })
	case NumberSet:
		recordList(e, value, recordNumber)
	case BinarySet:
		recordList(e, value, func(e *record.Encoder, b Binary) { e.String(string(b)) })
	}
}

func recordNumber(e *record.Encoder, n Number) {
	e.Bool(n.negative)
	e.Uint(uint64(n.exponent - NumberExponentMin))
	e.String(n.digits)
}

func recordList[E any](e *record.Encoder, elements []E, write func(*record.Encoder, E)) {
	e.Uint(uint64(len(elements)))
	for _, element := range elements {
		write(e, element)
	}
}

var errRecord = errors.New("expected attribute values that this build knows")

// FromRecord decodes the output of Record.
func FromRecord(d *record.Decoder) (Map, error) {
	m := make(Map, 0, d.Len())
	for range cap(m) {
		name := d.String()
		value, err := valueFromRecord(d)
		if err != nil {
			return nil, err
		}
		m = append(m, Field{name, value})
	}
	return m, nil
}

func valueFromRecord(d *record.Decoder) (Value, error) {
	number := d.Uint()
	if number >= uint64(len(recordTypes)) {
		return nil, errRecord
	}
	switch recordTypes[number] {
	case TypeString:
		return String(d.String()), nil
	case TypeNumber:
		return numberFromRecord(d), nil
	case TypeBinary:
		return Binary(d.String()), nil
	case TypeBool:
		return Bool(d.Bool()), nil
	case TypeNull:
		return Null{}, nil
	case TypeMap:
		return FromRecord(d)
	case TypeList:
		list := make(List, d.Len())
		for i := range list {
			element, err := valueFromRecord(d)
			if err != nil {
				return nil, err
			}
			list[i] = element
		}
		return list, nil
	case TypeStringSet:
		return StringSet(listFromRecord(d, func() String { return String(d.String()) })), nil
	case TypeNumberSet:
		return NumberSet(listFromRecord(d, func() Number { return numberFromRecord(d) })), nil
	case TypeBinarySet:
		return BinarySet(listFromRecord(d, func() Binary { return Binary(d.String()) })), nil
	}
	return nil, errRecord
}

func numberFromRecord(d *record.Decoder) Number {
	negative, exponent := d.Bool(), d.Uint()
	return Number{negative: negative, exponent: int16(exponent) + NumberExponentMin, digits: d.String()}
}

func listFromRecord[E any](d *record.Decoder, read func() E) []E {
	elements := make([]E, d.Len())
	for i := range elements {
		elements[i] = read()
	}
	return elements
}
