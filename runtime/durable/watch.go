package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// watch is the kind of an effect by which an instance looks after an execution: Name is its name. The
// event that tells of an end is a best effort of EventBridge's; what got lost is found so.
const watch statechart.EffectKind = "watch"

// The wait before an execution is looked after for the first time, and at most; it doubles.
const (
	watchAfter    = 15 * time.Minute
	watchAfterMax = 24 * time.Hour
)

// watchWait returns the wait before the execution is looked after for the given time, from 0.
func watchWait(count int) time.Duration {
	wait := watchAfter
	for ; count > 0 && wait < watchAfterMax; count-- {
		wait *= 2
	}
	return min(wait, watchAfterMax)
}

func watchID(name string, count int) string { return fmt.Sprintf("execution.%s.%d", name, count) }

// watching is the body of watchEvent.
type watching struct {
	Type      string `json:"type"`
	Execution string `json:"execution"`
	// Count tells one firing from the next.
	Count int `json:"count"`
	// Refused says that the execution cannot be started, and that nothing else is to be looked for.
	Refused     bool  `json:"refused,omitempty"`
	Incarnation int64 `json:"$incarnation"`
}

// watchExecution looks after an execution. Nothing is stored while it runs.
func (t *turn) watchExecution(ctx context.Context, body string) error {
	var form watching
	if err := json.Unmarshal([]byte(body), &form); err != nil {
		return err
	}
	awaited := t.execution(form.Execution)
	switch {
	case awaited == nil:
		return nil
	case awaited.Refused != nil:
		return t.applyEnded(ctx, statechart.ExecutionEnded{
			Name: awaited.Name, Status: statechart.ExecutionNotStarted, Error: awaited.Refused.Error, Cause: awaited.Refused.Cause,
		})
	case form.Refused:
		return nil // It was started after all, when the call was repeated.
	}
	end, err := t.describe(ctx, awaited.ARN)
	switch {
	case errors.Is(err, ErrNoExecution):
		end = &statechart.ExecutionEnded{Status: statechart.ExecutionLost, Error: "ExecutionDoesNotExist", Cause: cut(err.Error(), causeBytesMax)}
	case err != nil:
		// That is no reason to hold up the events of the instance.
		t.loop.config.Logger.WarnContext(ctx, "looking after an execution failed, to be tried again", "instance", t.record.Instance.String(), "execution", awaited.ARN, "error", err)
	}
	if end == nil {
		count := form.Count + 1
		return t.scheduleWatch(ctx, t.loop.config.Now().Add(watchWait(count)), awaited.Name, count)
	}
	found := *end
	found.Name = awaited.Name
	return t.applyEnded(ctx, found)
}

// describe asks how an execution has ended. The machine may have stopped starting workflows, and its
// consumer have no client for them any more.
func (t *turn) describe(ctx context.Context, arn string) (*statechart.ExecutionEnded, error) {
	if t.loop.ports.Executions == nil {
		return nil, errNoExecutions
	}
	return t.loop.ports.Executions.Describe(ctx, arn)
}

// scheduleWatch asks for the next firing by which an execution is looked after.
func (t *turn) scheduleWatch(ctx context.Context, at time.Time, name string, count int) error {
	message, err := t.watchMessage(watching{Execution: name, Count: count}, watchID(name, count))
	if err != nil {
		return err
	}
	return t.loop.ports.Timers.Schedule(ctx, at, message)
}

// tellRefused has the instance look at an execution that cannot be started.
func (t *turn) tellRefused(ctx context.Context, name string) error {
	message, err := t.watchMessage(watching{Execution: name, Refused: true}, "execution."+name+".refused")
	if err != nil {
		return err
	}
	_, err = t.loop.ports.Queue.Send(ctx, message)
	return err
}

func (t *turn) watchMessage(form watching, id string) (Message, error) {
	form.Type, form.Incarnation = watchEvent, t.incarnation()
	body, err := json.Marshal(form)
	return Message{To: t.record.Instance, Body: body, DeduplicationID: shortened(t.derivedID(id))}, err
}
