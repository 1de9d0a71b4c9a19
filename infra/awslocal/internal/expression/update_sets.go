package expression

import (
	"cmp"
	"slices"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
)

// add implements the action ADD: it adds to a number, which is 0 if absent, or adds members to a set.
func add(old, operand attribute.Value) (attribute.Value, error) {
	if old == nil {
		return operand, nil
	}
	if old.Type() != operand.Type() {
		return nil, errWrongOperandType
	}
	switch operand := operand.(type) {
	case attribute.Number:
		return old.(attribute.Number).Add(operand)
	case attribute.StringSet:
		return union(old.(attribute.StringSet), operand, cmp.Compare), nil
	case attribute.NumberSet:
		return union(old.(attribute.NumberSet), operand, attribute.Number.Compare), nil
	case attribute.BinarySet:
		return union(old.(attribute.BinarySet), operand, cmp.Compare), nil
	}
	return nil, errWrongOperandType
}

// subtract implements the action DELETE: it removes members from a set. If no member remains, it removes the set
// itself.
func subtract(old, operand attribute.Value) (attribute.Value, error) {
	if old == nil {
		return nil, nil
	}
	if old.Type() != operand.Type() {
		return nil, errWrongOperandType
	}
	switch operand := operand.(type) {
	case attribute.StringSet:
		if rest := difference(old.(attribute.StringSet), operand); len(rest) > 0 {
			return rest, nil
		}
	case attribute.NumberSet:
		if rest := difference(old.(attribute.NumberSet), operand); len(rest) > 0 {
			return rest, nil
		}
	case attribute.BinarySet:
		if rest := difference(old.(attribute.BinarySet), operand); len(rest) > 0 {
			return rest, nil
		}
	}
	return nil, nil
}

// union merges two sorted sets.
func union[S ~[]E, E comparable](a, b S, compare func(E, E) int) S {
	merged := slices.Concat(a, b)
	slices.SortFunc(merged, compare)
	return slices.Compact(merged)
}

// difference returns the members of a that are not in b.
func difference[S ~[]E, E comparable](a, b S) S {
	taken := make(map[E]bool, len(b))
	for _, member := range b {
		taken[member] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(member E) bool { return taken[member] })
}
