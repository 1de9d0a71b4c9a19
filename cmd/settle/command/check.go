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

// remedy returns advice on the broken instances. `damaged` is the number of broken instances whose items are damaged.
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
	err = c.answer(s, found.Rows(), func() error { return found.Write(s.Out, s.style) })
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
