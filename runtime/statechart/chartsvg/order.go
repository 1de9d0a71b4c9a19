package chartsvg

import (
	"math"
	"slices"
)

// Weights in the cost of an order or a drawing. A pixel of edge length has the weight 1.
const (
	crossingWeight = 160.0 // of a crossing
	turnWeight     = 100.0 // of a transition that is drawn left of an earlier transition on the same event
	widthWeight    = 0.6   // of a pixel of width
)

// separation is the least distance between two items in a rank.
const separation = 12.0

// order arranges the items of a scope from left to right. There is one order for all ranks, so that each edge is one
// straight column. The barycenter heuristic (Sugiyama et al. 1981) finds an initial order. Sifting (Matuszewski,
// Schönfeld and Molitor 1999, "Using sifting for k-layer straightline crossing minimization") improves it: each item
// moves to its best position among all others.
func order(s *scope) {
	o := newOrderer(s)
	best := o.barycenter()
	o.sift(best)
	for _, i := range best {
		s.order = append(s.order, o.items[i])
	}
}

// orderer evaluates orders. An order is a list of indexes into items.
type orderer struct {
	items    []*item
	segments []segment
	channels [][]int  // the segments in each channel. The channel r is below the rank r
	at       [][]int  // the segments at each item
	turns    [][2]int // pairs of items whose edges are evaluated in this order
	extents  []extent

	position          []int
	x, packed, border []float64
	marked            []bool // segments of the moving group
	crossed           int    // the crossings of the order being sifted
	work              int
}

// extent is the room that an item takes: a thin column, and the item's width in the last rank.
type extent struct {
	first, last int
	left, right float64
}

// segment is the part of an edge in a channel, between two items. The offsets are the places of fixed ports, relative
// to the centers of their nodes.
type segment struct {
	channel                 int
	top, bottom             int
	topOffset, bottomOffset float64
	topFixed, bottomFixed   bool
}

func newOrderer(s *scope) *orderer {
	o := &orderer{channels: make([][]int, s.ranks+1)}
	o.items = append(append(o.items, s.nodes...), s.spans...)
	index := map[*item]int{}
	for i, it := range o.items {
		index[it] = i
		left, right := it.extent(it.last)
		o.extents = append(o.extents, extent{it.first, it.last, left, right})
	}
	outside := len(o.items)
	o.at = make([][]int, outside+1)
	for _, span := range s.spans {
		i := index[span]
		for r := span.first; r < span.last; r++ {
			o.add(segment{channel: r, top: i, bottom: i})
		}
		if span.above != nil {
			offset, fixed := span.above.fixedPort(span)
			o.add(segment{channel: span.first - 1, top: index[span.above], topOffset: offset, topFixed: fixed, bottom: i})
		}
		if span.below != nil {
			offset, fixed := span.below.fixedPort(span)
			o.add(segment{channel: span.last, top: i, bottom: index[span.below], bottomOffset: offset, bottomFixed: fixed})
		}
		switch {
		case span.goal == nil:
		case span.above == nil:
			o.add(segment{channel: s.ranks, top: outside, topOffset: *span.goal, topFixed: true, bottom: i})
		default:
			o.add(segment{channel: s.ranks - 1, top: i, bottom: outside, bottomOffset: *span.goal, bottomFixed: true})
		}
	}
	for _, a := range s.spans {
		for _, b := range s.spans {
			if a.edge.precedes(b.edge) {
				o.turns = append(o.turns, [2]int{index[a], index[b]})
			}
		}
	}
	n := len(o.items)
	o.position, o.x, o.packed, o.border = make([]int, n+1), make([]float64, n+1), make([]float64, n), make([]float64, s.ranks)
	o.marked = make([]bool, len(o.segments))
	return o
}

func (o *orderer) add(s segment) {
	k := len(o.segments)
	o.segments = append(o.segments, s)
	o.channels[s.channel] = append(o.channels[s.channel], k)
	o.at[s.top] = append(o.at[s.top], k)
	if s.bottom != s.top {
		o.at[s.bottom] = append(o.at[s.bottom], k)
	}
}

// fixedPort returns where a span enters the inside of a container, relative to the container's center.
func (it *item) fixedPort(span *item) (offset float64, fixed bool) {
	x, fixed := it.node.ports[span.edge]
	return x - it.node.box.W/2, fixed
}

