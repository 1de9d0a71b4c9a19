package durable

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/internal/plainjson"
	"github.com/settle-run/settle/runtime/statechart"
)

// inputBytesMax limits the JSON of an execution's input. It is the 256 KiB of Step Functions (Developer Guide,
// "Service quotas"), minus room for the keys that the runtime adds.
const inputBytesMax = 255 << 10

// RefusedError is returned by Executions.Start if no retry can ever succeed.
type RefusedError struct {
	// Code names the error, such as "StateMachineDoesNotExist".
	Code string
	Err  error
}

// Error returns the reason.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the call.
func (e *RefusedError) Unwrap() error { return e.Err }

// Executions starts executions of workflows.
type Executions interface {
	// Start starts the execution with the input, at most 256 KiB, and returns its ARN. It also succeeds if an earlier call
	// started the execution under this name. Fails with a *RefusedError if this call did not start it and no retry can. It
	// returns an ARN even then, because an earlier call may have started the execution. After any other error, the
	// execution may or may not have started.
	Start(ctx context.Context, execution instances.Execution, input json.RawMessage) (arn string, err error)
	// Describe returns how the execution with the ARN has ended: Status, Output, Error and Cause. It returns nil
	// while the execution runs. Fails with ErrNoExecution, ErrRefused or ErrDenied.
	Describe(ctx context.Context, arn string) (*statechart.ExecutionEnded, error)
}

// origin identifies the instance that started an execution. It is part of the input, under statechart.WorkflowKey.
type origin struct {
	Instance string `json:"instance"`
	// Execution is the name of the execution that the instance started. An execution with another name has only copied
	// this input.
	Execution   string `json:"execution"`
	Incarnation int64  `json:"incarnation"`
}

// ended is the body of endedEvent.
type ended struct {
	Type        string                    `json:"type"`
	Incarnation int64                     `json:"$incarnation"`
	End         statechart.ExecutionEnded `json:"end"`
}

// ExecutionEnd builds the message that reports the end of an execution to the instance that started it. `input` is the
// execution's input. The caller sets Name, Execution, Status, Output, Error and Cause of `end`. The result `ok` is
// false if no instance started the execution. The chart receives the end once, even if the message is repeated or late.
func ExecutionEnd(input []byte, end statechart.ExecutionEnded) (message Message, ok bool, err error) {
	from := originOf(input)
	if from.Execution != end.Name {
		return Message{}, false, nil // Something else started the execution, perhaps with a copied input.
	}
	to, err := instances.ParseID(from.Instance)
	if err != nil {
		return Message{}, false, fmt.Errorf("reading who started the execution %s: %w", end.Execution, err)
	}
	body, err := plainjson.Marshal(ended{Type: endedEvent, Incarnation: from.Incarnation, End: end})
	return Message{To: to, Body: body, DeduplicationID: shortened(end.Name + ".ended")}, true, err
}

// originOf returns the instance that started the execution with this input, or the zero value if no instance started
// it.
func originOf(input []byte) (from origin) {
	var keys map[string]json.RawMessage
	if json.Unmarshal(input, &keys) != nil || json.Unmarshal(keys[statechart.WorkflowKey], &from) != nil {
		return origin{}
	}
	return from
}

// executionNameBytesMax is the longest name of an execution (Step Functions API Reference, StartExecution).
const executionNameBytesMax = 80

// executionName returns the name of the execution that an effect starts: a readable prefix and a hash. Step Functions
// accepts a name once in 90 days.
func (t *turn) executionName(effectID string) string {
	hash := sha256.Sum256([]byte(t.derivedID(effectID)))
	suffix := "-" + hex.EncodeToString(hash[:16])
	readable := strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') || r == '_' {
			return r
		}
		return '-'
	}, t.draft.Record.Instance.String())
	return instances.ExecutionPrefix + readable[:min(len(readable), executionNameBytesMax-len(instances.ExecutionPrefix)-len(suffix))] + suffix
}

// await records an execution that an effect starts, and schedules its first poll.
func (t *turn) await(effect statechart.Effect) {
	name, now := t.executionName(effect.ID), t.now()
	t.draft.Record.Executions = append(slices.Clip(t.draft.Record.Executions), instances.Execution{
		Name: name, Workflow: effect.Name, Event: eventHead(effect.Event).Type, StartedAt: now,
	})
	t.owe(statechart.Effect{ID: pollID(name, 0), Kind: poll, Name: name, At: now.Add(t.pollWait(0))})
}

