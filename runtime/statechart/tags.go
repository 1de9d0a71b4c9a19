package statechart

import "slices"

// Tags returns the tags that a state of the chart, or the chart itself, has; sorted, each once.
func (c *chart) Tags() []string {
	var tags []string
	for i := range c.nodes {
		tags = append(tags, c.nodes[i].def.Tags...)
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}
