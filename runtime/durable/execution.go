package durable

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// Execution is an execution of a workflow whose end an instance waits for.
type Execution struct {
	// Name is the name that the execution is started under. It follows from the instance, its creation
	// and the effect, so that whoever starts it again finds it started.
	Name string `json:"name"`
	// Workflow is the chart's name of what is executed.
	Workflow string `json:"workflow"`
	// Event is the type of the event by which the chart hears of the end.
	Event string `json:"event"`
	// StartedAt is when the chart asked for the execution.
	StartedAt time.Time `json:"started_at"`
	// ARN is that of the execution, empty until it is known to be started.
	ARN string `json:"arn,omitempty"`
	// Refused says that the execution will never be started, and why. The chart is about to hear of it.
	Refused *Refusal `json:"refused,omitempty"`
}

// Refusal is why an execution will never be started.
type Refusal struct {
	Error string `json:"error"`
	Cause string `json:"cause,omitempty"`
}

// InputBytesMax limits the JSON of the input that a chart gives an execution: the 256 KiB of Step
// Functions (Developer Guide, "Service quotas"), less what the runtime puts beside it.
const InputBytesMax = 255 << 10

// ErrorEndTooLarge is the error of an execution whose output its instance cannot hold.
const ErrorEndTooLarge = "Settle.OutputTooLarge"

// ErrNoExecution is returned by Executions.Describe when nobody knows the execution any more.
var ErrNoExecution = errors.New("there is no such execution")

// RefusedError is returned by Executions.Start when no repetition would start the execution.
type RefusedError struct {
	// Code names the error, such as "StateMachineDoesNotExist".
	Code string
	Err  error
}

// Error says why.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the call.
func (e *RefusedError) Unwrap() error { return e.Err }

// Executions starts executions of workflows.
type Executions interface {
	// Start starts the execution with the input and returns its ARN. An execution that was started
	// under its name before counts as started. Fails with a *RefusedError; any other error leaves open
	// whether it was started.
	Start(ctx context.Context, execution Execution, input json.RawMessage) (arn string, err error)
	// Describe returns how the execution with the ARN has ended: Status, Output, Error and Cause; nil
	// while it runs. Fails with ErrNoExecution.
	Describe(ctx context.Context, arn string) (*statechart.ExecutionEnded, error)
}

// Origin says whose execution it is. It stands in the input, under statechart.WorkflowKey.
type Origin struct {
	Instance string `json:"instance"`
	// Execution is the execution's name: in the input of another one, it is a copy.
	Execution   string `json:"execution"`
	Incarnation int64  `json:"incarnation"`
}

// ended is the body of endedEvent.
type ended struct {
	Type        string                    `json:"type"`
	Incarnation int64                     `json:"$incarnation"`
	End         statechart.ExecutionEnded `json:"end"`
}

// Ended makes the message that tells an instance of the end of an execution: its Name, Execution, Status, Output,
// Error and Cause. However often it is sent, and however late, the chart hears of the end once.
func Ended(origin Origin, end statechart.ExecutionEnded) (Message, error) {
	to, err := ParseInstanceID(origin.Instance)
	if err != nil {
		return Message{}, err
	}
	body, err := marshalPlain(ended{Type: endedEvent, Incarnation: origin.Incarnation, End: end})
	return Message{To: to, Body: body, DeduplicationID: shortened(end.Name + ".ended")}, err
}

// marshalPlain is json.Marshal, but leaves <, > and & as they are: what Step Functions has given as an output of
// 256 KiB would be six times as long escaped, and too long for SQS.
func marshalPlain(v any) (json.RawMessage, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), err
}

// ExecutionPrefix begins the names of all executions that instances start.
const ExecutionPrefix = "settle-"

// executionNameBytesMax is the longest name of an execution (Step Functions API Reference, StartExecution).
const executionNameBytesMax = 80

// executionName makes the name of the execution that an effect asks for: a readable beginning and a
// hash. A name serves once in 90 days.
func (t *turn) executionName(effectID string) string {
	hash := sha256.Sum256([]byte(t.derivedID(effectID)))
	suffix := "-" + hex.EncodeToString(hash[:16])
	readable := strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') || r == '_' {
			return r
		}
		return '-'
	}, t.draft.Record.Instance.String())
	return ExecutionPrefix + readable[:min(len(readable), executionNameBytesMax-len(ExecutionPrefix)-len(suffix))] + suffix
}

// await notes an execution that an effect asks for, and schedules its first poll.
func (t *turn) await(effect statechart.Effect) {
	name, now := t.executionName(effect.ID), t.now()
	t.draft.Record.Executions = append(slices.Clip(t.draft.Record.Executions), Execution{
		Name: name, Workflow: effect.Name, Event: eventHead(effect.Event).Type, StartedAt: now,
	})
	t.owe(statechart.Effect{ID: pollID(name, 0), Kind: poll, Name: name, At: now.Add(t.pollWait(0))})
}