// startExecution starts the execution of an effect. If the execution can never be started, the chart receives this
// failure as the end of the execution.
func (t *turn) startExecution(ctx context.Context, effect statechart.Effect) error {
	id, name := t.draft.Record.Instance.String(), t.executionName(effect.ID)
	input, err := withKeys(effect.Input, map[string]any{statechart.WorkflowKey: origin{Instance: id, Execution: name, Incarnation: t.incarnation()}})
	if err != nil {
		return err
	}
	if t.loop.ports.Executions == nil {
		return errNoExecutions
	}
	arn, err := t.loop.ports.Executions.Start(ctx, instances.Execution{Name: name, Workflow: effect.Name}, input)
	var refused *RefusedError
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	var refusal *instances.Refusal
	if refused != nil {
		t.loop.config.Logger.ErrorContext(ctx, "execution cannot be started", "instance", id, "workflow", effect.Name, "error", err)
		refusal = &instances.Refusal{Error: refused.Code, Cause: cut(refused.Error(), causeBytesMax)}
		if !t.repeats {
			arn = ""
		}
	}
	t.setStarted(name, arn, refusal)
	if _, awaited := t.execution(name); !awaited || arn != "" {
		return nil // The instance no longer waits, the execution has started, or a poll will find out whether it has.
	}
	form := polling{Type: pollEvent, Execution: name, Refused: true, Incarnation: t.incarnation()}
	return t.loop.send(ctx, t.draft.Record.Instance, form, t.derivedID("execution."+name+".refused"), effect.Chain)
}

// setStarted records the ARN of an execution, and the refusal to start it, if any.
func (t *turn) setStarted(name, arn string, refused *instances.Refusal) {
	t.draft.Record.Executions = replaced(t.draft.Record.Executions, func(e *instances.Execution) bool { return e.Name == name }, func(e *instances.Execution) { e.ARN, e.Refused = arn, refused })
}

// applyEnded reports the end of an execution to the chart, if the instance still waits for it.
func (t *turn) applyEnded(ctx context.Context, form ended) error {
	end := form.End
	awaited, ok := t.execution(end.Name)
	if !ok {
		return nil
	}
	end.Workflow, end.Execution = awaited.Workflow, awaited.ARN
	if !t.declares(awaited.Event) {
		t.loop.config.Logger.ErrorContext(ctx, "the chart no longer declares the event for the end of its execution",
			"instance", t.draft.Record.Instance.String(), "execution", awaited.ARN, "event", awaited.Event)
	}
	err := t.tooLarge
	if err == nil {
		err = t.applyEndEvent(awaited.Event, end)
	}
	if errors.Is(err, ErrUnstorable) && len(end.Output) > 0 {
		// If the output does not fit, report the end without it.
		t.loop.config.Logger.ErrorContext(ctx, "the output of an execution does not fit into its instance", "instance", t.draft.Record.Instance.String(),
			"execution", end.Execution, "error", err)
		cause := fmt.Sprintf("the execution's output of %d bytes is left out: %v; read it with DescribeExecution, or have the workflow store it elsewhere", len(end.Output), err)
		end.Output, end.Error, end.Cause = nil, ErrorOutputTooLarge, cut(cause, causeBytesMax)
		err = t.applyEndEvent(awaited.Event, end)
	}
	return err
}

// applyEndEvent applies the event that reports an end, and forgets the execution. If the result cannot be stored, the
// draft stays as it was, and the error wraps ErrUnstorable.
func (t *turn) applyEndEvent(typ string, end statechart.ExecutionEnded) error {
	return t.storably(func() error {
		t.draft.Record.Executions = without(t.draft.Record.Executions, func(e instances.Execution) bool { return e.Name == end.Name })
		t.changed()
		return t.applyOwn(typ, struct {
			Type string `json:"type"`
			statechart.ExecutionEnded
		}{typ, end})
	})
}

// errNoExecutions is the error of a loop that cannot start executions.
var errNoExecutions = errors.New("this consumer has no client that starts executions: set Ports.Executions")

// startable returns an error if machines start workflows and executions is nil.
func startable(machines *Machines, executions Executions) error {
	if machines == nil || executions != nil {
		return nil
	}
	if workflows := machines.Workflows(); len(workflows) > 0 {
		return fmt.Errorf("the machines start the workflows %s: %w", strings.Join(workflows, ", "), errNoExecutions)
	}
	return nil
}

// isEnd reports whether the event type reports the end of an execution to a chart. Only the loop itself sends such
// events.
func isEnd(machine Machine, typ string) bool {
	return slices.Contains(machine.Describe().WorkflowEnds, typ)
}

// Workflows returns the workflows that the machines start, sorted.
func (m *Machines) Workflows() []string {
	var workflows []string
	for _, hosted := range m.all() {
		workflows = append(workflows, hosted.Describe().Workflows...)
	}
	slices.Sort(workflows)
	return slices.Compact(workflows)
}
