package tour

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// itemColumns is how wide an item is printed: what fits into one line stays in one.
const itemColumns = 110

// itemText writes an item in DynamoDB's own JSON, as `aws dynamodb get-item` does, with more
// in a line.
func itemText(item map[string]types.AttributeValue, indent string) (string, error) {
	fields := map[string]any{}
	for name, value := range item {
		fields[name] = typed(value)
	}
	return layOut(fields, indent, 0)
}

// typed returns an attribute with its type beside it: {"S": "signup/42"}.
func typed(value types.AttributeValue) any {
	switch v := value.(type) {
	case *types.AttributeValueMemberS:
		return map[string]any{"S": v.Value}
	case *types.AttributeValueMemberN:
		return map[string]any{"N": v.Value}
	case *types.AttributeValueMemberBOOL:
		return map[string]any{"BOOL": v.Value}
	case *types.AttributeValueMemberNULL:
		return map[string]any{"NULL": v.Value}
	case *types.AttributeValueMemberB:
		return map[string]any{"B": v.Value}
	case *types.AttributeValueMemberSS:
		return map[string]any{"SS": v.Value}
	case *types.AttributeValueMemberNS:
		return map[string]any{"NS": v.Value}
	case *types.AttributeValueMemberBS:
		return map[string]any{"BS": v.Value}
	case *types.AttributeValueMemberL:
		list := make([]any, len(v.Value))
		for i, element := range v.Value {
			list[i] = typed(element)
		}
		return map[string]any{"L": list}
	case *types.AttributeValueMemberM:
		fields := map[string]any{}
		for name, element := range v.Value {
			fields[name] = typed(element)
		}
		return map[string]any{"M": fields}
	default:
		return map[string]any{fmt.Sprintf("%T", value): nil}
	}
}

// layOut writes JSON in one line if it fits behind what is used of the line already, else its
// members on lines of their own. An object with a single member opens its member's lines in
// the same line, so that {"L": [ stays together.
func layOut(value any, indent string, used int) (string, error) {
	line, err := oneLine(value)
	if err != nil || len(indent)+used+len(line) <= itemColumns {
		return line, err
	}
	var opening, closing string
	var members []string
	inner := indent + "  "
	member := func(label string, value any) error {
		text, err := layOut(value, inner, len(label))
		members = append(members, inner+label+text)
		return err
	}
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 1 {
			for key, only := range v {
				label := fmt.Sprintf("{%q: ", key)
				text, err := layOut(only, indent, used+len(label))
				return label + text + "}", err
			}
		}
		opening, closing = "{", "}"
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := member(fmt.Sprintf("%q: ", key), v[key]); err != nil {
				return "", err
			}
		}
	case []any:
		opening, closing = "[", "]"
		for _, element := range v {
			if err := member("", element); err != nil {
				return "", err
			}
		}
	default:
		return line, nil
	}
	return opening + "\n" + strings.Join(members, ",\n") + "\n" + indent + closing, nil
}

// oneLine writes JSON in one line, with a space after each colon and comma.
func oneLine(value any) (string, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("\x00", "")
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	text := strings.TrimSpace(b.String())
	text = strings.ReplaceAll(text, ",\n\x00", ", ")
	return strings.ReplaceAll(text, "\n\x00", ""), nil
}
