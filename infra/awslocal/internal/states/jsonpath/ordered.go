package jsonpath

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/settle-run/settle/infra/awslocal/internal/states/document"
)

// ordered converts data for package jp. In the result, jp visits object members in a fixed order, and the filters of jp
// can compare numbers.
func ordered(data any) any {
	switch data := data.(type) {
	case map[string]any:
		members := make(map[string]any, len(data))
		for name, value := range data {
			members[name] = ordered(value)
		}
		return &object{names: slices.Sorted(maps.Keys(data)), members: members}
	case []any:
		elements := make([]any, len(data))
		for i, value := range data {
			elements[i] = ordered(value)
		}
		return elements
	case json.Number:
		if i, err := strconv.ParseInt(string(data), 10, 64); err == nil {
			return i
		}
		return document.Float(data)
	}
	return data
}

// object is a JSON object whose members jp visits in the order of their names. It implements jp.Keyed. jp only reads
// it.
type object struct {
	names   []string
	members map[string]any
}

func (o *object) ValueForKey(key string) (any, bool) {
	value, ok := o.members[key]
	return value, ok
}

func (o *object) Keys() []string             { return o.names }
func (o *object) SetValueForKey(string, any) {}
func (o *object) RemoveValueForKey(string)   {}
