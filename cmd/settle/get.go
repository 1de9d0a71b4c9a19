package main

import (
	"context"
	"fmt"

	"github.com/settle-run/settle/cmd/settle/internal/view"
	"github.com/settle-run/settle/runtime/durable"
)

type getCommand struct {
	tableFlags
	Instance string `arg:"" help:"The instance, such as signup/42."`
	Output   string `short:"o" enum:"text,json" default:"text" help:"How to print it: text or json."`
}

// Run shows the instance as it was stored last.
func (c *getCommand) Run(ctx context.Context, s *session) error {
	id, err := durable.ParseInstanceID(c.Instance)
	if err != nil {
		return err
	}
	store, err := c.store(ctx, s)
	if err != nil {
		return err
	}
	record, err := store.Load(ctx, id)
	if err != nil {
		return c.explain(s, err)
	}
	if record.Revision == 0 {
		return fmt.Errorf("%w: nothing is stored of %s in table %s; its first event creates it", errNotFound, id, c.Table)
	}
	known, err := knownMachines()
	if err != nil {
		return err
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
