package expression

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
)

// Step selects the value of a name in a map, or an element of a list.
type Step struct {
	Name    string
	Index   int
	IsIndex bool
}

// Path is a document path such as a.b[3]. Invariant: it begins with a name.
type Path []Step

// String formats the path as in DynamoDB's messages: [a, b, [3]].
func (p Path) String() string {
	steps := make([]string, len(p))
	for i, step := range p {
		steps[i] = step.Name
		if step.IsIndex {
			steps[i] = "[" + strconv.Itoa(step.Index) + "]"
		}
	}
	return "[" + strings.Join(steps, ", ") + "]"
}

// Lookup returns the value at the path in an item, or nil if it does not exist.
func (p Path) Lookup(item attribute.Map) attribute.Value {
	var value attribute.Value = item
	for _, step := range p {
		if value = step.child(value); value == nil {
			return nil
		}
	}
	return value
}

// child returns the part of value that the step selects, or nil.
func (s Step) child(value attribute.Value) attribute.Value {
	switch value := value.(type) {
	case attribute.Map:
		if !s.IsIndex {
			return value.Get(s.Name)
		}
	case attribute.List:
		if s.IsIndex && s.Index < len(value) {
			return value[s.Index]
		}
	}
	return nil
}

// compare orders steps, and thereby paths. List elements are in numeric order: element 2 comes before element 10.
func (s Step) compare(other Step) int {
	return cmp.Or(strings.Compare(s.Name, other.Name), cmp.Compare(s.Index, other.Index))
}

func (p Path) compare(other Path) int { return slices.CompareFunc(p, other, Step.compare) }

// errInvalidPath is DynamoDB's error for a change whose parent does not exist or has another type.
var errInvalidPath = errors.New("The document path provided in the update expression is invalid for update")

// change returns a copy of value in which the result of `changed` replaces the value at path. `changed` receives nil if
// no such value exists, and returns nil to remove the value. A new element beyond the end of a list is appended.
func change(value attribute.Value, path Path, changed func(old attribute.Value) (attribute.Value, error)) (attribute.Value, error) {
	step := path[0]
	if step.IsIndex {
		if _, ok := value.(attribute.List); !ok {
			return nil, errInvalidPath
		}
	} else if _, ok := value.(attribute.Map); !ok {
		return nil, errInvalidPath
	}
	old := step.child(value)
	var replaced attribute.Value
	var err error
	switch {
	case len(path) == 1:
		replaced, err = changed(old)
	case old == nil:
		err = errInvalidPath
	default:
		replaced, err = change(old, path[1:], changed)
	}
	if err != nil {
		return nil, err
	}
	return step.replace(value, replaced), nil
}

// replace returns a copy of `container` in which `child` replaces the part that the step selects. The step must fit
// `container`.
func (s Step) replace(container, child attribute.Value) attribute.Value {
	if !s.IsIndex {
		fields := container.(attribute.Map)
		if child == nil {
			return fields.Without(s.Name)
		}
		return fields.With(s.Name, child)
	}
	list := slices.Clone(container.(attribute.List))
	switch exists := s.Index < len(list); {
	case exists && child == nil:
		return slices.Delete(list, s.Index, s.Index+1)
	case exists:
		list[s.Index] = child
	case child != nil:
		list = append(list, child)
	}
	return list
}

// checkDisjoint rejects paths that overlap, and paths that use the same value as a map and as a list.
func checkDisjoint(paths []Path) error {
	var conflict error
	for i, second := range paths {
		for _, first := range paths[:i] {
			at := 0
			for at < len(first) && at < len(second) && first[at] == second[at] {
				at++
			}
			switch {
			case at == len(first) || at == len(second):
				return fmt.Errorf("Two document paths overlap with each other; must remove or rewrite one of these paths; path one: %v, path two: %v", first, second)
			case first[at].IsIndex != second[at].IsIndex && conflict == nil:
				conflict = fmt.Errorf("Two document paths conflict with each other; must remove or rewrite one of these paths; path one: %v, path two: %v", first, second)
			}
		}
	}
	return conflict
}
