package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// pollWait returns the wait before the poll with the count, from 0.
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
	// Refused says that the execution cannot be started. There is nothing to poll.
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
		return nil // It was started after all, when the call was repeated, or may have been.
	}
	end, err := t.describe(ctx, awaited.ARN)
	// The first poll may follow a late start at once, and reads lag (Step Functions API Reference, DescribeExecution).
	switch {
	case err == nil && awaited.Refused != nil:
		t.setStarted(awaited.Name, awaited.ARN, nil)
		t.changed()
	case err != nil && awaited.Refused != nil && form.Count > 0:
		t.setStarted(awaited.Name, "", awaited.Refused)
		return t.pollExecution(ctx, form)
	case errors.Is(err, ErrNoExecution) && form.Count > 0:
		end = &statechart.ExecutionEnded{Status: statechart.ExecutionLost, Error: "ExecutionDoesNotExist", Cause: cut(err.Error(), causeBytesMax)}
	case err != nil:
		// The failure does not block the events of the instance.
		t.loop.config.Logger.WarnContext(ctx, "cannot poll an execution, will retry", "instance", t.draft.Record.Instance.String(), "execution", awaited.ARN, "error", err)
	}
	if end == nil {
		return t.schedulePoll(ctx, t.loop.config.Now().Add(t.pollWait(form.Count+1)), awaited.Name, form.Count+1)
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

// schedulePoll schedules the next poll. It cannot get lost: the current message is retried until this succeeds.
func (t *turn) schedulePoll(ctx context.Context, at time.Time, name string, count int) error {
	return t.schedulePollAs(ctx, at, polling{Execution: name, Count: count}, pollID(name, count))
}

func (t *turn) schedulePollAs(ctx context.Context, at time.Time, form polling, id string) error {
	message, err := t.pollMessage(form, id)
	if err != nil {
		return err
	}
	return t.loop.ports.Timers.Schedule(ctx, at, message)
}

func (t *turn) pollMessage(form polling, id string) (Message, error) {
	form.Type, form.Incarnation = pollEvent, t.incarnation()
	return t.message(t.draft.Record.Instance, form, t.derivedID(id))
}

// scheduleFirstPoll performs a poll effect.
func (t *turn) scheduleFirstPoll(ctx context.Context, effect statechart.Effect) error {
	return t.schedulePollAs(ctx, effect.At, polling{Execution: effect.Name}, effect.ID)
}

func (t *turn) isPollUnneeded(effect statechart.Effect) bool {
	_, awaited := t.execution(effect.Name)
	return !awaited
}
