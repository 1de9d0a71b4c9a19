package expression

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
)

// Condition is a parsed ConditionExpression or FilterExpression.
type Condition struct{ root node }

// ParseCondition parses a ConditionExpression or FilterExpression.
func ParseCondition(source string, placeholders *Placeholders) (*Condition, error) {
	root, err := parseCondition(source)
	if err != nil {
		return nil, err
	}
	if err := checkCondition(root, placeholders); err != nil {
		return nil, err
	}
	return &Condition{root}, nil
}

// checkCondition resolves placeholders and rejects well-formed but invalid conditions. It checks in DynamoDB's order.
func checkCondition(root node, placeholders *Placeholders) error {
	if err := conditionFunctions.checkFunctions(root); err != nil {
		return err
	}
	if err := conditionFunctions.checkPlaces(root, false); err != nil {
		return err
	}
	if err := checkReserved(root); err != nil {
		return err
	}
	if err := placeholders.resolve(root); err != nil {
		return err
	}
	return conditionFunctions.checkOperands(root)
}

// Paths returns the document paths that the condition reads, in source order.
func (c *Condition) Paths() []Path {
	var paths []Path
	_ = visit(c.root, func(n node) error {
		if operand, ok := n.(*pathOperand); ok {
			paths = append(paths, operand.path)
		}
		return nil
	})
	return paths
}

// Matches reports whether the condition is true for an item. A nil item has no attributes.
func (c *Condition) Matches(item attribute.Map) bool { return matches(c.root, item) }

func matches(n node, item attribute.Map) bool {
	switch n := n.(type) {
	case *logical:
		if n.operator == "AND" {
			return matches(n.left, item) && matches(n.right, item)
		}
		return matches(n.left, item) || matches(n.right, item)
	case *not:
		return !matches(n.condition, item)
	case *comparison:
		return compares(n.operator, operandValue(n.left, item), operandValue(n.right, item))
	case *between:
		subject := operandValue(n.subject, item)
		return compares(">=", subject, operandValue(n.low, item)) && compares("<=", subject, operandValue(n.high, item))
	case *in:
		subject := operandValue(n.subject, item)
		return slices.ContainsFunc(n.candidates, func(candidate node) bool {
			return attribute.Equal(subject, operandValue(candidate, item))
		})
	case *call:
		return holds(n, item)
	}
	return false
}

// compares applies a comparator. Absent values and values of different types are not equal and have no order.
func compares(operator string, left, right attribute.Value) bool {
	switch operator {
	case "=":
		return attribute.Equal(left, right)
	case "<>":
		return !attribute.Equal(left, right)
	}
	order, ok := attribute.Compare(left, right)
	if !ok {
		return false
	}
	switch operator {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// operandValue returns the value of an operand of a condition, or nil if the item has no such value.
func operandValue(n node, item attribute.Map) attribute.Value {
	switch n := n.(type) {
	case *pathOperand:
		return n.path.Lookup(item)
	case *valueOperand:
		return n.value
	case *call: // checkPlaces ensures that the function is `size`
		if size, ok := sizeOf(operandValue(n.arguments[0], item)); ok {
			return attribute.NewNumber(int64(size))
		}
	}
	return nil
}

// sizeOf implements the function `size`: characters of a string, bytes of a binary, elements of other values.
func sizeOf(value attribute.Value) (size int, ok bool) {
	switch value := value.(type) {
	case attribute.String:
		return utf8.RuneCountInString(string(value)), true
	case attribute.Binary:
		return len(value), true
	case attribute.List:
		return len(value), true
	case attribute.Map:
		return len(value), true
	case attribute.StringSet:
		return len(value), true
	case attribute.NumberSet:
		return len(value), true
	case attribute.BinarySet:
		return len(value), true
	}
	return 0, false
}

// holds evaluates a function that is a condition.
func holds(c *call, item attribute.Map) bool {
	first := operandValue(c.arguments[0], item)
	switch c.function {
	case "attribute_exists":
		return first != nil
	case "attribute_not_exists":
		return first == nil
	}
	second := operandValue(c.arguments[1], item)
	switch c.function {
	case "attribute_type":
		return first != nil && attribute.Equal(attribute.String(first.Type()), second)
	case "begins_with":
		return beginsWith(first, second)
	}
	return contains(first, second)
}

func beginsWith(value, prefix attribute.Value) bool {
	switch value := value.(type) {
	case attribute.String:
		prefix, ok := prefix.(attribute.String)
		return ok && strings.HasPrefix(string(value), string(prefix))
	case attribute.Binary:
		prefix, ok := prefix.(attribute.Binary)
		return ok && strings.HasPrefix(string(value), string(prefix))
	}
	return false
}

// contains reports whether `container` has `wanted` as a substring, set member or list element.
func contains(container, wanted attribute.Value) bool {
	switch container := container.(type) {
	case attribute.String:
		part, ok := wanted.(attribute.String)
		return ok && strings.Contains(string(container), string(part))
	case attribute.Binary:
		part, ok := wanted.(attribute.Binary)
		return ok && strings.Contains(string(container), string(part))
	case attribute.StringSet:
		member, ok := wanted.(attribute.String)
		return ok && slices.Contains(container, member)
	case attribute.NumberSet:
		member, ok := wanted.(attribute.Number)
		return ok && slices.Contains(container, member)
	case attribute.BinarySet:
		member, ok := wanted.(attribute.Binary)
		return ok && slices.Contains(container, member)
	case attribute.List:
		return slices.ContainsFunc(container, func(element attribute.Value) bool { return attribute.Equal(element, wanted) })
	}
	return false
}
