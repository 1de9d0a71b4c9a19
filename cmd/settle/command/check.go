package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/compat"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
)

type checkCommand struct {
	tableFlags
	Machine string   `help:"Only instances of this machine."`
	Status  string   `enum:"active,any" default:"any" help:"Only instances with this status: active or any."`
	From    []string `placeholder:"FILE" help:"Check the items in these files of settle backup instead of a table. - is standard input."`
	Next    string   `placeholder:"FILE" help:"Also write each instance to this file as this build stores it after its next event, and new instances. To see whether you can roll back, run check --from FILE of the old build."`
	outputFlag
}

// Run counts the instances that the machines of this build can read.
func (c *checkCommand) Run(ctx context.Context, s *session) error {
	known, records, stop, err := c.records(ctx, s)
	if err != nil {
		return err
	}
	defer stop()
	check := compat.New(known)
	next := &nextFile{session: s, known: known}
	if err := next.create(c.Next, c.From); err != nil {
		return err
	}
	defer next.close()
	err = c.each(s, records, s.newProgress("instance checked", "instances checked"), func(record instances.Record, err error) {
		if check.Add(record, err); err == nil {
			next.add(ctx, record)
		}
	})
	if err == nil {
		err = next.addNew(ctx, c.Machine)
	}
	if err = cmp.Or(err, next.close()); err != nil {
		return err
	}
	rows := check.Rows()
	switch {
	case c.json(s):
		err = s.printJSON(rows)
	case len(rows) == 0:
		err = s.printf("No instances.\n")
	default:
		err = view.WriteCheck(s.Out, s.style, s.name(), rows)
	}
	checked, broken := check.Counts()
	park := 0
	for _, row := range rows {
		park += row.Park
	}
	var problems []string
	if broken > 0 {
		problems = append(problems, fmt.Sprintf("%d of %d instances cannot run on this build: %s", broken, checked, remedy(broken, check.Causes())))
	}
	if park > 0 {
		problems = append(problems, fmt.Sprintf("%d of %d instances have deferred events that this build would park", park, checked))
	}
	if err == nil && len(problems) > 0 {
		err = errors.New(strings.Join(problems, "; "))
	}
	return err
}

// records returns the machines, and the records of the table or of the files. Call `stop` after the last record.
func (c *checkCommand) records(ctx context.Context, s *session) (known *durable.Machines, records iter.Seq2[instances.Record, error], stop func(), err error) {
	chosen := filterFlags{placeFlags{Machine: c.Machine}, c.Status}
	if len(c.From) == 0 {
		known, filter, store, err := chosen.choose(ctx, s, c.tableFlags)
		if err != nil {
			return nil, nil, nil, err
		}
		filter.Consistent = true
		return known, store.List(ctx, filter), func() {}, nil
	}
	if known, err = s.machines(); err != nil {
		return nil, nil, nil, err
	}
	filter, err := chosen.filter(s, known)
	if err != nil {
		return nil, nil, nil, err
	}
	table, stop := newBackupTable(s, c.From)
	return known, func(yield func(instances.Record, error) bool) {
		for record, err := range dynamostore.New(table, "").List(ctx, filter) {
			isOther := c.Machine != "" && record.Instance.Machine != c.Machine && record.Instance.Machine != ""
			isOther = isOther || err == nil && c.Status != anyStatus && string(record.Status) != c.Status
			if !isOther && !yield(record, cmp.Or(table.failure, err)) {
				return
			}
		}
	}, stop, nil
}

// remedy returns advice on the broken instances.
func remedy(broken int, by compat.Causes) string {
	var advice []string
	add := func(count int, all, some string) {
		switch {
		case count == broken:
			advice = append(advice, all)
		case count > 0:
			advice = append(advice, some)
		}
	}
	add(by.Newer, "a newer build has stored them: keep that build, or host their versions here too",
		fmt.Sprintf("a newer build has stored %d: keep that build, or host their versions here too", by.Newer))
	add(by.Unhosted, "host their machines, which this build does not have", fmt.Sprintf("host the machines of %d, which this build does not have", by.Unhosted))
	const versions = "add migrations, or host their versions too"
	add(broken-by.Newer-by.Unhosted-by.Damaged, versions, versions)
	add(by.Damaged, "repair their items, or restore them from a backup", fmt.Sprintf("repair the items of %d, or restore them from a backup", by.Damaged))
	return strings.Join(advice, "; ")
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
