package cdk_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

type object = map[string]any

// readable returns a value of a template with each text and reference in the form of Fn::Sub, such as ${Queue.Arn}.
func readable(value any) any {
	switch value := value.(type) {
	case string:
		return strings.ReplaceAll(value, "${", "${!")
	case []any:
		list := make([]any, len(value))
		for i := range value {
			list[i] = readable(value[i])
		}
		return list
	case object:
		if text, isText := value["Fn::Sub"].(string); isText {
			return text
		}
		read := object{}
		for key, part := range value {
			read[key] = readable(part)
		}
		if text, isText := read["Ref"].(string); isText {
			return "${" + text + "}"
		}
		if list, _ := read["Fn::GetAtt"].([]any); len(list) == 2 {
			return fmt.Sprintf("${%v.%v}", list...)
		}
		if list, _ := read["Fn::If"].([]any); reflect.DeepEqual(list, []any{"HasExistingTable", "${ExistingTable}", "${Table}"}) {
			return "${Table}" // the name of the table that the stack uses
		}
		if list, _ := read["Fn::Join"].([]any); len(list) == 2 && list[0] == "" {
			var parts texts
			if text, err := json.Marshal(list[1]); err == nil && text[0] == '[' && json.Unmarshal(text, &parts) == nil {
				return strings.Join(parts, "")
			}
		}
		return read
	}
	return value
}

// function is a function as the template deploys it.
type function struct {
	Name           string            `json:"name"`
	LogicalID      string            `json:"logicalId"`
	TimeoutSeconds int               `json:"timeoutSeconds"`
	MemoryMiB      int               `json:"memoryMiB"`
	Environment    map[string]string `json:"environment"`
	// Rotations maps each condition of the template to the variables that differ while the condition is true.
	Rotations  map[string]map[string]string `json:"rotations,omitempty"`
	Statements []statement                  `json:"statements"`
}

// statement is a statement of a role's policies. Every statement has the effect Allow.
type statement struct {
	Actions    texts                       `json:"actions"`
	Resources  texts                       `json:"resources"`
	Conditions map[string]map[string]texts `json:"conditions,omitempty"`
}

// variable is the value of an environment variable: one text, or two texts and the condition that selects one.
type variable struct{ condition, text, otherwise string }

func (v *variable) UnmarshalJSON(data []byte) error {
	if data[0] != '{' {
		return json.Unmarshal(data, &v.otherwise)
	}
	var choice map[string][]string
	if err := json.Unmarshal(data, &choice); err != nil {
		return err
	}
	if len(choice) != 1 || len(choice["Fn::If"]) != 3 {
		return fmt.Errorf("expected a text or Fn::If with two texts, got %s", data)
	}
	v.condition, v.text, v.otherwise = choice["Fn::If"][0], choice["Fn::If"][1], choice["Fn::If"][2]
	return nil
}

// environmentOf returns the variables that apply while all conditions are false. `rotations` maps
// each condition to the variables that differ while the condition is true.
func environmentOf(variables map[string]variable) (environment map[string]string, rotations map[string]map[string]string) {
	environment = map[string]string{}
	for name, value := range variables {
		if value.otherwise != "${AWS::NoValue}" {
			environment[name] = value.otherwise
		}
		if value.condition == "" {
			continue
		}
		if rotations == nil {
			rotations = map[string]map[string]string{}
		}
		if rotations[value.condition] == nil {
			rotations[value.condition] = map[string]string{}
		}
		rotations[value.condition][name] = value.text
	}
	return environment, rotations
}

// texts is one text or a list of texts. Only the table's ARN may depend on a condition. For a conditional ARN, texts
// contains the ARN of the stack's own table.
type texts []string

func (t *texts) UnmarshalJSON(data []byte) error {
	values := make([]variable, 1)
	var err error
	if data[0] == '[' {
		err = json.Unmarshal(data, &values)
	} else {
		err = json.Unmarshal(data, &values[0])
	}
	*t = texts{}
	for _, value := range values {
		if value.condition != "" && (value.condition != "HasExistingTable" || !strings.HasSuffix(value.text, ":table/${ExistingTable}") || value.otherwise != "${Table.Arn}") {
			return fmt.Errorf("expected a condition only for the table, got %s", data)
		}
		*t = append(*t, value.otherwise)
	}
	return err
}

type document struct {
	Statement []struct {
		Effect                 string
		Action, Resource       texts
		NotAction, NotResource any
		Condition              map[string]map[string]texts
	}
}

