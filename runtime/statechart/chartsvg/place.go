package chartsvg

import (
	"math"
	"slices"
)

// place assigns the x of all items. It repeats two steps. First, each item gets a desired x from its neighbours. Then
// an isotonic regression finds the nearest x that keeps the order and the distances in each rank. The time of a round
// grows with the square of the number of items, so a large container has fewer rounds.
func place(s *scope) {
	p := newPlacer(s)
	const rounds, itemRounds = 8, 4000
	for range max(2, min(rounds, itemRounds/max(1, len(p.x)))) {
		for i := range p.x {
			p.desire(i, false)
		}
		p.solve()
	}
	for range 4 {
		p.relax()
	}
	for range 3 {
		assignPorts(s)
		p.straighten()
	}
	assignPorts(s)
}

// slack is how much closer than separation a column may come to an item if this makes the column straight.
const slack = 6.0

// placer holds the items of a scope in their order, and the distances between them.
type placer struct {
	scope         *scope
	index         map[*item]int
	left          [][]distance // for each item, its left neighbours in its ranks
	right         [][]distance
	x, want, pull []float64
	blocks        []*block
	offset        []float64
}

// distance is the least distance to a neighbour.
type distance struct {
	item int
	gap  float64
}

func newPlacer(s *scope) *placer {
	n := len(s.order)
	p := &placer{scope: s, index: map[*item]int{}, left: make([][]distance, n), right: make([][]distance, n),
		x: make([]float64, n), want: make([]float64, n), pull: make([]float64, n), blocks: make([]*block, n), offset: make([]float64, n)}
	last := make([]int, s.ranks)
	for r := range last {
		last[r] = -1
	}
	for i, it := range s.order {
		p.index[it] = i
		for r := it.first; r <= it.last; r++ {
			if k := last[r]; k >= 0 {
				_, right := s.order[k].extent(r)
				left, _ := it.extent(r)
				p.left[i] = append(p.left[i], distance{k, right + separation + left})
				p.right[k] = append(p.right[k], distance{i, right + separation + left})
			} else {
				left, _ := it.extent(r)
				p.x[i] = max(p.x[i], left)
			}
			last[r] = i
		}
		for _, d := range p.left[i] {
			p.x[i] = max(p.x[i], p.x[d.item]+d.gap)
		}
	}
	return p
}

// desire computes the desired x of an item. A node follows its columns and the nodes at their other ends. A column
// follows its ports. It prefers its lower end, where its label is. If straight is set, only the nearest ends count.
func (p *placer) desire(i int, straight bool) {
	it := p.scope.order[i]
	sum, pull := 0.0, 0.0
	add := func(x, weight float64) { sum, pull = sum+x*weight, pull+weight }
	switch {
	case it.node != nil:
		for _, spans := range [2][]*item{it.outs, it.ins} {
			for k, span := range spans {
				want := p.x[p.index[span]]
				if other := span.otherEnd(it); other != nil && !straight {
					want = (want + p.portX(other, span)) / 2
				}
				add(want-it.portOffset(spans, k), 1)
			}
		}
	case it.edge != nil:
		if it.below != nil {
			add(p.portX(it.below, it), 2)
		}
		if it.above != nil && !(straight && it.below != nil) {
			add(p.portX(it.above, it), 1)
		}
	}
	if pull == 0 { // It stays where it is, unless others move it.
		add(p.x[i], 0.01)
	}
	p.want[i], p.pull[i] = sum/pull, pull
}

func (it *item) otherEnd(of *item) *item {
	if it.above == of {
		return it.below
	}
	return it.above
}

// portX estimates the x of a span's port at a node.
func (p *placer) portX(n, span *item) float64 {
	spans := n.ins
	if span.above == n {
		spans = n.outs
	}
	for k, other := range spans {
		if other == span {
			return p.x[p.index[n]] + n.portOffset(spans, k)
		}
	}
	return p.x[p.index[n]]
}

// portOffset estimates the place of a port relative to the center of its node. Free ports are spread evenly.
func (it *item) portOffset(spans []*item, k int) float64 {
	if offset, fixed := it.fixedPort(spans[k]); fixed {
		return offset
	}
	n := float64(len(spans))
	if n == 1 {
		return 0
	}
	step := min(24, (it.node.box.W-2*portInset)/(n-1))
	return (float64(k) - (n-1)/2) * step
}

