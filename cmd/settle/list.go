package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/statechart"
)

type listCommand struct {
	tableFlags
	Machine string `help:"Only instances of this machine."`
	State   string `help:"Only instances in this state, or in one inside it: unverified, unverified.registering."`
	Status  string `enum:"active,done,any" default:"any" help:"Only instances with this status: active, done or any."`
	Limit   int    `default:"1000" help:"Stop after this many instances (${default})."`
	Output  string `short:"o" enum:"text,json" default:"text" help:"How to print them: text or json."`
}

// Help explains what the listing costs.
func (*listCommand) Help() string {
	return `The whole table is read, whatever is asked for: in a large one that takes time and read capacity.`
}

// Run lists the instances, sorted by name. An item that cannot be read does not hide the
// others: they are shown first, and the error after them.
func (c *listCommand) Run(ctx context.Context, s *session) error {
	if c.Limit < 1 {
		return fmt.Errorf("%w: --limit: expected at least 1, got %d", errUsage, c.Limit)
	}
	known, err := knownMachines()
	if err != nil {
		return err
	}
	if c.Machine != "" {
		if _, err := known.Lookup(c.Machine); err != nil {
			return err
		}
	}
	store, err := c.store(ctx, s)
	if err != nil {
		return err
	}
	filter := dynamostore.Filter{Machine: c.Machine, State: c.State}
	if c.Status != "any" {
		filter.Status = statechart.Status(c.Status)
	}
	found := []view.Instance{}
	var failures []error
	for record, err := range store.List(ctx, filter) {
		if err == nil && len(found) == c.Limit {
			failures = append(failures, fmt.Errorf("more than %d instances: narrow the search or raise --limit", c.Limit))
			break
		}
		var shown view.Instance
		if err == nil {
			shown, err = view.Of(known, record)
		}
		if err != nil {
			failures = append(failures, err)
			continue
		}
		found = append(found, shown)
	}
	if len(found) == 0 && len(failures) > 0 {
		return c.explain(s, errors.Join(failures...))
	}
	slices.SortFunc(found, func(a, b view.Instance) int { return cmp.Compare(a.Name, b.Name) })
	if c.Output == "json" {
		err = s.printJSON(found)
	} else {
		err = view.WriteTable(s.out, found, s.now())
	}
	return errors.Join(append(failures, err)...)
}
