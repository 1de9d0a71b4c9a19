package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/settle-run/settle/cmd/settle/internal/exactjson"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
)

// operationCommand changes one instance. The command's name is the kind of change: stop, terminate, keep or unkeep.
type operationCommand struct {
	tableFlags
	Queue    string `default:"settle.fifo" env:"SETTLE_QUEUE_URL" placeholder:"NAME|URL" help:"The FIFO queue (${default})."`
	Instance string `arg:"" optional:"" help:"The instance, such as signup/42. Left out with --alias."`
	Alias    string `placeholder:"KEY" help:"Change the instance that has this alias, or had it last, such as a third party's job ID."`
	Reason   string `placeholder:"TEXT" help:"The reason. The history of the instance keeps it with your AWS identity."`
	DryRun   bool   `help:"Show the change, and write nothing."`
	Revision *int64 `placeholder:"N" help:"Change the instance only at this revision, which a dry run prints."`
	outputFlag
}

type moveCommand struct {
	operationCommand
	moveFlags
}

type laneCommand struct {
	operationCommand
	laneFlag
}

// laneFlag is the argument of commands that move instances to another lane.
type laneFlag struct {
	To string `arg:"" name:"lane" optional:"" help:"The name of the lane: main, or a name in SETTLE_LANES of the consumer."`
}

// check returns an error if the argument cannot be a lane.
func (f laneFlag) check() error {
	if !instances.IsLane(f.To) {
		return fmt.Errorf("%w: expected the name of a lane, with %s, got %q", errUsage, instances.LaneForm, f.To)
	}
	return nil
}

// Run moves the instance to another lane. If --alias is set, the first argument is the lane.
func (c *laneCommand) Run(ctx context.Context, s *session) error {
	if c.Alias != "" && c.To == "" {
		c.Instance, c.To = "", c.Instance
	}
	if err := c.check(); err != nil {
		return err
	}
	return c.operate(ctx, s, instances.Operation{Kind: instances.ChangeLane, Lane: c.To}, nil)
}

// moveFlags are the flags of commands that move instances.
type moveFlags struct {
	Place string   `arg:"" name:"new-state" optional:"" help:"The path of the new state, such as unverified.registering. Without it, only the context changes."`
	Set   []string `sep:"none" placeholder:"KEY=VALUE" help:"Set a value of the context: key=value for a string, key:=value for JSON. Dots lead into objects, null removes a key. Repeatable."`
	Patch string   `placeholder:"OBJECT|-" help:"A JSON merge patch of the context (RFC 7396), or - to read it from standard input."`
}

// Run changes the instance.
func (c *operationCommand) Run(ctx context.Context, s *session, line *kong.Context) error {
	return c.operate(ctx, s, instances.Operation{Kind: instances.OperationKind(line.Selected().Name)}, nil)
}

// Run moves the instance. If --alias is set, the first argument is the new state.
func (c *moveCommand) Run(ctx context.Context, s *session) error {
	if c.Alias != "" && c.Place == "" {
		c.Instance, c.Place = "", c.Instance
	}
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
		if err := exactjson.Unmarshal(text, &patch); err != nil || patch == nil {
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
		if err := exactjson.Unmarshal(set[path], &value); err != nil {
			return nil, err
		}
		for _, key := range slices.Backward(strings.Split(path, ".")) {
			value = map[string]any{key: value}
		}
		patches = append(patches, value)
	}
	return patches, nil
}

// changeArguments returns the arguments that describe the move. If --patch is set, `patches` starts with its value.
func (c *moveFlags) changeArguments(patches []any) []string {
	var given []string
	if c.Place != "" {
		given = append(given, c.Place)
	}
	for _, pair := range slices.Sorted(slices.Values(c.Set)) {
		given = append(given, "--set", pair)
	}
	if c.Patch != "" {
		text, _ := json.Marshal(patches[0]) // The patch was read from JSON, so it always marshals.
		given = append(given, "--patch", string(text))
	}
	return given
}

// merge applies a merge patch (RFC 7396, section 2). It uses no library, because the libraries for merge patches also
// contain JSON Patch and a command line.
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
func (c *operationCommand) operate(ctx context.Context, s *session, op instances.Operation, patches []any) error {
	if (c.Instance == "") == (c.Alias == "") {
		return fmt.Errorf("%w: expected either an instance, such as signup/42, or --alias", errUsage)
	}
	var revision int64
	if c.Revision != nil {
		if revision = *c.Revision; revision < 1 {
			return fmt.Errorf("%w: --revision: expected at least 1, got %d", errUsage, revision)
		}
	}
	if c.Alias != "" {
		found, err := c.find(ctx, s, c.Alias)
		if err != nil {
			return err
		}
		c.Instance = found.String()
	}
	id, err := instances.ParseID(c.Instance)
	if err != nil {
		return err
	}
	o, err := newOperator(ctx, s, c.tableFlags, c.Queue, c.DryRun)
	if err != nil {
		return c.explain(s, err)
	}
	if err := checkState(o.machines, id.Machine, op.State); err != nil {
		return err
	}
	op.By, op.Reason, op.At = o.by, c.Reason, s.Now()
	task := s.newTask("changing " + c.Instance)
	shown, err := o.change(ctx, id, op, patches, revision)
	task.end()
	switch {
	case errors.Is(err, durable.ErrConflict) && revision != 0:
		err = fmt.Errorf("%s has changed meanwhile, and this command has changed nothing: if %s shows this change, an earlier command has made it; else try again with the new revision: %w", id, s.hint("history", c.Instance), err)
	case errors.Is(err, durable.ErrConflict):
		err = fmt.Errorf("%s has changed meanwhile, and this command has changed nothing: see %s, and try again: %w", id, s.hint("get", c.Instance), err)
	}
	if err != nil {
		return c.explain(s, err)
	}
	return c.answer(s, shown, func() error { return s.printf("%s", shown.Text(s.style)) })
}
