package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/settle-run/settle/cmd/settle/internal/console"
	"github.com/settle-run/settle/cmd/settle/internal/exactjson"
	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/operations"
	"github.com/settle-run/settle/runtime/statechart"
)

// bulkFlags are the flags of all bulk commands.
type bulkFlags struct {
	tableFlags
	placeFlags
	Queue     string        `default:"settle.fifo" env:"SETTLE_QUEUE_URL" placeholder:"NAME|URL" help:"The FIFO queue (${default})."`
	OlderThan time.Duration `placeholder:"24h" help:"Only instances that have not changed for this long."`
	Context   []string      `sep:"none" placeholder:"'PATH OP VALUE'" help:"Only instances whose context meets this condition, such as 'order.total >= 100'. The operators are = != < <= > >=. Repeatable."`
	Rate      int           `default:"25" help:"How many instances to process a second at most (${default})."`
	Journal   string        `placeholder:"FILE" help:"The file that records the run, so that the same command can continue it (settle-bulk.journal)."`
	DryRun    bool          `help:"List and count the instances, and change nothing."`
	Yes       bool          `short:"y" help:"Do not ask for confirmation."`
	outputFlag

	// status is the status of the instances to process; empty means any. conditions are parsed from Context.
	status     statechart.Status
	conditions []condition
	// matches, if set, reports whether the action can change the instance.
	matches func(instances.Record) bool
	// copies are the places outside the table that also have the data of the processed instances.
	copies []view.Copy
}

// reasonFlag is a flag of the bulk commands that write to the history of the instances.
type reasonFlag struct {
	Reason string `placeholder:"TEXT" help:"The reason. The history of each instance keeps it with your AWS identity."`
}

// arguments returns the arguments that set the reason.
func (f reasonFlag) arguments() []string {
	if f.Reason == "" {
		return nil
	}
	return []string{"--reason", f.Reason}
}

// bulkCommand groups the commands that change many instances.
type bulkCommand struct {
	Send      bulkSendCommand      `cmd:"" help:"Send an event to each instance."`
	Stop      bulkOperationCommand `cmd:"" help:"Stop each instance."`
	Terminate bulkOperationCommand `cmd:"" help:"Terminate each instance."`
	Move      bulkMoveCommand      `cmd:"" help:"Move each instance to another state, or change its context."`
	Resume    bulkResumeCommand    `cmd:"" help:"Resume each stuck instance."`
	Rearm     bulkRearmCommand     `cmd:"" help:"Rearm each instance after a restore."`
	Lane      bulkLaneCommand      `cmd:"" help:"Move each instance to another lane."`
	Keep      bulkOperationCommand `cmd:"" help:"Keep each instance beyond its retention."`
	Unkeep    bulkOperationCommand `cmd:"" help:"End the effect of keep."`
	Forget    bulkForgetCommand    `cmd:"" help:"Erase the data of each ended instance."`
}

type (
	// bulkOperationCommand changes the instances. Its name is the kind of change: stop, terminate, keep or unkeep.
	bulkOperationCommand struct {
		bulkFlags
		reasonFlag
	}
	bulkLaneCommand struct {
		bulkFlags
		reasonFlag
		laneFlag
	}
	bulkResumeCommand struct{ bulkFlags }
	bulkRearmCommand  struct{ bulkFlags }
	bulkMoveCommand   struct {
		bulkFlags
		reasonFlag
		moveFlags
	}
	bulkSendCommand struct {
		bulkFlags
		Event   string   `arg:"" help:"The event's type, such as CANCEL."`
		Payload []string `arg:"" optional:"" name:"key=value" help:"The payload: key=value for a string, key:=value for JSON."`
	}
)

// run lists the instances with the status and processes each of them. An empty status means any status. `command` is
// the action with its arguments.
func (c *bulkFlags) run(ctx context.Context, s *session, status statechart.Status, command []string, action func(o *operator, stamp int64) bulkAction) error {
	if c.Machine == "" {
		return fmt.Errorf("%w: expected --machine", errUsage)
	}
	err := checkRate(c.Rate)
	if err != nil {
		return err
	}
	if c.conditions, err = conditions(c.Context); err != nil {
		return err
	}
	o, err := newOperator(ctx, s, c.tableFlags, c.Queue, c.DryRun)
	if err != nil {
		return c.explain(s, err)
	}
	filter, err := c.filter(s, o.machines)
	if err != nil {
		return err
	}
	filter.Status, c.status = status, status
	if c.DryRun {
		count, err := c.list(ctx, o, filter, func(string) error { return nil })
		if err != nil {
			return c.explain(s, err)
		}
		return c.report(s, &journal{listed: count}, true)
	}
	path := c.Journal
	if path == "" {
		path = "settle-bulk.journal"
	}
	j, isNew, err := openJournal(path, bulkRun{Command: append(command, c.filterArguments()...), Table: c.Table, Stamp: s.Now().UnixMicro()})
	if errors.Is(err, errOtherRun) {
		other := s.hint("bulk "+j.run.Command[0], append(j.run.Command[1:], "--table", j.run.Table)...)
		return fmt.Errorf("%w: %s is the journal of the run %s: repeat that command to continue it, or choose another --journal", errUsage, path, other)
	}
	if err != nil {
		return err
	}
	defer j.close()
	if isNew {
		count, err := c.list(ctx, o, filter, j.choose)
		if err == nil {
			err = j.end(count)
		}
		if err != nil {
			return c.explain(s, stopped(ctx, err))
		}
	}
	if err := c.ask(ctx, s, j, command[0]); err != nil {
		return err
	}
	if err := j.begin(); err != nil {
		return err
	}
	if err := c.process(ctx, o, j, action(o, j.run.Stamp)); err != nil {
		return fmt.Errorf("%w; repeat the command to continue the run of %s", c.explain(s, stopped(ctx, err)), path)
	}
	return c.report(s, j, false)
}

