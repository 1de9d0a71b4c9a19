package statechart

import (
	"fmt"
	"slices"
	"strings"
)

// targets resolves a list of state references that are separated by spaces.
func (c *compiler) targets(n *node, text, place string) []int {
	var targets []int
	if text != "" && strings.TrimSpace(text) == "" {
		c.find(n, fmt.Sprintf("%s: the target %q is blank", place, text), "name a sibling, a .child, or a #path.of.a.state")
	}
	for _, reference := range strings.Fields(text) {
		target, problem := c.target(n, reference)
		if problem == notAState || problem == noSiblings {
			problem += c.similarTarget(n, reference)
		}
		if problem != "" {
			c.find(n, fmt.Sprintf("%s: target %q %s", place, reference, problem), "name a sibling, a .child, or a #path.of.a.state")
			continue
		}
		targets = append(targets, target)
	}
	c.checkTogether(n, targets, text, place)
	return targets
}

// checkTogether checks that the targets of a transition can be active together.
func (c *compiler) checkTogether(n *node, targets []int, text, place string) {
	if len(targets) < 2 {
		return
	}
	scopes := make([]int, len(targets))
	for i, target := range targets {
		scopes[i] = c.scope(target)
	}
	slices.Sort(scopes)
	for i := range scopes[1:] { // If neighbours in document order are orthogonal, all pairs are.
		if !c.chart.orthogonal(scopes[i], scopes[i+1]) {
			c.find(n, fmt.Sprintf("%s: the targets %q cannot be active together", place, text), "name states of different regions of one parallel state")
			return
		}
	}
}

// scope returns the state whose descendants a target may enter. For a history state this is its parent: the history may
// resolve to any descendant of the parent.
func (c *compiler) scope(i int) int {
	if c.chart.nodes[i].kind == history {
		return c.chart.nodes[i].parent
	}
	return i
}

// For these problems of a reference, the message suggests a similar target.
const (
	notAState  = "is not a state"
	noSiblings = "is not valid at the root, which has no siblings"
)

// target resolves one reference as XState v5 does: `.child` relative to the state, `#id` from anywhere, or else a
// sibling.
func (c *compiler) target(n *node, reference string) (int, string) {
	nodes := c.chart.nodes
	if path, ok := strings.CutPrefix(reference, "#"); ok {
		return c.targetByID(path)
	}
	base := n.parent
	path, below := strings.CutPrefix(reference, ".")
	if below {
		base = n.index
	} else if n.parent < 0 {
		return 0, noSiblings
	}
	if nodes[base].path != "" {
		path = nodes[base].path + "." + path
	}
	if i, ok := c.chart.byPath[path]; ok && i != 0 {
		return i, ""
	}
	return 0, notAState
}

// targetByID resolves the part of a target after "#". This is a path from the root, with or without the chart's ID, or
// a unique state ID. A path below that state may follow the ID.
func (c *compiler) targetByID(path string) (int, string) {
	if rest, ok := strings.CutPrefix(path, c.chart.id+"."); ok {
		if i, ok := c.chart.byPath[rest]; ok {
			return i, ""
		}
	}
	if path == c.chart.id {
		return 0, ""
	}
	if i, ok := c.chart.byPath[path]; ok && path != "" {
		return i, ""
	}
	switch found := c.endingWith(path); len(found) {
	case 0:
		return 0, notAState
	case 1:
		return found[0], ""
	default:
		var names []string
		for _, i := range found[:min(len(found), suggestionsMax)] {
			names = append(names, c.chart.nodes[i].path)
		}
		more := ""
		if len(found) > len(names) {
			more = fmt.Sprintf(" or %d others", len(found)-len(names))
		}
		return 0, "is ambiguous: it may be " + strings.Join(names, " or ") + more
	}
}

// endingWith returns the states whose path ends with the IDs of the given path.
func (c *compiler) endingWith(path string) []int {
	if c.byEnd == nil {
		c.byEnd = map[string][]int{}
		for i := range c.chart.nodes[1:] {
			for end, more := c.chart.nodes[i+1].path, true; more; _, end, more = strings.Cut(end, ".") {
				c.byEnd[end] = append(c.byEnd[end], i+1)
			}
		}
	}
	return c.byEnd[path]
}

// orthogonal reports whether two states can be active together and neither contains the other. Their least common
// ancestor is then parallel (SCXML 3.4).
func (c *chart) orthogonal(a, b int) bool {
	if a == b || c.isDescendant(a, b) || c.isDescendant(b, a) {
		return false
	}
	ancestor := a
	for ancestor != b && !c.isDescendant(b, ancestor) {
		ancestor = c.nodes[ancestor].parent
	}
	return c.nodes[ancestor].kind == parallel
}

// isDescendant reports whether state is a proper descendant of ancestor. Every state descends from the index -1, which
// stands for the outside of the root.
func (c *chart) isDescendant(state, ancestor int) bool {
	return ancestor < 0 || state > ancestor && state <= c.nodes[ancestor].last
}