// block is a set of items that touch, with fixed distances.
type block struct {
	members     []int
	x, pull, at float64 // at is the sum of pull*(want-offset)
}

// solve finds the x nearest to the desired ones. It is the pool-adjacent-violators algorithm on a partial order, as in
// Dwyer, Marriott and Stuckey 2005, "Fast node overlap removal". Items enter from left to right. A block that is too
// near to a block on its left merges with it.
func (p *placer) solve() {
	for i := range p.x {
		p.offset[i] = 0
		p.blocks[i] = &block{members: []int{i}, x: p.want[i], pull: p.pull[i], at: p.pull[i] * p.want[i]}
		for {
			violation, from, to, gap := 1e-6, -1, -1, 0.0
			b := p.blocks[i]
			for _, k := range b.members {
				for _, d := range p.left[k] {
					l := p.blocks[d.item]
					if v := l.x + p.offset[d.item] + d.gap - b.x - p.offset[k]; l != b && v > violation {
						violation, from, to, gap = v, d.item, k, d.gap
					}
				}
			}
			if from < 0 {
				break
			}
			p.merge(p.blocks[from], b, p.offset[from]+gap-p.offset[to])
		}
	}
	for i := range p.x {
		p.x[i] = p.blocks[i].x + p.offset[i]
		for _, d := range p.left[i] { // Rounding must not break a distance.
			p.x[i] = max(p.x[i], p.x[d.item]+d.gap)
		}
	}
}

// merge appends the members of b to a, at a distance from a.
func (p *placer) merge(a, b *block, distance float64) {
	for _, k := range b.members {
		p.offset[k] += distance
		p.blocks[k] = a
	}
	a.members = append(a.members, b.members...)
	a.at += b.at - distance*b.pull
	a.pull += b.pull
	a.x = a.at / a.pull
}

// relax moves each item, within its room, to its desired x.
func (p *placer) relax() {
	for i, it := range p.scope.order {
		p.desire(i, true)
		low, high := p.room(i)
		p.x[i] = min(max(p.want[i], low), high)
		it.x = p.x[i]
	}
}

// room returns the bounds of the x of an item.
func (p *placer) room(i int) (low, high float64) {
	low, high = math.Inf(-1), math.Inf(1)
	for _, d := range p.left[i] {
		low = max(low, p.x[d.item]+d.gap)
	}
	for _, d := range p.right[i] {
		high = min(high, p.x[d.item]-d.gap)
	}
	return low, high
}

// straighten moves each item, within its room, to a place at which more of its ends are straight.
func (p *placer) straighten() {
	for i, it := range p.scope.order {
		low, high := p.room(i)
		best, bends := it.x, it.bends(it.x)
		try := func(x float64) {
			if x >= low && x <= high && it.bends(x) < bends {
				best, bends = x, it.bends(x)
			}
		}
		if it.edge != nil {
			low, high = low-slack, high+slack
			try(it.port[lower])
			try(it.port[upper])
		} else {
			for end, spans := range [2][]*item{it.outs, it.ins} {
				for _, span := range spans {
					try(it.x + span.x - span.port[end])
				}
			}
		}
		it.x, p.x[i] = best, best
	}
}

// bends counts the ends of edges that are not straight if the item is at x.
func (it *item) bends(x float64) int {
	n := 0
	if it.edge != nil {
		for end, at := range [2]*item{it.above, it.below} {
			if at != nil && !it.reaches(at, end, x) {
				n++
			}
		}
		return n
	}
	for end, spans := range [2][]*item{it.outs, it.ins} {
		low, high := it.portRange(end)
		for _, span := range spans {
			offset, fixed := it.fixedPort(span)
			column := span.x - x + it.x // relative to where the node is now
			if fixed && math.Abs(it.x+offset-column) > 0.1 || !fixed && (column < low-0.1 || column > high+0.1) {
				n++
			}
		}
	}
	return n
}

// reaches reports whether the span's port at the node n can be at x.
func (it *item) reaches(n *item, end int, x float64) bool {
	if math.Abs(it.port[end]-x) < 0.1 {
		return true
	}
	if _, fixed := n.fixedPort(it); fixed {
		return false
	}
	spans := n.outs
	if end == lower {
		spans = n.ins
	}
	low, high := n.portRange(end)
	return x >= low && x <= high && !slices.ContainsFunc(spans, func(other *item) bool {
		return other != it && math.Abs(other.port[end]-x) < portGap
	})
}