// rolesAndFunctions are the functions, roles and policies of a readable template, by logical ID.
type rolesAndFunctions map[string]struct {
	Type       string
	Properties struct {
		// The properties of a function.
		Timeout, MemorySize int
		Role                string
		Environment         struct{ Variables map[string]variable }
		// The properties of a role.
		ManagedPolicyArns []any
		Policies          []struct{ PolicyDocument document }
		// The properties of a policy.
		Roles          []string
		PolicyDocument document
	}
}

// resourcesOf returns the functions, roles and policies of a template.
func resourcesOf(template object) (rolesAndFunctions, error) {
	read, _ := readable(template["Resources"]).(object)
	maps.DeleteFunc(read, func(_ string, resource any) bool {
		kind := fmt.Sprint(resource.(object)["Type"])
		return kind != "AWS::Lambda::Function" && kind != "AWS::IAM::Role" && kind != "AWS::IAM::Policy"
	})
	text, err := json.Marshal(read)
	if err != nil {
		return nil, err
	}
	var r rolesAndFunctions
	err = json.Unmarshal(text, &r)
	return r, err
}

// statements returns the permissions of a role, from its inline policies and from policies that refer to it. It returns
// an error for anything that could hide a permission: managed policies, statements that deny, NotAction and
// NotResource.
func (r rolesAndFunctions) statements(role string) ([]statement, error) {
	if r[role].Type != "AWS::IAM::Role" {
		return nil, fmt.Errorf("expected a role of the template, got %q", role)
	}
	if managed := r[role].Properties.ManagedPolicyArns; len(managed) > 0 {
		return nil, fmt.Errorf("role %s: expected no managed policy, got %v", role, managed)
	}
	var documents []document
	for _, inline := range r[role].Properties.Policies {
		documents = append(documents, inline.PolicyDocument)
	}
	for _, id := range slices.Sorted(maps.Keys(r)) {
		if r[id].Type == "AWS::IAM::Policy" && slices.Contains(r[id].Properties.Roles, "${"+role+"}") {
			documents = append(documents, r[id].Properties.PolicyDocument)
		}
	}
	var statements []statement
	for _, document := range documents {
		if len(document.Statement) == 0 {
			return nil, fmt.Errorf("role %s: expected a policy with statements", role)
		}
		for _, s := range document.Statement {
			if s.Effect != "Allow" || len(s.Action) == 0 || len(s.Resource) == 0 || s.NotAction != nil || s.NotResource != nil {
				return nil, fmt.Errorf("role %s: expected a statement that allows actions on resources, got %v", role, s)
			}
			statements = append(statements, statement{s.Action, s.Resource, s.Condition})
		}
	}
	return statements, nil
}

// functionsOf returns the template's functions, sorted by logical ID.
func functionsOf(template object) ([]function, error) {
	r, err := resourcesOf(template)
	if err != nil {
		return nil, err
	}
	var functions []function
	for _, id := range slices.Sorted(maps.Keys(r)) {
		if r[id].Type != "AWS::Lambda::Function" {
			continue
		}
		properties := r[id].Properties
		statements, err := r.statements(strings.TrimSuffix(strings.TrimPrefix(properties.Role, "${"), ".Arn}"))
		if err != nil {
			return nil, fmt.Errorf("function %s: %w", id, err)
		}
		environment, rotations := environmentOf(properties.Environment.Variables)
		functions = append(functions, function{strings.ToLower(id), id, properties.Timeout, properties.MemorySize, environment, rotations, statements})
	}
	return functions, nil
}

// added returns the statements that only the template `after` has, by function. It returns an error
// if `after` lacks a statement of `before`.
func added(before, after object) (map[string][]statement, error) {
	old, err := functionsOf(before)
	if err != nil {
		return nil, err
	}
	functions, err := functionsOf(after)
	if err != nil {
		return nil, err
	}
	added := map[string][]statement{}
	for i, f := range functions {
		more := slices.DeleteFunc(slices.Clone(f.Statements), func(s statement) bool {
			return slices.ContainsFunc(old[i].Statements, func(other statement) bool { return reflect.DeepEqual(s, other) })
		})
		if f.Name != old[i].Name || len(more)+len(old[i].Statements) != len(f.Statements) {
			return nil, fmt.Errorf("function %s: expected to keep %v, got %v", f.Name, old[i].Statements, f.Statements)
		}
		if len(more) > 0 {
			added[f.Name] = more
		}
	}
	return added, nil
}

// extract returns functions.json, for programs that do not read templates: the functions'
// permissions and environments, and the table's schema. `options` holds the statements that each
// option of the stack adds to each function.
func extract(template object, options map[string]map[string][]statement) ([]byte, error) {
	functions, err := functionsOf(template)
	if err != nil {
		return nil, err
	}
	table := object{}
	for _, property := range []string{"AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "TimeToLiveSpecification"} {
		table[property] = at(template, "Resources", "Table", "Properties", property)
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(object{"functions": functions, "options": options, "table": table})
	return []byte(out.String()), err
}

// at returns the part of a template at a path, or nil if the path does not exist. A number in the path is an index.
func at(value any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			mapping, _ := value.(object)
			value = mapping[step]
		case int:
			list, _ := value.([]any)
			if step >= len(list) {
				return nil
			}
			value = list[step]
		}
	}
	return value
}

