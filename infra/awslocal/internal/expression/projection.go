package expression

import (
	"slices"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
)

// Projection is a set of document paths to select from an item.
type Projection struct {
	// paths are sorted and disjoint.
	paths []Path
}

// ParseProjection parses a ProjectionExpression.
func ParseProjection(source string, placeholders *Placeholders) (*Projection, error) {
	p, err := newParser(source)
	if err != nil {
		return nil, err
	}
	var paths []Path
	for more := true; more; more = p.acceptSymbol(",") {
		path, err := p.path()
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	if err := p.expectEnd(); err != nil {
		return nil, err
	}
	for _, path := range paths {
		if err := checkReservedPath(path); err != nil {
			return nil, err
		}
	}
	for _, path := range paths {
		if err := placeholders.resolveNames(path); err != nil {
			return nil, err
		}
	}
	if err := checkDisjoint(paths); err != nil {
		return nil, err
	}
	return NewProjection(paths), nil
}

// NewProjection returns the projection of paths, which must be disjoint.
func NewProjection(paths []Path) *Projection {
	sorted := slices.Clone(paths)
	slices.SortFunc(sorted, Path.compare)
	return &Projection{sorted}
}

// Paths returns the document paths of the projection, sorted.
func (p *Projection) Paths() []Path { return p.paths }

// Apply returns the selected parts of an item. Selected list elements become adjacent.
func (p *Projection) Apply(item attribute.Map) attribute.Map {
	if kept, ok := pick(item, p.paths, 0).(attribute.Map); ok {
		return kept
	}
	return attribute.Map{}
}

// pick returns the parts of `value` that `paths` select, or nil if they do not exist. The paths share their first
// `depth` steps, which lead to `value`.
func pick(value attribute.Value, paths []Path, depth int) attribute.Value {
	if value == nil || len(paths[0]) == depth {
		return value
	}
	var fields attribute.Map
	var elements attribute.List
	for len(paths) > 0 {
		step := paths[0][depth]
		end := slices.IndexFunc(paths, func(p Path) bool { return p[depth] != step })
		if end < 0 {
			end = len(paths)
		}
		if kept := pick(step.child(value), paths[:end], depth+1); kept != nil {
			fields = append(fields, attribute.Field{Name: step.Name, Value: kept})
			elements = append(elements, kept)
		}
		paths = paths[end:]
	}
	if len(elements) == 0 {
		return nil
	}
	if _, isList := value.(attribute.List); isList {
		return elements
	}
	return fields
}
