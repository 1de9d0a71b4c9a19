package statechart

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// WorkflowKey is the key of a workflow's input that belongs to the host: it says whose execution it is.
const WorkflowKey = "$settle"

// WorkflowNameBytesMax is the longest name of a workflow.
const WorkflowNameBytesMax = 80

// ExecutionStatus says how an execution of a workflow has ended.
type ExecutionStatus string

// The statuses of an execution that has ended: those of Step Functions, and two of the host's own.
const (
	ExecutionSucceeded ExecutionStatus = "SUCCEEDED"
	ExecutionFailed    ExecutionStatus = "FAILED"
	ExecutionTimedOut  ExecutionStatus = "TIMED_OUT"
	ExecutionAborted   ExecutionStatus = "ABORTED"
	// ExecutionNotStarted is that of an execution that could not be started and never will be: Error and
	// Cause say why.
	ExecutionNotStarted ExecutionStatus = "NOT_STARTED"
	// ExecutionLost is that of an execution that was started and that nobody knows any more: how it has
	// ended cannot be told.
	ExecutionLost ExecutionStatus = "LOST"
)

// ExecutionEnded is the payload of the event by which a chart hears of the end of an execution that it
// has started with StartWorkflow.
type ExecutionEnded struct {
	// Workflow is the workflow that StartWorkflow has named.
	Workflow string `json:"workflow"`
	// Name is the name of the execution, and Execution its ARN, empty if it was not started.
	Name      string          `json:"name"`
	Execution string          `json:"execution,omitempty"`
	Status    ExecutionStatus `json:"status"`
	// Output is the JSON that an execution gives that has succeeded. The host leaves it out if the
	// instance could not hold it, and says so in Error and Cause.
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
	Cause  string          `json:"cause,omitempty"`
}

// StartWorkflow returns an action that starts an execution of a workflow, a state machine of Step
// Functions, once this step is stored: one execution, however often the step is repeated. The
// host knows which state machine the name stands for. The function makes the input, which must marshal to
// a JSON object without the key WorkflowKey; a nil function means an empty one.
//
// However the execution ends, the chart gets one event of the type onEnd, which it declares with
// PayloadOf[ExecutionEnded], in whatever state it is by then. An instance that has ended gets none. Leaving a
// state does not stop an execution.
func StartWorkflow[C any](workflow, onEnd string, input func(C, Event) any) Action[C] {
	erased := eraseFunc(input)
	return Action[C]{Name: "start " + workflow, actionBody: actionBody{starts: &start{workflow, onEnd}, run: func(x *interpreter) error {
		body, err := encodeInput(x.made(erased))
		if err != nil {
			return fmt.Errorf("encoding the input of the workflow %q: %w", workflow, err)
		}
		event, err := encodeEvent(onEnd, nil)
		if err != nil {
			return err
		}
		return x.effect(Effect{Kind: StartExecution, Name: workflow, Event: event, Input: body})
	}}}
}

// start is what an action of StartWorkflow starts, and the event that tells of its end.
type start struct{ workflow, onEnd string }

// encodeInput writes the input of a workflow.
func encodeInput(input any) (json.RawMessage, error) {
	if input == nil {
		return json.RawMessage("{}"), nil
	}
	body, err := json.Marshal(input)
	if err != nil {
		return nil, err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(body, &keys); err != nil || keys == nil {
		return nil, fmt.Errorf("expected a type that marshals to a JSON object, got %T", input)
	}
	if _, taken := keys[WorkflowKey]; taken {
		return nil, fmt.Errorf("expected no key %q, which is the host's", WorkflowKey)
	}
	return body, nil
}

// checkStart checks what an action starts, and that the chart can hear of its end.
func (c *compiler) checkStart(n *node, place string, s *start) {
	if problem := workflowNameProblem(s.workflow); problem != "" {
		c.find(n, fmt.Sprintf("%s: starts the workflow %q, whose name %s", place, s.workflow, problem), "name it in letters, digits, - and _")
	}
	payload, declared := c.chart.payloads[s.onEnd]
	switch {
	case c.chart.foreign:
	case !declared:
		c.find(n, fmt.Sprintf("%s: the workflow %q ends with the undeclared event type %q", place, s.workflow, s.onEnd), "declare it in Payloads with PayloadOf[ExecutionEnded]")
	case payload.internal || payload.typ != reflect.TypeFor[ExecutionEnded]():
		c.find(n, fmt.Sprintf("%s: the workflow %q ends with %q, which is declared otherwise", place, s.workflow, s.onEnd), "declare it with PayloadOf[ExecutionEnded]")
	}
}

// workflowNameProblem says what is wrong with the name of a workflow, "" if nothing is.
func workflowNameProblem(name string) string {
	if name == "" || len(name) > WorkflowNameBytesMax {
		return fmt.Sprintf("has %d bytes, not 1 to %d", len(name), WorkflowNameBytesMax)
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return fmt.Sprintf("contains %q", r)
		}
	}
	return ""
}
