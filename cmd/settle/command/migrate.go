package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
)

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
	known, err := s.machines()
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
	var found view.Migrations
	progress := s.newProgress("instance read", "instances read")
	defer progress.end()
	for record, err := range store.List(ctx, dynamostore.Filter{Machine: c.Machine, Consistent: true}) {
		var item *dynamostore.ItemError
		if err != nil && !errors.As(err, &item) {
			return c.explain(s, err)
		}
		if err == nil {
			err = c.add(&found, known, record)
		}
		if err != nil {
			found.Broken++
		}
		progress.add()
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
func (c *migrateCommand) add(found *view.Migrations, known *durable.Machines, record durable.Record) error {
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
