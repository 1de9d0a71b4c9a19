package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/exactjson"
)

// condition is a comparison of a value in a context.
type condition struct {
	path     []string
	operator string
	value    any
}

// conditionForm matches a path, an operator and a JSON value. A value that is not JSON is a string.
var conditionForm = regexp.MustCompile(`^\s*([^\s=!<>]+)\s*(=|!=|<=|>=|<|>)\s*(.+?)\s*$`)

// conditions parses conditions such as "order.total >= 100".
func conditions(texts []string) ([]condition, error) {
	var parsed []condition
	for _, text := range texts {
		parts := conditionForm.FindStringSubmatch(text)
		if parts == nil {
			return nil, fmt.Errorf("%w: --context: expected 'path op value' such as 'order.total >= 100', with one of = != < <= > >=, got %q", errUsage, text)
		}
		c := condition{path: strings.Split(parts[1], "."), operator: parts[2], value: parts[3]}
		var value any
		if exactjson.Unmarshal([]byte(parts[3]), &value) == nil {
			c.value = value
		}
		parsed = append(parsed, c)
	}
	return parsed, nil
}

// holds reports whether the condition holds for the context. A missing value is null. Only numbers and strings have an
// order. Numbers are compared exactly.
func (c condition) holds(value any) bool {
	for _, key := range c.path {
		object, _ := value.(map[string]any)
		value = object[key]
	}
	switch c.operator {
	case "=":
		return exactjson.Equal(value, c.value)
	case "!=":
		return !exactjson.Equal(value, c.value)
	}
	order, ok := ordered(value, c.value)
	if !ok {
		return false
	}
	return map[string]bool{"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[c.operator]
}

// ordered compares two numbers or two strings. ok is false for other values.
func ordered(a, b any) (order int, ok bool) {
	switch b := b.(type) {
	case json.Number:
		a, ok := a.(json.Number)
		return exactjson.Compare(a, b), ok
	case string:
		a, ok := a.(string)
		return cmp.Compare(a, b), ok
	default:
		return 0, false
	}
}