// barycenter moves each item toward the mean position of its neighbours, in several rounds, and returns the best order
// found.
func (o *orderer) barycenter() []int {
	n := len(o.items)
	neighbours := make([][]int, n)
	for _, s := range o.segments {
		if s.top != s.bottom && s.top < n && s.bottom < n {
			neighbours[s.top], neighbours[s.bottom] = append(neighbours[s.top], s.bottom), append(neighbours[s.bottom], s.top)
		}
	}
	order := o.depthFirst(neighbours)
	best, bestCost := slices.Clone(order), o.cost(order)
	key := make([]float64, n)
	const rounds = 24
	for range rounds {
		if o.work > workMax {
			break
		}
		for p, i := range order {
			o.position[i] = p
		}
		for i := range key {
			key[i] = float64(o.position[i])
			if len(neighbours[i]) > 0 {
				sum := 0.0
				for _, k := range neighbours[i] {
					sum += float64(o.position[k])
				}
				key[i] = (key[i] + sum/float64(len(neighbours[i]))) / 2
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return compare(key[a], key[b]) })
		if cost := o.cost(order); cost < bestCost {
			bestCost = cost
			copy(best, order)
		}
	}
	return best
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// depthFirst returns the items in the order of a depth-first search, which keeps chains together.
func (o *orderer) depthFirst(neighbours [][]int) []int {
	order := make([]int, 0, len(o.items))
	seen := make([]bool, len(o.items))
	var visit func(int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		order = append(order, i)
		for _, k := range neighbours[i] {
			visit(k)
		}
	}
	for i := range o.items {
		visit(i)
	}
	return order
}

// cost rates an order by its crossings, by the evaluation order of transitions, and by the width and edge length of a
// drawing. In that drawing, each item stands in the middle of its room.
func (o *orderer) cost(order []int) float64 {
	for p, i := range order {
		o.position[i] = p
	}
	return o.length(order) + crossingWeight*float64(o.crossings()) + o.turned()
}

// turned is the part of the cost for transitions that are drawn left of transitions that are evaluated earlier.
func (o *orderer) turned() float64 {
	cost := 0.0
	for _, pair := range o.turns {
		if o.position[pair[0]] > o.position[pair[1]] {
			cost += turnWeight
		}
	}
	return cost
}

// length is the part of the cost that depends on distances.
func (o *orderer) length(order []int) float64 {
	o.work += len(o.segments)
	cost := widthWeight * o.pack(order)
	for k := range o.segments {
		s := &o.segments[k]
		if s.top == s.bottom {
			continue
		}
		bend := math.Abs(o.x[s.top] + s.topOffset - o.x[s.bottom] - s.bottomOffset)
		if !s.topFixed && !s.bottomFixed { // A free port moves along its border.
			bend = max(0, bend-o.slack(s))
		}
		cost += bend
	}
	return cost
}

// slack is the distance that the port of a segment can move from the center of its node.
func (o *orderer) slack(s *segment) float64 {
	for _, i := range [2]int{s.top, s.bottom} {
		if i < len(o.items) && o.items[i].node != nil {
			return 0.3 * o.items[i].node.box.W
		}
	}
	return 0
}

// pack sets x to the mean of the leftmost and the rightmost place of each item, as Brandes and Köpf 2002, "Fast and
// simple horizontal coordinate assignment", combine extreme layouts. It returns the width.
func (o *orderer) pack(order []int) float64 {
	width := 0.0
	for r := range o.border {
		o.border[r] = 0
	}
	const half = columnWidth / 2
	for _, i := range order {
		e, x := &o.extents[i], 0.0
		column := o.border[e.first:e.last]
		for _, b := range column {
			if b+half > x { // The built-in max is slower, because it handles NaN.
				x = b + half
			}
		}
		x = max(x, o.border[e.last]+e.left)
		for r := range column {
			column[r] = x + half + separation
		}
		o.border[e.last] = x + e.right + separation
		width = max(width, x+e.right)
		o.packed[i] = x
	}
	for r := range o.border {
		o.border[r] = width
	}
	for p := len(order) - 1; p >= 0; p-- {
		i := order[p]
		e, x := &o.extents[i], width
		column := o.border[e.first:e.last]
		for _, b := range column {
			if b-half < x {
				x = b - half
			}
		}
		x = min(x, o.border[e.last]-e.right)
		for r := range column {
			column[r] = x - half - separation
		}
		o.border[e.last] = x - e.left - separation
		o.x[i] = (x + o.packed[i]) / 2
	}
	return width
}

// crossings counts the pairs of segments that cross.
func (o *orderer) crossings() int {
	count := 0
	for _, segments := range o.channels {
		o.work += len(segments) * len(segments) / 2
		for i, a := range segments {
			for _, b := range segments[:i] {
				if o.cross(&o.segments[a], &o.segments[b]) {
					count++
				}
			}
		}
	}
	return count
}

// cross reports whether two segments of a channel cross. Segments that meet at free ports of the same node do not.
func (o *orderer) cross(a, b *segment) bool {
	top := o.side(a.top, b.top, a.topOffset, b.topOffset, a.topFixed && b.topFixed)
	return top != 0 && top*o.side(a.bottom, b.bottom, a.bottomOffset, b.bottomOffset, a.bottomFixed && b.bottomFixed) < 0
}

// side compares the places of two ends of segments.
func (o *orderer) side(a, b int, offsetA, offsetB float64, fixed bool) int {
	if a != b {
		return o.position[a] - o.position[b]
	}
	if fixed {
		return compare(offsetA, offsetB)
	}
	return 0
}

// extent returns the distances from the item's x to its borders in a rank.
func (it *item) extent(rank int) (left, right float64) {
	if it.node != nil || it.labelled && rank == it.last {
		return it.left, it.right
	}
	return columnWidth / 2, columnWidth / 2
}
