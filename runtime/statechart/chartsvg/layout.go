package chartsvg

import (
	"math"
	"slices"

	"github.com/settle-run/settle/runtime/internal/outline"
)

const (
	margin       = 24.0 // around the drawing
	padding      = 18.0 // within a container
	columnWidth  = 8.0  // of an edge between labels
	nodeHeight   = 34.0 // of a state with only its name
	headerHeight = 26.0 // of a container with only its name
	dotRoom      = 20.0 // above a default state, for the dot that points at it
	loopRoom     = 22.0 // right of a state, for the turn of its transitions to itself
	stackWidth   = 1700.0
)

type point struct{ X, Y float64 }

type rect struct{ X, Y, W, H float64 }

func (r rect) right() float64  { return r.X + r.W }
func (r rect) bottom() float64 { return r.Y + r.H }

// shape is the place of a node.
type shape struct {
	box    rect
	header float64 // the height of a container's header
	scope  *scope  // nil except for a container
	// ports holds the x of each edge that crosses the container's border, relative to the left border.
	ports map[*edge]float64
}

// wire is the place of an edge.
type wire struct {
	points   []point
	labelBox rect
	column   float64 // the x of the label's column, or 0 before the first round
}

// drawing is a chart with places for all its parts.
type drawing struct {
	*graph
	width, height float64
}

// layout draws a chart in up to four rounds and returns the best drawing. Each round after the first aims the edges
// that cross the border of a container at the places of their labels in the round before. The fourth round aims them at
// their far ends instead. Without such edges, there is only one round. Larger charts have fewer rounds, because a round
// takes time. The result depends only on the chart.
func layout(chart *outline.Chart) *drawing {
	best := layoutRound(chart, nil, false)
	rounds := 4
	switch edges := len(best.edges); {
	case edges > 400:
		rounds = 1
	case edges > 60:
		rounds = 3
	}
	for d, k := best, 1; k < rounds && best.crossesBorders(); k++ {
		if d = layoutRound(chart, d, k == 3); d.cost() < best.cost() {
			best = d
		}
	}
	return best
}

// layoutRound computes a drawing. It takes the drawing of the round before, or nil.
func layoutRound(chart *outline.Chart, before *drawing, farEnds bool) *drawing {
	g := newGraph(chart)
	d := &drawing{graph: g}
	comb := takeComb(g)
	lift(g)
	if before != nil {
		g.aim(before.graph, farEnds)
	}
	measure(g)
	if g.root.container() {
		arrange(g.root)
	}
	anchor(g.root, point{margin, margin})
	d.joinSpans()
	d.width, d.height = g.root.box.right(), g.root.box.bottom()
	if comb != nil {
		comb.place(g, d)
	}
	d.width += margin
	d.height += margin
	return d
}

// crossesBorders reports whether an edge leaves or enters a container.
func (g *graph) crossesBorders() bool {
	return slices.ContainsFunc(g.nodes, func(n *node) bool {
		return n.scope != nil && slices.ContainsFunc(n.scope.spans, (*item).crossesBorder)
	})
}

// aim sets the goal of each edge that leaves a container: the place of its label or far end in an earlier drawing of
// the same chart.
func (g *graph) aim(before *graph, farEnds bool) {
	drawn := map[*edge]*edge{}
	for i, e := range before.edges[:len(g.edges)] {
		drawn[g.edges[i]] = e
	}
	for i, n := range g.nodes {
		if n.scope == nil {
			continue
		}
		box := before.nodes[i].box
		for _, span := range n.scope.spans {
			if span.crossesBorder() {
				const beside = 60 // A goal farther away counts like one beside the container.
				e := drawn[span.edge]
				x := e.column
				if farEnds && span.edge.from.within(n) {
					x = e.points[len(e.points)-1].X
				} else if farEnds {
					x = e.points[0].X
				}
				goal := min(max(x-box.X, -beside), box.W+beside)
				span.goal = &goal
			}
		}
	}
}