// filterArguments returns the arguments that select the instances.
func (c *bulkFlags) filterArguments() []string {
	given := []string{"--machine", c.Machine}
	if c.State != "" {
		given = append(given, "--state", c.State)
	}
	if c.Tag != "" {
		given = append(given, "--tag", c.Tag)
	}
	if c.OlderThan != 0 {
		given = append(given, "--older-than", c.OlderThan.String())
	}
	for _, text := range c.Context {
		given = append(given, "--context", text)
	}
	return given
}

// list calls `choose` with each instance that matches, and returns the number of these instances.
func (c *bulkFlags) list(ctx context.Context, o *operator, filter dynamostore.Filter, choose func(instance string) error) (count int, err error) {
	progress := o.session.newProgress("instance found", "instances found")
	defer progress.end()
	byTable := false
	noteItem := func(item *dynamostore.ItemError) { o.note("%s: %s", o.session.name(), oneLine(item)) }
	for record, err := range readable(listed(ctx, o.store, filter, &byTable), noteItem) {
		if err != nil {
			return 0, err
		}
		if !c.selects(record, o.session.Now()) {
			continue
		}
		if err := choose(record.Instance.String()); err != nil {
			return 0, err
		}
		count++
		progress.add()
	}
	return count, nil
}

// selects reports whether the instance matches the status, the state, the age and the conditions on the context.
func (c *bulkFlags) selects(record instances.Record, now time.Time) bool {
	isInState := func(path string) bool { return path == c.State || strings.HasPrefix(path, c.State+".") }
	if c.matches != nil && !c.matches(record) {
		return false
	}
	if c.status != "" && record.Status != c.status || c.State != "" && !slices.ContainsFunc(record.State, isInState) || now.Sub(record.UpdatedAt) < c.OlderThan {
		return false
	}
	var snapshot struct {
		Tags    []string
		Context any
	}
	if exactjson.Unmarshal(record.Snapshot, &snapshot) != nil || c.Tag != "" && !slices.Contains(snapshot.Tags, c.Tag) {
		return false
	}
	return !slices.ContainsFunc(c.conditions, func(w condition) bool { return !w.holds(snapshot.Context) })
}

// ask asks for confirmation. It does not ask with --yes, for an empty list, or if the run has already begun.
func (c *bulkFlags) ask(ctx context.Context, s *session, j *journal, action string) error {
	if j.begun {
		s.note("Continuing the run of %s: %d of %d instances are done.", j.path, j.done, j.listed)
		return nil
	}
	if c.Yes || j.listed == 0 {
		return nil
	}
	if err := s.canConfirm(); err != nil {
		return err
	}
	s.note("Listing %s took %s.", counted(j.listed, "instance", "instances"), readUnits(s))
	question := fmt.Sprintf("%s: %s of machine %s in table %s, in about %s?", action, counted(j.listed, "instance", "instances"), c.Machine, c.Table, console.Span(c.duration(j.listed)))
	return s.confirm(ctx, question, "nothing was changed")
}

// duration returns how long `count` instances take at --rate.
func (c *bulkFlags) duration(count int) time.Duration {
	return time.Duration(count) * time.Second / time.Duration(c.Rate)
}

// measuredMin is the number of finished instances needed to measure the speed.
const measuredMin = 2 * workersMax

// left estimates the time until all `count` instances are finished. It uses --rate, or the measured speed if that is
// lower.
func (c *bulkFlags) left(count, finished int, elapsed time.Duration) time.Duration {
	left := c.duration(count - finished)
	if finished < measuredMin {
		return left
	}
	return max(left, time.Duration(float64(elapsed)/float64(finished)*float64(count-finished)))
}

// readUnits returns the text of the read units consumed so far.
func readUnits(s *session) string { return counted(int(s.read.units()), "read unit", "read units") }

// process processes the instances that have no outcome yet, in batches.
func (c *bulkFlags) process(ctx context.Context, o *operator, j *journal, action bulkAction) error {
	var batch []chosen
	for next, err := range j.rest() {
		if err != nil {
			return err
		}
		if batch = append(batch, next); len(batch) < cmp.Or(action.batch, batchDefault) {
			continue
		}
		if err := c.processBatch(ctx, o, j, batch, action); err != nil {
			return err
		}
		batch = batch[:0]
	}
	return c.processBatch(ctx, o, j, batch, action)
}

