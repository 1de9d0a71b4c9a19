package simulate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/statechart"
)

// The versions of a drawn chart. The new one migrates from the first.
const (
	firstVersion = 1
	newVersion   = 3
)

// name returns the ID of a drawn state.
func (d *drawer) name(count int) string {
	if d.version == newVersion && count == d.renamed {
		return fmt.Sprintf("renamed%d", count)
	}
	return fmt.Sprintf("s%d", count)
}

// firstName returns a state's name in the first version.
func firstName(name string) string { return strings.Replace(name, "renamed", "s", 1) }

// migrating turns a chart into the new version.
func (d *drawer) migrating(def *statechart.Definition[trail]) {
	def.Migrations = []statechart.Migration{{From: 1}, {From: 2, Changes: []statechart.Change{statechart.MigrateContext(func(c trail) trail {
		if c.Migrated > 0 {
			c.record("migrated again")
		}
		c.Migrated, c.Latest = c.Count+1, true
		return c
	})}}}
	def.Migrations[1].Changes = append(def.Migrations[1].Changes, statechart.Rewrite("drop services", func(s *statechart.Stored) error {
		s.Services = slices.DeleteFunc(s.Services, func(i statechart.Invocation) bool { return slices.Contains(d.dropped, i.Service) })
		return nil
	}))
	for _, path := range d.preceded {
		def.Migrations[1].Changes = append(def.Migrations[1].Changes, statechart.RenameService(path, path, path+":1"))
	}
	for _, from := range slices.Sorted(maps.Keys(d.retreats)) {
		if d.one(2) {
			def.Migrations[1].Changes = append(def.Migrations[1].Changes, statechart.MoveState(from, d.retreats[from]))
		}
	}
	for _, path := range d.all {
		if name := d.name(d.renamed); strings.HasSuffix("."+path, "."+name) {
			old := strings.TrimSuffix(path, name) + fmt.Sprintf("s%d", d.renamed)
			def.Migrations[0].Changes = []statechart.Change{statechart.RenameState(old, path)}
		}
	}
}

// release makes some states of the new version handle the events that the first version defers there.
func (d *drawer) release(states []chartState) {
	for i := range states {
		if len(states[i].Defer) > 0 && d.one(2) {
			states[i].Defer = nil
		}
		d.release(states[i].States)
	}
}
