package tour

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/runtime/statechart"
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

// showItems reads the item of each instance with the SDK, prints the first one, and checks the final states.
func (p *player) showItems(ends []end) {
	p.say("\n%s", p.config.Style.Bold("What DynamoDB holds"))
	p.say("   One item per instance in the table %s, read with the AWS SDK: name, DynamoDB type, value.", stack.Table)
	p.say("   This is the first of %d.", len(ends))
	client := dynamodb.NewFromConfig(p.stack.AWS())
	var failures []error
	for i, expected := range ends {
		output, err := client.GetItem(p.ctx, &dynamodb.GetItemInput{
			TableName:      aws.String(stack.Table),
			Key:            map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: expected.instance}},
			ConsistentRead: aws.Bool(true),
		})
		p.check(err, "reading the item of "+expected.instance)
		if i == 0 {
			p.say("\n%s", strings.TrimRight(itemText(output.Item, "   ", "instance", "machine", "status", "state", "context", "history"), "\n"))
		}
		failures = append(failures, expected.check(output.Item))
	}
	p.check(errors.Join(failures...))
}

// check compares the item with the expected end.
func (e end) check(item map[string]types.AttributeValue) error {
	state := &types.AttributeValueMemberL{}
	for _, path := range e.states {
		state.Value = append(state.Value, &types.AttributeValueMemberS{Value: path})
	}
	status := &types.AttributeValueMemberS{Value: string(statechart.Done)}
	if !reflect.DeepEqual(item["state"], types.AttributeValue(state)) || !reflect.DeepEqual(item["status"], types.AttributeValue(status)) {
		return fmt.Errorf("%s: expected to be done in %s, got the item %v", e.instance, strings.Join(e.states, ", "), item)
	}
	return nil
}
