package expression

import (
	"errors"
	"fmt"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
)

// KeyTerm is the condition of a KeyConditionExpression on one key attribute.
type KeyTerm struct {
	Attribute string
	// Operator is one of = < <= > >= BETWEEN begins_with.
	Operator string
	// Operands has two values for BETWEEN, and one value for the other operators.
	Operands []attribute.Value
}

// Matches reports whether a value of the attribute satisfies the term.
func (t KeyTerm) Matches(value attribute.Value) bool {
	switch t.Operator {
	case "BETWEEN":
		return compares(">=", value, t.Operands[0]) && compares("<=", value, t.Operands[1])
	case "begins_with":
		return beginsWith(value, t.Operands[0])
	}
	return compares(t.Operator, value, t.Operands[0])
}

// KeyConditionError reports an expression that is a valid condition but not a valid key condition. DynamoDB returns
// its message without the prefix "Invalid KeyConditionExpression: ".
type KeyConditionError struct{ Message string }

// Error implements the error interface.
func (e *KeyConditionError) Error() string { return e.Message }

func keyError(format string, args ...any) error {
	return &KeyConditionError{fmt.Sprintf(format, args...)}
}

// ParseKeyCondition parses a KeyConditionExpression: one or two terms for different attributes, joined by AND. The
// caller checks that these are key attributes.
func ParseKeyCondition(source string, placeholders *Placeholders) ([]KeyTerm, error) {
	root, err := parseCondition(source)
	if err != nil {
		return nil, err
	}
	if err := checkCondition(root, placeholders); err != nil {
		return nil, err
	}
	terms, err := keyTerms(root)
	if err != nil {
		return nil, err
	}
	if len(terms) > 2 {
		return nil, keyError("Conditions can be of length 1 or 2 only")
	}
	if len(terms) == 2 && terms[0].Attribute == terms[1].Attribute {
		return nil, keyError("KeyConditionExpressions must only contain one condition per key")
	}
	return terms, nil
}

func keyTerms(n node) ([]KeyTerm, error) {
	switch n := n.(type) {
	case *logical:
		if n.operator != "AND" {
			return nil, keyError("Invalid operator used in KeyConditionExpression: %s", n.operator)
		}
		left, err := keyTerms(n.left)
		if err != nil {
			return nil, err
		}
		right, err := keyTerms(n.right)
		return append(left, right...), err
	case *not:
		return nil, keyError("Invalid operator used in KeyConditionExpression: NOT")
	case *in:
		return nil, keyError("Invalid operator used in KeyConditionExpression: IN")
	case *call:
		if n.function != "begins_with" {
			return nil, keyError("Invalid operator used in KeyConditionExpression: %s", n.function)
		}
		return keyTerm("begins_with", n.children())
	case *between:
		return keyTerm("BETWEEN", n.children())
	case *comparison:
		return comparisonTerm(n)
	}
	return nil, errors.New("Syntax error; the expression is not a condition")
}

// mirrored maps each comparator to the comparator that has the same meaning when the operands are swapped.
var mirrored = map[string]string{"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

func comparisonTerm(n *comparison) ([]KeyTerm, error) {
	if n.operator == "<>" {
		return nil, keyError("Invalid operator used in KeyConditionExpression: <>")
	}
	if _, ok := n.right.(*pathOperand); ok && isValue(n.left) {
		return keyTerm(mirrored[n.operator], []node{n.right, n.left})
	}
	return keyTerm(n.operator, n.children())
}

func isValue(n node) bool {
	_, ok := n.(*valueOperand)
	return ok
}

// keyTerm builds a term from a key attribute and the values that follow it.
func keyTerm(operator string, operands []node) ([]KeyTerm, error) {
	term := KeyTerm{Operator: operator}
	for i, operand := range operands {
		switch operand := operand.(type) {
		case *call:
			return nil, keyError("KeyConditionExpressions cannot contain nested operations")
		case *pathOperand:
			if i > 0 {
				return nil, keyError("Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition")
			}
			if len(operand.path) > 1 {
				return nil, keyError("KeyConditionExpressions cannot have conditions on nested attributes")
			}
			term.Attribute = operand.path[0].Name
		case *valueOperand:
			if i == 0 && (operator == "BETWEEN" || operator == "begins_with") {
				return nil, keyError("Invalid condition in KeyConditionExpression: %s operator must have the key attribute as its first operand", operator)
			}
			if i == 0 {
				return nil, keyError("Invalid condition in KeyConditionExpression: No key attribute specified")
			}
			term.Operands = append(term.Operands, operand.value)
		}
	}
	return []KeyTerm{term}, nil
}
