package statechart

import (
	"reflect"
	"slices"
)

// Description describes a chart for callers that check, list or draw charts. Its slices and maps belong to the chart
// and must not be changed.
type Description struct {
	// States holds the chart itself, then its states in document order.
	States []StateInfo
	// Tags holds the tags of all states, sorted.
	Tags []string
	// Payloads maps event types to the payload types that Decode returns, or nil for no payload. Events that only the
	// chart itself raises are left out.
	Payloads map[string]reflect.Type
	// OldestVersion is the lowest version whose snapshots Restore reads.
	OldestVersion int
	// Children holds the machine IDs of the chart's children, sorted.
	Children []string
	// OtherChildren is set if an action of EnqueueActions may spawn children of further machines.
	OtherChildren bool
	// Workflows holds the names of the workflows that the chart starts, sorted.
	Workflows []string
	// WorkflowEnds holds the types of the events that report the ends of workflows, sorted. Only the host sends them.
	WorkflowEnds []string
	// Resolves holds the names under which the chart answers callers that wait, in document order. It is empty for a
	// chart without answers, and for one that chooses them at run time.
	Resolves []string
	// Warnings holds likely mistakes in the definition that Compile accepts, such as states that nothing can leave.
	Warnings []Finding
	// Foreign is set for a chart of xstatejson.Foreign. Hosts must not run it, because it may never settle.
	Foreign bool
}

// Describe returns what the chart declares.
func (c *chart) Describe() Description { return c.description }

func (c *chart) describe() Description {
	d := Description{
		States: c.states(), Payloads: map[string]reflect.Type{}, OldestVersion: c.version - len(c.migrations), Resolves: c.resolves(), Warnings: c.warnings, Foreign: c.foreign,
	}
	for typ, payload := range c.payloads {
		if !payload.internal {
			d.Payloads[typ] = payload.typ
		}
	}
	for i := range c.nodes {
		n := &c.nodes[i]
		d.Tags = append(d.Tags, n.def.Tags...)
		for k := range n.def.Children {
			d.Children = append(d.Children, n.def.Children[k].Machine)
		}
		eachAction(n, func(_ string, action Action[erased]) {
			if action.spawns {
				d.Children = append(d.Children, action.made.Machine)
			}
			if action.starts != nil {
				d.Workflows = append(d.Workflows, action.starts.workflow)
				d.WorkflowEnds = append(d.WorkflowEnds, action.starts.onEnd)
			}
			d.OtherChildren = d.OtherChildren || action.enqueues
		})
	}
	for _, list := range []*[]string{&d.Tags, &d.Children, &d.Workflows, &d.WorkflowEnds} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return d
}
