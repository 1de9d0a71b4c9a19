package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/statechart"
)

type checkCommand struct {
	tableFlags
	Machine string `help:"Only instances of this machine."`
	Status  string `enum:"active,any" default:"any" help:"Only instances with this status: active or any."`
	outputFlag
}

// Help implements kong.HelpProvider.
func (*checkCommand) Help() string {
	return `Run check with a new build before you deploy it. It reads each stored snapshot with the machines of this build, and counts
the results:

  FIT      readable by the version that stored it
  MIGRATE  readable by a later version, through its migrations
  BREAK    unreadable: a state is gone, the context does not decode, a machine or a
           version is missing, or the item is damaged

If any instance breaks, the exit code is 1. Instances that are done or stopped count too, because events may still arrive
for them. To skip them, use --status active.

check writes nothing. It reads the whole table consistently, even with filters. In a large table that takes time and read
capacity.

  settle check
  settle check --machine signup --status active`
}

// Run counts the instances that the machines of this build can read.
func (c *checkCommand) Run(ctx context.Context, s *session) error {
	machines, err := s.machines()
	if err != nil {
		return err
	}
	filter := dynamostore.Filter{Machine: c.Machine, Consistent: true}
	if c.Machine != "" {
		if _, err := machines.Lookup(c.Machine); err != nil {
			return err
		}
	}
	if c.Status == "active" {
		filter.Status = statechart.Active
	}
	store, err := c.store(ctx, s)
	if err != nil {
		return err
	}
	check, progress := durable.NewCheck(machines), s.newProgress("instance checked", "instances checked")
	defer progress.end()
	for record, err := range store.List(ctx, filter) {
		var item *dynamostore.ItemError
		if err != nil && !errors.As(err, &item) {
			return c.explain(s, err)
		}
		check.Add(record, err)
		progress.add()
	}
	switch {
	case c.json(s):
		err = s.printJSON(check.Rows())
	case len(check.Rows()) == 0:
		err = s.printf("No instances.\n")
	default:
		err = view.WriteCheck(s.Out, s.style, check.Rows())
	}
	if checked, broken := check.Counts(); err == nil && broken > 0 {
		err = fmt.Errorf("%d of %d instances cannot run on this build: %s", broken, checked, remedy(broken, check.Corrupt()))
	}
	return err
}

// remedy returns advice on instances that break. damaged counts the ones whose items are damaged.
func remedy(broken, damaged int) string {
	const versions = "add migrations, or host their versions too"
	switch damaged {
	case 0:
		return versions
	case broken:
		return "repair their items, or restore them from a backup"
	default:
		return fmt.Sprintf("%s; repair the items of %d, or restore them from a backup", versions, damaged)
	}
}
