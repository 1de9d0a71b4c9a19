package command

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/operations"
	"github.com/settle-run/settle/runtime/producer"
	"github.com/settle-run/settle/runtime/statechart"
)

// batchDefault is the maximum number of instances that a bulk run holds in memory, unless the action sets another.
const batchDefault = 10_000

// bulkAction is the action of a bulk command on one instance.
type bulkAction struct {
	// prepare, if set, is called before each batch of instances is processed. The instances have no outcome yet.
	prepare func(context.Context, []chosen) error
	// batch is the maximum size of a batch; 0 means batchDefault.
	batch int
	// isDone reports whether an earlier process of the run has processed the instance, but died before it wrote the
	// outcome.
	isDone func(instances.Record) bool
	// finish, if set, completes an instance for which isDone is true. By default, the run only wakes the instance.
	finish func(context.Context, instances.Record) error
	// apply performs the action. It returns durable.ErrConflict if the instance has changed since the record was read.
	apply func(context.Context, instances.Record) error
}

// Run sends an event to each instance. The event's ID contains the run's stamp, so a repeated send changes nothing.
func (c *bulkSendCommand) Run(ctx context.Context, s *session) error {
	payload, err := pairs(c.Payload)
	if err != nil {
		return err
	}
	body, err := eventBody(payload, c.Event, "")
	if err != nil {
		return err
	}
	if c.Machine != "" { // An invalid event would fail for each instance.
		known, err := s.machines()
		if err != nil {
			return err
		}
		if _, err := producer.Check(known, instances.ID{Machine: c.Machine, ID: "any"}, body, "", producer.EventBytesMax); err != nil {
			return err
		}
	}
	return c.run(ctx, s, statechart.Active, append([]string{"send", c.Event}, c.Payload...), func(o *operator, stamp int64) bulkAction {
		eventID := "bulk/" + strconv.FormatInt(stamp, 10)
		return bulkAction{
			isDone: func(record instances.Record) bool { return durable.Remembers(record, eventID, nil) },
			apply: func(ctx context.Context, record instances.Record) error {
				checked, err := producer.Check(o.machines, record.Instance, body, eventID, producer.EventBytesMax)
				if err == nil {
					_, err = o.queue.Send(ctx, checked.Message)
				}
				return err
			},
		}
	})
}

// Run resumes each instance that is stuck. An instance that is no longer stuck counts as done.
func (c *bulkResumeCommand) Run(ctx context.Context, s *session) error {
	known, err := s.machines()
	if err != nil {
		return err
	}
	c.matches = func(record instances.Record) bool { return operations.NeedsConsumer(known, record) }
	return c.run(ctx, s, "", []string{"resume"}, func(o *operator, _ int64) bulkAction {
		return bulkAction{
			isDone: func(record instances.Record) bool { return record.Revision > 0 && !c.matches(record) },
			apply: func(ctx context.Context, record instances.Record) error {
				_, err := o.wake(ctx, record)
				return err
			},
		}
	})
}

// Run rearms each instance and its finished children. Rearming raises an instance's step count to at least the run's
// stamp. So the step count shows which instances are done.
func (c *bulkRearmCommand) Run(ctx context.Context, s *session) error {
	c.matches = func(record instances.Record) bool {
		return record.Status == statechart.Active || record.Parent != nil || record.Owes()
	}
	return c.run(ctx, s, "", []string{"rearm"}, func(o *operator, stamp int64) bulkAction {
		r := &rearming{operator: o, stamp: stamp, family: true, found: view.Rearms{}}
		return bulkAction{isDone: r.isDone, finish: r.try, apply: r.try}
	})
}

// Run changes each instance.
func (c *bulkOperationCommand) Run(ctx context.Context, s *session, line *kong.Context) error {
	op := instances.Operation{Kind: instances.OperationKind(line.Selected().Name), Reason: c.Reason}
	if op.Kind == instances.Keep || op.Kind == instances.Unkeep {
		c.matches = func(record instances.Record) bool { return operations.Applies(op.Kind, record) }
	}
	return c.operate(ctx, s, op, nil, c.arguments())
}

// Run moves each instance.
func (c *bulkMoveCommand) Run(ctx context.Context, s *session) error {
	patches, err := c.patches(ctx, s)
	if err != nil {
		return err
	}
	known, err := s.machines()
	if err != nil {
		return err
	}
	if err := checkState(known, c.Machine, c.Place); err != nil {
		return err
	}
	return c.operate(ctx, s, instances.Operation{Kind: instances.Move, State: c.Place, Reason: c.Reason}, patches, append(c.changeArguments(patches), c.arguments()...))
}

// Run moves each instance to another lane.
func (c *bulkLaneCommand) Run(ctx context.Context, s *session) error {
	if err := c.check(); err != nil {
		return err
	}
	c.matches = func(record instances.Record) bool { return record.HomeLane() != c.To && record.Moving == nil }
	return c.operate(ctx, s, instances.Operation{Kind: instances.ChangeLane, Lane: c.To, Reason: c.Reason}, nil, append([]string{c.To}, c.arguments()...))
}

// operate applies the operator's change to each instance. The arguments describe the change.
func (c *bulkFlags) operate(ctx context.Context, s *session, op instances.Operation, patches []any, arguments []string) error {
	status := statechart.Active
	if op.Kind == instances.Keep || op.Kind == instances.Unkeep {
		status = ""
	}
	return c.run(ctx, s, status, append([]string{string(op.Kind)}, arguments...), func(o *operator, stamp int64) bulkAction {
		return c.operation(o, op, stamp, func(ctx context.Context, record instances.Record, op instances.Operation) error {
			_, err := o.change(ctx, record.Instance, op, patches, record.Revision)
			return err
		})
	})
}

// operation returns the action that applies the operation to each instance.
func (c *bulkFlags) operation(o *operator, op instances.Operation, stamp int64, apply func(context.Context, instances.Record, instances.Operation) error) bulkAction {
	op.By, op.Reason = o.by, strings.TrimSpace(fmt.Sprintf("%s (bulk %d)", op.Reason, stamp))
	return bulkAction{
		isDone: func(record instances.Record) bool {
			return slices.ContainsFunc(record.History, func(t instances.Transition) bool { return isOfRun(t, op) })
		},
		apply: func(ctx context.Context, record instances.Record) error {
			own := op
			own.At = o.session.Now()
			return apply(ctx, record, own)
		},
	}
}
