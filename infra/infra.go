// Package infra tells what infra/template.yaml deploys: each function's environment, and what its role may do. The template is
// made by infra/cdk, which has a module of its own; this package needs neither CDK nor Node.
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

// Function is a function as the template deploys it. Its texts have references in them, such as ${Queue.Arn}, until
// Resolve has put values in their place.
type Function struct {
	// Name is that of its folder in functions/.
	Name string `json:"name"`
	// LogicalID is its name in the template.
	LogicalID      string            `json:"logicalId"`
	TimeoutSeconds int               `json:"timeoutSeconds"`
	MemoryMiB      int               `json:"memoryMiB"`
	Environment    map[string]string `json:"environment"`
	// Statements are all that its role may do.
	Statements []Statement `json:"statements"`
}

// extracted is what functions.json has.
type extracted struct {
	Functions []Function
	// Options are what functions may do, by their names, for each state machine that Props of the construct has and the template
	// has not. In these statements it is called ${Workflow}.
	Options struct{ Workflows, WaitingWorkflows map[string][]Statement }
}

func read() (extracted, error) {
	var e extracted
	if err := json.Unmarshal(extract, &e); err != nil {
		return e, fmt.Errorf("reading functions.json: %w", err)
	}
	return e, nil
}

// Functions returns the functions of the template, by name.
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

// Stack is a stack made from the template: where it is, and what its resources are called.
type Stack struct {
	// Name is the stack's, Account and Region say where it is. All three are required.
	Name, Account, Region string
	// Values are those of references that do not follow from the three: of what CloudFormation names, such as Table, and what AWS
	// makes, such as HttpApi.ApiEndpoint. They take precedence.
	Values map[string]string
	// Secrets are the values of secrets by their logical IDs, such as SignupCodeKey.
	Secrets map[string]string
	// QueueURLs is what the URLs of queues begin with. Defaults to that of SQS in the Region.
	QueueURLs string
	// Workflows are the ARNs of the state machines that charts start, by the charts' names for them, as in Props.Workflows of
	// the construct. The template has none.
	Workflows map[string]string
	// WaitingWorkflows are the ARNs of state machines that wait for instances, beside those of the template, as in
	// Props.WaitingWorkflows.
	WaitingWorkflows []string
}

// ErrUnknownReference is returned by Resolve when a text refers to something that the Stack does not know.
var ErrUnknownReference = errors.New("unknown reference")

// Resolve returns the function with the stack's values in place of references. What it may do for the stack's workflows is
// added; the variable SETTLE_WORKFLOWS is not.
func (s Stack) Resolve(f Function) (Function, error) {
	r := resolver{stack: s}
	environment := map[string]string{}
	for name, value := range f.Environment {
		environment[name] = r.text(value)
	}
	f.Environment = environment
	statements, err := s.Statements(f)
	if err := errors.Join(r.err(f), err); err != nil {
		return Function{}, err
	}
	f.Statements = statements
	return f, nil
}

// Statements returns what the role of the function may do, as Resolve does, and needs no values but those of its resources.
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
	return statements, r.err(f)
}

type resolver struct {
	stack Stack
	// workflow is the ARN of the state machine called ${Workflow}.
	workflow string
	problems []error
}

// err returns what was not known of a function.
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

// value returns what a reference stands for.
func (r *resolver) value(name string) (string, bool) {
	switch {
	case r.workflow == "":
	case name == "Workflow":
		return r.workflow, true
	case name == "Workflow.Name":
		return r.workflow[strings.LastIndex(r.workflow, ":")+1:], true
	}
	return r.stack.value(name)
}

var (
	dynamicReference = regexp.MustCompile(`\{\{resolve:secretsmanager:\$\{(\w+)\}:SecretString:::\}\}`)
	reference        = regexp.MustCompile(`\$\{(!?[\w:.]+)\}`)
)

func (r *resolver) text(text string) string {
	text = dynamicReference.ReplaceAllStringFunc(text, func(found string) string {
		id := dynamicReference.FindStringSubmatch(found)[1]
		value, ok := r.stack.Secrets[id]
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

// queueNames are the ends of the queues' names, which begin with the stack's.
var queueNames = map[string]string{
	"Queue": ".fifo", "DeadLetterQueue": "-dlq.fifo",
	"DelayQueue": "-delay", "DelayDeadLetterQueue": "-delay-dlq",
	"ExecutionsQueue": "-executions", "ExecutionsDeadLetterQueue": "-executions-dlq",
	"ObjectsDeadLetterQueue": "-objects-dlq",
}

// value returns what a reference stands for: a Ref, such as Queue, or an attribute, such as Queue.Arn.
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