// startExecution starts the execution that an effect asks for. If it cannot be started ever, the chart receives that as its
// end.
func (t *turn) startExecution(ctx context.Context, effect statechart.Effect) error {
	id, name := t.draft.Record.Instance.String(), t.executionName(effect.ID)
	input, err := withKeys(effect.Input, map[string]any{statechart.WorkflowKey: Origin{Instance: id, Execution: name, Incarnation: t.incarnation()}})
	if err != nil {
		return err
	}
	if t.loop.ports.Executions == nil {
		return errNoExecutions
	}
	arn, err := t.loop.ports.Executions.Start(ctx, Execution{Name: name, Workflow: effect.Name}, input)
	var refused *RefusedError
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	if refused != nil {
		t.loop.config.Logger.ErrorContext(ctx, "execution cannot be started", "instance", id, "workflow", effect.Name, "error", err)
	}
	if _, awaited := t.execution(name); !awaited {
		return nil // The instance has ended with it.
	}
	t.draft.Record.Executions = replaced(t.draft.Record.Executions, func(e *Execution) bool { return e.Name == name }, func(e *Execution) {
		e.ARN, e.Refused = arn, nil
		if refused != nil {
			e.ARN, e.Refused = "", &Refusal{Error: refused.Code, Cause: cut(refused.Error(), causeBytesMax)}
		}
	})
	if refused == nil {
		return nil
	}
	message, err := t.pollMessage(polling{Execution: name, Refused: true}, "execution."+name+".refused")
	if err == nil {
		_, err = t.loop.ports.Queue.Send(ctx, message)
	}
	return err
}

// applyEnded tells the chart of the end of an execution, if the instance waits for it still.
func (t *turn) applyEnded(ctx context.Context, form ended) error {
	end := form.End
	awaited, ok := t.execution(end.Name)
	if !ok {
		return nil
	}
	end.Workflow, end.Execution = awaited.Workflow, awaited.ARN
	if !t.declares(awaited.Event) {
		t.loop.config.Logger.ErrorContext(ctx, "the chart does not declare any more the event by which it was to hear of an execution's end",
			"instance", t.draft.Record.Instance.String(), "execution", awaited.ARN, "event", awaited.Event)
	}
	err := t.tellEnd(awaited.Event, end)
	if errors.Is(err, ErrUnstorable) && len(end.Output) > 0 {
		// Better the end without its output than no end.
		t.loop.config.Logger.ErrorContext(ctx, "the output of an execution does not fit into its instance", "instance", t.draft.Record.Instance.String(),
			"execution", end.Execution, "error", err)
		cause := fmt.Sprintf("the execution's output of %d bytes is left out: %v; read it with DescribeExecution, or let the workflow put it somewhere", len(end.Output), err)
		end.Output, end.Error, end.Cause = nil, ErrorEndTooLarge, cut(cause, causeBytesMax)
		err = t.tellEnd(awaited.Event, end)
	}
	return err
}

// tellEnd applies the event of an end and forgets the execution, unless that could not be stored: then
// the turn stays as it was, and the error wraps ErrUnstorable.
func (t *turn) tellEnd(typ string, end statechart.ExecutionEnded) error {
	return t.storably(func() error {
		t.draft.Record.Executions = without(t.draft.Record.Executions, func(e Execution) bool { return e.Name == end.Name })
		t.changed()
		return t.applyOwn(typ, struct {
			Type string `json:"type"`
			statechart.ExecutionEnded
		}{typ, end})
	})
}

// errNoExecutions is the error of a loop that cannot start executions.
var errNoExecutions = errors.New("this consumer has no client that starts executions: set Ports.Executions")

// startable refuses machines that start workflows if nothing can start them.
func startable(machines *Machines, executions Executions) error {
	if machines == nil || executions != nil {
		return nil
	}
	if workflows := machines.Workflows(); len(workflows) > 0 {
		return fmt.Errorf("the machines start the workflows %s: %w", strings.Join(workflows, ", "), errNoExecutions)
	}
	return nil
}

// isEnd reports whether the events of the type come from the loop alone: they tell a chart of the end of
// an execution.
func isEnd(machine Machine, typ string) bool {
	m, ok := machine.(interface{ WorkflowEnds() []string })
	return ok && slices.Contains(m.WorkflowEnds(), typ)
}

// Workflows returns the workflows that the machines start, sorted, each once.
func (m *Machines) Workflows() []string {
	var workflows []string
	for _, hosted := range m.all() {
		if machine, ok := hosted.(interface{ Workflows() []string }); ok {
			workflows = append(workflows, machine.Workflows()...)
		}
	}
	slices.Sort(workflows)
	return slices.Compact(workflows)
}
