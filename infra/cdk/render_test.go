package cdk_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// render converts a synthesized template to readable YAML. It keeps the order, uses the short form of intrinsic
// functions, and drops dependencies that a reference implies.
func render(synthesized []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(synthesized, &document); err != nil { // JSON is valid YAML.
		return nil, fmt.Errorf("reading the synthesized template: %w", err)
	}
	root := document.Content[0]
	order(root, "AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Rules", "Conditions", "Resources", "Outputs")
	for _, resource := range entriesOf(valueOf(root, "Resources")) {
		dropDependencies(resource.value)
		order(resource.value, "Type", "Condition", "DependsOn", "DeletionPolicy", "UpdateReplacePolicy", "Metadata", "Properties")
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

type entry struct{ key, value *yaml.Node }

// entriesOf returns the entries of a mapping, or none for a node of another kind.
func entriesOf(node *yaml.Node) (entries []entry) {
	if node != nil && node.Kind == yaml.MappingNode {
		for pair := range slices.Chunk(node.Content, 2) {
			entries = append(entries, entry{pair[0], pair[1]})
		}
	}
	return entries
}

func setEntries(mapping *yaml.Node, entries []entry) {
	mapping.Content = nil
	for _, e := range entries {
		mapping.Content = append(mapping.Content, e.key, e.value)
	}
}

func valueOf(node *yaml.Node, key string) *yaml.Node {
	for _, e := range entriesOf(node) {
		if e.key.Value == key {
			return e.value
		}
	}
	return nil
}

// order moves the keys to the front, in the given order.
func order(mapping *yaml.Node, keys ...string) {
	slices.Reverse(keys) // A key that is not listed has the index -1, and comes last.
	entries := entriesOf(mapping)
	slices.SortStableFunc(entries, func(a, b entry) int { return slices.Index(keys, b.key.Value) - slices.Index(keys, a.key.Value) })
	setEntries(mapping, entries)
}

// dropDependencies removes the dependencies of a resource on resources to which its properties refer.
func dropDependencies(resource *yaml.Node) {
	dependencies := valueOf(resource, "DependsOn")
	if dependencies == nil {
		return
	}
	properties := valueOf(resource, "Properties")
	dependencies.Content = slices.DeleteFunc(dependencies.Content, func(id *yaml.Node) bool { return refersTo(properties, id.Value) })
	if len(dependencies.Content) == 0 {
		setEntries(resource, slices.DeleteFunc(entriesOf(resource), func(e entry) bool { return e.value == dependencies }))
	}
}

func refersTo(node *yaml.Node, id string) bool {
	if node == nil {
		return false
	}
	if argument := valueOf(node, "Ref"); argument != nil && argument.Value == id {
		return true
	}
	if argument := valueOf(node, "Fn::GetAtt"); argument != nil && argument.Content[0].Value == id {
		return true
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
			if strings.Contains(text, "\n") {
				node.Style = yaml.LiteralStyle
			}
			return
		}
		argument.Tag, argument.Style = "!Join", yaml.FlowStyle
		*node = *argument
	case "Fn::If", "Fn::Equals", "Fn::Not", "Fn::Select", "Fn::Split":
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

// small is a small template as CDK writes it.
const small = `{"AWSTemplateFormatVersion": "2010-09-09", "Resources": {
  "Role": {"Type": "AWS::IAM::Role", "Properties": {"Policies": [{"PolicyDocument": {"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": {"Fn::GetAtt": ["Queue", "Arn"]}, "Condition": {"StringEquals": {"a:b": ["c", "d"]}}}]}}]}},
  "Grant": {"Type": "AWS::IAM::Policy", "Properties": {"Roles": [{"Ref": "Role"}], "PolicyDocument": {"Statement": [
    {"Effect": "Allow", "Action": ["kms:Decrypt"], "Resource": {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":key"]]}}]}}},
  "Consumer": {"Type": "AWS::Lambda::Function", "DependsOn": ["Role", "Grant"], "Properties": {"Role": {"Fn::GetAtt": ["Role", "Arn"]}, "Timeout": 60,
    "Environment": {"Variables": {"INDEX": "on", "URL": {"Ref": "Queue"}, "LITERAL": "${x}", "SECRET": {"Fn::Join": ["", ["{{resolve:", {"Ref": "Key"}, "}} ${y}"]]}}}}}
}, "Conditions": {"Has": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Topic"}, ""]}]}, "Some": {"Fn::Equals": [{"Fn::Join": ["", {"Ref": "Names"}]}, "a"]},
  "First": {"Fn::Equals": [{"Fn::Select": [0, {"Fn::Split": ["-", {"Ref": "Range"}]}]}, "2"]}}}`

func TestTemplateIsRenderedAsReadableYAML(t *testing.T) {
	t.Parallel()
	got, err := render([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	const want = "# Generated from infra/cdk by `make infra INFRA_FLAGS=-update`. Do not edit.\n" + `AWSTemplateFormatVersion: "2010-09-09"
Conditions:
  Has: !Not [!Equals [!Ref Topic, ""]]
  Some: !Equals [!Join ["", !Ref Names], a]
  First: !Equals [!Select [0, !Split ['-', !Ref Range]], "2"]
Resources:
  Role:
    Type: AWS::IAM::Role
    Properties:
      Policies:
        - PolicyDocument:
            Version: "2012-10-17"
            Statement:
              - Effect: Allow
                Action: sqs:SendMessage
                Resource: !GetAtt Queue.Arn
                Condition:
                  StringEquals:
                    a:b:
                      - c
                      - d
  Grant:
    Type: AWS::IAM::Policy
    Properties:
      Roles:
        - !Ref Role
      PolicyDocument:
        Statement:
          - Effect: Allow
            Action:
              - kms:Decrypt
            Resource: !Sub arn:${AWS::Partition}:key
  Consumer:
    Type: AWS::Lambda::Function
    DependsOn:
      - Grant
    Properties:
      Role: !GetAtt Role.Arn
      Timeout: 60
      Environment:
        Variables:
          INDEX: "on"
          URL: !Ref Queue
          LITERAL: ${x}
          SECRET: !Sub '{{resolve:${Key}}} ${!y}'
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
