package tour

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
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

// end is the expected end of an instance: its status is done, and it is in the comma-separated states.
type end struct{ instance, states string }

// check compares the record with the expected end.
func (e end) check(record instances.Record) error {
	if states := strings.Join(record.State, ", "); states != e.states || record.Status != statechart.Done {
		return fmt.Errorf("%s: expected to be done in %s, got %q in %q", e.instance, e.states, record.Status, states)
	}
	return nil
}

// showEnd checks the end of an instance. It prints the paths of the executions that waited for the instance, then the
// instance's history, and the results of the executions. Without executions, it prints the instance's history and
// output.
func (p *player) showEnd(expected end, executions ...execution) {
	record := p.load(expected.instance)
	p.check(expected.check(record))
	p.ends = append(p.ends, expected)
	dim := p.config.Style.Dim
	p.say("")
	for _, e := range executions {
		p.say("   %s\n     %s", dim("path of "+e.workflow), e.path)
	}
	p.say("   %s", dim("history of "+expected.instance))
	p.showHistory(record.History)
	for _, e := range executions {
		p.say("   %s %s\n     %s", dim("output of "+e.workflow+","), p.config.Style.State(string(e.status)), e.text())
	}
	if len(executions) == 0 {
		var snapshot struct {
			Output json.RawMessage `json:"output"`
		}
		p.check(json.Unmarshal(record.Snapshot, &snapshot), "reading the snapshot of "+expected.instance)
		p.say("   %s\n     %s", dim("output of "+expected.instance), jsonText(string(snapshot.Output)))
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

// showHistory prints a line for each transition: the time since the first one, the event, and the change.
func (p *player) showHistory(history []instances.Transition) {
	since := func(t instances.Transition) string {
		if span := t.At.Sub(history[0].At); span >= time.Minute {
			return console.Span(span)
		}
		return fmt.Sprintf("%.1fs", t.At.Sub(history[0].At).Seconds())
	}
	times, events := 0, 0
	for _, t := range history {
		times = max(times, len(since(t)))
		console.Pad(console.EventName(t.Event, t.From), &events)
	}
	for _, t := range history {
		event := console.Pad(console.EventName(t.Event, t.From), &events)
		p.say("     %*s  %s  %s", times, since(t), event, console.BriefChange(p.config.Style, t.From, t.To, t.Ignored))
	}
}

// jsonText formats JSON over several lines, indented by 5 columns.
func jsonText(text string) string { return layOut(parsed(text), strings.Repeat(" ", 5)) }

const (
	// itemColumns is the width of items and outputs. The formatter ojg may exceed the width by the length of a key.
	itemColumns = 80
	// depthMax is the maximum depth of a value that stays on one line.
	depthMax = 10
)

// itemText formats an item, one attribute a line: its name, its DynamoDB type, and its value as JSON. The attributes
// named in `first` come before the others, which are sorted by name. Types inside lists and maps are omitted, because
// JSON implies them: a string is an S, a number is an N.
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
		b.WriteString(label + layOut(value, strings.Repeat(" ", len(label))) + "\n")
	}
	return b.String()
}

// plain returns the type of an attribute, and its value in a form that ojg can format.
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

// layOut formats JSON on one line if it fits after the indent, or else on several lines.
func layOut(value any, indent string) string {
	return strings.ReplaceAll(format(value, itemColumns-len(indent)), "\n", "\n"+indent)
}

// oneLine formats JSON on one line.
func oneLine(value any) string { return format(value, math.MaxInt) }

func format(value any, columns int) string {
	w := pretty.Writer{Options: ojg.Options{Sort: true, HTMLUnsafe: true}, Width: columns, MaxDepth: depthMax}
	return string(w.Encode(value))
}

// showItem prints the item of the first instance.
func (p *player) showItem() {
	p.say("\n%s", p.config.Style.Bold("What DynamoDB holds"))
	p.say("   One item per instance in the table %s, read with the AWS SDK: name, DynamoDB type, value.", stack.Table)
	p.say("   This is the first of %d.", len(p.ends))
	name := p.ends[0].instance
	output, err := dynamodb.NewFromConfig(p.stack.AWS()).GetItem(p.ctx, &dynamodb.GetItemInput{
		TableName:      aws.String(stack.Table),
		Key:            map[string]types.AttributeValue{"instance": &types.AttributeValueMemberS{Value: name}},
		ConsistentRead: aws.Bool(true),
	})
	p.check(err, "reading the item of "+name)
	text := itemText(output.Item, "   ", "instance", "machine", "status", "state", "context", "history")
	p.say("\n%s", strings.TrimRight(text, "\n"))
}
