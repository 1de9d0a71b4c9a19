// Package compat finds out whether a build can read the stored instances.
package compat

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// Check reports whether the hosted machines can read stored instances. It writes nothing and runs no user code except
// migrations.
type Check struct {
	// SnapshotBytesMax is the loop's limit: an instance breaks if its migrated snapshot is larger. Defaults to 256 KiB.
	SnapshotBytesMax int

	machines *durable.Machines
	rows     map[rowKey]*Row
	causes   Causes
	// declared caches the results of the method declares, by machine and version.
	declared map[string]map[string]bool
}

// rowKey identifies a row.
type rowKey struct {
	machine       string
	storedVersion int
	status        statechart.Status
	state         string
}

// Row counts instances of one machine, version, status and state.
type Row struct {
	Machine string `json:"machine"`
	// Version is the version that stored the instances; 0 if unknown.
	Version int               `json:"version"`
	Status  statechart.Status `json:"status"`
	// State lists the paths of the active atomic states, as stored.
	State []string `json:"state"`
	// Fit counts instances that their own version reads. Migrate counts instances that a later version reads. Break
	// counts all others.
	Fit     int `json:"fit"`
	Migrate int `json:"migrate"`
	Break   int `json:"break"`
	// Unstarted counts the instances of Migrate that a migration moves to a state whose timers and children do not run,
	// because a migration starts nothing.
	Unstarted int `json:"unstarted"`
	// Park counts the active instances of Fit and Migrate with deferred events that the loop would park, because the build
	// cannot decode them. Payloads of internal events are not checked.
	Park int `json:"park"`
	// Example names the first instance that breaks, and Error is the reason.
	Example string `json:"example,omitempty"`
	Error   string `json:"error,omitempty"`
	// UnstartedExample names the first instance of Unstarted, and UnstartedState is the path of its state.
	UnstartedExample string `json:"unstarted_example,omitempty"`
	UnstartedState   string `json:"unstarted_state,omitempty"`
	// ParkExample names the first instance of Park, and ParkError is the reason.
	ParkExample string `json:"park_example,omitempty"`
	ParkError   string `json:"park_error,omitempty"`
}

// New returns a check without instances.
func New(machines *durable.Machines) *Check {
	return &Check{SnapshotBytesMax: instances.SnapshotBytesMax, machines: machines, rows: map[rowKey]*Row{}, declared: map[string]map[string]bool{}}
}

// Add checks a stored instance. itemErr is the error of reading the item, or nil. If the item's key is not machine/id,
// itemErr must have a method Key that returns the key, for Row.Example.
func (c *Check) Add(record instances.Record, itemErr error) {
	version, _ := record.Version() // If the version is unreadable, the instance counts under Break below.
	key := rowKey{record.Instance.Machine, version, record.Status, strings.Join(record.State, ", ")}
	row := c.rows[key]
	if row == nil {
		row = &Row{Machine: key.machine, Version: version, Status: key.status, State: append([]string{}, record.State...)}
		c.rows[key] = row
	}
	var machine durable.Machine
	var instance durable.Instance
	err := itemErr
	if err == nil {
		machine, instance, err = c.restore(record, version)
	}
	switch {
	case err == nil && machine.Version() == version:
		row.Fit++
	case err == nil:
		row.Migrate++
		if path, ok := c.unstarted(record, machine, instance); ok {
			if row.Unstarted++; row.Unstarted == 1 {
				row.UnstartedExample, row.UnstartedState = record.Instance.String(), path
			}
		}
	default:
		c.count(record, version, err)
		if row.Break++; row.Break == 1 {
			row.Example, row.Error = nameOf(record, itemErr), err.Error()
		}
		return
	}
	if err := checkDeferred(machine, instance); err != nil {
		if row.Park++; row.Park == 1 {
			row.ParkExample, row.ParkError = record.Instance.String(), err.Error()
		}
	}
}

// Causes counts instances that break, each under one cause. Those that no field counts need a migration.
type Causes struct {
	// Damaged counts items that no migration and no other version can read, so a person must repair them.
	Damaged int
	// Unhosted counts instances of machines that the build does not have.
	Unhosted int
	// Newer counts instances stored by a newer version than any hosted one, for example after a rollback.
	Newer int
}

// count counts an instance that breaks with the error.
func (c *Check) count(record instances.Record, version int, err error) {
	if isCorrupt(err) {
		c.causes.Damaged++
		return
	}
	current, err := c.machines.Lookup(record.Instance.Machine)
	switch {
	case err != nil:
		c.causes.Unhosted++
	case version > current.Version():
		c.causes.Newer++
	}
}

// isCorrupt reports whether the item itself is damaged, so that no other version could read it either.
func isCorrupt(err error) bool {
	var snapshot *statechart.UnreadableError
	return errors.Is(err, durable.ErrUnreadable) || errors.As(err, &snapshot) && snapshot.Todo == ""
}

// nameOf returns the name by which a person finds the item.
func nameOf(record instances.Record, itemErr error) string {
	var item interface{ Key() string }
	if record.Instance == (instances.ID{}) && errors.As(itemErr, &item) {
		return item.Key()
	}
	return record.Instance.String()
}

// restore reads an instance as the loop does. It also reads the result of a migration, as the next turn would. It
// returns the version that can continue the instance, and the instance.
func (c *Check) restore(record instances.Record, stored int) (machine durable.Machine, instance durable.Instance, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = statechart.Panicked(r)
		}
	}()
	if machine, instance, err = c.machines.Restore(record); err != nil {
		return nil, nil, err
	}
	snapshot, err := instance.Snapshot()
	if err == nil {
		_, err = machine.Restore(snapshot)
	}
	if err != nil {
		return nil, nil, err
	}
	if limit := c.SnapshotBytesMax; machine.Version() != stored && len(snapshot) > limit {
		return nil, nil, fmt.Errorf("migrated from version %d to %d, the snapshot would have %d bytes, the limit is %d (Config.SnapshotBytesMax): let the migration keep less, or host version %d too",
			stored, machine.Version(), len(snapshot), limit, stored)
	}
	for _, e := range record.Executions {
		if instance.Status() == statechart.Active && !slices.Contains(machine.Events(), e.Event) {
			return nil, nil, fmt.Errorf("it waits for the end of the workflow %q as the event %q, which version %d does not declare: declare it, or host version %d too",
				e.Workflow, e.Event, machine.Version(), stored)
		}
	}
	return machine, instance, nil
}

// Rows returns the counts, by machine, version, status and state.
func (c *Check) Rows() []Row {
	rows := []Row{}
	byKey := func(a, b rowKey) int {
		return cmp.Or(cmp.Compare(a.machine, b.machine), cmp.Compare(a.storedVersion, b.storedVersion),
			cmp.Compare(a.status, b.status), cmp.Compare(a.state, b.state))
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.rows), byKey) {
		rows = append(rows, *c.rows[key])
	}
	return rows
}

// Counts returns how many instances were checked and how many of them break.
func (c *Check) Counts() (checked, broken int) {
	for _, row := range c.rows {
		checked += row.Fit + row.Migrate + row.Break
		broken += row.Break
	}
	return checked, broken
}

// Causes returns how many instances break, by cause.
func (c *Check) Causes() Causes { return c.causes }
