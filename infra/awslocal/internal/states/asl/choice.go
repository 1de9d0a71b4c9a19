package asl

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
	"github.com/settle-run/settle/infra/awslocal/internal/states/jsonpath"
)

// Rule is one choice of a Choice state.
type Rule struct {
	Next      string
	condition condition
}

// Choose returns the next state of a Choice state.
func (s *State) Choose(scope Scope) (string, *Failure) {
	for _, rule := range s.Rules {
		holds, failure := rule.condition.holds(scope)
		if failure != nil {
			return "", failure
		}
		if holds {
			return rule.Next, nil
		}
	}
	if s.Default == "" {
		return "", &Failure{
			Error: ErrorNoChoiceMatched,
			Cause: "State '" + s.Name + "' has no choice that matches its input, and no Default",
		}
	}
	return s.Default, nil
}

// condition is the condition of a rule.
type condition interface {
	holds(scope Scope) (bool, *Failure)
}

type (
	not   struct{ inner condition }
	allOf []condition
	anyOf []condition
)

func (n not) holds(scope Scope) (bool, *Failure) {
	holds, failure := n.inner.holds(scope)
	return !holds, failure
}

func (a allOf) holds(scope Scope) (bool, *Failure) {
	for _, inner := range a {
		if holds, failure := inner.holds(scope); failure != nil || !holds {
			return false, failure
		}
	}
	return true, nil
}

func (a anyOf) holds(scope Scope) (bool, *Failure) {
	for _, inner := range a {
		if holds, failure := inner.holds(scope); failure != nil || holds {
			return holds, failure
		}
	}
	return false, nil
}

// comparison compares a variable with a literal or with the value at a path.
type comparison struct {
	variable jsonpath.Path
	operator string
	compare  comparator
	value    any
	path     *jsonpath.Path
}

// comparator compares a variable and a value of any types.
type comparator func(variable, value any) bool

func (c comparison) holds(scope Scope) (bool, *Failure) {
	variable, there := c.variable.Get(scope.Data, scope.Context)
	if c.operator == "IsPresent" {
		return there == (c.value == true), nil
	}
	if !there {
		return false, Runtime("Invalid path '%s': The choice state's condition path references an invalid value.", c.variable)
	}
	value := c.value
	if c.path != nil {
		if value, there = c.path.Get(scope.Data, scope.Context); !there {
			return false, Runtime("Invalid path '%s': The choice state's condition path references an invalid value.", c.path)
		}
	}
	return c.compare(variable, value), nil
}

// operator is a comparator and the required type of its value.
type operator struct {
	compare comparator
	want    string // the required type in words, such as "a string"
	is      func(value any) bool
	path    bool // set if a path selects the value
}

// operators holds all comparison operators of Choice states.
var operators = makeOperators()

func makeOperators() map[string]operator {
	all := map[string]operator{
		"BooleanEquals": {compare: func(a, b any) bool { return isBoolean(a) && a == b }, want: "a boolean", is: isBoolean},
		"StringMatches": {compare: stringMatches, want: "a string", is: isString},
	}
	orders := map[string]func(order int) bool{
		"Equals":            func(order int) bool { return order == 0 },
		"LessThan":          func(order int) bool { return order < 0 },
		"GreaterThan":       func(order int) bool { return order > 0 },
		"LessThanEquals":    func(order int) bool { return order <= 0 },
		"GreaterThanEquals": func(order int) bool { return order >= 0 },
	}
	for suffix, accepts := range orders {
		all["String"+suffix] = operator{want: "a string", is: isString, compare: func(a, b any) bool {
			return isString(a) && isString(b) && accepts(strings.Compare(a.(string), b.(string)))
		}}
		all["Numeric"+suffix] = operator{want: "a number", is: isNumeric, compare: func(a, b any) bool {
			return isNumeric(a) && isNumeric(b) && accepts(document.CompareNumbers(a.(json.Number), b.(json.Number)))
		}}
		all["Timestamp"+suffix] = operator{want: "a timestamp such as 2016-03-14T01:59:00Z", is: isTimestamp, compare: func(a, b any) bool {
			x, isX := timestamp(a)
			y, isY := timestamp(b)
			return isX && isY && accepts(x.Compare(y))
		}}
	}
	for name, o := range maps.Clone(all) {
		if name != "StringMatches" {
			all[name+"Path"] = operator{compare: o.compare, path: true}
		}
	}
	for name, is := range map[string]func(any) bool{
		"IsNull": func(value any) bool { return value == nil }, "IsPresent": func(any) bool { return true },
		"IsNumeric": isNumeric, "IsString": isString, "IsBoolean": isBoolean, "IsTimestamp": isTimestamp,
	} {
		all[name] = operator{want: "a boolean", is: isBoolean, compare: func(a, b any) bool { return is(a) == (b == true) }}
	}
	return all
}

