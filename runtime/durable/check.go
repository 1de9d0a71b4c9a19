package durable

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/statechart"
)

// Check finds out whether machines can carry stored instances on. It writes nothing and runs nothing but
// migrations.
type Check struct {
	// SnapshotBytesMax is the loop's Config.SnapshotBytesMax: an instance whose snapshot a migration makes larger
	// breaks. Defaults to 256 KiB as that does.
	SnapshotBytesMax int

	machines *Machines
	rows     map[rowKey]*CheckRow
	spoilt   int
}

// rowKey is what the instances of a row have in common.
type rowKey struct {
	machine       string
	storedVersion int
	status        statechart.Status
	state         string
}

// CheckRow counts instances of one machine, version, status and state.
type CheckRow struct {
	Machine string `json:"machine"`
	// Version is the one that has stored them; 0 if that cannot be told.
	Version int               `json:"version"`
	Status  statechart.Status `json:"status"`
	// State is the paths of the active atomic states, as they were stored.
	State []string `json:"state"`
	// Fit are read by the version that has stored them, Migrate by a later one, Break by none.
	Fit     int `json:"fit"`
	Migrate int `json:"migrate"`
	Break   int `json:"break"`
	// Example is the first instance that breaks, and Error why.
	Example string `json:"example,omitempty"`
	Error   string `json:"error,omitempty"`
}

// NewCheck returns a check by the machines, which has seen no instance yet.
func NewCheck(machines *Machines) *Check {
	return &Check{SnapshotBytesMax: Config{}.withDefaults().SnapshotBytesMax, machines: machines, rows: map[rowKey]*CheckRow{}}
}

// Add checks a stored instance. The error is that of its item, if the item itself could not be read. If it has the method
// Key, that is the item's key: an item whose key is no machine/id is shown by it.
func (c *Check) Add(record Record, itemErr error) {
	version, _ := storedVersion(record.Snapshot) // What has none breaks below.
	key := rowKey{record.Instance.Machine, version, record.Status, strings.Join(record.State, ", ")}
	row := c.rows[key]
	if row == nil {
		row = &CheckRow{Machine: key.machine, Version: version, Status: key.status, State: append([]string{}, record.State...)}
		c.rows[key] = row
	}
	carrier, err := 0, itemErr
	if err == nil {
		carrier, err = c.carry(record, version)
	}
	switch {
	case err == nil && carrier == version:
		row.Fit++
	case err == nil:
		row.Migrate++
	default:
		if isSpoilt(err) {
			c.spoilt++
		}
		if row.Break++; row.Break == 1 {
			row.Example, row.Error = nameOf(record, itemErr), err.Error()
		}
	}
}

// isSpoilt reports whether nothing but mending the item helps: no other version would read it either.
func isSpoilt(err error) bool {
	var snapshot *statechart.UnreadableError
	return errors.Is(err, ErrUnreadable) || errors.As(err, &snapshot) && snapshot.Todo == ""
}

// nameOf returns what a person finds the item by.
func nameOf(record Record, itemErr error) string {
	var item interface{ Key() string }
	if record.Instance == (InstanceID{}) && errors.As(itemErr, &item) {
		return item.Key()
	}
	return record.Instance.String()
}

// carry reads an instance as the loop would, and the outcome of a migration as it would be read next time.
// It returns the version that carries the instance on.
func (c *Check) carry(record Record, stored int) (version int, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = statechart.Panicked(r)
		}
	}()
	machine, instance, err := c.machines.Restore(record)
	if err != nil {
		return 0, err
	}
	snapshot, err := instance.Snapshot()
	if err == nil {
		_, err = machine.Restore(snapshot)
	}
	if err != nil {
		return 0, err
	}
	if limit := c.SnapshotBytesMax; machine.Version() != stored && len(snapshot) > limit {
		return 0, fmt.Errorf("migrated from version %d to %d, the snapshot would have %d bytes, the limit is %d (Config.SnapshotBytesMax): let the migration keep less, or host version %d too",
			stored, machine.Version(), len(snapshot), limit, stored)
	}
	for _, e := range record.Executions {
		if instance.Status() == statechart.Active && !slices.Contains(machine.Events(), e.Event) {
			return 0, fmt.Errorf("it waits for the end of the workflow %q as the event %q, which version %d does not declare: declare it, or host version %d too",
				e.Workflow, e.Event, machine.Version(), stored)
		}
	}
	return machine.Version(), nil
}

// Rows returns the counts, by machine, version, status and state.
func (c *Check) Rows() []CheckRow {
	rows := []CheckRow{}
	byKey := func(a, b rowKey) int {
		return cmp.Or(cmp.Compare(a.machine, b.machine), cmp.Compare(a.storedVersion, b.storedVersion),
			cmp.Compare(a.status, b.status), cmp.Compare(a.state, b.state))
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.rows), byKey) {
		rows = append(rows, *c.rows[key])
	}
	return rows
}

// Counts returns how many instances were checked, and how many of them break.
func (c *Check) Counts() (checked, broken int) {
	for _, row := range c.rows {
		checked += row.Fit + row.Migrate + row.Break
		broken += row.Break
	}
	return checked, broken
}

// Spoilt returns how many of those that break no migration and no other version helps: their items are to be mended.
func (c *Check) Spoilt() int { return c.spoilt }
