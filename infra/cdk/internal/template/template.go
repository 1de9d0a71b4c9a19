// Package template reads and writes infra/template.yaml. It also resolves the functions' permissions and environments
// as CloudFormation does. It does not need CDK.
package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Resource is a resource of a template.
type Resource struct {
	Type                string
	DependsOn           any // a logical ID, or a list of them
	Properties          map[string]any
	DeletionPolicy      string
	UpdateReplacePolicy string
}

// Template is a template as JSON, with intrinsic functions in their long form.
type Template map[string]any

// Resources returns copies of the resources by logical ID.
func (t Template) Resources() map[string]Resource {
	resources := map[string]Resource{}
	text, err := json.Marshal(t["Resources"])
	if err == nil {
		err = json.Unmarshal(text, &resources)
	}
	if err != nil {
		panic(err) // The template was decoded from JSON.
	}
	return resources
}

// Render converts the synthesized template to readable YAML. It keeps the order, uses the short form of intrinsic
// functions, and drops dependencies that a reference implies.
func Render(synthesized []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(synthesized, &document); err != nil { // JSON is valid YAML.
		return nil, fmt.Errorf("reading the synthesized template: %w", err)
	}
	root := document.Content[0]
	order(root, "AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Conditions", "Resources", "Outputs")
	if value(root, "AWSTemplateFormatVersion") == nil {
		root.Content = slices.Insert(root.Content, 0, scalar("AWSTemplateFormatVersion"), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "2010-09-09"})
	}
	resources := value(root, "Resources")
	if resources == nil {
		return nil, errors.New("expected a template with Resources, got one without")
	}
	for i := 1; i < len(resources.Content); i += 2 {
		dropDependencies(resources.Content[i])
		order(resources.Content[i], "Type", "Condition", "DependsOn", "DeletionPolicy", "UpdateReplacePolicy", "Metadata", "Properties")
	}
	shorten(root)
	var out bytes.Buffer
	out.WriteString("# Generated from infra/cdk by `make infra INFRA_FLAGS=-update`. Do not edit.\n")
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("writing the template: %w", err)
	}
	return out.Bytes(), nil
}

// Parse reads a template in YAML or JSON.
func Parse(text []byte) (Template, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	if len(document.Content) == 0 {
		return nil, errors.New("reading the template: expected YAML, got nothing")
	}
	parsed, err := lengthen(document.Content[0])
	if err != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	// Convert through JSON, so that all numbers have the same type.
	long, err := json.Marshal(parsed)
	if err != nil {
		return nil, err
	}
	var template Template
	if err := json.Unmarshal(long, &template); err != nil {
		return nil, fmt.Errorf("reading the template: expected a mapping: %w", err)
	}
	return template, nil
}

// Clone returns a deep copy.
func (t Template) Clone() Template {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // The template was decoded from JSON.
	}
	var copied Template
	if err := json.Unmarshal(text, &copied); err != nil {
		panic(err)
	}
	return copied
}

func value(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// order moves the keys to the front, in the given order.
func order(mapping *yaml.Node, keys ...string) {
	type entry struct{ key, value *yaml.Node }
	var entries []entry
	for i := 0; i < len(mapping.Content); i += 2 {
		entries = append(entries, entry{mapping.Content[i], mapping.Content[i+1]})
	}
	rank := func(e entry) int {
		if i := slices.Index(keys, e.key.Value); i >= 0 {
			return i
		}
		return len(keys)
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return rank(a) - rank(b) })
	mapping.Content = nil
	for _, e := range entries {
		mapping.Content = append(mapping.Content, e.key, e.value)
	}
}

// dropDependencies removes the dependencies of a resource that it also refers to.
func dropDependencies(resource *yaml.Node) {
	dependencies, properties := value(resource, "DependsOn"), value(resource, "Properties")
	if dependencies == nil || properties == nil {
		return
	}
	dependencies.Content = slices.DeleteFunc(dependencies.Content, func(id *yaml.Node) bool { return refersTo(properties, id.Value) })
	if len(dependencies.Content) > 0 {
		return
	}
	for i := 0; i < len(resource.Content); i += 2 {
		if resource.Content[i].Value == "DependsOn" {
			resource.Content = slices.Delete(resource.Content, i, i+2)
			return
		}
	}
}