func (c *bulkFlags) processBatch(ctx context.Context, o *operator, j *journal, batch []chosen, action bulkAction) error {
	if action.prepare != nil && len(batch) > 0 {
		if err := action.prepare(ctx, batch); err != nil {
			return err
		}
	}
	progress := o.session.newTask("starting")
	defer progress.end()
	ticker := time.NewTicker(time.Second / time.Duration(c.Rate))
	defer ticker.Stop()
	begun, open := o.session.Now(), j.listed-j.counts[outcomeChanged]-j.counts[outcomeSkipped]-j.counts[outcomeFailed]
	var finished atomic.Int64 // counts the finished instances of this batch
	paced := func(yield func(chosen, error) bool) {
		for _, next := range batch {
			left := c.left(open, int(finished.Load()), o.session.Now().Sub(begun))
			progress.say(fmt.Sprintf("%d of %d instances, about %s left", next.number, j.listed, console.Span(left)))
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
			if !yield(next, nil) {
				return
			}
		}
	}
	return inParallel(ctx, paced, func(ctx context.Context, next chosen) error {
		defer finished.Add(1)
		return c.processOne(ctx, o, j, next, action)
	})
}

// processOne processes an instance and records the outcome. It returns only errors that affect other instances too.
func (c *bulkFlags) processOne(ctx context.Context, o *operator, j *journal, next chosen, action bulkAction) error {
	result, err := c.apply(ctx, o, next.instance, action)
	switch {
	case err == nil:
		return j.finish(next.number, result, "")
	case errors.Is(err, instances.ErrEnded), errors.Is(err, errNotFound):
		return j.finish(next.number, outcomeSkipped, "")
	case ctx.Err() != nil, isTemporary(err), errors.Is(err, durable.ErrDenied):
		return err
	default:
		o.note("%s: %s: %s", o.session.name(), next.instance, oneLine(err))
		return j.finish(next.number, outcomeFailed, oneLine(err))
	}
}

// apply processes an instance. After each conflict, it reads the instance again, because the conflict may come from a
// late write of an earlier process of this run.
func (c *bulkFlags) apply(ctx context.Context, o *operator, instance string, action bulkAction) (result outcome, err error) {
	id, err := instances.ParseID(instance)
	if err != nil {
		return "", err
	}
	for tries := 1; ; tries++ {
		result, err = c.try(ctx, o, id, action)
		if !errors.Is(err, durable.ErrConflict) || tries == operations.ConflictsMax {
			return result, err
		}
	}
}

// try processes an instance, unless an earlier attempt did so or the instance no longer matches.
func (c *bulkFlags) try(ctx context.Context, o *operator, id instances.ID, action bulkAction) (outcome, error) {
	record, err := o.store.Load(ctx, id)
	switch {
	case err != nil:
		return "", err
	case action.isDone != nil && action.isDone(record):
		if action.finish != nil {
			return outcomeChanged, action.finish(ctx, record)
		}
		_, err = o.wake(ctx, record)
		return outcomeChanged, err
	case record.Revision == 0 || !c.selects(record, o.session.Now()):
		return outcomeSkipped, nil
	default:
		return outcomeChanged, action.apply(ctx, record)
	}
}

// bulkReport is the JSON output of a bulk command.
type bulkReport struct {
	Instances int   `json:"instances"`
	DryRun    bool  `json:"dry_run,omitempty"`
	Changed   int   `json:"changed"`
	Skipped   int   `json:"skipped"`
	Failed    int   `json:"failed"`
	ReadUnits int64 `json:"read_units"`
	// Copies are the places outside the table that also have the data of the forgotten instances.
	Copies []view.Copy `json:"copies,omitempty"`
}

// report prints the outcomes.
func (c *bulkFlags) report(s *session, j *journal, dryRun bool) error {
	r := bulkReport{j.listed, dryRun, j.counts[outcomeChanged], j.counts[outcomeSkipped], j.counts[outcomeFailed], s.read.units(), c.copies}
	var err error
	switch {
	case c.json(s):
		err = s.printJSON(r)
	case dryRun:
		err = s.printf("%s would be processed, in about %s. Listing them took %s.\n", counted(r.Instances, "instance", "instances"), console.Span(c.duration(r.Instances)), readUnits(s))
	default:
		err = s.printf("%s: %d changed, %d skipped, %d failed.\nReading them took %s.\n%s", counted(r.Instances, "instance", "instances"), r.Changed, r.Skipped, r.Failed, readUnits(s), view.CopiesText(s.style, c.copies))
	}
	if err == nil && r.Failed > 0 {
		err = fmt.Errorf("%s failed: the journal %s has the reasons", counted(r.Failed, "instance", "instances"), j.path)
	}
	return err
}
