package statechart

import (
	"slices"
	"strings"
)

// table finds the transitions of a state that may match an event.
type table struct {
	// rows is sorted by descriptor. The descriptor "" stands for eventless transitions.
	rows []row
	// `all` holds the state's transitions on events in document order, if any descriptor is a wildcard or prefix. The
	// search then compares every descriptor. Otherwise `all` is nil.
	all []*transition
}

// row holds the transitions with one descriptor in document order.
type row struct {
	event       string
	transitions []*transition
}

// candidates returns, in document order, the transitions that may match the event type, and whether the caller must
// still compare their descriptors. The type "" returns eventless transitions.
func (n *node) candidates(typ string) (transitions []*transition, compare bool) {
	if n.table.all != nil && typ != "" {
		return n.table.all, true
	}
	rows := n.table.rows
	for len(rows) > linearRowsMax {
		middle := len(rows) / 2
		if rows[middle].event > typ {
			rows = rows[:middle]
		} else {
			rows = rows[middle:]
		}
	}
	for k := range rows {
		if rows[k].event == typ {
			return rows[k].transitions, false
		}
	}
	return nil, false
}

// linearRowsMax is the maximum number of rows for a linear search.
const linearRowsMax = 8

// tabulate numbers the transitions of a chart and builds its tables.
func (c *chart) tabulate() {
	for i := range c.nodes {
		n := &c.nodes[i]
		wildcards := false
		var all []*transition
		for k := range n.transitions {
			all = append(all, &n.transitions[k])
			wildcards = wildcards || isPartial(n.transitions[k].event)
		}
		if wildcards {
			n.table.all = all
		}
		for k := range n.always {
			all = append(all, &n.always[k])
			c.hasAlways = true
		}
		for _, t := range all {
			t.index = len(c.transitions)
			c.transitions = append(c.transitions, t)
		}
		sorted := slices.Clone(all)
		slices.SortStableFunc(sorted, func(a, b *transition) int { return strings.Compare(a.event, b.event) })
		for len(sorted) > 0 {
			same := 1
			for same < len(sorted) && sorted[same].event == sorted[0].event {
				same++
			}
			n.table.rows = append(n.table.rows, row{sorted[0].event, sorted[:same:same]})
			sorted = sorted[same:]
		}
	}
}