func parsed(t *testing.T, text string) (template object) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &template); err != nil {
		t.Fatal(err)
	}
	return template
}

func TestFunctionsAreExtracted(t *testing.T) {
	t.Parallel()
	functions, err := functionsOf(parsed(t, small))
	const want = `[{consumer Consumer 60 0 map[INDEX:on LITERAL:${!x} SECRET:{{resolve:${Key}}} ${!y} URL:${Queue}] map[] ` +
		`[{[sqs:SendMessage] [${Queue.Arn}] map[StringEquals:map[a:b:[c d]]]} {[kms:Decrypt] [arn:${AWS::Partition}:key] map[]}]}]`
	if got := fmt.Sprint(functions); err != nil || got != want {
		t.Errorf("got\n%s, %v\nwant\n%s", got, err, want)
	}
}

func TestConditionalVariablesAreExtracted(t *testing.T) {
	t.Parallel()
	rotated := strings.Replace(small, `"INDEX": "on"`, `"INDEX": {"Fn::If": ["Rotates", "new", "old"]}, "INDEX_PREVIOUS": {"Fn::If": ["Rotates", "old", {"Ref": "AWS::NoValue"}]}`, 1)
	functions, err := functionsOf(parsed(t, rotated))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(functions[0].Rotations, functions[0].Environment); got != "map[Rotates:map[INDEX:new INDEX_PREVIOUS:old]] map[INDEX:old LITERAL:${!x} SECRET:{{resolve:${Key}}} ${!y} URL:${Queue}]" {
		t.Errorf("got %s", got)
	}
	if _, err := functionsOf(parsed(t, strings.Replace(small, `"INDEX": "on"`, `"INDEX": {"Fn::Select": ["0", "a"]}`, 1))); err == nil || !strings.Contains(err.Error(), "expected a text or Fn::If") {
		t.Errorf("expected an error for another function, got %v", err)
	}
}

func TestAddedStatements(t *testing.T) {
	t.Parallel()
	const decrypt = `{"Effect": "Allow", "Action": ["kms:Decrypt"]`
	before := parsed(t, small)
	after := parsed(t, strings.Replace(small, decrypt, `{"Effect": "Allow", "Action": "kms:Encrypt", "Resource": {"Ref": "Key"}}, `+decrypt, 1))
	more, err := added(before, after)
	if got := fmt.Sprint(more); err != nil || got != "map[consumer:[{[kms:Encrypt] [${Key}] map[]}]]" {
		t.Errorf("expected the added statement, got %s, %v", got, err)
	}
	if same, err := added(after, after); err != nil || len(same) != 0 {
		t.Errorf("expected nothing, got %v, %v", same, err)
	}
	if _, err := added(after, before); err == nil || !strings.Contains(err.Error(), "function consumer: expected to keep [") || !strings.Contains(err.Error(), "kms:Encrypt") {
		t.Errorf("expected an error that names the removed statement, got %v", err)
	}
}

// A permission that the extract omits would stay unchecked.
func TestHiddenPermissionsAreRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, to, want string }{
		"a managed policy":        {`"Properties": {"Policies"`, `"Properties": {"ManagedPolicyArns": ["arn:x"], "Policies"`, "expected no managed policy"},
		"a statement that denies": {`"Effect": "Allow", "Action": "sqs:SendMessage"`, `"Effect": "Deny", "Action": "sqs:SendMessage"`, "expected a statement that allows"},
		"all but some actions":    {`"Action": "sqs:SendMessage"`, `"NotAction": "sqs:SendMessage"`, "expected a statement that allows"},
		"all but some resources":  {`"Resource": {"Fn::GetAtt"`, `"NotResource": {"Fn::GetAtt"`, "expected a statement that allows"},
		"a conditional resource":  {`{"Fn::GetAtt": ["Queue", "Arn"]}`, `{"Fn::If": ["Has", "a", "b"]}`, "expected a condition only for the table"},
		"a role from elsewhere":   {`"Role": {"Fn::GetAtt": ["Role", "Arn"]}`, `"Role": "arn:aws:iam::1:role/admin"`, "expected a role of the template"},
	} {
		if _, err := functionsOf(parsed(t, strings.Replace(small, c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: expected an error containing %q, got %v", name, c.want, err)
		}
	}
}
