package command

import (
	"context"
	"encoding/json"
	"errors"
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
	for record, err := range store.List(ctx, filter) {
		var item *dynamostore.ItemError
		if err != nil && !errors.As(err, &item) {
			return c.explain(s, err)
		}
		if err == nil {
			err = s.printLineOf(record)
		}
		if errors.Is(err, errOutput) {
			return err
		}
		if err != nil {
			s.note("%s: %s", s.name(), oneLine(err))
			unreadable++
			continue
		}
		progress.add()
	}
	if unreadable > 0 {
		return fmt.Errorf("%s could not be exported: repair the items, or restore them from a backup", counted(unreadable, "instance", "instances"))
	}
	return nil
}

// errOutput is wrapped when a write to standard output fails.
var errOutput = errors.New("writing the output")

func (s *session) printLineOf(record instances.Record) error {
	line := exported{
		Instance: record.Instance.String(), Revision: record.Revision, CreatedAt: record.CreatedAt, UpdatedAt: record.UpdatedAt, ExpireAt: record.ExpireAt,
		Aliases: record.Aliases,
	}
	if record.Parent != nil {
		line.Parent = record.Parent.Instance
	}
	if err := json.Unmarshal(record.Snapshot, &line.Snapshot); err != nil {
		return fmt.Errorf("reading the snapshot of %s: %w", record.Instance, err)
	}
	if err := s.printLine(line); err != nil {
		return fmt.Errorf("%w: %w", errOutput, err)
	}
	return nil
}
