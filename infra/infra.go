// Package infra describes the functions of infra/template.yaml: each function's environment and the permissions of its
// role. infra/cdk, a separate module, generates the template. This package needs neither CDK nor Node.
package infra

import (
	_ "embed" // the extract
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

//go:embed functions.json
var extract []byte

// Function is a function as the template deploys it. Its texts contain references such as ${Queue.Arn}, which Resolve
// replaces with values.
type Function struct {
	// Name is the name of the function's folder in functions/.
	Name string `json:"name"`
	// LogicalID is the function's logical ID in the template.
	LogicalID      string            `json:"logicalId"`
	TimeoutSeconds int               `json:"timeoutSeconds"`
	MemoryMiB      int               `json:"memoryMiB"`
	Environment    map[string]string `json:"environment"`
	// Rotations holds the variables that have other values while a secret is rotated. The key is the template's condition,
	// such as RotatesEnrichCallbackKey.
	Rotations map[string]map[string]string `json:"rotations"`
	// Statements are all permissions of the function's role.
	Statements []Statement `json:"statements"`
}

// extracted is the content of functions.json.
type extracted struct {
	Functions []Function
	// Options holds the permissions that a function needs for each state machine and each lane in the construct's Props.
	// The keys are the names of functions. In the statements, ${Workflow} stands for the state machine, and ${Lane} for the
	// queue of the lane.
	Options struct{ Workflows, WaitingWorkflows, Lanes map[string][]Statement }
}

func read() (extracted, error) {
	var e extracted
	if err := json.Unmarshal(extract, &e); err != nil {
		return e, fmt.Errorf("reading functions.json: %w", err)
	}
	return e, nil
}

// Functions returns the template's functions by name.
func Functions() (map[string]Function, error) {
	read, err := read()
	if err != nil {
		return nil, err
	}
	functions := map[string]Function{}
	for _, f := range read.Functions {
		functions[f.Name] = f
	}
	return functions, nil
}

// Stack is a deployed stack: its location and the names of its resources.
type Stack struct {
	// Name, Account and Region identify the stack. All three are required.
	Name, Account, Region string
	// Values are the values of references that do not derive from Name, Account and Region: physical names such as Table,
	// and attributes such as HttpApi.ApiEndpoint. They take precedence over derived values.
	Values map[string]string
	// Secrets are the values of the secrets by logical ID, such as SignupCodeKey.
	Secrets map[string]string
	// Pending maps the logical ID of each secret that is being rotated to the value of its version AWSPENDING. During the
	// rotation, the secret's template parameter, such as RotateEnrichCallbackKey, is on.
	Pending map[string]string
	// QueueURLs is the prefix of queue URLs. Defaults to SQS's endpoint in the Region.
	QueueURLs string
	// Workflows maps the names that charts use to the ARNs of the state machines that they start,
	// as in the construct's Props.Workflows. The template has no such state machines.
	Workflows map[string]string
	// WaitingWorkflows are the ARNs of state machines that wait for instances, in addition to the template's, as in
	// Props.WaitingWorkflows.
	WaitingWorkflows []string
	// Lanes maps each lane's name, except the main lane's, to the ARN of its queue. LaneRules are the rules
	// of the lanes. Both are as in Props.Lanes and Props.LaneRules. The template has no lanes.
	Lanes     map[string]string
	LaneRules string
}

// ErrUnknownReference is returned by Resolve for a reference that the Stack has no value for.
var ErrUnknownReference = errors.New("unknown reference")

// Resolve returns the function with the stack's values in place of references. It adds the permissions and variables
// for the stack's lanes. For the stack's workflows, it adds the permissions, but not the variable SETTLE_WORKFLOWS.
func (s Stack) Resolve(f Function) (Function, error) {
	r := resolver{stack: s}
	environment := map[string]string{}
	maps.Copy(environment, f.Environment)
	for id := range s.Pending {
		maps.Copy(environment, f.Rotations["Rotates"+id])
	}
	for name, value := range environment {
		environment[name] = r.text(value)
	}
	if len(s.Lanes) > 0 {
		var lanes []string
		for _, name := range slices.Sorted(maps.Keys(s.Lanes)) {
			lanes = append(lanes, name+"="+s.Lanes[name])
		}
		environment["SETTLE_LANES"] = strings.Join(lanes, ",")
		if s.LaneRules != "" {
			environment["SETTLE_LANE_RULES"] = s.LaneRules
		}
	}
	f.Environment, f.Rotations = environment, nil
	statements, err := s.Statements(f)
	if err := errors.Join(r.err(f), err); err != nil {
		return Function{}, err
	}
	f.Statements = statements
	return f, nil
}

// Statements returns the permissions that Resolve would give the function. Unlike Resolve, it needs values only for the
// references in the permissions' resources.
func (s Stack) Statements(f Function) ([]Statement, error) {
	read, err := read()
	if err != nil {
		return nil, err
	}
	r := resolver{stack: s}
	statements := r.statements(f.Statements)
	for _, name := range slices.Sorted(maps.Keys(s.Workflows)) {
		r.workflow = s.Workflows[name]
		statements = append(statements, r.statements(read.Options.Workflows[f.Name])...)
	}
	for _, r.workflow = range s.WaitingWorkflows {
		statements = append(statements, r.statements(read.Options.WaitingWorkflows[f.Name])...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Lanes)) {
		r.lane = s.Lanes[name]
		statements = append(statements, r.statements(read.Options.Lanes[f.Name])...)
	}
	return statements, r.err(f)
}

type resolver struct {
	stack Stack
	// workflow is the ARN of the state machine for which ${Workflow} stands in the statements.
	workflow string
	// lane is the ARN of the queue for which ${Lane} stands in the statements.
	lane     string
	problems []error
}

// err returns an error that lists the unknown references of a function, or nil if it has none.
func (r *resolver) err(f Function) error {
	if len(r.problems) == 0 {
		return nil
	}
	return fmt.Errorf("function %s: %w", f.Name, errors.Join(r.problems...))
}

func (r *resolver) statements(statements []Statement) []Statement {
	resolved := make([]Statement, len(statements))
	for i, statement := range statements {
		resolved[i] = Statement{Actions: statement.Actions, References: statement.Resources, Conditions: statement.Conditions}
		for _, resource := range statement.Resources {
			resolved[i].Resources = append(resolved[i].Resources, r.text(resource))
		}
	}
	return resolved
}

// value returns the value of a reference.
func (r *resolver) value(name string) (string, bool) {
	switch {
	case name == "Workflow" && r.workflow != "":
		return r.workflow, true
	case name == "Workflow.Name" && r.workflow != "":
		return r.workflow[strings.LastIndex(r.workflow, ":")+1:], true
	case name == "Lane.Arn" && r.lane != "":
		return r.lane, true
	}
	return r.stack.value(name)
}

var (
	dynamicReference = regexp.MustCompile(`\{\{resolve:secretsmanager:\$\{(\w+)\}:SecretString::(AWSPENDING)?:\}\}`)
	reference        = regexp.MustCompile(`\$\{(!?[\w:.]+)\}`)
)

func (r *resolver) text(text string) string {
	text = dynamicReference.ReplaceAllStringFunc(text, func(found string) string {
		parts := dynamicReference.FindStringSubmatch(found)
		id, versions := parts[1], r.stack.Secrets
		if parts[2] != "" {
			versions = r.stack.Pending
		}
		value, ok := versions[id]
		if !ok {
			r.problems = append(r.problems, fmt.Errorf("%w: expected the secret %s in Stack.Secrets", ErrUnknownReference, id))
		}
		return value
	})
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		name := found[len("${") : len(found)-len("}")]
		if escaped, ok := strings.CutPrefix(name, "!"); ok {
			return "${" + escaped + "}"
		}
		value, ok := r.value(name)
		if !ok {
			r.problems = append(r.problems, fmt.Errorf("%w: expected %s in Stack.Values", ErrUnknownReference, name))
		}
		return value
	})
}

