package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Function is a function as the template deploys it. Its texts are in the form of Fn::Sub, with references such as
// ${Queue.Arn}.
type Function struct {
	Name           string            `json:"name"`
	LogicalID      string            `json:"logicalId"`
	TimeoutSeconds int               `json:"timeoutSeconds"`
	MemoryMiB      int               `json:"memoryMiB"`
	Environment    map[string]string `json:"environment"`
	Statements     []Statement       `json:"statements"`
}

// Statement is a statement of a role's policies. All statements allow.
type Statement struct {
	Actions    []string                       `json:"actions"`
	Resources  []string                       `json:"resources"`
	Conditions map[string]map[string][]string `json:"conditions,omitempty"`
}

// tableProperties are the properties that the runtime relies on.
var tableProperties = []string{"AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "TimeToLiveSpecification"}

// Extract writes the functions' permissions and environments and the table's schema as JSON, for programs that do not
// read templates. options are the additional statements of some stacks, by option and function.
func Extract(t Template, options map[string]map[string][]Statement) ([]byte, error) {
	functions, err := Functions(t)
	if err != nil {
		return nil, err
	}
	table := map[string]any{}
	for _, property := range tableProperties {
		table[property] = t.Resources()["Table"].Properties[property]
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(map[string]any{"functions": functions, "options": options, "table": table}); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Added returns the statements of functions in after that before does not have, by function. It returns an error if
// after lacks a statement of before.
func Added(before, after Template) (map[string][]Statement, error) {
	old, err := Functions(before)
	if err != nil {
		return nil, err
	}
	functions, err := Functions(after)
	if err != nil {
		return nil, err
	}
	added := map[string][]Statement{}
	for _, f := range functions {
		left := slices.Clone(f.Statements)
		for _, other := range old {
			if other.Name != f.Name {
				continue
			}
			for _, statement := range other.Statements {
				i := slices.IndexFunc(left, func(s Statement) bool { return reflect.DeepEqual(s, statement) })
				if i < 0 {
					return nil, fmt.Errorf("function %s: expected to keep %v, got %v", f.Name, statement, f.Statements)
				}
				left = slices.Delete(left, i, i+1)
			}
		}
		if len(left) > 0 {
			added[f.Name] = left
		}
	}
	return added, nil
}

// Functions returns the template's functions, sorted by logical ID.
func Functions(t Template) ([]Function, error) {
	resources := t.Resources()
	var functions []Function
	for _, id := range slices.Sorted(maps.Keys(resources)) {
		if resources[id].Type != "AWS::Lambda::Function" {
			continue
		}
		function, err := functionOf(resources, id)
		if err != nil {
			return nil, fmt.Errorf("function %s: %w", id, err)
		}
		functions = append(functions, function)
	}
	return functions, nil
}

func functionOf(resources map[string]Resource, id string) (Function, error) {
	properties := resources[id].Properties
	f := Function{Name: strings.ToLower(id), LogicalID: id, Environment: map[string]string{}}
	timeout, _ := properties["Timeout"].(float64)
	memory, _ := properties["MemorySize"].(float64)
	f.TimeoutSeconds, f.MemoryMiB = int(timeout), int(memory)
	environment, _ := properties["Environment"].(map[string]any)
	variables, _ := environment["Variables"].(map[string]any)
	for name, value := range variables {
		text, err := Text(value)
		if err != nil {
			return Function{}, fmt.Errorf("environment variable %s: %w", name, err)
		}
		f.Environment[name] = text
	}
	role, err := Text(properties["Role"])
	if err != nil {
		return Function{}, fmt.Errorf("role: %w", err)
	}
	roleID := strings.TrimSuffix(strings.TrimPrefix(role, "${"), ".Arn}")
	f.Statements, err = Statements(resources, roleID)
	return f, err
}

// Statements returns the permissions of a role, from its inline policies and from policies that refer to it. It returns
// an error for anything that could hide a permission: managed policies, statements that deny, NotAction and
// NotResource.
func Statements(resources map[string]Resource, roleID string) ([]Statement, error) {
	role, ok := resources[roleID]
	if !ok || role.Type != "AWS::IAM::Role" {
		return nil, fmt.Errorf("expected a role of the template, got %q", roleID)
	}
	if managed, _ := role.Properties["ManagedPolicyArns"].([]any); len(managed) > 0 {
		return nil, fmt.Errorf("role %s: expected no managed policy, got %v", roleID, managed)
	}
	inline, _ := role.Properties["Policies"].([]any)
	var documents []any
	for _, policy := range inline {
		if policy, ok := policy.(map[string]any); ok {
			documents = append(documents, policy["PolicyDocument"])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(resources)) {
		if resources[id].Type == "AWS::IAM::Policy" && isFor(resources[id], roleID) {
			documents = append(documents, resources[id].Properties["PolicyDocument"])
		}
	}
	var statements []Statement
	for _, document := range documents {
		document, _ := document.(map[string]any)
		listed, ok := document["Statement"].([]any)
		if !ok {
			return nil, fmt.Errorf("role %s: expected a policy with statements, got %v", roleID, document)
		}
		for _, entry := range listed {
			statement, err := statementOf(entry)
			if err != nil {
				return nil, fmt.Errorf("role %s: %w", roleID, err)
			}
			statements = append(statements, statement)
		}
	}
	return statements, nil
}

func isFor(policy Resource, roleID string) bool {
	roles, _ := policy.Properties["Roles"].([]any)
	return slices.ContainsFunc(roles, func(role any) bool { text, err := Text(role); return err == nil && text == "${"+roleID+"}" })
}

func statementOf(entry any) (Statement, error) {
	fields, ok := entry.(map[string]any)
	if !ok || fields["Effect"] != "Allow" || fields["NotAction"] != nil || fields["NotResource"] != nil {
		return Statement{}, fmt.Errorf("expected a statement that allows actions on resources, got %v", entry)
	}
	var s Statement
	var err error
	if s.Actions, err = texts(fields["Action"]); err != nil {
		return Statement{}, err
	}
	if s.Resources, err = texts(fields["Resource"]); err != nil {
		return Statement{}, err
	}
	conditions, _ := fields["Condition"].(map[string]any)
	for operator, keys := range conditions {
		keys, _ := keys.(map[string]any)
		for key, values := range keys {
			expected, err := texts(values)
			if err != nil {
				return Statement{}, err
			}
			if s.Conditions == nil {
				s.Conditions = map[string]map[string][]string{}
			}
			if s.Conditions[operator] == nil {
				s.Conditions[operator] = map[string][]string{}
			}
			s.Conditions[operator][key] = expected
		}
	}
	return s, nil
}

// texts returns one text or a list of texts as a list.
func texts(value any) ([]string, error) {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	result := make([]string, len(list))
	for i := range list {
		var err error
		if result[i], err = Text(list[i]); err != nil {
			return nil, err
		}
	}
	return result, nil
}

var errNoText = errors.New("expected a string, a Ref, a GetAtt, a Sub or a Join")

// Text returns a value in the form of Fn::Sub.
func Text(value any) (string, error) {
	switch value := value.(type) {
	case string:
		return strings.ReplaceAll(value, "${", "${!"), nil
	case map[string]any:
		if len(value) != 1 {
			break
		}
		for function, argument := range value {
			return textOf(function, argument)
		}
	}
	return "", fmt.Errorf("%w, got %v", errNoText, value)
}

func textOf(function string, argument any) (string, error) {
	list, _ := argument.([]any)
	text, isText := argument.(string)
	switch {
	case function == "Ref" && isText:
		return "${" + text + "}", nil
	case function == "Fn::Sub" && isText:
		return text, nil
	case function == "Fn::GetAtt" && len(list) == 2:
		return fmt.Sprintf("${%v.%v}", list[0], list[1]), nil
	case function == "Fn::Join" && len(list) == 2 && list[0] == "":
		parts, err := texts(list[1])
		return strings.Join(parts, ""), err
	}
	return "", fmt.Errorf("%w, got %s of %v", errNoText, function, argument)
}
