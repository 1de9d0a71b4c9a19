package expression

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/settle-run/settle/infra/awslocal/internal/dynamo/attribute"
)

// Placeholders holds the ExpressionAttributeNames and ExpressionAttributeValues of a request. Parse all expressions of
// the request with the same Placeholders. It records the names and values that they use.
type Placeholders struct {
	names      map[string]string
	values     attribute.Map
	usedNames  map[string]bool
	usedValues map[string]bool
}

// NewPlaceholders validates the placeholders. A nil map means that the request does not have the parameter.
func NewPlaceholders(names map[string]string, values attribute.Map) (*Placeholders, error) {
	if names != nil && len(names) == 0 {
		return nil, errors.New("ExpressionAttributeNames must not be empty")
	}
	for _, key := range slices.Sorted(maps.Keys(names)) {
		if kind, length := scanKey(key); kind != nameRef || length != len(key) {
			return nil, fmt.Errorf("ExpressionAttributeNames contains invalid key: Syntax error; key: %q", key)
		}
	}
	if values != nil && len(values) == 0 {
		return nil, errors.New("ExpressionAttributeValues must not be empty")
	}
	for _, field := range values {
		if kind, length := scanKey(field.Name); kind != valueRef || length != len(field.Name) {
			return nil, fmt.Errorf("ExpressionAttributeValues contains invalid key: Syntax error; key: %q", field.Name)
		}
	}
	return &Placeholders{names: names, values: values, usedNames: map[string]bool{}, usedValues: map[string]bool{}}, nil
}

func scanKey(key string) (kind, int) {
	if key == "" {
		return illegal, 0
	}
	return scan(key)
}

// CheckUsed returns an error that names the unused placeholders. It returns nil if the expressions have used all of
// them.
func (p *Placeholders) CheckUsed() error {
	var unused []string
	for _, key := range slices.Sorted(maps.Keys(p.names)) {
		if !p.usedNames[key] {
			unused = append(unused, key)
		}
	}
	if len(unused) > 0 {
		return fmt.Errorf("Value provided in ExpressionAttributeNames unused in expressions: keys: {%s}", strings.Join(unused, ", "))
	}
	for _, field := range p.values {
		if !p.usedValues[field.Name] {
			unused = append(unused, field.Name)
		}
	}
	if len(unused) > 0 {
		return fmt.Errorf("Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}", strings.Join(unused, ", "))
	}
	return nil
}

// resolveNames replaces the #names of a path.
func (p *Placeholders) resolveNames(path Path) error {
	for i, step := range path {
		if !strings.HasPrefix(step.Name, "#") {
			continue
		}
		name, defined := p.names[step.Name]
		if !defined {
			return fmt.Errorf("An expression attribute name used in the document path is not defined; attribute name: %s", step.Name)
		}
		p.usedNames[step.Name] = true
		path[i].Name = name
	}
	return nil
}

func (p *Placeholders) resolveValue(operand *valueOperand) error {
	operand.value = p.values.Get(operand.placeholder)
	if operand.value == nil {
		return fmt.Errorf("An expression attribute value used in expression is not defined; attribute value: %s", operand.placeholder)
	}
	p.usedValues[operand.placeholder] = true
	return nil
}
