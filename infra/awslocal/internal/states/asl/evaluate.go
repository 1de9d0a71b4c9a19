package asl

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
	"github.com/settle-run/settle/infra/awslocal/internal/states/intrinsic"
	"github.com/settle-run/settle/infra/awslocal/internal/states/jsonpath"
)

// Scope provides the values that the expressions of a state refer to.
type Scope = intrinsic.Scope

// expression is a path or a call of an intrinsic function.
type expression struct {
	path *jsonpath.Path
	call *intrinsic.Call
}

func parseExpression(text string) (*expression, error) {
	if intrinsic.Is(text) {
		call, err := intrinsic.Parse(text)
		return &expression{call: call}, err
	}
	path, err := jsonpath.Parse(text)
	return &expression{path: &path}, err
}

// evaluate returns the value of an expression. field is the name of the field, for errors.
func (e *expression) evaluate(scope Scope, field string) (any, *Failure) {
	if e.path != nil {
		return selectField(*e.path, scope, field)
	}
	value, err := e.call.Evaluate(scope)
	var missing *intrinsic.NotFoundError
	switch {
	case errors.As(err, &missing):
		return nil, Runtime("The function specified for the field '%s' had the following error: %v", field, err)
	case err != nil:
		return nil, &Failure{Error: ErrorIntrinsicFailure, Cause: "The function specified for the field '" + field + "' had the following error: " + err.Error()}
	}
	return value, nil
}

// selectField returns the value at a path. field is the name of the field, for errors.
func selectField(path jsonpath.Path, scope Scope, field string) (any, *Failure) {
	value, ok := path.Get(scope.Data, scope.Context)
	if !ok {
		data := scope.Data
		if path.Context() {
			data = scope.Context
		}
		return nil, Runtime("The JSONPath '%s' specified for the field '%s' could not be found in the input '%s'", path, field, document.Encode(data))
	}
	return value, nil
}

// All reports whether the filter selects everything.
func (f Filter) All() bool { return f.path == nil && !f.null }

// All reports whether the result replaces the whole input.
func (r ResultPath) All() bool { return r.path == nil && !r.null }

// WaitUntil returns the time selected by TimestampPath of a Wait state.
func (s *State) WaitUntil(scope Scope) (time.Time, *Failure) {
	selected, failure := selectField(*s.UntilPath, scope, "TimestampPath")
	if failure != nil {
		return time.Time{}, failure
	}
	until, ok := timestamp(selected)
	if !ok {
		return time.Time{}, Runtime("The TimestampPath parameter does not reference a valid ISO-8601 extended offset date-time format string: %s", document.Encode(selected))
	}
	return until, nil
}

// Apply returns the value that the filter selects. field is the name of the field, for errors.
func (f Filter) Apply(scope Scope, field string) (any, *Failure) {
	switch {
	case f.null:
		return map[string]any{}, nil
	case f.path == nil:
		return scope.Data, nil
	}
	value, ok := f.path.Get(scope.Data, scope.Context)
	if !ok {
		return nil, Runtime("Invalid path '%s' : No results for path of the field '%s' in the input '%s'", f.path, field, document.Encode(scope.Data))
	}
	return value, nil
}

// Apply returns the input of a state with the result inserted.
func (r ResultPath) Apply(input, result any) (any, *Failure) {
	switch {
	case r.null:
		return input, nil
	case r.path == nil:
		return result, nil
	}
	output, err := r.path.Set(input, result)
	if err != nil {
		return nil, &Failure{
			Error: ErrorResultPathMatch,
			Cause: "Unable to apply ReferencePath " + r.path.String() + " to input " + document.Encode(input),
		}
	}
	return output, nil
}

// Value returns the number. A number selected by a path must be a non-negative integer.
func (n Number) Value(scope Scope) (int, *Failure) {
	if n.path == nil {
		return n.value, nil
	}
	selected, failure := selectField(*n.path, scope, n.field)
	if failure != nil {
		return 0, failure
	}
	number, _ := selected.(json.Number)
	i, err := strconv.Atoi(string(number))
	if err != nil || i < 0 || i > numberMax {
		return 0, Runtime("The %s parameter references an invalid value: expected an integer between 0 and %d, got %s", n.field, numberMax, document.Encode(selected))
	}
	return i, nil
}

// Value returns the string. An expression must evaluate to a string.
func (t Text) Value(scope Scope, field string) (string, *Failure) {
	if t.expression == nil {
		return t.value, nil
	}
	value, failure := t.expression.evaluate(scope, field)
	if failure != nil {
		return "", failure
	}
	text, ok := value.(string)
	if !ok {
		return "", Runtime("The %s field must select a string, not %s", field, document.Encode(value))
	}
	return text, nil
}