func refersTo(node *yaml.Node, id string) bool {
	if node.Kind == yaml.MappingNode && len(node.Content) == 2 {
		argument := node.Content[1]
		switch node.Content[0].Value {
		case "Ref":
			return argument.Value == id
		case "Fn::GetAtt":
			return len(argument.Content) > 0 && argument.Content[0].Value == id
		}
	}
	return slices.ContainsFunc(node.Content, func(child *yaml.Node) bool { return refersTo(child, id) })
}

// ambiguous matches text that YAML 1.1 may read as another type: booleans, null, numbers, dates.
var ambiguous = regexp.MustCompile(`(?i)^(|~|y|n|yes|no|on|off|true|false|null|[-+.]?[0-9].*)$`)

// shorten converts intrinsic functions to their short form and leaves quoting to the encoder.
func shorten(node *yaml.Node) {
	for _, child := range node.Content {
		shorten(child)
	}
	node.Style = 0
	switch node.Kind {
	case yaml.ScalarNode:
		if node.Tag == "!!str" && ambiguous.MatchString(node.Value) {
			node.Style = yaml.DoubleQuotedStyle
		}
		if strings.Contains(node.Value, "\n") {
			node.Style = yaml.LiteralStyle
		}
	case yaml.MappingNode:
		if len(node.Content) == 2 {
			shortenFunction(node, node.Content[0].Value, node.Content[1])
		}
	}
}

func shortenFunction(node *yaml.Node, function string, argument *yaml.Node) {
	switch function {
	case "Ref":
		*node = yaml.Node{Kind: yaml.ScalarNode, Tag: "!Ref", Value: argument.Value}
	case "Fn::GetAtt":
		*node = yaml.Node{Kind: yaml.ScalarNode, Tag: "!GetAtt", Value: argument.Content[0].Value + "." + argument.Content[1].Value}
	case "Fn::Join":
		if text, ok := joined(argument); ok {
			*node = yaml.Node{Kind: yaml.ScalarNode, Tag: "!Sub", Value: text}
			return
		}
		argument.Tag, argument.Style = "!Join", yaml.FlowStyle
		*node = *argument
	case "Fn::If", "Fn::Equals", "Fn::Not":
		argument.Tag, argument.Style = "!"+strings.TrimPrefix(function, "Fn::"), yaml.FlowStyle
		*node = *argument
	}
}

// joined converts a Join of texts and references to the text of a Sub.
func joined(argument *yaml.Node) (string, bool) {
	if len(argument.Content) != 2 || argument.Content[0].Value != "" || argument.Content[1].Kind != yaml.SequenceNode {
		return "", false
	}
	var text strings.Builder
	for _, part := range argument.Content[1].Content {
		switch part.Tag {
		case "!!str":
			text.WriteString(strings.ReplaceAll(part.Value, "${", "${!"))
		case "!Ref", "!GetAtt":
			text.WriteString("${" + part.Value + "}")
		default:
			return "", false
		}
	}
	return text.String(), true
}

func scalar(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// lengthen is the inverse of shorten, for JSON. A Sub stays a Sub.
func lengthen(node *yaml.Node) (any, error) {
	function := ""
	if strings.HasPrefix(node.Tag, "!") && !strings.HasPrefix(node.Tag, "!!") {
		function = strings.TrimPrefix(node.Tag, "!")
	}
	var plain any
	switch node.Kind {
	case yaml.MappingNode:
		mapping := map[string]any{}
		for i := 0; i < len(node.Content); i += 2 {
			value, err := lengthen(node.Content[i+1])
			if err != nil {
				return nil, err
			}
			mapping[node.Content[i].Value] = value
		}
		plain = mapping
	case yaml.SequenceNode:
		sequence := []any{}
		for _, child := range node.Content {
			value, err := lengthen(child)
			if err != nil {
				return nil, err
			}
			sequence = append(sequence, value)
		}
		plain = sequence
	case yaml.ScalarNode:
		if function != "" {
			plain = node.Value
		} else if err := node.Decode(&plain); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("line %d: expected a mapping, a list or a value, got an alias", node.Line)
	}
	switch function {
	case "":
		return plain, nil
	case "Ref":
		return map[string]any{"Ref": plain}, nil
	case "GetAtt":
		resource, attribute, _ := strings.Cut(node.Value, ".")
		return map[string]any{"Fn::GetAtt": []any{resource, attribute}}, nil
	default:
		return map[string]any{"Fn::" + function: plain}, nil
	}
}
