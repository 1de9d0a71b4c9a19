package expression

import (
	"fmt"
	"slices"
	"strings"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
)

// grammar defines the functions that an expression may call, and their arguments.
type grammar map[string]function

type function struct {
	arguments int
	// needsPath is set if the first argument must be a document path.
	needsPath bool
	// value is set if a call is an operand, not a condition.
	value bool
	// types lists the allowed types of the arguments after the path. Only arguments whose type is known before
	// evaluation are checked. A nil list allows any type.
	types []attribute.Type
}

var conditionFunctions = grammar{
	"attribute_exists":     {arguments: 1, needsPath: true},
	"attribute_not_exists": {arguments: 1, needsPath: true},
	"attribute_type":       {arguments: 2, needsPath: true, types: []attribute.Type{attribute.TypeString}},
	"begins_with":          {arguments: 2, types: []attribute.Type{attribute.TypeString, attribute.TypeBinary}},
	"contains":             {arguments: 2},
	"size": {arguments: 1, value: true, types: []attribute.Type{
		attribute.TypeString, attribute.TypeBinary, attribute.TypeList, attribute.TypeMap,
		attribute.TypeStringSet, attribute.TypeNumberSet, attribute.TypeBinarySet,
	}},
}

var updateFunctions = grammar{
	"if_not_exists": {arguments: 2, needsPath: true, value: true},
	"list_append":   {arguments: 2, value: true, types: []attribute.Type{attribute.TypeList}},
}

var orderedTypes = []attribute.Type{attribute.TypeString, attribute.TypeNumber, attribute.TypeBinary}

// checkFunctions rejects functions that are not in the grammar.
func (g grammar) checkFunctions(root node) error {
	return visit(root, func(n node) error {
		if c, ok := n.(*call); ok {
			if _, known := g[c.function]; !known {
				return fmt.Errorf("Invalid function name; function: %s", c.function)
			}
		}
		return nil
	})
}

// checkPlaces rejects conditions used as operands and operands used as conditions, where the parser could not
// distinguish them.
func (g grammar) checkPlaces(root node, asOperand bool) error {
	if c, ok := root.(*call); ok && g[c.function].value != asOperand {
		return fmt.Errorf("The function is not allowed to be used this way in an expression; function: %s", c.function)
	}
	switch root.(type) {
	case *logical, *not:
	default:
		asOperand = true
	}
	for _, child := range root.children() {
		if err := g.checkPlaces(child, asOperand); err != nil {
			return err
		}
	}
	return nil
}

// checkReserved rejects reserved words in the paths of a node.
func checkReserved(root node) error {
	return visit(root, func(n node) error {
		if operand, ok := n.(*pathOperand); ok {
			return checkReservedPath(operand.path)
		}
		return nil
	})
}

func checkReservedPath(path Path) error {
	for _, step := range path {
		if isReserved(step.Name) {
			return fmt.Errorf("Attribute name is a reserved keyword; reserved keyword: %s", step.Name)
		}
	}
	return nil
}

// resolve replaces placeholders by their names and values.
func (p *Placeholders) resolve(root node) error {
	return visit(root, func(n node) error {
		switch n := n.(type) {
		case *pathOperand:
			return p.resolveNames(n.path)
		case *valueOperand:
			return p.resolveValue(n)
		}
		return nil
	})
}

// checkOperands rejects wrong numbers of operands, wrong types if known before evaluation, and comparisons of an
// operand with itself. Placeholders must be resolved.
func (g grammar) checkOperands(root node) error {
	return visit(root, func(n node) error {
		switch n := n.(type) {
		case *call:
			return g.checkCall(n)
		case *arithmetic:
			return g.checkTypes(n.operator, []attribute.Type{attribute.TypeNumber}, n.left, n.right)
		case *comparison:
			if err := checkDistinct(n.operator, n.left, n.right); err != nil {
				return err
			}
			if n.operator != "=" && n.operator != "<>" {
				return g.checkTypes(n.operator, orderedTypes, n.left, n.right)
			}
		case *between:
			if err := g.checkTypes("BETWEEN", orderedTypes, n.subject, n.low, n.high); err != nil {
				return err
			}
			return checkBounds(n)
		case *in:
			if len(n.candidates) > InOperandsMax {
				return fmt.Errorf("The IN operator is provided with too many operands; number of operands: %d", len(n.candidates))
			}
		}
		return nil
	})
}

