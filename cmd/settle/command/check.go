package command

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/compat"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
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
	chosen := filterFlags{placeFlags{Machine: c.Machine}, c.Status}
	machines, filter, store, err := chosen.choose(ctx, s, c.tableFlags)
	if err != nil {
		return err
	}
	filter.Consistent = true
	check := compat.New(machines)
	if err := c.each(s, store.List(ctx, filter), s.newProgress("instance checked", "instances checked"), check.Add); err != nil {
		return err
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

// remedy returns advice on the broken instances. damaged is how many of their items are damaged.
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

type migrateCommand struct {
	tableFlags
	DryRun  bool   `help:"Show what would change. Required, because instances migrate automatically."`
	Machine string `help:"Only instances of this machine."`
	outputFlag
}

// Help implements kong.HelpProvider.
func (*migrateCommand) Help() string {
	return `Instances migrate automatically: each one when its next event is applied, in the same write. There is nothing to start, so
migrate requires --dry-run. An instance without further events keeps its version. To migrate instances at a time of your
choice, send them an event that the chart handles without changing the state.

With --dry-run, migrate reads each stored instance as its next event would. It shows how many instances would migrate, by
machine, versions and state, and the first changes of one example each. It writes nothing. If no version can read an
instance, the exit code is 1, and settle check shows the reason. migrate reads the whole table consistently.

  settle migrate --dry-run
  settle migrate --dry-run --machine signup -o json`
}

// Run shows what the migrations would change.
func (c *migrateCommand) Run(ctx context.Context, s *session) error {
	if !c.DryRun {
		return fmt.Errorf("%w: expected --dry-run: instances migrate automatically, each with its next event, and there is nothing to start", errUsage)
	}
	chosen := filterFlags{placeFlags{Machine: c.Machine}, anyStatus}
	known, filter, store, err := chosen.choose(ctx, s, c.tableFlags)
	if err != nil {
		return err
	}
	filter.Consistent = true
	var found view.Migrations
	err = c.each(s, store.List(ctx, filter), s.newProgress("instance read", "instances read"), func(record instances.Record, err error) {
		if err == nil {
			err = c.add(&found, known, record)
		}
		if err != nil {
			found.Broken++
		}
	})
	if err != nil {
		return err
	}
	if c.json(s) {
		err = s.printJSON(found.Rows())
	} else {
		err = found.Write(s.Out, s.style)
	}
	if err == nil && found.Broken > 0 {
		err = fmt.Errorf("no version of this build can read %s: see %s", counted(found.Broken, "instance", "instances"), s.hint("check"))
	}
	return err
}

// add counts an instance if it would migrate.
func (c *migrateCommand) add(found *view.Migrations, known *durable.Machines, record instances.Record) error {
	var stored struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(record.Snapshot, &stored); err != nil {
		return err
	}
	machine, instance, err := known.Restore(record)
	if err != nil || machine.Version() == stored.Version {
		return err
	}
	migrated, err := instance.Snapshot()
	if err != nil {
		return err
	}
	return found.Add(record, stored.Version, machine.Version(), migrated)
}
