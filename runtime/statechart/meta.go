package statechart

import "encoding/json"

// Meta returns what the active states have as Meta, by their paths, "" being the chart's own; those
// without any are left out (getMeta in XState v5). The values are those of the definition and must
// not be changed.
func (s Snapshot[C]) Meta() map[string]any {
	meta := map[string]any{}
	for _, i := range s.chart.active(&s.configuration) {
		if n := &s.chart.nodes[i]; n.def.Meta != nil {
			meta[n.path] = n.def.Meta
		}
	}
	return meta
}

// checkMeta checks that those who show a state can write its Meta.
func (c *compiler[C]) checkMeta(n *node[C]) {
	if _, err := json.Marshal(n.def.Meta); err != nil {
		c.find(n, "has a Meta that does not marshal to JSON ("+err.Error()+")", "use values that encoding/json can write")
	}
}
