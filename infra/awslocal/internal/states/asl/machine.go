// Package asl parses state machine definitions in the Amazon States Language with JSONPath. It evaluates the parts
// that do not depend on time: paths, payload templates, the rules of Choice states, and which retrier or catcher
// matches an error. It follows the Amazon States Language specification (https://states-language.net) and "Using
// Amazon States Language to define Step Functions workflows" of the AWS Step Functions Developer Guide.
//
// Features that this package does not support, such as JSONata, variables and distributed maps, produce a finding
// that names them.
package asl

import (
	"time"

	"github.com/settle-run/settle/infra/awslocal/internal/states/jsonpath"
)

// Machine is a parsed and valid state machine definition.
type Machine struct {
	Flow
	// Timeout is the timeout of an execution. Zero means none.
	Timeout time.Duration
	// All holds the states at every depth. Names are unique in a machine.
	All map[string]*State
}

// Flow is a set of states with a start state: the machine itself, a branch of a Parallel state or the processor of a
// Map state.
type Flow struct {
	StartAt string
	States  map[string]*State
}

// The types of states.
const (
	Pass     = "Pass"
	Task     = "Task"
	Choice   = "Choice"
	Wait     = "Wait"
	Succeed  = "Succeed"
	Fail     = "Fail"
	Parallel = "Parallel"
	Map      = "Map"
)

// State is one state. Fields that do not apply to its type are zero.
type State struct {
	Name string
	Type string
	Next string // empty if the state ends its flow

	InputPath      Filter
	OutputPath     Filter
	ResultPath     ResultPath
	Parameters     *Template // also the ItemSelector of a Map state
	ResultSelector *Template

	Result    any // the Result of a Pass state
	HasResult bool

	Resource  Resource
	Timeout   Number // in seconds
	Heartbeat Number // in seconds
	Retry     []Retrier
	Catch     []Catcher

	Rules   []Rule
	Default string // empty if not set

	Delay     Number // in seconds, of a Wait state with Seconds or SecondsPath
	Until     time.Time
	UntilPath *jsonpath.Path

	Error Text
	Cause Text

	Branches       []*Flow // the branches of a Parallel state, or the processor of a Map state
	ItemsPath      Filter
	MaxConcurrency Number
}

// Resource is the resource that a Task state calls.
type Resource struct {
	ARN string
	// Service and Action are "sqs" and "sendMessage", or "lambda" and "invoke".
	Service, Action string
	// Function is the ARN if the resource itself is a Lambda function.
	Function string
	// Callback is set if the task ends only with a callback for its token (.waitForTaskToken).
	Callback bool
}

// Name returns the name of the resource in execution histories. The name does not contain the service.
func (r Resource) Name() string {
	if r.Callback {
		return r.Action + ".waitForTaskToken"
	}
	return r.Action
}

// Filter is InputPath, OutputPath or ItemsPath. The zero Filter selects everything.
type Filter struct {
	path *jsonpath.Path
	null bool // set if the field is null: an empty object then replaces the data
}

// ResultPath says where the result of a state goes in its input. With the zero ResultPath, the result replaces the
// input.
type ResultPath struct {
	path *jsonpath.Path
	null bool // set if the field is null: the result is then dropped
}

// Number is a literal number or a path to one.
type Number struct {
	Set   bool // false if the field is absent
	value int
	path  *jsonpath.Path
	field string
}

// Text is a literal string or an expression.
type Text struct {
	value      string
	expression *expression
}

// Retrier says how often and when a state is retried after certain errors.
type Retrier struct {
	Errors      []string
	Interval    float64 // in seconds, before the first retry
	MaxAttempts int
	BackoffRate float64
	MaxDelay    float64 // in seconds; zero means no limit
}

// Catcher names the next state after certain errors.
type Catcher struct {
	Errors     []string
	ResultPath ResultPath
	Next       string
}
