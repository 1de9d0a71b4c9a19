package statechart

import "slices"

// symbol is a number for an event type, so that a step compares no text. The types that a chart
// names have one each.
type symbol int32

const (
	// eventless stands for no event.
	eventless symbol = 0
	// unknown stands for every type that the chart does not name.
	unknown symbol = -1
)

// symbol returns the symbol of an event type.
func (c *Chart[C]) symbol(typ string) symbol {
	if s, ok := c.symbols[typ]; ok {
		return s
	}
	return unknown
}

// table finds the transitions of a state that an event may enable.
type table[C any] struct {
	// rows are in the order of their symbols.
	rows []row[C]
	// all are the state's transitions if one of their descriptors is a wildcard or a prefix: then
	// every one is compared. They are in document order.
	all []*transition[C]
}

// row holds the transitions of one symbol in document order.
type row[C any] struct {
	symbol      symbol
	transitions []*transition[C]
}

// candidates returns, in document order, the transitions that an event of the symbol's type may
// enable, and whether their descriptors still have to be compared with the type.
func (n *node[C]) candidates(of symbol) (transitions []*transition[C], compare bool) {
	if n.table.all != nil && of != eventless {
		return n.table.all, true
	}
	rows := n.table.rows
	for len(rows) > linearRowsMax {
		middle := len(rows) / 2
		if rows[middle].symbol > of {
			rows = rows[:middle]
		} else {
			rows = rows[middle:]
		}
	}
	for k := range rows {
		if rows[k].symbol == of {
			return rows[k].transitions, false
		}
	}
	return nil, false
}

// linearRowsMax is how many rows are looked at one after the other.
const linearRowsMax = 8

// tabulate makes the tables of a chart whose transitions are linked.
func (c *Chart[C]) tabulate() {
	c.symbols = map[string]symbol{"": eventless}
	name := func(typ string) symbol {
		s, ok := c.symbols[typ]
		if !ok {
			s = symbol(len(c.symbols))
			c.symbols[typ] = s
		}
		return s
	}
	for _, typ := range sortedKeys(c.payloads) {
		name(typ)
	}
	for i := range c.nodes {
		n := &c.nodes[i]
		add := func(t *transition[C]) {
			t.index = len(c.transitions)
			c.transitions = append(c.transitions, t)
			of := name(t.event)
			k, found := slices.BinarySearchFunc(n.table.rows, of, func(r row[C], s symbol) int { return int(r.symbol - s) })
			if !found {
				n.table.rows = slices.Insert(n.table.rows, k, row[C]{symbol: of})
			}
			n.table.rows[k].transitions = append(n.table.rows[k].transitions, t)
		}
		wildcards := false
		var all []*transition[C]
		for k := range n.transitions {
			t := &n.transitions[k]
			add(t)
			all = append(all, t)
			wildcards = wildcards || isPartial(t.event)
		}
		if wildcards {
			n.table.all = all
		}
		for k := range n.always {
			add(&n.always[k])
			c.hasAlways = true
		}
	}
}
