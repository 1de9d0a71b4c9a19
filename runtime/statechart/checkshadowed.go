package statechart

import (
	"fmt"
	"strings"
)

// checkShadowed finds transitions that are never taken, because an earlier transition of the same state has no guard
// and matches every event that they match. As in SCXML and XState, the first matching transition wins. checkGraph skips
// this check for charts of other interpreters, which accept such transitions.
func (c *compiler) checkShadowed(n *node) {
	for _, transitions := range [][]transition{n.transitions, n.always} {
		for k := range transitions {
			for i := range transitions[:k] {
				first, second := &transitions[i], &transitions[k]
				if unguarded(*first) && matches(first.event, second.event) {
					c.find(n, fmt.Sprintf("%s: the transition %s is never taken, because %q %s comes first and has no guard", second.place, c.goal(second), first.place, c.goal(first)),
						"guard the first transition, move it behind the other, or remove one of them")
					break
				}
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
