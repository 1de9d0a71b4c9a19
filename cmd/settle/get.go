package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/dynamostore"
)

type getCommand struct {
	tableFlags
	Instance string `arg:"" optional:"" help:"The instance, such as signup/42."`
	Alias    string `placeholder:"KEY" help:"Show the instance that has this alias, such as a third party's job ID, or had it last."`
	Output   string `short:"o" enum:"text,json" default:"text" help:"How to print it: text or json."`
}

// Run shows the instance as it was stored last.
func (c *getCommand) Run(ctx context.Context, s *session) error {
	if (c.Instance == "") == (c.Alias == "") {
		return fmt.Errorf("%w: expected either an instance, such as signup/42, or --alias", errUsage)
	}
	var id durable.InstanceID
	if c.Alias == "" {
		var err error
		if id, err = durable.ParseInstanceID(c.Instance); err != nil {
			return err
		}
	}
	store, err := c.store(ctx, s)
	if err != nil {
		return err
	}
	if c.Alias != "" {
		id, err = store.Find(ctx, c.Alias)
		if errors.Is(err, dynamostore.ErrNoAlias) {
			return fmt.Errorf("%w: no instance has the alias %q in table %s", errNotFound, c.Alias, c.Table)
		}
		if err != nil {
			return c.explain(s, err)
		}
	}
	record, err := store.Load(ctx, id)
	if err != nil {
		return c.explain(s, err)
	}
	known, err := knownMachines()
	if err != nil {
		return err
	}
	if record.Revision == 0 {
		if _, err := known.Lookup(id.Machine); err != nil {
			return err
		}
		return fmt.Errorf("%w: nothing is stored of %s in table %s; its first event creates it", errNotFound, id, c.Table)
	}
	shown, err := view.Of(known, record)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return s.printJSON(shown)
	}
	return shown.WriteText(s.out, s.style, s.now())
}
