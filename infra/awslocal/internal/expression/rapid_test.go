package expression

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
)

// generated is the text of a condition and its expected value.
type generated struct {
	text string
	// binding is the precedence: 3 for a term, 2 for NOT, 1 for AND, 0 for OR.
	binding int
	holds   bool
}

// in returns the text, in parentheses if its precedence is lower than `binding`.
func (g generated) in(binding int) string {
	if g.binding < binding {
		return "(" + g.text + ")"
	}
	return g.text
}

// term generates a comparison of the attributes a to d. Attributes that are not in the map are absent from the item.
func term(t *rapid.T, attributes map[string]int) generated {
	left := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "left")
	right := rapid.SampledFrom([]string{"c", "d"}).Draw(t, "right")
	l, leftExists := attributes[left]
	r, rightExists := attributes[right]
	both := leftExists && rightExists
	switch rapid.IntRange(0, 5).Draw(t, "form") {
	case 0:
		return generated{fmt.Sprintf("attribute_exists(%s)", left), 3, leftExists}
	case 1:
		return generated{fmt.Sprintf("%s BETWEEN %s AND %s", left, right, right), 3, both && l == r}
	case 2:
		return generated{fmt.Sprintf("%s IN (%s, %s)", left, right, right), 3, both && l == r}
	}
	operator := rapid.SampledFrom(comparators).Draw(t, "operator")
	holds := map[string]bool{
		"=": both && l == r, "<>": !both || l != r, "<": both && l < r, "<=": both && l <= r, ">": both && l > r, ">=": both && l >= r,
	}[operator]
	return generated{left + operator + right, 3, holds}
}

// combined generates a condition of at most the given depth, with only the necessary parentheses.
func combined(t *rapid.T, attributes map[string]int, depth int) generated {
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	if depth == 0 || kind == 0 {
		return term(t, attributes)
	}
	first := combined(t, attributes, depth-1)
	if kind == 1 {
		return generated{"NOT " + first.in(2), 2, !first.holds}
	}
	second := combined(t, attributes, depth-1)
	if kind == 2 {
		return generated{first.in(1) + " AND " + second.in(1), 1, first.holds && second.holds}
	}
	return generated{first.in(0) + " OR " + second.in(0), 0, first.holds || second.holds}
}

// TestCondition_binds_and_evaluates_as_written compares the values of generated conditions with the values that the
// generator expects. It covers precedence and absent attributes.
func TestCondition_binds_and_evaluates_as_written(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		attributes := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.IntRange(0, 2)).Draw(t, "attributes")
		var fields attribute.Map
		for name, n := range attributes {
			fields = append(fields, attribute.Field{Name: name, Value: attribute.NewNumber(int64(n))})
		}
		g := combined(t, attributes, 5)
		source := rapid.SampledFrom([]func(string) string{strings.ToLower, func(s string) string { return s }}).Draw(t, "case")(g.text)
		p, err := NewPlaceholders(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		condition, err := ParseCondition(source, p)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		if got := condition.Matches(attribute.NewMap(fields...)); got != g.holds {
			t.Fatalf("%s for %v: want %v, got %v", source, attributes, g.holds, got)
		}
	})
}
