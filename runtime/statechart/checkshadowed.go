package statechart

import (
	"fmt"
	"strings"
)

// checkShadowed finds transitions that are never taken, because an earlier transition of the same state has no guard
// and matches all their events. As in SCXML and XState, the first matching transition wins. checkGraph skips this check
// for foreign charts, because other interpreters accept such transitions.
func (c *compiler) checkShadowed(n *node) {
	for _, transitions := range [][]transition{n.transitions, n.always} {
		firsts := map[string]int{} // the first unguarded transition, by descriptor
		for k := range transitions {
			at, second := k, &transitions[k]
			for descriptor := range descriptorsOf(second.event) {
				if i, ok := firsts[descriptor]; ok {
					at = min(at, i)
				}
			}
			if at < k {
				first := &transitions[at]
				c.find(n, fmt.Sprintf("%s: the transition %s is never taken, because %q %s comes first and has no guard", second.place, c.goal(second), first.place, c.goal(first)),
					"guard the first transition, move it behind the other, or remove one of them")
			} else if unguarded(*second) {
				firsts[second.event] = k
			}
		}
	}
}

// goal describes the targets of a transition.
func (c *compiler) goal(t *transition) string {
	if len(t.targets) == 0 {
		return "without a target"
	}
	var names []string
	for _, target := range t.targets {
		names = append(names, c.name(&c.chart.nodes[target]))
	}
	return "to " + strings.Join(names, " and ")
}
