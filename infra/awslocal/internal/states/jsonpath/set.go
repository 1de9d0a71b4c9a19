package jsonpath

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ohler55/ojg/jp"
)

// Set returns a copy of `data` that has `value` at the Reference Path. It creates missing members, but array elements
// must exist.
func (p Path) Set(data, value any) (any, error) {
	changed, ok := set(data, p.steps, value)
	if !ok {
		return nil, fmt.Errorf("the path '%s' cannot be applied", p.text)
	}
	return changed, nil
}

func set(data any, steps jp.Expr, value any) (any, bool) {
	if len(steps) == 0 {
		return value, true
	}
	switch step := steps[0].(type) {
	case jp.Child:
		object, ok := data.(map[string]any)
		if !ok {
			return nil, false
		}
		inner, there := object[string(step)]
		if !there || (inner == nil && len(steps) > 1) {
			inner = map[string]any{}
		}
		inner, ok = set(inner, steps[1:], value)
		if !ok {
			return nil, false
		}
		object = maps.Clone(object)
		object[string(step)] = inner
		return object, true
	case jp.Nth:
		array, ok := data.([]any)
		i := index(int(step), len(array))
		if !ok || i < 0 {
			return nil, false
		}
		inner, ok := set(array[i], steps[1:], value)
		if !ok {
			return nil, false
		}
		array = slices.Clone(array)
		array[i] = inner
		return array, true
	}
	return nil, false
}
