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
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/ohler55/ojg"
	"github.com/ohler55/ojg/oj"
	"github.com/ohler55/ojg/pretty"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/stack"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// showEnd prints the paths of ended executions, the history of the instance that they waited for, and their results.
// Without executions it prints the instance's history and output.
func (p *player) showEnd(instance string, executions ...execution) {
	id, err := instances.ParseID(instance)
	p.check(err)
	record, err := p.stack.Load(p.ctx, id)
	p.check(err)
	dim := p.config.Style.Dim
	p.say("")
	for _, e := range executions {
		p.say("   %s\n     %s", dim("path of "+e.workflow), strings.Join(e.path, " → "))
	}
	p.say("   %s", dim("history of "+instance))
	for _, line := range p.historyLines(record.History) {
		p.say("     %s", line)
	}
	for _, e := range executions {
		p.say("   %s %s", dim("output of "+e.workflow+","), p.config.Style.State(string(e.status)))
		p.say("     %s", e.text())
	}
	if len(executions) == 0 {
		var snapshot struct {
			Output json.RawMessage `json:"output"`
		}
		p.check(json.Unmarshal(record.Snapshot, &snapshot), "reading the snapshot of "+instance)
		p.say("   %s\n     %s", dim("output of "+instance), jsonText(string(snapshot.Output)))
	}
}

// text returns the result of the execution, formatted.
func (e execution) text() string {
	switch {
	case e.failure == "":
		return jsonText(e.output)
	case json.Valid([]byte(e.output)):
		return e.failure + ":\n     " + jsonText(e.output)
	default:
		return e.failure + ": " + e.output
	}
}

// historyLines returns a line for each transition: the time since the first one, the event, and the change.
func (p *player) historyLines(history []instances.Transition) []string {
	since := func(t instances.Transition) string {
		span := t.At.Sub(history[0].At)
		if span < time.Minute {
			return fmt.Sprintf("%.1fs", span.Seconds())
		}
		return console.Span(span)
	}
	times, events := 0, 0
	for _, t := range history {
		times, events = max(times, len(since(t))), max(events, len(console.EventName(t.Event, t.From)))
	}
	var lines []string
	for _, t := range history {
		lines = append(lines, fmt.Sprintf("%*s  %-*s  %s", times, since(t),
			events, console.EventName(t.Event, t.From), console.BriefChange(p.config.Style, t.From, t.To, t.Ignored)))
	}
	return lines
}

// jsonText formats JSON over several lines, indented by 5 columns.
func jsonText(text string) string { return layOut(parsed(text), strings.Repeat(" ", 5)) }

const (
	// itemColumns is the width of items and outputs. The formatter ojg exceeds it by the length of a key.
	itemColumns = 80
	// depthMax is the maximum depth of a value that stays in one line.
	depthMax = 10
)

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

// plain returns the type of an attribute, and its value in the types of ojg.
func plain(attribute types.AttributeValue) (typ string, value any) {
	typ = strings.TrimPrefix(fmt.Sprintf("%T", attribute), "*types.AttributeValueMember")
	switch v := attribute.(type) {
	case *types.AttributeValueMemberN:
		return typ, parsed(v.Value)
	case *types.AttributeValueMemberNULL:
		return typ, nil
	case *types.AttributeValueMemberL:
		list := make([]any, len(v.Value))
		for i, element := range v.Value {
			_, list[i] = plain(element)
		}
		return typ, list
	case *types.AttributeValueMemberM:
		fields := map[string]any{}
		for name, element := range v.Value {
			_, fields[name] = plain(element)
		}
		return typ, fields
	default:
		return typ, reflect.ValueOf(attribute).Elem().FieldByName("Value").Interface()
	}
}

// parsed returns the value of a JSON text, or the text if it is not JSON.
func parsed(text string) any {
	if value, err := oj.ParseString(text); err == nil {
		return value
	}
	return text
}

// layOut formats JSON in one line if it fits after the indent, and else in several lines.
func layOut(value any, indent string) string {
	w := pretty.Writer{Options: ojg.Options{Sort: true, HTMLUnsafe: true}, Width: itemColumns - len(indent), MaxDepth: depthMax}
	return strings.ReplaceAll(string(w.Encode(value)), "\n", "\n"+indent)
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
