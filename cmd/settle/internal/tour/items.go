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

// itemColumns is the width of items and outputs. A value that fits in one line stays in one.
const itemColumns = columnsMax - len("},")

// itemText formats an item, one attribute a line: its name, its DynamoDB type, and its value as JSON. The attributes in
// first come first, the others follow by name. Inside lists and maps the types are JSON's: strings are S, numbers N.
func itemText(item map[string]types.AttributeValue, indent string, first ...string) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(item)), func(name string) bool { return slices.Contains(first, name) })
	first = slices.DeleteFunc(slices.Clone(first), func(name string) bool { return item[name] == nil })
	width := 0
	for name := range item {
		width = max(width, len(name))
	}
	var b strings.Builder
	for _, name := range append(first, names...) {
		typ, value := plain(item[name])
		if name == "tokens" {
			value = "secret: anyone with a token can answer its task"
		}
		label := fmt.Sprintf("%s%-*s  %-4s  ", indent, width, name, typ)
		text := layOut(value, strings.Repeat(" ", len(label)))
		b.WriteString(label + text + "\n")
	}
	return b.String()
}

// plain returns the type of an attribute, and its value in the types of encoding/json.
func plain(attribute types.AttributeValue) (typ string, value any) {
	switch v := attribute.(type) {
	case *types.AttributeValueMemberS:
		return "S", v.Value
	case *types.AttributeValueMemberN:
		return "N", json.Number(v.Value)
	case *types.AttributeValueMemberBOOL:
		return "BOOL", v.Value
	case *types.AttributeValueMemberNULL:
		return "NULL", nil
	case *types.AttributeValueMemberB:
		return "B", v.Value
	case *types.AttributeValueMemberSS:
		return "SS", v.Value
	case *types.AttributeValueMemberNS:
		return "NS", v.Value
	case *types.AttributeValueMemberBS:
		return "BS", v.Value
	case *types.AttributeValueMemberL:
		list := make([]any, len(v.Value))
		for i, element := range v.Value {
			_, list[i] = plain(element)
		}
		return "L", list
	case *types.AttributeValueMemberM:
		fields := map[string]any{}
		for name, element := range v.Value {
			_, fields[name] = plain(element)
		}
		return "M", fields
	default:
		return "?", fmt.Sprintf("%T", attribute)
	}
}

// layOut formats JSON in one line if it fits after the indent. Otherwise a list has one element a line, and the fields
// of a map fill lines.
func layOut(value any, indent string) string {
	line := oneLine(value)
	if len(indent)+len(line) <= itemColumns {
		return line
	}
	inner := indent + " "
	switch v := value.(type) {
	case map[string]any:
		var lines []string
		used := itemColumns
		for _, key := range slices.Sorted(maps.Keys(v)) {
			label := fmt.Sprintf("%q: ", key)
			field := label + layOut(v[key], inner+strings.Repeat(" ", len(label)))
			if used += len(", ") + len(field); used <= itemColumns && !strings.Contains(field, "\n") {
				lines[len(lines)-1] += ", " + field
				continue
			}
			lines = append(lines, field)
			used = len(inner) + len(field)
		}
		return "{" + strings.Join(lines, ",\n"+inner) + "}"
	case []any:
		var lines []string
		for _, element := range v {
			lines = append(lines, layOut(element, inner))
		}
		return "[" + strings.Join(lines, ",\n"+inner) + "]"
	default:
		return line
	}
}

// oneLine formats JSON in one line, with a space after each colon and comma.
func oneLine(value any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	// JSON never contains this control character. It marks the start of lines.
	encoder.SetIndent("\x00", "")
	if err := encoder.Encode(value); err != nil {
		return err.Error() // An invalid number, which DynamoDB cannot store.
	}
	return strings.NewReplacer(",\n\x00", ", ", "\n\x00", "").Replace(strings.TrimSpace(b.String()))
}
