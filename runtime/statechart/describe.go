package statechart

import (
	"reflect"
	"slices"
	"strings"
)

// Description describes a chart for callers that check, list or draw charts. Its slices and maps belong to the chart
// and must not be changed.
type Description struct {
	States []StateInfo // the chart itself, then its states in document order
	Tags   []string    // the tags of all states, sorted
	// Payloads maps the event types from outside to the payload types that Decode returns, or nil for no payload.
	Payloads      map[string]reflect.Type
	OldestVersion int      // the lowest version whose snapshots Restore reads
	Children      []string // the machine IDs of the chart's children, sorted
	// InputTo holds the machine IDs of children that get an input. NoInputTo holds the IDs of children that get none.
	InputTo, NoInputTo []string
	OtherChildren      bool     // set if an action made by EnqueueActions may spawn children of other machines
	Workflows          []string // the names of the workflows that the chart starts, sorted
	WorkflowEnds       []string // the event types that report ended executions, sorted; only the host sends them
	Limits             []Limit  // the limits of the chart's services, by name
	// Resolves holds the names under which the chart answers callers, in document order. It omits names chosen at run time.
	Resolves []string
	Warnings []Finding // likely mistakes that Compile accepts, such as states that nothing can leave
	Foreign  bool      // set for a chart of xstatejson.Foreign; hosts must not run it, because it may never settle
}

// Describe returns the description of the chart.
func (c *chart) Describe() Description { return c.description }

func (d *Description) addChild(machine string, input bool) {
	d.Children = append(d.Children, machine)
	if input {
		d.InputTo = append(d.InputTo, machine)
	} else {
		d.NoInputTo = append(d.NoInputTo, machine)
	}
}

func (c *chart) describe() Description {
	d := Description{
		States: c.states(), Payloads: map[string]reflect.Type{}, OldestVersion: c.version - len(c.migrations), Resolves: c.resolves(), Warnings: c.warnings, Foreign: c.foreign,
	}
	for typ, payload := range c.payloads {
		if !payload.internal {
			d.Payloads[typ] = payload.typ
		}
	}
	limits := map[Limit]bool{}
	for i := range c.nodes {
		n := &c.nodes[i]
		d.Tags = append(d.Tags, n.def.Tags...)
		for k := range n.def.Invoke {
			if limit := n.def.Invoke[k].Limit; limit != (Limit{}) && !limits[limit] {
				limits[limit] = true
				d.Limits = append(d.Limits, limit)
			}
		}
		for k := range n.def.Children {
			d.addChild(n.def.Children[k].Machine, n.def.Children[k].Input != nil)
		}
		eachAction(n, func(_ string, action Action[erased]) {
			if action.spawns {
				d.addChild(action.made.Machine, action.made.Computed)
			}
			if action.starts != nil {
				d.Workflows = append(d.Workflows, action.starts.workflow)
				d.WorkflowEnds = append(d.WorkflowEnds, action.starts.onEnd)
			}
			d.OtherChildren = d.OtherChildren || action.enqueues
		})
	}
	for _, list := range []*[]string{&d.Tags, &d.Children, &d.InputTo, &d.NoInputTo, &d.Workflows, &d.WorkflowEnds} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.SortFunc(d.Limits, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
	return d
}