func (g grammar) checkCall(c *call) error {
	f := g[c.function]
	if len(c.arguments) != f.arguments {
		return fmt.Errorf("Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d",
			c.function, len(c.arguments))
	}
	rest := c.arguments
	if f.needsPath {
		if _, ok := c.arguments[0].(*pathOperand); !ok {
			return fmt.Errorf("Operator or function requires a document path; operator or function: %s", c.function)
		}
		rest = c.arguments[1:]
	}
	if f.arguments == 2 && !f.value {
		if err := checkDistinct(c.function, c.arguments[0], c.arguments[1]); err != nil {
			return err
		}
	}
	if err := g.checkTypes(c.function, f.types, rest...); err != nil {
		return err
	}
	if c.function == "attribute_type" {
		return checkTypeName(c.arguments[1])
	}
	return nil
}

// checkTypes rejects operands whose type is known and not allowed.
func (g grammar) checkTypes(operator string, allowed []attribute.Type, operands ...node) error {
	for _, operand := range operands {
		t := g.typeOf(operand)
		if t != "" && allowed != nil && !slices.Contains(allowed, t) {
			return fmt.Errorf("Incorrect operand type for operator or function; operator or function: %s, operand type: %s", operator, t)
		}
	}
	return nil
}

// typeOf returns the type of an operand, or "" if it is not known before evaluation.
func (g grammar) typeOf(operand node) attribute.Type {
	switch operand := operand.(type) {
	case *valueOperand:
		return operand.value.Type()
	case *arithmetic:
		return attribute.TypeNumber
	case *call:
		switch operand.function {
		case "size":
			return attribute.TypeNumber
		case "list_append":
			return attribute.TypeList
		}
	}
	return ""
}

// checkTypeName checks that the second operand of attribute_type is a type descriptor.
func checkTypeName(operand node) error {
	value, ok := operand.(*valueOperand)
	if !ok {
		return fmt.Errorf("Incorrect operand type for operator or function; operator or function: attribute_type, operand type: {NS,SS,L,BS,N,M,B,BOOL,NULL,S}")
	}
	name := string(value.value.(attribute.String))
	if _, known := attribute.ParseType(name); !known {
		return fmt.Errorf("Invalid attribute type name found; type: %s, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}", name)
	}
	return nil
}

func checkDistinct(operator string, left, right node) error {
	first, ok1 := left.(*pathOperand)
	second, ok2 := right.(*pathOperand)
	if ok1 && ok2 && first.path.compare(second.path) == 0 {
		return fmt.Errorf("The first operand must be distinct from the remaining operands for this operator or function; operator: %s, first operand: %v", operator, first.path)
	}
	return nil
}

// checkBounds rejects a BETWEEN whose bounds have different types or are in the wrong order.
func checkBounds(n *between) error {
	low, ok1 := n.low.(*valueOperand)
	high, ok2 := n.high.(*valueOperand)
	if !ok1 || !ok2 {
		return nil
	}
	order, sameType := attribute.Compare(low.value, high.value)
	var requirement string
	switch {
	case !sameType:
		requirement = "same data type for lower and upper bounds"
	case order > 0:
		requirement = "upper bound to be greater than or equal to lower bound"
	default:
		return nil
	}
	return fmt.Errorf("The BETWEEN operator requires %s; lower bound operand: AttributeValue: %s, upper bound operand: AttributeValue: %s",
		requirement, describe(low.value), describe(high.value))
}

// describe formats a scalar as in DynamoDB's messages: {N:3}.
func describe(value attribute.Value) string {
	text := ""
	switch value := value.(type) {
	case attribute.String:
		text = string(value)
	case attribute.Number:
		text = value.String()
	case attribute.Binary:
		text = strings.ToValidUTF8(string(value), "?")
	}
	return fmt.Sprintf("{%s:%s}", value.Type(), text)
}
