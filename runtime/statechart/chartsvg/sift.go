package chartsvg

import "slices"

// workMax limits the work of one sifting, counted in segments, so that large charts stay fast.
const workMax = 5_000_000

// sift moves each item, and each group of a node and its columns, to its best position. It stops when a round improves
// nothing, after three rounds, or at workMax.
func (o *orderer) sift(order []int) {
	n := len(o.items)
	best := o.cost(order)
	o.crossed = o.crossings()
	try := make([]int, n)
	const rounds = 3
	for range rounds {
		before := best
		for i := range n {
			for _, group := range o.groups(i) {
				if best = o.siftGroup(order, try, group, best); o.work > workMax {
					return
				}
			}
		}
		if best > before-1 {
			return
		}
	}
}

// groups returns the groups to move for an item: the item alone, and a node with the columns that lead only to that
// node.
func (o *orderer) groups(i int) [][]int {
	groups := [][]int{{i}}
	if o.items[i].node == nil {
		return groups
	}
	with := []int{i}
	for k, other := range o.items {
		if other.edge != nil && (other.below == o.items[i] || other.above == o.items[i] && other.below == nil) {
			with = append(with, k)
		}
	}
	if len(with) > 1 {
		groups = append(groups, with)
	}
	return groups
}

// siftGroup moves a group to its best position in the order, and returns the new cost. It steps from one position to the
// next. A step changes only crossings between edges of the group and edges of the item that the group steps over.
func (o *orderer) siftGroup(order, try, group []int, cost float64) float64 {
	var moving, rest []int
	start := -1
	for _, i := range order {
		if slices.Contains(group, i) {
			if start < 0 {
				start = len(rest)
			}
			moving = append(moving, i)
		} else {
			rest = append(rest, i)
		}
	}
	var touched []int
	for _, i := range moving {
		for _, k := range o.at[i] {
			if !o.marked[k] {
				o.marked[k] = true
				touched = append(touched, k)
			}
		}
	}
	bestAt, best := -1, cost-0.5
	set := func(p int) {
		copy(try, rest[:p])
		copy(try[p:], moving)
		copy(try[p+len(moving):], rest[p:])
		for q, i := range try {
			o.position[i] = q
		}
	}
	for p, i := range order {
		o.position[i] = p
	}
	atStart := o.crossed - o.crossingsWith(touched)
	set(start)
	atStart += o.crossingsWith(touched)
	fewest := o.crossed
	least := 0.97 * o.length(try)
	rate := func(p, crossings int) {
		c := float64(crossings)*crossingWeight + o.turned()
		if c+least > best { // Only a length below `least` could lower the cost.
			return
		}
		if c += o.length(try); c < best {
			bestAt, best, fewest = p, c, crossings
		}
	}
	for _, step := range [2]int{-1, 1} {
		set(start)
		crossings := atStart
		rate(start, crossings)
		for p := start + step; p >= 0 && p <= len(rest) && o.work <= workMax; p += step {
			over := rest[min(p, p-step)]
			crossings -= o.crossingsOf(touched, over)
			set(p)
			crossings += o.crossingsOf(touched, over)
			rate(p, crossings)
		}
	}
	for _, k := range touched {
		o.marked[k] = false
	}
	if bestAt < 0 {
		return cost
	}
	set(bestAt)
	copy(order, try)
	o.crossed = fewest
	return best
}

// crossingsWith counts the crossings of the segments of a group.
func (o *orderer) crossingsWith(group []int) int {
	count := 0
	for _, a := range group {
		channel := o.channels[o.segments[a].channel]
		o.work += len(channel)
		for _, b := range channel {
			if o.cross(&o.segments[a], &o.segments[b]) && (!o.marked[b] || a < b) {
				count++
			}
		}
	}
	return count
}

// crossingsOf counts the crossings between the segments of a group and the segments of an item.
func (o *orderer) crossingsOf(group []int, item int) int {
	count := 0
	for _, b := range o.at[item] {
		for _, a := range group {
			if o.segments[a].channel != o.segments[b].channel || !o.cross(&o.segments[a], &o.segments[b]) {
				continue
			}
			if count++; o.marked[b] && o.touches(a, item) { // This pair is visited twice.
				if a < b {
					count--
				}
			}
		}
	}
	return count
}

func (o *orderer) touches(segment, item int) bool {
	return o.segments[segment].top == item || o.segments[segment].bottom == item
}
