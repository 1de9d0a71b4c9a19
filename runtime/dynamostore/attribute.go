package dynamostore

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// NestingMax is DynamoDB's limit for nested lists and maps.
const NestingMax = 32

func text(s string) types.AttributeValue {
	return &types.AttributeValueMemberS{Value: s}
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// attributeOf converts a value, as encoding/json marshals it, to an attribute value of the same shape. Its errors
// contain `name`.
func attributeOf(name string, value any) (types.AttributeValue, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	attribute, err := parse(append(make(path, 0, 8), step{name: name}), data)
	if errors.Is(err, errNotJSON) {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return attribute, err
}

// path is the path to a value within an item, for errors: the attribute, then one step for each list and map.
type path []step

// step is the name of an attribute, the key in a map, or the position in a list, counted from 1.
type step struct {
	name    string
	element int
}

// String returns the path in the form "context.items[2].price".
func (p path) String() string {
	spelled := p[0].name
	for _, step := range p[1:] {
		if step.element > 0 {
			spelled += "[" + strconv.Itoa(step.element-1) + "]"
		} else {
			spelled += "." + step.name
		}
	}
	return spelled
}

// appendJSON appends the JSON form of an attribute value, with sorted keys. It fails for types that attributeOf never
// returns.
func appendJSON(data []byte, value types.AttributeValue) ([]byte, error) {
	switch value := value.(type) {
	case *types.AttributeValueMemberNULL:
		return append(data, "null"...), nil
	case *types.AttributeValueMemberBOOL:
		return strconv.AppendBool(data, value.Value), nil
	case *types.AttributeValueMemberS:
		return appendString(data, value.Value), nil
	case *types.AttributeValueMemberN:
		if !json.Valid([]byte(value.Value)) {
			return nil, fmt.Errorf("expected a number, got %q", value.Value)
		}
		return append(data, value.Value...), nil
	case *types.AttributeValueMemberL:
		return appendList(data, value.Value)
	case *types.AttributeValueMemberM:
		return appendMap(data, value.Value)
	default:
		return nil, fmt.Errorf("expected a string (S), number (N), boolean (BOOL), null (NULL), list (L) or map (M), got %s", typeName(value))
	}
}

// appendString appends the JSON form of a string. It copies printable ASCII and leaves the rest to encoding/json.
func appendString(data []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // marshalling a string never fails
			return append(data, quoted...)
		}
	}
	return append(append(append(data, '"'), s...), '"')
}

func appendList(data []byte, list []types.AttributeValue) ([]byte, error) {
	data = append(data, '[')
	for i, element := range list {
		if i > 0 {
			data = append(data, ',')
		}
		var err error
		if data, err = appendJSON(data, element); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return append(data, ']'), nil
}

func appendMap(data []byte, fields map[string]types.AttributeValue) ([]byte, error) {
	data = append(data, '{')
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		if i > 0 {
			data = append(data, ',')
		}
		data = append(appendString(data, name), ':')
		var err error
		if data, err = appendJSON(data, fields[name]); err != nil {
			return nil, fmt.Errorf("key %q: %w", name, err)
		}
	}
	return append(data, '}'), nil
}

// typeName names an attribute value's type, together with DynamoDB's own abbreviation.
func typeName(value types.AttributeValue) string {
	switch value.(type) {
	case nil:
		return "nothing"
	case *types.AttributeValueMemberS:
		return "a string (S)"
	case *types.AttributeValueMemberN:
		return "a number (N)"
	case *types.AttributeValueMemberBOOL:
		return "a boolean (BOOL)"
	case *types.AttributeValueMemberNULL:
		return "null (NULL)"
	case *types.AttributeValueMemberL:
		return "a list (L)"
	case *types.AttributeValueMemberM:
		return "a map (M)"
	case *types.AttributeValueMemberB:
		return "a binary (B)"
	case *types.AttributeValueMemberSS:
		return "a set of strings (SS)"
	case *types.AttributeValueMemberNS:
		return "a set of numbers (NS)"
	case *types.AttributeValueMemberBS:
		return "a set of binaries (BS)"
	default:
		return fmt.Sprintf("%T", value)
	}
}