// cost rates a drawing in the same way as orderer.cost rates an order.
func (d *drawing) cost() float64 {
	cost := 0.0
	for i, e := range d.edges {
		for k := 1; k < len(e.points); k++ {
			a, b := e.points[k-1], e.points[k]
			cost += length(a, b)
			for _, o := range d.edges[:i] {
				for m := 1; m < len(o.points); m++ {
					if cross(a, b, o.points[m-1], o.points[m]) {
						cost += crossingWeight
					}
				}
			}
		}
	}
	return cost
}

// cross reports whether two lines, each horizontal or vertical, cross.
func cross(a, b, c, d point) bool {
	within := func(x, from, to float64) bool { return x > min(from, to) && x < max(from, to) }
	return within(a.X, c.X, d.X) && within(c.Y, a.Y, b.Y) || within(c.X, a.X, b.X) && within(a.Y, c.Y, d.Y)
}

// measure computes the sizes of labels and of nodes that are not containers.
func measure(g *graph) {
	for _, n := range g.nodes {
		if n.container() {
			continue
		}
		n.box.W, n.box.H = n.size()
	}
	for _, n := range g.nodes {
		if n.scope == nil {
			continue
		}
		for _, it := range n.scope.nodes {
			if ports := max(len(it.ins), len(it.outs)); ports > 1 || it.node.isDefault {
				it.node.box.W = max(it.node.box.W, float64(ports+1)*portGap+dotInset)
			}
		}
		for _, span := range n.scope.spans {
			span.left = columnWidth / 2
			if span.labelled {
				span.left = max(span.left, widest(span.edge.label)/2+4)
			}
			span.right = span.left
		}
	}
}

// size returns the size of a node that is not a container.
func (n *node) size() (width, height float64) {
	switch n.kind {
	case history:
		return max(26, n.title().width+14), 26
	case initial:
		return 24, 10
	case anyState, restart:
		height = 28
	default:
		height = nodeHeight
	}
	width = max(n.title().width, widest(n.rows)) + 24
	return max(width, 64), height + float64(len(n.rows))*lineHeight
}

// arrange lays out the inside of a container, from the innermost containers outwards, and sets its size.
func arrange(n *node) {
	total := 0.0
	for _, child := range n.children {
		if child.container() {
			arrange(child)
		}
		total += child.box.W + padding
	}
	s := n.scope
	rank(s, n.kind == parallel && total > stackWidth)
	s.measure()
	order(s)
	s.sortSpans()
	place(s)
	s.frame()
	route(s)
	n.enclose()
}

// enclose sets the size of a container and the places of the edges at its borders.
func (n *node) enclose() {
	s := n.scope
	n.box = rect{W: s.area.W, H: s.area.H}
	n.ports = map[*edge]float64{}
	for _, span := range s.spans {
		if span.crossesBorder() {
			n.ports[span.edge] = span.x
		}
	}
	if n.parent == nil {
		return
	}
	// The port of an edge that crosses the border blocks at most two gaps between ports. With this width, every edge
	// that ends at the border still finds a place.
	own := 0
	for _, it := range n.parent.scope.nodes {
		if it.node == n {
			own = max(len(it.ins), len(it.outs))
		}
	}
	n.box.W = max(n.box.W, n.headerWidth(), 2*portGap*float64(own+1)+dotInset)
}

func (n *node) headerWidth() float64 {
	return max(n.title().width, widest(n.rows)) + 2*padding
}

// measure sets the extents of the nodes and the heights of the ranks.
func (s *scope) measure() {
	s.tall, s.dots = make([]float64, s.ranks), make([]float64, s.ranks)
	heights := make([]float64, s.ranks)
	if s.owner.parent != nil {
		s.owner.header = headerHeight + float64(len(s.owner.rows))*lineHeight
		s.tall[0] = s.owner.header
	}
	for _, it := range s.nodes {
		n := it.node
		it.left, it.right = n.box.W/2, n.box.W/2
		height := n.box.H
		if n.loop != nil {
			it.right += loopRoom + widest(n.loop.label) + 8
			height = max(height, n.loop.labelHeight()+8)
		}
		heights[it.first] = max(heights[it.first], height)
		if n.isDefault {
			s.dots[it.first] = dotRoom
		}
	}
	for r := range heights {
		s.tall[r] += heights[r] + s.dots[r]
	}
	for _, span := range s.spans {
		if span.labelled && len(span.edge.label) > 0 {
			s.tall[span.last] = max(s.tall[span.last], span.edge.labelHeight()+4)
		}
	}
}

