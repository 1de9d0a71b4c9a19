// Package pattern compiles and matches the event patterns of Amazon EventBridge. It follows "Creating event patterns"
// and "Comparison operators for use in event patterns" of the EventBridge User Guide, and the documentation of Event
// Ruler, the library with which EventBridge matches.
//
// A pattern matches an event if each of its fields matches. A field matches if one of its conditions matches. In arrays
// of objects, all fields of the pattern must match within one element. In a pattern, a number without an operator
// matches by its text, so 300 does not match 300.0.
package pattern

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// BytesMax limits a pattern (EventBridge API Reference, PutRule, EventPattern).
const BytesMax = 4096

// alternativesMax limits the combinations that $or makes (EventBridge User Guide, "Event patterns").
const alternativesMax = 1000

// Pattern is a compiled event pattern. It is immutable.
type Pattern struct {
	// alternatives are the combinations that $or makes. One of them must match.
	alternatives []alternative
}

// alternative holds the conditions of each field, by its path. All fields must match.
type alternative map[string][]condition

// Parse compiles a pattern. The error names the problem and its place.
func Parse(text string) (*Pattern, error) {
	if len(text) > BytesMax {
		return nil, fmt.Errorf("expected at most %d bytes, got %d", BytesMax, len(text))
	}
	var root any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&root); err != nil || decoder.More() {
		return nil, fmt.Errorf("expected one JSON object, got %q", text)
	}
	object, ok := root.(map[string]any)
	if !ok || len(object) == 0 {
		return nil, fmt.Errorf("expected a JSON object with at least one field, got %s", text)
	}
	alternatives, err := compile("", object)
	if err != nil {
		return nil, err
	}
	return &Pattern{alternatives}, nil
}

// compile returns the alternatives of a pattern's object. path is the path of the object in the pattern.
func compile(path string, object map[string]any) ([]alternative, error) {
	all := []alternative{{}}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		here := joined(path, name)
		var found []alternative
		var err error
		switch value := object[name].(type) {
		case map[string]any:
			if len(value) == 0 {
				return nil, fmt.Errorf("%s: expected at least one field, got an empty object", here)
			}
			found, err = compile(here, value)
		case []any:
			if branches, isOr := orBranches(name, value); isOr {
				found, err = compileOr(path, branches)
				break
			}
			var conditions []condition
			conditions, err = compileConditions(here, value)
			found = []alternative{{here: conditions}}
		default:
			return nil, fmt.Errorf("%s: expected an array of conditions or an object, got %v", here, value)
		}
		if err != nil {
			return nil, err
		}
		if all, err = combined(all, found); err != nil {
			return nil, fmt.Errorf("%s: %w", here, err)
		}
	}
	return all, nil
}

// joined returns the path of a field. As in Event Ruler, a name that contains a dot is the same as two names.
func joined(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// combined returns each combination of two sets of alternatives.
func combined(a, b []alternative) ([]alternative, error) {
	if len(a)*len(b) > alternativesMax {
		return nil, fmt.Errorf("expected at most %d combinations of the branches of $or", alternativesMax)
	}
	var all []alternative
	for _, x := range a {
		for _, y := range b {
			both := maps.Clone(x)
			maps.Copy(both, y)
			all = append(all, both)
		}
	}
	return all, nil
}

// orBranches returns the branches of $or. Event Ruler requires an array of at least two non-empty objects, and no field
// of these objects may have the name of an operator. Otherwise it treats $or as the name of an ordinary field.
func orBranches(name string, value []any) (branches []map[string]any, isOr bool) {
	if name != "$or" || len(value) < 2 {
		return nil, false
	}
	for _, each := range value {
		branch, ok := each.(map[string]any)
		if !ok || len(branch) == 0 {
			return nil, false
		}
		for _, operator := range operatorNames {
			if _, uses := branch[operator]; uses {
				return nil, false
			}
		}
		branches = append(branches, branch)
	}
	return branches, true
}

func compileOr(path string, branches []map[string]any) ([]alternative, error) {
	var all []alternative
	for _, branch := range branches {
		found, err := compile(path, branch)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// field is one leaf of an event: a string, json.Number, bool or nil.
type field struct {
	value any
	// elements has an entry for each array that encloses the field. It maps the number of the array to the index of the
	// element that contains the field.
	elements map[int]int
}

// Match reports whether an event, a JSON object, matches the pattern.
func (p *Pattern) Match(event json.RawMessage) (bool, error) {
	var root any
	decoder := json.NewDecoder(strings.NewReader(string(event)))
	decoder.UseNumber()
	if err := decoder.Decode(&root); err != nil {
		return false, fmt.Errorf("reading the event: %w", err)
	}
	if _, ok := root.(map[string]any); !ok {
		return false, fmt.Errorf("expected a JSON object as the event, got %.100s", event)
	}
	f := flattening{fields: map[string][]field{}}
	f.add("", root, nil)
	return slices.ContainsFunc(p.alternatives, func(a alternative) bool {
		return matches(a, slices.Sorted(maps.Keys(a)), f.fields, nil)
	}), nil
}

// flattening collects the leaves of an event, by path.
type flattening struct {
	fields map[string][]field
	arrays int // number of arrays so far
}

func (f *flattening) add(path string, value any, elements map[int]int) {
	switch value := value.(type) {
	case map[string]any:
		for name, child := range value {
			f.add(joined(path, name), child, elements)
		}
	case []any:
		f.arrays++
		array := f.arrays
		for i, child := range value {
			within := map[int]int{}
			maps.Copy(within, elements)
			within[array] = i
			f.add(path, child, within)
		}
	default:
		f.fields[path] = append(f.fields[path], field{value, elements})
	}
}

// matches reports whether the conditions of all paths match. `elements` holds the array elements in which the earlier
// conditions matched. Fields in different elements of one array do not match together.
func matches(a alternative, paths []string, fields map[string][]field, elements map[int]int) bool {
	if len(paths) == 0 {
		return true
	}
	path := paths[0]
	for _, c := range a[path] {
		if c.absent {
			if len(fields[path]) == 0 && matches(a, paths[1:], fields, elements) {
				return true
			}
			continue
		}
		for _, f := range fields[path] {
			together, ok := agreed(elements, f.elements)
			if ok && c.matches(f.value) && matches(a, paths[1:], fields, together) {
				return true
			}
		}
	}
	return false
}

// agreed returns the union of two sets of array elements. It returns false if the sets have different elements of one
// array.
func agreed(a, b map[int]int) (map[int]int, bool) {
	if len(b) == 0 {
		return a, true
	}
	both := maps.Clone(b)
	for array, i := range a {
		if j, has := b[array]; has && i != j {
			return nil, false
		}
		both[array] = i
	}
	return both, true
}
