package statechart

import "encoding/json"

// Meta returns the Meta of the active states by path (getMeta in XState v5). The chart's own path is "". The values
// must not be changed.
func (s Snapshot[C]) Meta() map[string]any { return s.chart.meta(&s.configuration) }

func (c *chart) meta(configuration *configuration) map[string]any {
	meta := map[string]any{}
	for _, i := range c.active(configuration) {
		if n := &c.nodes[i]; n.def.Meta != nil {
			meta[n.path] = n.def.Meta
		}
	}
	return meta
}

// checkMeta checks that a state's Meta marshals to JSON.
func (c *compiler) checkMeta(n *node) {
	if _, err := json.Marshal(n.def.Meta); err != nil {
		c.find(n, "has a Meta that does not marshal to JSON ("+err.Error()+")", "use values that encoding/json can write")
	}
}
