package chartsvg

// scope is the layout of the children of one container: a layered graph (Sugiyama, Tagawa and Toda 1981, "Methods for
// visual understanding of hierarchical system structures"). Ranks are horizontal bands, counted from the top. Nodes are
// in even ranks and labels in odd ranks. Rank 0 holds the container's header. Edges turn only between two ranks, in a
// channel. So no edge can meet a node or a label of another edge.
type scope struct {
	owner *node
	nodes []*item
	spans []*item
	// order holds all items from left to right. Items that share a rank keep this order in it.
	order []*item
	ranks int
	tops  []float64 // the y of each rank
	tall  []float64 // the height of each rank
	dots  []float64 // the part of the height above the nodes, for the dots of default states
	area  rect      // the extent of the items
}

// item is a node or a span. A span is the part of an edge within one scope, drawn as a vertical column.
type item struct {
	node *node // nil for a span
	edge *edge // nil for a node

	// A span leads from the node above to the node below. nil is the container's border.
	above, below *item
	own          bool // the container is an end of the edge
	labelled     bool // the label is in this scope, in the span's last rank
	reversed     bool // the arrow points up

	// A node has spans below it and above it.
	outs, ins []*item

	first, last int // ranks
	left, right float64
	x           float64
	// port holds the x of both ends of a span.
	port   [2]float64
	points []point
	goal   *float64 // the x to which an edge out of the scope leads, relative to the container; nil if unknown
}

// crossesBorder reports whether a span leads through the border of its container.
func (it *item) crossesBorder() bool { return !it.own && (it.above == nil || it.below == nil) }

// The ends of a span.
const (
	upper = iota
	lower
)

// lift distributes the edges over the scopes. An edge between states of different containers becomes one between
// siblings in the scope of their least common ancestor. Further spans lead from its ends to the states. They cross the
// bottom border of each container around the upper state, and the top border of each container around the lower state.
func lift(g *graph) {
	items := map[*node]*item{}
	for _, n := range g.nodes {
		if !n.container() {
			continue
		}
		n.scope = &scope{owner: n}
		for _, child := range n.children {
			items[child] = &item{node: child}
			n.scope.nodes = append(n.scope.nodes, items[child])
		}
	}
	siblings := map[*node][]*item{}
	for _, e := range g.edges {
		if e.from == e.to {
			continue
		}
		top := commonAncestor(e.from, e.to)
		s := &item{edge: e, labelled: true}
		switch top {
		case e.from:
			s.own, s.below = true, items[e.to.childToward(top)]
		case e.to:
			s.own, s.below, s.reversed = true, items[e.from.childToward(top)], true
		default:
			s.above, s.below = items[e.from.childToward(top)], items[e.to.childToward(top)]
		}
		siblings[top] = append(siblings[top], s)
		top.scope.spans = append(top.scope.spans, s)
	}
	for _, n := range g.nodes {
		if n.container() {
			orient(n.scope, siblings[n])
		}
	}
	for _, n := range g.nodes { // Outer scopes first: they decide at which borders an edge leaves and enters.
		for _, s := range siblings[n] {
			up, down := s.edge.from, s.edge.to
			if s.reversed {
				up, down = down, up
			}
			for ; up != n && up.parent != n; up = up.parent {
				up.parent.scope.spans = append(up.parent.scope.spans, &item{edge: s.edge, above: items[up], reversed: s.reversed})
			}
			for ; down.parent != n; down = down.parent {
				down.parent.scope.spans = append(down.parent.scope.spans, &item{edge: s.edge, below: items[down], reversed: s.reversed})
			}
		}
	}
	for _, n := range g.nodes {
		if !n.container() {
			continue
		}
		for _, s := range n.scope.spans {
			if s.above != nil {
				s.above.outs = append(s.above.outs, s)
			}
			if s.below != nil {
				s.below.ins = append(s.below.ins, s)
			}
		}
	}
}

func commonAncestor(a, b *node) *node {
	for !b.within(a) {
		a = a.parent
	}
	return a
}

// orient makes the graph of siblings acyclic. It reverses each edge that closes a cycle in a depth-first search from
// the initial state. The method is from Gansner, Koutsofios, North and Vo 1993, "A technique for drawing directed
// graphs", 2.1. Edges between regions point down in document order.
func orient(s *scope, spans []*item) {
	next := map[*item][]*item{}
	for _, span := range spans {
		if span.above != nil {
			next[span.above] = append(next[span.above], span)
		}
	}
	const active, done = 1, 2
	state := map[*item]int{}
	reverse := func(span *item) {
		span.above, span.below, span.reversed = span.below, span.above, true
	}
	position := map[*item]int{}
	for i, n := range s.nodes {
		position[n] = i
	}
	if s.owner.kind == parallel {
		for _, span := range spans {
			if span.above != nil && position[span.above] > position[span.below] {
				reverse(span)
			}
		}
		return
	}
	var visit func(*item)
	visit = func(n *item) {
		state[n] = active
		for _, span := range next[n] {
			switch state[span.below] {
			case active:
				reverse(span)
			case 0:
				visit(span.below)
			}
		}
		state[n] = done
	}
	for _, isStart := range []bool{true, false} {
		for _, n := range s.nodes {
			if state[n] == 0 && (n.node.isDefault || n.node.kind == initial) == isStart {
				visit(n)
			}
		}
	}
}
