package attribute

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
)

// MarshalJSON writes an item in wire form, with attributes ordered by name.
func (m Map) MarshalJSON() ([]byte, error) {
	return appendFields(make([]byte, 0, 64+len(m)*32), m), nil
}

func appendFields(dst []byte, m Map) []byte {
	dst = append(dst, '{')
	for i, field := range m {
		dst = appendComma(dst, i)
		dst = appendString(dst, field.Name)
		dst = append(dst, ':')
		dst = appendValue(dst, field.Value)
	}
	return append(dst, '}')
}

// appendValue writes {"<type>": <value>}.
func appendValue(dst []byte, value Value) []byte {
	dst = append(dst, '{', '"')
	dst = append(dst, value.Type()...)
	dst = append(dst, '"', ':')
	switch value := value.(type) {
	case String:
		dst = appendString(dst, string(value))
	case Number:
		dst = appendString(dst, value.String())
	case Binary:
		dst = appendBase64(dst, value)
	case Bool:
		dst = strconv.AppendBool(dst, bool(value))
	case Null:
		dst = append(dst, "true"...)
	case Map:
		dst = appendFields(dst, value)
	case List:
		dst = appendArray(dst, value, appendValue)
	case StringSet:
		dst = appendArray(dst, value, func(dst []byte, s String) []byte { return appendString(dst, string(s)) })
	case NumberSet:
		dst = appendArray(dst, value, func(dst []byte, n Number) []byte { return appendString(dst, n.String()) })
	case BinarySet:
		dst = appendArray(dst, value, appendBase64)
	}
	return append(dst, '}')
}

func appendArray[E any](dst []byte, elements []E, appendElement func([]byte, E) []byte) []byte {
	dst = append(dst, '[')
	for i, element := range elements {
		dst = appendComma(dst, i)
		dst = appendElement(dst, element)
	}
	return append(dst, ']')
}

func appendComma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

func appendBase64(dst []byte, b Binary) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, []byte(b))
	return append(dst, '"')
}

// appendString copies plain ASCII and leaves other text to encoding/json.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // strings always marshal
			}
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
