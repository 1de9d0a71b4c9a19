// Package expression parses and evaluates the expressions of DynamoDB: conditions and filters, key conditions,
// projections and updates. The grammar follows the developer guide, "Using expressions in DynamoDB". Error messages
// contain the part that DynamoDB puts after "Invalid <Parameter>: ".
package expression

import "github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"

// node is a part of a parsed expression. It is an operand, which has a value, or a condition, which is true or false.
// The function of a call decides whether the call is an operand or a condition.
type node interface {
	// children returns the direct parts in source order.
	children() []node
}

type (
	// pathOperand is the value at a document path. Until placeholders are resolved, steps may have names that begin
	// with #.
	pathOperand struct{ path Path }

	// valueOperand is a :value.
	valueOperand struct {
		placeholder string
		value       attribute.Value
	}

	// arithmetic has the form left + right or left - right.
	arithmetic struct {
		operator    string
		left, right node
	}

	// call has the form function(arguments).
	call struct {
		function  string
		arguments []node
	}

	// comparison has the form left operator right, where the operator is one of = <> < <= > >=.
	comparison struct {
		operator    string
		left, right node
	}

	// `between` has the form subject BETWEEN low AND high.
	between struct{ subject, low, high node }

	// `in` has the form subject IN (candidates).
	in struct {
		subject    node
		candidates []node
	}

	// logical has the form left AND right or left OR right.
	logical struct {
		operator    string
		left, right node
	}

	// `not` has the form NOT condition.
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

// isOperand reports whether a node can be an operand. It is true for every call, because checkPlaces checks calls
// later.
func isOperand(n node) bool {
	switch n.(type) {
	case *pathOperand, *valueOperand, *arithmetic, *call:
		return true
	}
	return false
}

// isCondition reports whether a node can be a condition. It is true for every call.
func isCondition(n node) bool {
	switch n.(type) {
	case *call, *comparison, *between, *in, *logical, *not:
		return true
	}
	return false
}

// visit calls `check` for a node and all its descendants, parents first, and stops at the first error.
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
