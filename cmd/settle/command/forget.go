package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// forgetFlags are the flags of commands that forget instances.
type forgetFlags struct {
	DeadLetterQueue []string `name:"dead-letter-queue" placeholder:"NAME|URL" help:"A dead-letter queue to delete messages from. Repeatable. By default, the three of the queue settle.fifo are settle-dlq.fifo, settle-delay-dlq and settle-executions-dlq."`
}

// queues returns the dead-letter queues of the FIFO queue.
func (f forgetFlags) queues(stack awsFlags, queue string) (queues []dlqFlags) {
	names := f.DeadLetterQueue
	if len(names) == 0 {
		base := strings.TrimSuffix(queueName(queue), ".fifo") // as in infra/template.yaml
		names = []string{base + "-dlq.fifo", base + "-delay-dlq", base + "-executions-dlq"}
	}
	for _, name := range names {
		queues = append(queues, dlqFlags{awsFlags: stack, DeadLetterQueue: name, Queue: queue})
	}
	return queues
}

type forgetCommand struct {
	tableFlags
	forgetFlags
	Queue    string `default:"settle.fifo" env:"SETTLE_QUEUE_URL" placeholder:"NAME|URL" help:"The FIFO queue (${default})."`
	Instance string `arg:"" help:"The instance, such as signup/42."`
	Reason   string `placeholder:"TEXT" help:"The reason. The empty item keeps it with your AWS identity until it expires."`
	DryRun   bool   `help:"Show what would be erased, and erase nothing."`
	Yes      bool   `short:"y" help:"Do not ask for confirmation."`
	outputFlag
}

// Run forgets the instance.
func (c *forgetCommand) Run(ctx context.Context, s *session) error {
	id, err := instances.ParseID(c.Instance)
	if err != nil {
		return err
	}
	if !c.DryRun && !c.Yes && !s.StdinTTY {
		return fmt.Errorf("%w: expected --yes, because there is no terminal to ask for confirmation", errUsage)
	}
	o, err := newOperator(ctx, s, c.tableFlags, c.Queue, c.DryRun)
	if err != nil {
		return c.explain(s, err)
	}
	f := newForgetting(o, c.queues(c.awsFlags, c.Queue))
	op := instances.Operation{Kind: instances.Forget, By: o.by, Reason: c.Reason, At: s.Now()}
	shown, err := c.forget(ctx, s, f, id, op)
	if err != nil {
		return c.explain(s, stopped(ctx, err))
	}
	if c.json(s) {
		return s.printJSON(shown)
	}
	return s.printf("%s", shown.Text(s.style, s.Now()))
}

// forget finds everything that belongs to the instance, asks for confirmation, and erases it all.
func (c *forgetCommand) forget(ctx context.Context, s *session, f *forgetting, id instances.ID, op instances.Operation) (view.Forgotten, error) {
	var none view.Forgotten
	if _, _, err := f.left(ctx, id, op); err != nil { // Check the name first, because find reads the whole table.
		return none, err
	}
	if err := f.find(ctx, []instances.ID{id}); err != nil {
		return none, err
	}
	shown, err := f.check(ctx, id, op)
	if err != nil {
		return none, err
	}
	if !c.DryRun && !c.Yes {
		question := fmt.Sprintf("Permanently erase %s, %s, %s and its parked messages?", id, counted(len(shown.Children), "child", "children"), counted(shown.Aliases+shown.EventIDs+shown.Sends, "other item", "other items"))
		if err := s.confirm(ctx, question, "nothing was erased"); err != nil {
			return none, err
		}
	}
	if shown.Parked, err = f.parked(ctx, f.family(id), c.DryRun); err != nil {
		return none, err
	}
	if shown.DryRun = c.DryRun; !c.DryRun {
		err = f.erase(ctx, id, op)
	}
	shown.ReadUnits = s.read.units()
	return shown, err
}

type bulkForgetCommand struct {
	bulkFlags
	reasonFlag
	forgetFlags
	Batch int `default:"10000" placeholder:"N" help:"How many instances to look up at a time (${default}). The command reads the whole table for each batch."`
}

// Run forgets each instance.
func (c *bulkForgetCommand) Run(ctx context.Context, s *session) error {
	if c.Batch < 1 {
		return fmt.Errorf("%w: --batch: expected at least 1, got %d", errUsage, c.Batch)
	}
	c.copies = view.Copies()
	c.matches = func(record instances.Record) bool { return record.Status != statechart.Active && !record.Forgotten }
	return c.run(ctx, s, "", append([]string{string(instances.Forget)}, c.arguments()...), func(o *operator, stamp int64) bulkAction {
		f := newForgetting(o, c.queues(c.awsFlags, c.Queue))
		op := instances.Operation{Kind: instances.Forget, Reason: c.Reason, At: s.Now()}
		action := c.operation(o, op, stamp, func(ctx context.Context, record instances.Record, op instances.Operation) error {
			if _, err := f.check(ctx, record.Instance, op); err != nil {
				return err
			}
			return f.erase(ctx, record.Instance, op)
		})
		action.batch = c.Batch
		action.prepare = func(ctx context.Context, batch []chosen) error { return f.prepare(ctx, batch, op) }
		return action
	})
}
