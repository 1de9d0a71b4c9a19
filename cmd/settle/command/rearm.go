package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
)

type rearmCommand struct {
	tableFlags
	Queue    string `default:"settle.fifo" env:"SETTLE_QUEUE_URL" placeholder:"NAME|URL" help:"The FIFO queue (${default})."`
	Instance string `arg:"" optional:"" help:"The instance, such as signup/42."`
	Machine  string `help:"All instances of this machine."`
	All      bool   `help:"All instances of the table."`
	NewQueue bool   `help:"The FIFO queue is new, and all earlier ones are lost. Stop the consumer first."`
	Resume   int64  `placeholder:"STAMP" help:"Continue an interrupted run, by the stamp that it printed at its start."`
	DryRun   bool   `help:"Show what would be rearmed, and write nothing."`
	Yes      bool   `short:"y" help:"Do not ask for confirmation."`
	outputFlag
}

// rearmReport is the JSON output of rearm.
type rearmReport struct {
	// Stamp is when the run began, in microseconds since 1970.
	Stamp    int64           `json:"stamp"`
	DryRun   bool            `json:"dry_run,omitempty"`
	Machines []view.RearmRow `json:"machines"`
}

// stampMin is larger than any number of steps that an instance can reach without rearming.
const stampMin = 1e14

// validate checks the flags. `now` is in microseconds since 1970.
func (c *rearmCommand) validate(now int64) error {
	switch {
	case !isOne(c.Instance != "", c.Machine != "", c.All):
		return fmt.Errorf("%w: expected either an instance, such as signup/42, or --machine, or --all", errUsage)
	case c.Resume != 0 && c.Instance != "":
		return fmt.Errorf("%w: --resume: expected --machine or --all with it, got an instance: rearm it again", errUsage)
	case c.Resume != 0 && (c.Resume < stampMin || c.Resume > now):
		return fmt.Errorf("%w: --resume: expected the stamp that the interrupted run printed, no later than now, %d, got %d", errUsage, now, c.Resume)
	default:
		return nil
	}
}

// Run rearms the chosen instances.
func (c *rearmCommand) Run(ctx context.Context, s *session) error {
	now := s.Now().UnixMicro()
	if err := c.validate(now); err != nil {
		return err
	}
	o, err := connect(ctx, s, c.tableFlags, c.Queue, c.DryRun)
	if err != nil {
		return c.explain(s, err)
	}
	r := &rearming{operator: o, stamp: cmp.Or(c.Resume, now), family: c.Instance != "", found: view.Rearms{}}
	if c.NewQueue && c.DryRun {
		r.newQueue = c.Queue
	} else if c.NewQueue {
		if r.newQueue, err = o.queue.ARN(ctx); err != nil {
			return c.explain(s, err)
		}
	}
	if c.Machine != "" {
		if _, err := r.machines.Lookup(c.Machine); err != nil {
			return err
		}
	}
	if err := c.ask(ctx, s); err != nil {
		return err
	}
	records := r.store.List(ctx, dynamostore.Filter{Machine: c.Machine, Consistent: true})
	if c.Instance != "" {
		record, err := c.one(ctx, r)
		if err != nil {
			return c.explain(s, err)
		}
		records = func(yield func(instances.Record, error) bool) { yield(record, nil) }
	} else if !c.DryRun {
		s.note("Stamp %d: if this run is interrupted, continue it with %s", r.stamp, c.continuation(s, r.stamp))
	}
	if err = r.all(ctx, records); err == nil && c.NewQueue && !c.DryRun {
		err = r.store.MoveSends(ctx, c.receivers(), r.newQueue)
	}
	switch failed := r.found.Failed(); {
	case err != nil && c.Instance == "" && !c.DryRun:
		err = fmt.Errorf("%w; continue with %s", c.explain(s, stopped(ctx, err)), c.continuation(s, r.stamp))
	case err != nil:
		err = c.explain(s, err)
	case failed > 0 && c.Instance == "" && !c.DryRun:
		err = fmt.Errorf("%s not rearmed: repair the items, or restore them again, then continue with %s", counted(failed, "instance is", "instances are"), c.continuation(s, r.stamp))
	case failed > 0:
		err = fmt.Errorf("%s be rearmed: repair the items, or restore them again", counted(failed, "instance cannot", "instances cannot"))
	}
	report := rearmReport{Stamp: r.stamp, DryRun: c.DryRun, Machines: r.found.Rows()}
	if err != nil && len(report.Machines) == 0 {
		return err
	}
	return errors.Join(c.answer(s, report, func() error { return r.found.Write(s.Out, s.style, c.DryRun) }), err)
}

// receivers returns the prefix with which MoveSends selects the chosen instances as receivers.
func (c *rearmCommand) receivers() string {
	switch {
	case c.Instance != "":
		return c.Instance + " "
	case c.Machine != "":
		return c.Machine + "/"
	default:
		return ""
	}
}

// ask asks for confirmation. It does not ask for a single instance, in a dry run, with --yes or with --resume.
func (c *rearmCommand) ask(ctx context.Context, s *session) error {
	if c.Instance != "" || c.DryRun || c.Yes || c.Resume != 0 {
		return nil
	}
	which := "all instances"
	if c.Machine != "" {
		which += " of machine " + c.Machine
	}
	return s.confirm(ctx, fmt.Sprintf("Rearm %s in table %s?", which, c.Table), "nothing was rearmed")
}

// one reads the named instance.
func (c *rearmCommand) one(ctx context.Context, r *rearming) (instances.Record, error) {
	id, err := instances.ParseID(c.Instance)
	if err != nil {
		return instances.Record{}, err
	}
	record, err := r.store.Load(ctx, id)
	if err == nil && record.Revision == 0 {
		err = c.missing(r.machines, id)
	}
	return record, err
}

// continuation returns the command line that continues the run.
func (c *rearmCommand) continuation(s *session, stamp int64) string {
	args := []string{"--all"}
	if c.Machine != "" {
		args = []string{"--machine", c.Machine}
	}
	if c.NewQueue {
		args = append(args, "--new-queue")
	}
	return s.hint("rearm", append(args, "--resume", strconv.FormatInt(stamp, 10))...)
}
