package expression

import (
	"errors"
	"fmt"
	"slices"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
)

// Update is a parsed UpdateExpression.
type Update struct{ actions []action }

// ParseUpdate parses an UpdateExpression.
func ParseUpdate(source string, placeholders *Placeholders) (*Update, error) {
	actions, err := parseUpdate(source)
	if err != nil {
		return nil, err
	}
	u := &Update{actions}
	// Each check runs over all actions before the next one starts, as in DynamoDB.
	checks := []func(action) error{
		func(a action) error { return checkReservedPath(a.path) },
		func(a action) error { return a.checkValue(checkReserved) },
		func(a action) error { return a.checkValue(updateFunctions.checkFunctions) },
		func(a action) error { return placeholders.resolveNames(a.path) },
		func(a action) error { return a.checkValue(placeholders.resolve) },
	}
	for _, check := range checks {
		for _, a := range u.actions {
			if err := check(a); err != nil {
				return nil, err
			}
		}
	}
	if err := checkDisjoint(u.Paths()); err != nil {
		return nil, err
	}
	for _, a := range u.actions {
		if err := a.checkOperand(); err != nil {
			return nil, err
		}
	}
	return u, nil
}

func (a action) checkValue(check func(node) error) error {
	if a.value == nil {
		return nil
	}
	return check(a.value)
}

// checkOperand rejects operands whose type the action does not support.
func (a action) checkOperand() error {
	if a.section == "SET" {
		return updateFunctions.checkOperands(a.value)
	}
	if a.section == "REMOVE" {
		return nil
	}
	operand := a.value.(*valueOperand).value
	switch operand.(type) {
	case attribute.StringSet, attribute.NumberSet, attribute.BinarySet:
		return nil
	case attribute.Number:
		if a.section == "ADD" {
			return nil
		}
	}
	return fmt.Errorf("Incorrect operand type for operator or function; operator: %s, operand type: %s, typeset: ALLOWED_FOR_%s_OPERAND",
		a.section, typeNames[operand.Type()], a.section)
}

// typeNames holds the names of types in the error messages of ADD and DELETE.
var typeNames = map[attribute.Type]string{
	attribute.TypeString: "STRING", attribute.TypeNumber: "NUMBER", attribute.TypeBinary: "BINARY",
	attribute.TypeBool: "BOOLEAN", attribute.TypeNull: "NULL", attribute.TypeMap: "MAP", attribute.TypeList: "LIST",
}

// Paths returns the document paths that the update changes, in source order.
func (u *Update) Paths() []Path {
	paths := make([]Path, len(u.actions))
	for i, a := range u.actions {
		paths[i] = a.path
	}
	return paths
}

// Apply returns the item after the update. All operands refer to the item before the update. An error means that
// DynamoDB rejects the request with a ValidationException because of the item's content.
func (u *Update) Apply(item attribute.Map) (attribute.Map, error) {
	changes, err := u.evaluate(item)
	if err != nil {
		return nil, err
	}
	var changed attribute.Value = item
	for _, c := range changes {
		changed, err = change(changed, c.path, c.replace)
		if err != nil {
			return nil, err
		}
	}
	return changed.(attribute.Map), nil
}

// leafChange is an action with evaluated operands.
type leafChange struct {
	path    Path
	removes bool
	replace func(old attribute.Value) (attribute.Value, error)
}

// evaluate returns the changes in the order in which they must be made. Changes that set values come first, in
// ascending order of their paths, so that new list elements are appended in the order of their indexes. Changes that
// can remove elements come last, in descending order, so that no removal moves an element that a later removal names.
func (u *Update) evaluate(item attribute.Map) ([]leafChange, error) {
	changes := make([]leafChange, 0, len(u.actions))
	for _, a := range u.actions {
		c := leafChange{path: a.path, removes: a.section == "REMOVE" || a.section == "DELETE"}
		switch a.section {
		case "SET":
			value, err := evaluate(a.value, item)
			if err != nil {
				return nil, err
			}
			c.replace = func(attribute.Value) (attribute.Value, error) { return value, nil }
		case "REMOVE":
			c.replace = func(attribute.Value) (attribute.Value, error) { return nil, nil }
		case "ADD":
			c.replace = func(old attribute.Value) (attribute.Value, error) { return add(old, a.value.(*valueOperand).value) }
		case "DELETE":
			c.replace = func(old attribute.Value) (attribute.Value, error) {
				return subtract(old, a.value.(*valueOperand).value)
			}
		}
		changes = append(changes, c)
	}
	slices.SortStableFunc(changes, func(a, b leafChange) int {
		switch {
		case a.removes && b.removes:
			return b.path.compare(a.path)
		case a.removes:
			return 1
		case b.removes:
			return -1
		}
		return a.path.compare(b.path)
	})
	return changes, nil
}

var (
	errNoSuchAttribute  = errors.New("The provided expression refers to an attribute that does not exist in the item")
	errWrongOperandType = errors.New("An operand in the update expression has an incorrect data type")
)

// evaluate returns the value of an operand of SET.
func evaluate(n node, item attribute.Map) (attribute.Value, error) {
	switch n := n.(type) {
	case *valueOperand:
		return n.value, nil
	case *pathOperand:
		if value := n.path.Lookup(item); value != nil {
			return value, nil
		}
		return nil, errNoSuchAttribute
	case *arithmetic:
		left, right, err := evaluateBoth[attribute.Number](n.left, n.right, item)
		if err != nil {
			return nil, err
		}
		if n.operator == "-" {
			return left.Sub(right)
		}
		return left.Add(right)
	}
	c := n.(*call)
	if c.function == "if_not_exists" {
		if value := c.arguments[0].(*pathOperand).path.Lookup(item); value != nil {
			return value, nil
		}
		return evaluate(c.arguments[1], item)
	}
	left, right, err := evaluateBoth[attribute.List](c.arguments[0], c.arguments[1], item) // the function list_append
	if err != nil {
		return nil, err
	}
	return slices.Concat(left, right), nil
}

// evaluateBoth returns the values of two operands that must be of type V.
func evaluateBoth[V attribute.Value](a, b node, item attribute.Map) (left, right V, err error) {
	for _, operand := range []struct {
		from node
		to   *V
	}{{a, &left}, {b, &right}} {
		value, err := evaluate(operand.from, item)
		if err != nil {
			return left, right, err
		}
		typed, ok := value.(V)
		if !ok {
			return left, right, errWrongOperandType
		}
		*operand.to = typed
	}
	return left, right, nil
}
