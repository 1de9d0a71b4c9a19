// Package expression parses and evaluates the expressions of DynamoDB: conditions and
// filters, key conditions, projections and updates. The grammar is that of the developer
// guide, "Using expressions in DynamoDB"; the messages of its errors are the part that
// DynamoDB puts after "Invalid <Parameter>: ".
package expression

import "github.com/settle-run/settle/runtime/awslocal/internal/dynamo/attribute"

// node is a part of a parsed expression: an operand, which has a value, or a condition,
// which holds or not. A call is either, by its function.
type node interface {
	// children returns the parts in the order in which they are written.
	children() []node
}

type (
	// pathOperand is the value at a document path. Until its names are resolved, steps may
	// have names that begin with #.
	pathOperand struct{ path Path }

	// valueOperand is a :value.
	valueOperand struct {
		placeholder string
		value       attribute.Value
	}

	// arithmetic is left + right or left - right.
	arithmetic struct {
		operator    string
		left, right node
	}

	// call is function(arguments).
	call struct {
		function  string
		arguments []node
	}

	// comparison is left operator right, with one of = <> < <= > >=.
	comparison struct {
		operator    string
		left, right node
	}

	// between is subject BETWEEN low AND high.
	between struct{ subject, low, high node }

	// in is subject IN (candidates).
	in struct {
		subject    node
		candidates []node
	}

	// logical is left AND right or left OR right.
	logical struct {
		operator    string
		left, right node
	}

	// not is NOT condition.
	not struct{ condition node }
)

func (*pathOperand) children() []node  { return nil }
func (*valueOperand) children() []node { return nil }
func (n *arithmetic) children() []node { return []node{n.left, n.right} }
func (n *call) children() []node       { return n.arguments }
func (n *comparison) children() []node { return []node{n.left, n.right} }
func (n *between) children() []node    { return []node{n.subject, n.low, n.high} }
func (n *in) children() []node         { return append([]node{n.subject}, n.candidates...) }
func (n *logical) children() []node    { return []node{n.left, n.right} }
func (n *not) children() []node        { return []node{n.condition} }

// isOperand reports whether a node has a value rather than being a condition. A call counts
// as an operand here: whether its function fits its place is checked later.
func isOperand(n node) bool {
	switch n.(type) {
	case *pathOperand, *valueOperand, *arithmetic, *call:
		return true
	}
	return false
}

// isCondition is the counterpart of isOperand; a call counts as both.
func isCondition(n node) bool {
	switch n.(type) {
	case *call, *comparison, *between, *in, *logical, *not:
		return true
	}
	return false
}

// visit calls check for a node and all nodes below it, from the outside in, and stops at the
// first error.
func visit(n node, check func(node) error) error {
	if err := check(n); err != nil {
		return err
	}
	for _, child := range n.children() {
		if err := visit(child, check); err != nil {
			return err
		}
	}
	return nil
}
