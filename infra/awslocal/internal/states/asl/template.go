package asl

import (
	"maps"
	"slices"
	"strings"
)

// Template is a payload template: JSON in which a path or an intrinsic function provides the value of each member
// whose name ends in ".$".
type Template struct{ node templateNode }

// templateNode is an expression, the members of an object, the elements of an array or, if it has none of these, a
// literal.
type templateNode struct {
	expression *expression
	members    []templateMember
	elements   []templateNode
	literal    any
}

type templateMember struct {
	name  string // the name without ".$"
	field string // the name as written
	node  templateNode
}

// Fill evaluates the template in a scope.
func (t *Template) Fill(scope Scope) (any, *Failure) { return t.node.fill(scope, "") }

// Member reports whether the template's object has a member. It also returns the member's value if the value is a
// literal, and nil otherwise.
func (t *Template) Member(name string) (literal any, there bool) {
	for _, member := range t.node.members {
		if member.name == name {
			return member.node.literal, true
		}
	}
	return nil, false
}

// Members returns the names of the members of the template's object, in order.
func (t *Template) Members() []string {
	var names []string
	for _, member := range t.node.members {
		names = append(names, member.name)
	}
	return names
}

func (n templateNode) fill(scope Scope, field string) (any, *Failure) {
	switch {
	case n.expression != nil:
		return n.expression.evaluate(scope, field)
	case n.members != nil:
		object := make(map[string]any, len(n.members))
		for _, member := range n.members {
			value, failure := member.node.fill(scope, member.field)
			if failure != nil {
				return nil, failure
			}
			object[member.name] = value
		}
		return object, nil
	case n.elements != nil:
		array := make([]any, len(n.elements))
		for i, element := range n.elements {
			value, failure := element.fill(scope, field)
			if failure != nil {
				return nil, failure
			}
			array[i] = value
		}
		return array, nil
	}
	return n.literal, nil
}

// template parses a payload template, which must be an object.
func (o *object) template(name string) *Template {
	value, ok := o.take(name)
	if !ok {
		return nil
	}
	if _, ok := value.(map[string]any); !ok {
		o.find(name, "expected a JSON object")
		return nil
	}
	return &Template{o.node(value, o.path+"/"+name)}
}

func (o *object) node(value any, path string) templateNode {
	switch value := value.(type) {
	case map[string]any:
		node := templateNode{members: []templateMember{}}
		for _, field := range slices.Sorted(maps.Keys(value)) {
			node.members = append(node.members, o.member(value, field, path+"/"+field))
		}
		return node
	case []any:
		node := templateNode{elements: []templateNode{}}
		for _, element := range value {
			node.elements = append(node.elements, o.node(element, path))
		}
		return node
	}
	return templateNode{literal: value}
}

func (o *object) member(object map[string]any, field, path string) templateMember {
	name, dynamic := strings.CutSuffix(field, ".$")
	if !dynamic {
		return templateMember{field, field, o.node(object[field], path)}
	}
	if _, twice := object[name]; twice {
		o.findings.add(path, schemaInvalid, "the fields '%s' and '%s' have the same name", name, field)
	}
	text, ok := object[field].(string)
	if !ok {
		o.findings.add(path, schemaInvalid, "The value for the field '%s' must be a valid JSONPath or a valid intrinsic function call", field)
		return templateMember{name: name, field: field}
	}
	e, err := parseExpression(text)
	if err != nil {
		o.findings.add(path, schemaInvalid, "The value for the field '%s' must be a valid JSONPath or a valid intrinsic function call: %v", field, err)
		return templateMember{name: name, field: field}
	}
	return templateMember{name, field, templateNode{expression: e}}
}
