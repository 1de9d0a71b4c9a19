// Package asl reads state machine definitions in the Amazon States Language with JSONPath,
// and evaluates what in them does not depend on time: paths, payload templates, the rules of
// Choice states, and which retrier or catcher an error is for. It follows the Amazon States
// Language specification (https://states-language.net) and "Using Amazon States Language to
// define Step Functions workflows" of the AWS Step Functions Developer Guide.
//
// What Step Functions has and this package has not, such as JSONata, variables and
// distributed maps, is a finding that names it.
package asl

import (
	"time"

	"github.com/settle-run/settle/runtime/awslocal/internal/states/jsonpath"
)

// Machine is a definition that has no findings.
type Machine struct {
	Flow
	// Timeout is how long an execution may take; zero: as long as it likes.
	Timeout time.Duration
	// All are the states at every depth. Names are unique in a machine.
	All map[string]*State
}

// Flow is a set of states of which one is the first: the machine itself, a branch of a
// Parallel state or the processor of a Map state.
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

// State is one state. Fields that its type does not have are zero.
type State struct {
	Name string
	Type string
	Next string // empty: the state ends its flow

	InputPath      Filter
	OutputPath     Filter
	ResultPath     ResultPath
	Parameters     *Template // also of ItemSelector of a Map state
	ResultSelector *Template

	Result    any // of a Pass state that has one
	HasResult bool

	Resource  Resource
	Timeout   Number // in seconds
	Heartbeat Number // in seconds
	Retry     []Retrier
	Catch     []Catcher

	Rules   []Rule
	Default string // empty: there is none

	Delay     Number // in seconds, of a Wait state with Seconds or SecondsPath
	Until     time.Time
	UntilPath *jsonpath.Path

	Error Text
	Cause Text

	Branches       []*Flow // of a Map state, its processor alone
	ItemsPath      Filter
	MaxConcurrency Number
}

// Resource is what a Task state calls.
type Resource struct {
	ARN string
	// Service and Action are "sqs" and "sendMessage", or "lambda" and "invoke".
	Service, Action string
	// Function is the ARN of a Lambda function that is the resource itself.
	Function string
	// Callback: the task ends when its token comes back (.waitForTaskToken).
	Callback bool
}

// Name returns the resource as the history of an execution has it, without its service.
func (r Resource) Name() string {
	if r.Callback {
		return r.Action + ".waitForTaskToken"
	}
	return r.Action
}

// Filter is InputPath, OutputPath or ItemsPath. The zero Filter selects everything.
type Filter struct {
	path *jsonpath.Path
	null bool // an empty object takes the place of the data
}

// ResultPath says where in its input the result of a state goes. The zero ResultPath puts
// the result in place of the input.
type ResultPath struct {
	path *jsonpath.Path
	null bool // the result is dropped
}

// Number is one that stands in the definition or that a path selects.
type Number struct {
	Set   bool // there is one
	value int
	path  *jsonpath.Path
	field string
}

// Text is a string that stands in the definition or that an expression gives.
type Text struct {
	value      string
	expression *expression
}

// Retrier says how often and when a state is tried again after certain errors.
type Retrier struct {
	Errors      []string
	Interval    float64 // in seconds, before the first retry
	MaxAttempts int
	BackoffRate float64
	MaxDelay    float64 // in seconds; zero: no limit
}

// Catcher says where to go on after certain errors.
type Catcher struct {
	Errors     []string
	ResultPath ResultPath
	Next       string
}