// sortSpans sorts the spans at each node from left to right.
func (s *scope) sortSpans() {
	for _, n := range s.nodes {
		n.ins, n.outs = n.ins[:0], n.outs[:0]
	}
	for _, it := range s.order {
		if it.above != nil {
			it.above.outs = append(it.above.outs, it)
		}
		if it.below != nil {
			it.below.ins = append(it.below.ins, it)
		}
	}
}

// frame moves the items so that the leftmost one is at the left border, and computes the width.
func (s *scope) frame() {
	low, high := math.Inf(1), math.Inf(-1)
	for _, it := range s.order {
		for r := it.first; r <= it.last; r++ {
			left, right := it.extent(r)
			low, high = min(low, it.x-left), max(high, it.x+right)
		}
	}
	for _, span := range s.spans { // No line may cross the name at the left.
		if span.first == 0 {
			low = min(low, span.x-columnWidth/2-s.owner.headerWidth()+padding)
		}
	}
	pad := padding
	if s.owner.parent == nil {
		pad = 0
	}
	for _, it := range s.order {
		it.x += pad - low
		for end := range it.port {
			it.port[end] += pad - low
		}
	}
	s.area.W = high - low + 2*pad
}

// placeNodes sets the boxes of the nodes, relative to their container. Nodes beside a container or beside a node with a
// self-transition stand at the top of their rank, others in the middle.
func (s *scope) placeNodes() {
	atTop := make([]bool, s.ranks)
	for _, it := range s.nodes {
		atTop[it.first] = atTop[it.first] || it.node.container() || it.node.loop != nil
	}
	for _, it := range s.nodes {
		n := it.node
		n.box.X, n.box.Y = it.x-n.box.W/2, s.tops[it.first]+s.dots[it.first]
		if !atTop[it.first] {
			n.box.Y += (s.tall[it.first] - s.dots[it.first] - n.box.H) / 2
		}
	}
}

// anchor makes the coordinates of a node and of all that it contains absolute.
func anchor(n *node, origin point) {
	n.box.X += origin.X
	n.box.Y += origin.Y
	if n.scope == nil {
		return
	}
	for _, child := range n.children {
		anchor(child, point{n.box.X, n.box.Y})
	}
	for _, span := range n.scope.spans {
		for i := range span.points {
			span.points[i].X += n.box.X
			span.points[i].Y += n.box.Y
		}
		if span.labelled {
			span.edge.column = n.box.X + span.x
			width, height := widest(span.edge.label), span.edge.labelHeight()
			middle := n.box.Y + n.scope.tops[span.last] + n.scope.tall[span.last]/2
			span.edge.labelBox = rect{n.box.X + span.x - width/2, middle - height/2, width, height}
		}
	}
}

// joinSpans connects the spans of each edge, and draws the transitions of states to themselves.
func (d *drawing) joinSpans() {
	spans := map[*edge][]*item{}
	for _, n := range d.nodes {
		if n.scope != nil {
			for _, span := range n.scope.spans {
				spans[span.edge] = append(spans[span.edge], span)
			}
		}
		if n.loop != nil {
			n.loop.around(n)
		}
	}
	for _, e := range d.edges {
		parts := spans[e]
		if len(parts) == 0 {
			continue
		}
		slices.SortFunc(parts, func(a, b *item) int { return compare(a.points[0].Y, b.points[0].Y) })
		e.points = nil
		for _, part := range parts {
			for _, p := range part.points {
				e.points = appendPoint(e.points, p)
			}
		}
		if parts[0].reversed {
			slices.Reverse(e.points)
		}
	}
}

// around draws the edge from a node to itself, at the node's right side.
func (e *edge) around(n *node) {
	width, height := widest(e.label), e.labelHeight()
	middle := n.box.Y + min(n.box.H, headerHeight+8)/2
	right := n.box.right()
	e.points = []point{{right, middle - 6}, {right + 14, middle - 6}, {right + 14, middle + 6}, {right, middle + 6}}
	e.labelBox = rect{right + loopRoom, max(n.box.Y, middle-height/2), width, height}
}
