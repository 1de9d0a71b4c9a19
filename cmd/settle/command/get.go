package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
)

type getCommand struct {
	tableFlags
	Instance string `arg:"" optional:"" help:"The instance, such as signup/42."`
	Alias    string `placeholder:"KEY" help:"Show the instance that has this alias, or had it last. An alias is a third party's ID for it, such as a job ID."`
	outputFlag
}

// Run prints the instance as last stored.
func (c *getCommand) Run(ctx context.Context, s *session) error {
	if (c.Instance == "") == (c.Alias == "") {
		return fmt.Errorf("%w: expected either an instance, such as signup/42, or --alias", errUsage)
	}
	name := c.Instance
	if c.Alias != "" {
		id, err := c.find(ctx, s, c.Alias)
		if err != nil {
			return err
		}
		name = id.String()
	}
	_, shown, err := c.read(ctx, s, name)
	if err != nil {
		return err
	}
	return c.answer(s, shown, func() error { return shown.WriteText(s.Out, s.style, s.Now()) })
}

// find returns the instance that has the alias.
func (f tableFlags) find(ctx context.Context, s *session, alias string) (instances.ID, error) {
	defer s.newTask("reading " + alias).end()
	store, err := f.store(ctx, s)
	if err != nil {
		return instances.ID{}, err
	}
	id, err := store.Find(ctx, alias)
	if errors.Is(err, dynamostore.ErrNoAlias) {
		return id, fmt.Errorf("%w: no instance has the alias %q in table %s", errNotFound, alias, f.Table)
	}
	return id, f.explain(s, err)
}

// missing returns the error for an instance that does not exist.
func (f tableFlags) missing(known *durable.Machines, id instances.ID) error {
	if _, err := known.Lookup(id.Machine); err != nil {
		return err
	}
	return fmt.Errorf("%w: no instance %s in table %s; its first event creates it", errNotFound, id, f.Table)
}

// read returns the stored record of an instance, and its view.
func (f tableFlags) read(ctx context.Context, s *session, name string) (instances.Record, view.Instance, error) {
	defer s.newTask("reading " + name).end()
	id, err := instances.ParseID(name)
	if err != nil {
		return instances.Record{}, view.Instance{}, err
	}
	store, err := f.store(ctx, s)
	if err != nil {
		return instances.Record{}, view.Instance{}, err
	}
	record, err := store.Load(ctx, id)
	if err != nil {
		return instances.Record{}, view.Instance{}, f.explain(s, err)
	}
	known, err := s.machines()
	if err == nil && record.Revision == 0 {
		err = f.missing(known, id)
	}
	if err != nil {
		return instances.Record{}, view.Instance{}, err
	}
	shown, err := view.Of(known, record)
	return record, shown, err
}

type historyCommand struct {
	tableFlags
	Instance string `arg:"" help:"The instance, such as signup/42."`
	outputFlag
}

// Run prints the transitions, the oldest first.
func (c *historyCommand) Run(ctx context.Context, s *session) error {
	record, _, err := c.read(ctx, s, c.Instance)
	if err != nil {
		return err
	}
	if c.json(s) {
		for _, transition := range record.History {
			if err := s.printLine(transition); err != nil {
				return err
			}
		}
		return nil
	}
	return view.WriteHistory(s.Out, s.style, record.History, s.Now().Location())
}
