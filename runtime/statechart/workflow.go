package statechart

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// ExecutionStatus is the final status of a workflow execution.
type ExecutionStatus string

// The final statuses of an execution. Step Functions reports the first four, and the host sets the other two.
const (
	ExecutionSucceeded ExecutionStatus = "SUCCEEDED"
	ExecutionFailed    ExecutionStatus = "FAILED"
	ExecutionTimedOut  ExecutionStatus = "TIMED_OUT"
	ExecutionAborted   ExecutionStatus = "ABORTED"
	// ExecutionNotStarted means that the execution will never start, for the reason in Error and Cause.
	ExecutionNotStarted ExecutionStatus = "NOT_STARTED"
	ExecutionLost       ExecutionStatus = "LOST" // the execution was started but no longer exists, so its result is unknown
)

// ExecutionEnded is the payload of an execution's end: see StartWorkflow.
type ExecutionEnded struct {
	// Workflow is the workflow's name, Name the execution's name, and Execution its ARN, or empty if not started.
	Workflow  string          `json:"workflow"`
	Name      string          `json:"name"`
	Execution string          `json:"execution,omitempty"`
	Status    ExecutionStatus `json:"status"`
	// Output is the output of a successful execution, as JSON. If it is too large for the instance, the host omits it
	// and sets Error and Cause.
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
	Cause  string          `json:"cause,omitempty"`
}

// StartWorkflow returns an action that starts exactly one execution of a workflow, a Step Functions state machine that
// the host knows by name. The input must marshal to a JSON object without the key WorkflowKey. A nil function means an
// empty object. When the execution ends, this instance receives one event of the type onEnd, declared with
// PayloadOf[ExecutionEnded], unless the instance has ended. Leaving a state does not stop an execution.
func StartWorkflow[C any](workflow, onEnd string, input func(C, Event) any) Action[C] {
	compute := eraseFunc(input)
	return Action[C]{Name: "start " + workflow, actionBody: actionBody{starts: &start{workflow, onEnd}, run: func(x *interpreter) error {
		body, err := encodeInput(x.made(compute))
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

// start is the workflow that a StartWorkflow action starts, and the event that reports its end.
type start struct{ workflow, onEnd string }

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
		return nil, fmt.Errorf("the key %q is reserved for the host", WorkflowKey)
	}
	return body, nil
}

// checkStart checks the name of an action's workflow, and that the chart can receive the event that reports the end.
func (c *compiler) checkStart(n *node, place string, s *start) {
	if problem := workflowNameProblem(s.workflow); problem != "" {
		c.find(n, fmt.Sprintf("%s: starts the workflow %q, whose name %s", place, s.workflow, problem), "name it in ASCII letters, digits, - and _")
	}
	payload, declared := c.chart.payloads[s.onEnd]
	switch {
	case c.chart.foreign:
	case !declared:
		c.find(n, fmt.Sprintf("%s: the workflow %q ends with the undeclared event type %q", place, s.workflow, s.onEnd), "declare it in Payloads with PayloadOf[ExecutionEnded]")
	case payload.internal || payload.typ != reflect.TypeFor[ExecutionEnded]():
		c.find(n, fmt.Sprintf("%s: the workflow %q ends with %q, which is declared differently", place, s.workflow, s.onEnd), "declare it with PayloadOf[ExecutionEnded]")
	}
}

// workflowNameProblem describes an error in a workflow name, or returns "".
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