// queueNames are the suffixes of the queues' names. The prefix is the stack's name.
var queueNames = map[string]string{
	"Queue": ".fifo", "DeadLetterQueue": "-dlq.fifo",
	"DelayQueue": "-delay", "DelayDeadLetterQueue": "-delay-dlq",
	"ExecutionsQueue": "-executions", "ExecutionsDeadLetterQueue": "-executions-dlq",
	"ObjectsDeadLetterQueue": "-objects-dlq",
}

// value returns the value of a reference: a Ref, such as Queue, or an attribute, such as Queue.Arn.
func (s Stack) value(name string) (string, bool) {
	if value, ok := s.Values[name]; ok {
		return value, true
	}
	switch name {
	case "AWS::StackName":
		return s.Name, true
	case "AWS::AccountId":
		return s.Account, true
	case "AWS::Region":
		return s.Region, true
	case "AWS::Partition":
		return "aws", true
	case "EventBus":
		return "default", true // the default of the parameter
	}
	id, attribute, _ := strings.Cut(name, ".")
	if end, ok := queueNames[id]; ok {
		urls := s.QueueURLs
		if urls == "" {
			urls = "https://sqs." + s.Region + ".amazonaws.com"
		}
		switch attribute {
		case "":
			return urls + "/" + s.Account + "/" + s.Name + end, true
		case "Arn":
			return s.arn("sqs", s.Name+end), true
		}
		return "", false
	}
	named, ok := s.Values[id]
	switch {
	case id == "Table" && attribute == "Arn" && ok:
		return s.arn("dynamodb", "table/"+named), true
	case id == "SchedulerRole" && attribute == "Arn":
		return "arn:aws:iam::" + s.Account + ":role/" + s.Name + "-" + id, true
	case strings.HasSuffix(id, "Workflow") && attribute == "":
		return s.arn("states", "stateMachine:"+s.Name+"-"+id), true
	case strings.HasSuffix(id, "Workflow") && attribute == "Name":
		return s.Name + "-" + id, true
	case strings.HasSuffix(id, "Logs") && attribute == "Arn":
		return s.arn("logs", "log-group:"+s.Name+"-"+id+":*"), true
	}
	return "", false
}

func (s Stack) arn(service, resource string) string {
	return "arn:aws:" + service + ":" + s.Region + ":" + s.Account + ":" + resource
}
