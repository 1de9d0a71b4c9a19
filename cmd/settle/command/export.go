package command

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/settle-run/settle/runtime/dynamostore"
	"github.com/settle-run/settle/runtime/instances"
)

type exportCommand struct {
	tableFlags
	filterFlags
	Consistent bool `help:"Read the table consistently, at twice the read capacity."`
}

// exported is one line of the export.
type exported struct {
	Instance  string                     `json:"instance"`
	Revision  int64                      `json:"revision"`
	CreatedAt time.Time                  `json:"created_at"`
	UpdatedAt time.Time                  `json:"updated_at"`
	ExpireAt  time.Time                  `json:"expire_at,omitzero"`
	Parent    string                     `json:"parent,omitempty"`
	Aliases   []string                   `json:"aliases,omitempty"`
	Snapshot  map[string]json.RawMessage `json:"snapshot"`
}

// Run writes the lines.
func (c *exportCommand) Run(ctx context.Context, s *session) error {
	_, filter, store, err := c.choose(ctx, s, c.tableFlags)
	if err != nil {
		return err
	}
	filter.Consistent = c.Consistent
	progress, unreadable := s.newProgress("instance exported", "instances exported"), 0
	defer progress.end()
	fail := func(err error) {
		s.note("%s: %s", s.name(), oneLine(err))
		unreadable++
	}
	for record, err := range readable(store.List(ctx, filter), func(item *dynamostore.ItemError) { fail(item) }) {
		if err != nil {
			return c.explain(s, err)
		}
		line, err := exportedOf(record)
		if err != nil {
			fail(err)
			continue
		}
		if err := s.printLine(line); err != nil {
			return fmt.Errorf("writing the output: %w", err)
		}
		progress.add()
	}
	if unreadable > 0 {
		return fmt.Errorf("%s could not be exported: repair the items, or restore them from a backup", counted(unreadable, "instance", "instances"))
	}
	return nil
}

func exportedOf(record instances.Record) (exported, error) {
	line := exported{
		Instance: record.Instance.String(), Revision: record.Revision, CreatedAt: record.CreatedAt, UpdatedAt: record.UpdatedAt, ExpireAt: record.ExpireAt,
		Aliases: record.Aliases,
	}
	if record.Parent != nil {
		line.Parent = record.Parent.Instance
	}
	if err := json.Unmarshal(record.Snapshot, &line.Snapshot); err != nil {
		return line, fmt.Errorf("reading the snapshot of %s: %w", record.Instance, err)
	}
	return line, nil
}