func isString(value any) bool    { _, ok := value.(string); return ok }
func isNumeric(value any) bool   { _, ok := value.(json.Number); return ok }
func isBoolean(value any) bool   { _, ok := value.(bool); return ok }
func isTimestamp(value any) bool { _, ok := timestamp(value); return ok }

// timestamp parses an RFC 3339 timestamp with an upper-case T and, for UTC, Z.
func timestamp(value any) (time.Time, bool) {
	text, _ := value.(string)
	t, err := time.Parse(time.RFC3339Nano, text)
	return t, err == nil
}

// stringMatches matches a string against a pattern. * matches any characters, \* is an asterisk, and \\ is a
// backslash.
func stringMatches(variable, value any) bool {
	text, ok := variable.(string)
	if !ok {
		return false
	}
	var parts []string // the parts between the asterisks
	var part strings.Builder
	pattern := value.(string)
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern) && (pattern[i+1] == '*' || pattern[i+1] == '\\'):
			i++
			part.WriteByte(pattern[i])
		case c == '*':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	parts = append(parts, part.String())
	if len(parts) == 1 {
		return text == parts[0]
	}
	text, ok = strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, middle := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(text, middle)
		if !found {
			return false
		}
		text = after
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}

// rules parses the choices of a Choice state.
func (o *object) rules() []Rule {
	elements := o.objects("Choices")
	if len(elements) == 0 && !o.failed("Choices") {
		o.find("Choices", "expected at least one choice")
	}
	var rules []Rule
	for _, element := range elements {
		rule := Rule{Next: element.required("Next")}
		rule.condition = element.condition()
		element.done()
		rules = append(rules, rule)
	}
	return rules
}

// condition parses the condition of a rule, or a part of it.
func (o *object) condition() condition {
	var kinds []string
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		if _, compares := operators[name]; compares || name == "And" || name == "Or" || name == "Not" {
			kinds = append(kinds, name)
		}
	}
	o.comment()
	if len(kinds) != 1 {
		o.findings.add(o.path, schemaInvalid, "expected exactly one comparison operator, And, Or or Not, got %d", len(kinds))
		for _, name := range append(kinds, "Variable") {
			o.take(name)
		}
		return not{allOf{}}
	}
	switch kind := kinds[0]; kind {
	case "And":
		return allOf(o.conditions(kind))
	case "Or":
		return anyOf(o.conditions(kind))
	case "Not":
		inner := o.object(kind)
		if inner == nil {
			return not{allOf{}}
		}
		condition := inner.condition()
		inner.done()
		return not{condition}
	default:
		return o.comparison(kind)
	}
}

func (o *object) conditions(name string) []condition {
	elements := o.objects(name)
	if len(elements) == 0 && !o.failed(name) {
		o.find(name, "expected at least one condition")
	}
	var conditions []condition
	for _, element := range elements {
		conditions = append(conditions, element.condition())
		element.done()
	}
	return conditions
}

func (o *object) comparison(name string) condition {
	operator := operators[name]
	c := comparison{operator: name, compare: operator.compare}
	if variable := o.pathField("Variable", jsonpath.Parse); variable != nil {
		c.variable = *variable
	} else if !o.failed("Variable") {
		o.find("Variable", "expected a path")
	}
	if operator.path {
		c.path = o.pathField(name, jsonpath.Parse)
		return c
	}
	c.value, _ = o.take(name)
	if !operator.is(c.value) {
		o.find(name, "expected %s", operator.want)
	}
	return c
}
