package chartsvg

import "slices"

// combTeeth is the minimum number of targets for which the root's transitions are drawn as a comb.
const combTeeth = 5

const (
	combCells = 60   // the width of a line of a label
	combGap   = 10.0 // between two teeth
	combTrunk = 18.0 // from the left border of the comb to its trunk
	combTooth = 16.0 // the line before and after a label
	combAside = 48.0 // between the other states and the comb
)

// comb is a drawing of the transitions from the root to states that have no other transitions: a vertical trunk with a
// tooth for each state. Side by side, these states would be too wide for a page.
type comb struct {
	source *node
	edges  []*edge
}

// takeComb removes the comb from a graph and returns it. If the comb would have fewer than combTeeth teeth,
// takeComb returns nil and changes nothing.
func takeComb(g *graph) *comb {
	if len(g.root.children) == 0 || g.root.children[0].kind != anyState {
		return nil
	}
	source := g.root.children[0]
	degree := map[*node]int{}
	for _, e := range g.edges {
		degree[e.from]++
		degree[e.to]++
	}
	is := func(e *edge) bool {
		return e.from == source && e.to.parent == g.root && degree[e.to] == 1 && !e.to.container() && !e.to.isDefault
	}
	c := &comb{source: source}
	for _, e := range g.edges {
		if is(e) {
			c.edges = append(c.edges, e)
		}
	}
	if len(c.edges) < combTeeth {
		return nil
	}
	g.edges = slices.DeleteFunc(g.edges, is)
	taken := func(n *node) bool {
		return slices.ContainsFunc(c.edges, func(e *edge) bool { return e.to == n })
	}
	if degree[source] == len(c.edges) {
		g.root.children = g.root.children[1:]
	} else { // The other transitions need a source among the other states.
		c.source = &node{kind: anyState, name: source.name, parent: g.root, depth: 1}
		for _, e := range c.edges {
			e.from = c.source
		}
		g.nodes = append(g.nodes, c.source)
	}
	g.root.children = slices.DeleteFunc(g.root.children, taken)
	return c
}

// place draws the comb to the right of all other states.
func (c *comb) place(g *graph, d *drawing) {
	x, y := margin, margin
	if len(g.root.children) > 0 {
		x = g.root.box.right() + combAside
	}
	c.source.box.W, c.source.box.H = c.source.size()
	c.source.box.X, c.source.box.Y = x, y
	y = c.source.box.bottom() + combGap
	labels := 0.0
	for _, e := range c.edges {
		e.label = nil // Each transition gets one line, so that its text stands above its tooth.
		for i := range e.transitions {
			t := &e.transitions[i]
			t.rows = t.layRows(combCells)
			e.label = append(e.label, t.rows...)
		}
		labels = max(labels, widest(e.label))
	}
	trunk := x + combTrunk
	for _, e := range c.edges {
		n := e.to
		n.box.W, n.box.H = n.size()
		height := e.labelHeight()
		row := max(n.box.H, 2*height+6)
		middle := y + row/2
		e.labelBox = rect{trunk + combTooth, middle - height - 3, widest(e.label), height}
		n.box.X, n.box.Y = trunk+combTooth+labels+combTooth, middle-n.box.H/2
		e.points = []point{{trunk, c.source.box.bottom()}, {trunk, middle}, {n.box.X, middle}}
		d.width = max(d.width, n.box.right())
		y += row + combGap
	}
	d.height = max(d.height, y-combGap)
	d.width = max(d.width, c.source.box.right())
	g.edges = append(g.edges, c.edges...)
}
