package dynamostore

import (
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/settle-run/settle/runtime/instances"
)

// The history is the longest part of most items, so it does not pass through JSON. historyOf returns the attribute that
// attributeOf would return. transitionsOf decodes it.
func historyOf(history []instances.Transition) types.AttributeValue {
	list := make([]types.AttributeValue, len(history))
	for i, t := range history {
		fields := map[string]types.AttributeValue{
			"at": text(t.At.Format(time.RFC3339Nano)), "event": validText(t.Event), "from": textsOf(t.From), "to": textsOf(t.To),
		}
		if t.Ignored {
			fields["ignored"] = &types.AttributeValueMemberBOOL{Value: true}
		}
		if t.By != "" {
			fields["by"] = validText(t.By)
		}
		if t.Reason != "" {
			fields["reason"] = validText(t.Reason)
		}
		list[i] = &types.AttributeValueMemberM{Value: fields}
	}
	return &types.AttributeValueMemberL{Value: list}
}

func textsOf(values []string) types.AttributeValue {
	if values == nil {
		return &types.AttributeValueMemberNULL{Value: true}
	}
	list := make([]types.AttributeValue, len(values))
	for i, value := range values {
		list[i] = validText(value)
	}
	return &types.AttributeValueMemberL{Value: list}
}

func validText(s string) types.AttributeValue { return text(strings.ToValidUTF8(s, "\ufffd")) }

// transitionsOf returns false if the attribute has another form than historyOf writes. Decode it as JSON then, which
// reports the mistake.
func transitionsOf(attribute types.AttributeValue) ([]instances.Transition, bool) {
	list, ok := attribute.(*types.AttributeValueMemberL)
	if !ok {
		return nil, false
	}
	history := make([]instances.Transition, len(list.Value))
	for i, element := range list.Value {
		fields, ok := element.(*types.AttributeValueMemberM)
		if !ok {
			return nil, false
		}
		for name, field := range fields.Value {
			if !setField(&history[i], name, field) {
				return nil, false
			}
		}
	}
	return history, true
}

// setField sets one field of a transition.
func setField(t *instances.Transition, name string, value types.AttributeValue) (ok bool) {
	switch name {
	case "from":
		t.From, ok = listOf(value)
		return ok
	case "to":
		t.To, ok = listOf(value)
		return ok
	case "ignored":
		ignored, ok := value.(*types.AttributeValueMemberBOOL)
		if ok {
			t.Ignored = ignored.Value
		}
		return ok
	}
	s, ok := value.(*types.AttributeValueMemberS)
	if !ok {
		return false
	}
	switch name {
	case "at":
		var err error
		t.At, err = time.Parse(time.RFC3339Nano, s.Value)
		return err == nil
	case "event":
		t.Event = s.Value
	case "by":
		t.By = s.Value
	case "reason":
		t.Reason = s.Value
	default:
		return false
	}
	return true
}

func listOf(value types.AttributeValue) ([]string, bool) {
	if _, isNull := value.(*types.AttributeValueMemberNULL); isNull {
		return nil, true
	}
	list, ok := value.(*types.AttributeValueMemberL)
	if !ok {
		return nil, false
	}
	texts := make([]string, len(list.Value))
	for i, element := range list.Value {
		s, ok := element.(*types.AttributeValueMemberS)
		if !ok {
			return nil, false
		}
		texts[i] = s.Value
	}
	return texts, true
}
