package intrinsic

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
	"github.com/settle-run/settle/infra/awslocal/internal/states/jsonpath"
)

// Scope provides the values that a call refers to.
type Scope struct {
	Data    any // the value of $
	Context any // the value of $$
	// Random returns 32 pseudorandom bytes, different in each call.
	Random func() [32]byte
}

// NotFoundError is returned if a path in the arguments of a call selects nothing.
type NotFoundError struct{ Path jsonpath.Path }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("The JsonPath argument for the field '%s' could not be found in the input", e.Path)
}

// Evaluate returns the value of a call. The error is a *NotFoundError or describes an invalid argument.
func (c *Call) Evaluate(scope Scope) (any, error) {
	values := make([]any, len(c.arguments))
	for i, a := range c.arguments {
		switch {
		case a.path != nil:
			value, ok := a.path.Get(scope.Data, scope.Context)
			if !ok {
				return nil, &NotFoundError{*a.path}
			}
			values[i] = value
		case a.call != nil:
			value, err := a.call.Evaluate(scope)
			if err != nil {
				return nil, err
			}
			values[i] = value
		default:
			values[i] = a.value
			if l, ok := a.value.(literal); ok && (i > 0 || c.name != "States.Format") {
				values[i] = l.text()
			}
		}
	}
	value, err := c.function.evaluate(arguments{values, scope.Random})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return value, nil
}

// function is an intrinsic function that takes from `least` to `most` arguments. A negative `most` means no limit.
type function struct {
	least, most int
	evaluate    func(arguments) (any, error)
}

func (f function) takes() string {
	switch {
	case f.most < 0:
		return fmt.Sprintf("%d or more arguments", f.least)
	case f.least == f.most:
		return fmt.Sprintf("%d arguments", f.least)
	}
	return fmt.Sprintf("%d to %d arguments", f.least, f.most)
}

// functions holds all intrinsic functions of the language.
var functions = map[string]function{
	"States.Format":         {1, -1, format},
	"States.StringToJson":   {1, 1, stringToJSON},
	"States.JsonToString":   {1, 1, jsonToString},
	"States.StringSplit":    {2, 2, stringSplit},
	"States.Base64Encode":   {1, 1, base64Encode},
	"States.Base64Decode":   {1, 1, base64Decode},
	"States.Hash":           {2, 2, hash},
	"States.UUID":           {0, 0, uuid},
	"States.JsonMerge":      {3, 3, jsonMerge},
	"States.MathAdd":        {2, 2, mathAdd},
	"States.MathRandom":     {2, 3, mathRandom},
	"States.Array":          {0, -1, array},
	"States.ArrayPartition": {2, 2, arrayPartition},
	"States.ArrayContains":  {2, 2, arrayContains},
	"States.ArrayRange":     {3, 3, arrayRange},
	"States.ArrayGetItem":   {2, 2, arrayGetItem},
	"States.ArrayLength":    {1, 1, arrayLength},
	"States.ArrayUnique":    {1, 1, arrayUnique},
}

// arguments holds the values of a call's arguments.
type arguments struct {
	values []any
	random func() [32]byte
}

func (a arguments) string(i int) (string, error) {
	s, ok := a.values[i].(string)
	if !ok {
		return "", a.wrong(i, "a string")
	}
	return s, nil
}

func (a arguments) array(i int) ([]any, error) {
	elements, ok := a.values[i].([]any)
	if !ok {
		return nil, a.wrong(i, "an array")
	}
	return elements, nil
}

// integer returns a numeric argument, rounded to an integer. It rejects integers of more than 32 bits.
func (a arguments) integer(i int) (int, error) {
	n, ok := a.values[i].(json.Number)
	if !ok {
		return 0, a.wrong(i, "a number")
	}
	f := math.Round(document.Float(n))
	if f < math.MinInt32 || f > math.MaxInt32 {
		return 0, a.wrong(i, "between -2147483648 and 2147483647")
	}
	return int(f), nil
}

func (a arguments) wrong(i int, want string) error {
	return fmt.Errorf("argument %d must be %s, not %s", i+1, want, document.Encode(a.values[i]))
}
