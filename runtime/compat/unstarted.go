package compat

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/durable"
	"github.com/settle-run/settle/runtime/instances"
	"github.com/settle-run/settle/runtime/statechart"
)

// unstarted returns the path of an active state whose timers and children do not run, because a migration moved the
// instance there. ok is false if there is no such state.
func (c *Check) unstarted(record instances.Record, machine durable.Machine, instance durable.Instance) (path string, ok bool) {
	if instance.Status() != statechart.Active {
		return "", false
	}
	declares := c.declares(machine)
	started := map[string]bool{}
	for _, timer := range instance.Timers() {
		started[timer.State] = true
	}
	for _, child := range instance.Children() {
		started[child.State] = true
	}
	before := map[string]bool{}
	for _, leaf := range record.State {
		for path := range ancestors(leaf) {
			before[path] = true
		}
	}
	for _, leaf := range instance.State() {
		for path := range ancestors(leaf) {
			if declares[path] && !started[path] && !before[path] {
				return path, true
			}
		}
	}
	return "", false
}

// ancestors yields the path of a state, then the paths of its ancestors except the root.
func ancestors(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for path != "" && yield(path) {
			path = path[:max(strings.LastIndexByte(path, '.'), 0)]
		}
	}
}

// declares returns the paths of the states that declare timers or children.
func (c *Check) declares(machine durable.Machine) map[string]bool {
	key := fmt.Sprintf("%s/%d", machine.ID(), machine.Version())
	if known, ok := c.declared[key]; ok {
		return known
	}
	declared := map[string]bool{}
	if outline := machine.Outline(); outline != nil {
		states := slices.Clone(outline.Root.States)
		above := make([]string, len(states))
		for i := 0; i < len(states); i++ { // The list grows by the children of each state.
			path := above[i] + states[i].ID
			declared[path] = len(states[i].After)+len(states[i].Children) > 0
			for _, child := range states[i].States {
				states, above = append(states, child), append(above, path+".")
			}
		}
	}
	c.declared[key] = declared
	return declared
}
