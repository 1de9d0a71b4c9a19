package dynamostore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// NestingMax is how many lists and maps DynamoDB lets stand inside one another.
const NestingMax = 32

func text(s string) types.AttributeValue {
	return &types.AttributeValueMemberS{Value: s}
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// attributeOf converts what encoding/json makes of a value into the attribute value of the
// same shape. The path says where it goes, for errors.
func attributeOf(path string, value any) (types.AttributeValue, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return attributeOfTree(path, tree, 0)
}

// attributeOfTree converts a decoded JSON value that stands inside the given number of lists
// and maps.
func attributeOfTree(path string, tree any, depth int) (types.AttributeValue, error) {
	switch tree := tree.(type) {
	case nil:
		return &types.AttributeValueMemberNULL{Value: true}, nil
	case bool:
		return &types.AttributeValueMemberBOOL{Value: tree}, nil
	case string:
		return text(tree), nil
	case json.Number:
		spelling, ok := storable(tree.String())
		if !ok {
			return nil, &NumberError{Path: path, Number: tree.String()}
		}
		return &types.AttributeValueMemberN{Value: spelling}, nil
	}
	if depth == NestingMax {
		return nil, fmt.Errorf("%s: expected at most %d lists and maps inside one another, got more: flatten it", path, NestingMax)
	}
	if list, ok := tree.([]any); ok {
		return listOfTree(path, list, depth+1)
	}
	return mapOfTree(path, tree.(map[string]any), depth+1)
}

func listOfTree(path string, tree []any, depth int) (types.AttributeValue, error) {
	list := make([]types.AttributeValue, len(tree))
	for i, element := range tree {
		value, err := attributeOfTree(path+"["+strconv.Itoa(i)+"]", element, depth)
		if err != nil {
			return nil, err
		}
		list[i] = value
	}
	return &types.AttributeValueMemberL{Value: list}, nil
}

func mapOfTree(path string, tree map[string]any, depth int) (types.AttributeValue, error) {
	fields := make(map[string]types.AttributeValue, len(tree))
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		value, err := attributeOfTree(path+"."+name, tree[name], depth)
		if err != nil {
			return nil, err
		}
		fields[name] = value
	}
	return &types.AttributeValueMemberM{Value: fields}, nil
}

// appendJSON appends the JSON form of an attribute value, keys sorted. It refuses the types
// that attributeOf does not make.
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

func appendString(data []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string always has a JSON form
	return append(data, quoted...)
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
	for i, name := range slices.Sorted(maps.Keys(fields)) {
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

// typeName names an attribute value's type, with DynamoDB's own name of it.
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
