package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// pollWait returns the wait before a poll. The count is 0 for the first poll.
func (t *turn) pollWait(count int) time.Duration {
	return doubling(t.loop.config.PollMin, t.loop.config.PollMax, count)
}

func pollID(name string, count int) string { return fmt.Sprintf("execution.%s.%d", name, count) }

// polling is the body of pollEvent.
type polling struct {
	Type      string `json:"type"`
	Execution string `json:"execution"`
	// Count distinguishes one firing from the next.
	Count int `json:"count"`
	// Refused is set if the execution cannot be started. Then there is nothing to poll.
	Refused     bool  `json:"refused,omitempty"`
	Incarnation int64 `json:"$incarnation"`
}

// pollExecution checks whether an execution has ended. It stores nothing while the execution runs.
func (t *turn) pollExecution(ctx context.Context, form polling) error {
	awaited, ok := t.execution(form.Execution)
	switch {
	case !ok:
		return nil
	case awaited.Refused != nil && awaited.ARN == "":
		return t.applyEnded(ctx, ended{End: statechart.ExecutionEnded{
			Name: awaited.Name, Status: statechart.ExecutionNotStarted, Error: awaited.Refused.Error, Cause: awaited.Refused.Cause,
		}})
	case form.Refused:
		return nil // A repeated call may have started the execution.
	}
	end, err := t.describe(ctx, awaited.ARN)
	// The first poll may come right after a late start, and reads lag (Step Functions API Reference, DescribeExecution).
	// So only later polls decide that the execution does not exist.
	switch {
	case err == nil && awaited.Refused != nil:
		t.setStarted(awaited.Name, awaited.ARN, nil)
		t.changed()
	case awaited.Refused != nil && form.Count > 0 && (errors.Is(err, ErrNoExecution) || errors.Is(err, ErrRefused)):
		t.setStarted(awaited.Name, "", awaited.Refused)
		return t.pollExecution(ctx, form)
	case errors.Is(err, ErrNoExecution) && form.Count > 0:
		end = &statechart.ExecutionEnded{Status: statechart.ExecutionLost, Error: "ExecutionDoesNotExist", Cause: cut(err.Error(), causeBytesMax)}
	case err != nil:
		// The failure does not block the events of the instance.
		t.loop.config.Logger.WarnContext(ctx, "cannot poll an execution, will retry", "instance", t.draft.Record.Instance.String(), "execution", awaited.ARN, "error", err)
	}
	if end == nil {
		// The next poll cannot get lost: the current message is retried until this succeeds.
		form.Count++
		return t.schedule(ctx, t.loop.config.Now().Add(t.pollWait(form.Count)), form, pollID(awaited.Name, form.Count))
	}
	found := *end
	found.Name = awaited.Name
	return t.applyEnded(ctx, ended{End: found})
}

// describe returns how an execution has ended. A consumer may have no client for executions if its machines no longer
// start workflows.
func (t *turn) describe(ctx context.Context, arn string) (*statechart.ExecutionEnded, error) {
	if t.loop.ports.Executions == nil {
		return nil, errNoExecutions
	}
	return t.loop.ports.Executions.Describe(ctx, arn)
}

// scheduleFirstPoll performs a poll effect.
func (t *turn) scheduleFirstPoll(ctx context.Context, effect statechart.Effect) error {
	return t.schedule(ctx, effect.At, polling{Type: pollEvent, Execution: effect.Name, Incarnation: t.incarnation()}, effect.ID)
}

func (t *turn) isPollUnneeded(effect statechart.Effect) bool {
	_, awaited := t.execution(effect.Name)
	return !awaited
}
