package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// operationFlags are the flags of commands that change one instance.
type operationFlags struct {
	tableFlags
	Queue    string `default:"settle.fifo" env:"SETTLE_QUEUE_URL" placeholder:"NAME|URL" help:"The FIFO queue (${default})."`
	Instance string `arg:"" help:"The instance, such as signup/42."`
	Reason   string `placeholder:"TEXT" help:"The reason. The history of the instance keeps it with your AWS identity."`
	DryRun   bool   `help:"Show the change, and write nothing."`
	Revision int64  `placeholder:"N" help:"Change the instance only at this revision, which a dry run prints."`
	outputFlag
}

type (
	stopCommand      struct{ operationFlags }
	terminateCommand struct{ operationFlags }
	keepCommand      struct{ operationFlags }
	unkeepCommand    struct{ operationFlags }
	moveCommand      struct {
		operationFlags
		moveFlags
	}
)

// moveFlags are the flags of commands that move instances.
type moveFlags struct {
	Place string   `arg:"" name:"new-state" optional:"" help:"The path of the new state, such as unverified.registering. Without it, only the context changes."`
	Set   []string `sep:"none" placeholder:"KEY=VALUE" help:"Set a value of the context: key=value for a string, key:=value for JSON. Dots lead into objects, null removes a key. Repeatable."`
	Patch string   `placeholder:"OBJECT|-" help:"A JSON merge patch of the context (RFC 7396), or - to read it from standard input."`
}

// operationHelp ends the help of the commands.
const operationHelp = `

The command writes the item on condition that its revision has not changed, and then sends the instance a message, so that
a consumer performs the effects. Only AWS permissions on the table allow this: no event and no HTTP request can do it. The
machines of this program must be those of the consumer. The history of the instance keeps who made the change, and why.
--dry-run shows states, actions, effects and values, and writes nothing.`

// Help implements kong.HelpProvider.
func (*stopCommand) Help() string {
	return `Stop an active instance. Its exit actions run, its children stop, its timers end, and its aliases are released. Tasks that
wait for it fail with Settle.Stopped. Its parent receives error.child.ID. Its later events are ignored.

If the chart's code fails at the stop, use terminate.` + operationHelp + `

  settle stop order/7 --reason "ordered twice"
  settle stop order/7 --dry-run`
}

// Help implements kong.HelpProvider.
func (*terminateCommand) Help() string {
	return `Terminate an active instance without running any code of its chart, even if this program cannot read its version. Everything
else is as with stop. While no consumer can read the instance, its effects wait.` + operationHelp + `

  settle terminate order/7 --reason "exit action panics"`
}

// Help implements kong.HelpProvider.
func (*moveCommand) Help() string {
	return `Move an active instance to another state, change its context, or both. The instance leaves its states and enters the new one
as by a transition: exit and entry actions run, timers and services start. The nearest active ancestor of the new state
stays active, so the other regions of a parallel state keep their states. The new context applies before the move. A value
that the machine would not keep is refused.` + operationHelp + `

  settle move order/7 shipped --reason "sent by hand"
  settle move order/7 --set address.city=Bern --set attempts:=0 --dry-run
  settle move order/7 cancelled --patch '{"note": null}' --revision 12`
}

// Help implements kong.HelpProvider.
func (*keepCommand) Help() string {
	return `Keep the item of an instance beyond its retention, as evidence or for a repair. This also works before the instance ends.` + operationHelp + `

  settle keep order/7 --reason "dispute 88"`
}

// Help implements kong.HelpProvider.
func (*unkeepCommand) Help() string {
	return `End the effect of keep. If the instance has ended, its retention starts now.` + operationHelp + `

  settle unkeep order/7`
}

// Run stops the instance.
func (c *stopCommand) Run(ctx context.Context, s *session) error {
	return c.operate(ctx, s, instances.Operation{Kind: instances.Stop}, nil)
}

// Run terminates the instance.
func (c *terminateCommand) Run(ctx context.Context, s *session) error {
	return c.operate(ctx, s, instances.Operation{Kind: instances.Terminate}, nil)
}

// Run keeps the instance.
func (c *keepCommand) Run(ctx context.Context, s *session) error {
	return c.operate(ctx, s, instances.Operation{Kind: instances.Keep}, nil)
}

// Run lets the instance expire again.
func (c *unkeepCommand) Run(ctx context.Context, s *session) error {
	return c.operate(ctx, s, instances.Operation{Kind: instances.Unkeep}, nil)
}

// Run moves the instance.
func (c *moveCommand) Run(ctx context.Context, s *session) error {
	patches, err := c.patches(ctx, s)
	if err != nil {
		return err
	}
	return c.operate(ctx, s, instances.Operation{Kind: instances.Move, State: c.Place}, patches)
}

// patches returns the merge patches of the context, in order.
func (c *moveFlags) patches(ctx context.Context, s *session) (patches []any, err error) {
	if c.Place == "" && c.Patch == "" && len(c.Set) == 0 {
		return nil, fmt.Errorf("%w: expected a state, --set or --patch, got none", errUsage)
	}
	if c.Patch != "" {
		text := []byte(c.Patch)
		if c.Patch == "-" {
			if text, err = s.readInput(ctx); err != nil {
				return nil, fmt.Errorf("reading the patch: %w", err)
			}
		}
		var patch map[string]any
		if err := json.Unmarshal(text, &patch); err != nil || patch == nil {
			return nil, fmt.Errorf(`%w: --patch: expected a JSON object such as {"attempts": 0}, got %.80q`, errUsage, text)
		}
		patches = append(patches, patch)
	}
	set, err := pairs(c.Set)
	if err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(set)) {
		var value any
		if err := json.Unmarshal(set[path], &value); err != nil {
			return nil, err
		}
		for _, key := range slices.Backward(strings.Split(path, ".")) {
			value = map[string]any{key: value}
		}
		patches = append(patches, value)
	}
	return patches, nil
}

// merge applies a merge patch (RFC 7396, section 2). The libraries for it also bring JSON Patch and a command line.
func merge(target, patch any) any {
	changes, isObject := patch.(map[string]any)
	if !isObject {
		return patch
	}
	fields, _ := target.(map[string]any)
	merged := maps.Clone(fields)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, change := range changes {
		if change == nil {
			delete(merged, key)
		} else {
			merged[key] = merge(merged[key], change)
		}
	}
	return merged
}

// operate computes the change, commits it, and wakes the instance.
func (c *operationFlags) operate(ctx context.Context, s *session, op instances.Operation, patches []any) error {
	id, err := instances.ParseID(c.Instance)
	if err != nil {
		return err
	}
	o, err := newOperator(ctx, s, c.tableFlags, c.Queue, c.DryRun)
	if err != nil {
		return c.explain(s, err)
	}
	op.By, op.Reason, op.At = o.by, c.Reason, s.Now()
	task := s.newTask("changing " + c.Instance)
	shown, err := o.change(ctx, id, op, patches, c.Revision)
	task.end()
	if errors.Is(err, durable.ErrConflict) {
		err = fmt.Errorf("%s has changed meanwhile, and this command has changed nothing: see %s, and try again: %w", id, s.hint("get", c.Instance), err)
	}
	if err != nil {
		return c.explain(s, err)
	}
	if c.json(s) {
		return s.printJSON(shown)
	}
	return s.printf("%s", shown.Text(s.style))
}
