package chartsvg

// rank assigns the ranks of nodes by their longest path from a source (Gansner et al. 1993, 2.3, without the network
// simplex). A source that is not the initial state moves down to the rank above its nearest target. If stacked is
// set, each region of a parallel state is below the one before.
func rank(s *scope, stacked bool) {
	level := map[*item]int{}
	var visit func(*item) int
	visit = func(n *item) int {
		if l, seen := level[n]; seen {
			return l
		}
		l := 0
		for _, in := range n.ins {
			if in.above != nil {
				l = max(l, visit(in.above)+1)
			}
		}
		level[n] = l
		return l
	}
	deepest := 0
	for i, n := range s.nodes {
		l := visit(n)
		if stacked && n.node.region && i > 0 && s.nodes[i-1].node.region {
			l = max(l, level[s.nodes[i-1]]+1)
			level[n] = l
		}
		deepest = max(deepest, l)
	}
	for _, n := range s.nodes {
		if level[n] > 0 || n.node.isDefault || stacked {
			continue
		}
		nearest := deepest + 1
		for _, out := range n.outs {
			if out.below != nil {
				nearest = min(nearest, level[out.below])
			}
		}
		if nearest <= deepest {
			level[n] = nearest - 1
		}
	}
	s.ranks = 2*deepest + 4
	for _, n := range s.nodes {
		n.first = 2 + 2*level[n]
		n.last = n.first
	}
	for _, span := range s.spans {
		switch {
		case span.above != nil:
			span.first = span.above.last + 1
		case span.own:
			span.first = 1
		default:
			span.first = 0
		}
		if span.last = s.ranks - 1; span.below != nil {
			span.last = span.below.first - 1
		}
	}
}
