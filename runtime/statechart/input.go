package statechart

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/settle-run/settle/runtime/internal/readjson"
)

// TakesInput reports whether the chart declares an Input.
func (c *chart) TakesInput() bool { return c.input.typ != nil }

// DecodeInput decodes an instance's input for Start. Without Input, it accepts an empty body or null. Its errors wrap
// ErrPayload and quote no value.
func (c *chart) DecodeInput(body []byte) (any, error) {
	if !c.TakesInput() {
		if body = bytes.TrimSpace(body); len(body) > 0 && string(body) != "null" {
			return nil, fmt.Errorf("%w: chart %s declares no Input, got %s", ErrPayload, c.id, readjson.Kind(body))
		}
		return nil, nil
	}
	input, err := c.input.decode(body)
	if err != nil {
		return nil, fmt.Errorf("%w: the input of chart %s: %w", ErrPayload, c.id, err)
	}
	return input, nil
}

func (c *chart) checkInput(input any) error {
	if got := reflect.TypeOf(input); got != c.input.typ {
		return fmt.Errorf("%w: the input of chart %s: expected %s, got %s", ErrPayload, c.id, typeName(c.input.typ), typeName(got))
	}
	return nil
}

// typeName names a type for a message. It returns "nothing" for nil.
func typeName(typ reflect.Type) string {
	if typ == nil {
		return "nothing"
	}
	return typ.String()
}
