// Package jsonpath evaluates the paths of the Amazon States Language: JSONPath expressions that begin with $, or with
// $$ for the context object. "Processing input and output in Step Functions" of the AWS Step Functions Developer
// Guide defines where paths are allowed. The Amazon States Language specification defines Reference Paths.
//
// The package supports the syntax of github.com/ohler55/ojg/jp without scripts. Object members are visited in the
// order of their names, so results are deterministic.
package jsonpath

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ohler55/ojg/jp"
)

// Path is a compiled path.
type Path struct {
	text    string
	steps   jp.Expr // the steps after the root
	context bool    // set if the path begins with $$
	// definite is set if every step is a member name or an index. A definite path selects at most one value. An
	// indefinite path selects an array of values, which may be empty.
	definite bool
}

// Parse compiles a path.
func Parse(text string) (Path, error) {
	p := Path{text: text, definite: true}
	expression, ok := strings.CutPrefix(text, "$")
	if !ok {
		return Path{}, fmt.Errorf("the path '%s' does not begin with '$'", text)
	}
	if rest, ok := strings.CutPrefix(expression, "$"); ok {
		p.context, expression = true, rest
	}
	compiled, err := jp.ParseString("$" + expression)
	if err == nil && !begins(expression) {
		err = errors.New("expected '.' or '[' after '$'")
	}
	if err == nil && (strings.HasSuffix(expression, "]$") || strings.HasSuffix(expression, "]@")) {
		err = errors.New("unexpected text after ']'") // jp would stop parsing there
	}
	if err != nil {
		return Path{}, fmt.Errorf("the path '%s' is not a JSONPath expression: %w", text, err)
	}
	p.steps = compiled[1:]
	for i, step := range p.steps {
		switch step.(type) {
		case jp.Child, jp.Nth:
		case jp.Wildcard, jp.Descent, jp.Union, jp.Slice:
			p.definite = false
		case *jp.Filter:
			p.definite = false
			if strings.Contains(jp.Expr{step}.String(), "$") {
				return Path{}, fmt.Errorf("the path '%s' has a filter with a '$' in it, which awslocal does not support", text)
			}
		default:
			return Path{}, fmt.Errorf("the path '%s' has a step that awslocal does not support: %s", text, jp.Expr{step}.String())
		}
		if _, descent := step.(jp.Descent); descent && i == len(p.steps)-1 {
			return Path{}, fmt.Errorf("the path '%s' ends with '..'", text)
		}
	}
	return p, nil
}

// ParseReference compiles a Reference Path: a path that selects at most one value.
func ParseReference(text string) (Path, error) {
	p, err := Parse(text)
	if err != nil {
		return Path{}, err
	}
	if !p.definite {
		return Path{}, fmt.Errorf("the path '%s' is not a Reference Path: the operators '@', '..', ',', ':', '?' and '*' are not allowed here", text)
	}
	return p, nil
}

// begins reports whether `steps` is a valid continuation of $ or $$.
func begins(steps string) bool {
	return steps == "" || steps[0] == '.' || steps[0] == '['
}

// String returns the path as written.
func (p Path) String() string { return p.text }

// Context reports whether the path selects from the context object.
func (p Path) Context() bool { return p.context }

// Get selects from `data`, or from `context` if the path begins with $$. A definite path returns the selected value, or
// false if it does not exist. An indefinite path returns an array of all selected values.
func (p Path) Get(data, context any) (any, bool) {
	if p.context {
		data = context
	}
	if p.definite {
		return walk(data, p.steps)
	}
	found := []place{{data, ordered(data)}}
	for _, step := range p.steps {
		var next []place
		for _, from := range found {
			next = append(next, from.take(step)...)
		}
		found = next
	}
	values := make([]any, len(found))
	for i, f := range found {
		values[i] = f.value
	}
	return values, true
}

// place is an intermediate value of an indefinite path, in its original form and as converted by the function
// `ordered`.
type place struct{ value, ordered any }

// take returns the places that a step selects.
func (p place) take(step jp.Frag) []place {
	locations := jp.Expr{step}.Locate(p.ordered, 0)
	if _, filter := step.(*jp.Filter); filter {
		slices.Reverse(locations) // A filter of jp visits elements in reverse order.
	}
	var next []place
	for _, location := range locations {
		value, ok := walk(p.value, location)
		if !ok {
			continue
		}
		seen := p.ordered
		if len(location) > 0 { // The location is empty if '..' selects the place itself.
			seen = location.First(p.ordered)
		}
		next = append(next, place{value, seen})
	}
	return next
}

// walk follows the steps of a definite path.
func walk(data any, steps jp.Expr) (any, bool) {
	for _, step := range steps {
		switch step := step.(type) {
		case jp.Child:
			object, ok := data.(map[string]any)
			if !ok {
				return nil, false
			}
			if data, ok = object[string(step)]; !ok {
				return nil, false
			}
		case jp.Nth:
			array, ok := data.([]any)
			i := index(int(step), len(array))
			if !ok || i < 0 {
				return nil, false
			}
			data = array[i]
		}
	}
	return data, true
}

// index returns the position of an index in an array of n elements, or -1 if it does not exist. A negative index
// counts from the end.
func index(i, n int) int {
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return -1
	}
	return i
}
