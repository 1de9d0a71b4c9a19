package chartsvg

import (
	"math"
	"slices"
)

const (
	portGap     = 10.0 // the least distance between two ports
	portInset   = 10.0 // the least distance of a port to a corner
	cornerSlack = 4.0  // how much nearer to a corner a port may come to make its edge straight
	dotInset    = 26.0 // the same as portInset, at the corner with the dot of the default state
)

// assignPorts places the ends of all spans. A free port moves along the border of its node to its column.
func assignPorts(s *scope) {
	for _, span := range s.spans {
		span.port = [2]float64{span.x, span.x}
	}
	for _, n := range s.nodes {
		n.assignSide(n.outs, upper)
		n.assignSide(n.ins, lower)
	}
}

// assignSide places the ports at the top or at the bottom of a node.
func (it *item) assignSide(spans []*item, end int) {
	low, high := it.portRange(end)
	var free []*item
	var taken []float64
	for _, span := range spans {
		if offset, fixed := it.fixedPort(span); fixed {
			span.port[end] = it.x + offset
			taken = append(taken, span.port[end])
		} else {
			free = append(free, span)
		}
	}
	slices.SortStableFunc(free, func(a, b *item) int { return compare(a.x, b.x) })
	if len(taken) > 0 { // Each free port takes the nearest place between the fixed ports.
		for _, span := range free {
			from, to := low, high
			for _, other := range spans { // Edges do not cross if their ports are in the order of their columns.
				if _, fixed := it.fixedPort(other); !fixed {
					continue
				}
				if other.x < span.x {
					from = max(from, other.port[end]+portGap)
				} else {
					to = min(to, other.port[end]-portGap)
				}
			}
			x, found := nearestFree(span.x, from, to, taken)
			if !found {
				x, _ = nearestFree(span.x, low, high, taken)
			}
			span.port[end] = x
			taken = append(taken, x)
		}
		return
	}
	want := make([]float64, len(free))
	for i, span := range free {
		want[i] = span.x
	}
	spread(want, low, high)
	if n := len(free); n > 0 {
		want[0] = max(min(want[0], free[0].x), want[0]-cornerSlack)
		want[n-1] = min(max(want[n-1], free[n-1].x), want[n-1]+cornerSlack)
	}
	for i, span := range free {
		span.port[end] = want[i]
	}
}

// portRange returns the bounds of the ports at the top or at the bottom of a node.
func (it *item) portRange(end int) (low, high float64) {
	low, high = it.x-it.node.box.W/2+portInset, it.x+it.node.box.W/2-portInset
	if end == lower && it.node.isDefault {
		low += dotInset - portInset
	}
	return low, high
}

// nearestFree returns the x nearest to the desired one that keeps portGap to all taken places. If the bounds are the
// whole border, such an x always exists, because containers are wide enough.
func nearestFree(want, low, high float64, taken []float64) (x float64, found bool) {
	x = min(max(want, low), high)
	candidates := []float64{x}
	for _, t := range taken {
		candidates = append(candidates, t-portGap, t+portGap)
	}
	for _, c := range candidates {
		isFree := c >= low && c <= high && !slices.ContainsFunc(taken, func(t float64) bool { return math.Abs(t-c) < portGap-0.01 })
		if isFree && (!found || math.Abs(c-want) < math.Abs(x-want)) {
			x, found = c, true
		}
	}
	return x, found
}

// spread moves ascending values until they are at least portGap apart within the bounds, if there is room. They stay as
// near to their old places as possible: an isotonic regression by the pool-adjacent-violators algorithm (Ayer et al.
// 1955).
func spread(values []float64, low, high float64) {
	n := len(values)
	if n == 0 {
		return
	}
	gap := portGap
	if n > 1 {
		gap = min(gap, (high-low)/float64(n-1))
	}
	type pool struct {
		sum   float64
		count int
	}
	var pools []pool
	for i, v := range values {
		p := pool{v - float64(i)*gap, 1}
		for len(pools) > 0 && pools[len(pools)-1].sum/float64(pools[len(pools)-1].count) > p.sum/float64(p.count) {
			last := pools[len(pools)-1]
			p = pool{p.sum + last.sum, p.count + last.count}
			pools = pools[:len(pools)-1]
		}
		pools = append(pools, p)
	}
	i := 0
	for _, p := range pools {
		for range p.count {
			values[i] = min(max(p.sum/float64(p.count), low), high-float64(n-1)*gap) + float64(i)*gap
			i++
		}
	}
}
