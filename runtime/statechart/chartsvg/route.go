package chartsvg

import "math"

const (
	trackGap    = 8.0  // between two tracks of a channel
	channelPad  = 12.0 // between a label or the bottom of a node and the first track
	arrowPad    = 16.0 // between the last track and a node, with room for an arrowhead
	straightPad = 20.0 // the height of a channel in which no edge turns
)

// route assigns the y of ranks and channels, and the corners of all edges. Edges turn in the horizontal tracks of a
// channel. Two edges may share a track if they do not meet in it.
func route(s *scope) {
	channels := s.turns()
	for range s.spans { // A moved column may land on another line, but rarely does.
		if !s.dodge(channels) {
			break
		}
		channels = s.turns()
	}
	s.tops = make([]float64, s.ranks)
	y := 0.0
	for r := range s.ranks {
		s.tops[r] = y
		y += s.tall[r]
		switch {
		case r == 0:
			y += s.headerPad()
		case len(channels[r]) == 0 && (r == 1 || r >= s.ranks-2): // no edge reaches this border
		default:
			y += layTracks(channels[r], y)
		}
	}
	s.area.H = y + padding
	if s.owner.parent == nil {
		s.area.H = y
	}
	s.placeNodes()
	turns := map[*item][2]*turn{}
	for r := range channels {
		for _, t := range channels[r] {
			both := turns[t.span]
			if r < t.span.first {
				both[upper] = t
			} else {
				both[lower] = t
			}
			turns[t.span] = both
		}
	}
	for _, span := range s.spans {
		span.corners(s, turns[span])
	}
}

// turns returns the turns of each channel. The channel r is below the rank r.
func (s *scope) turns() [][]*turn {
	channels := make([][]*turn, s.ranks)
	for _, span := range s.spans {
		if span.above != nil {
			channels[span.first-1] = append(channels[span.first-1], &turn{span: span, top: span.port[upper], bottom: span.x, columnBelow: true})
		}
		if span.below != nil {
			channels[span.last] = append(channels[span.last], &turn{span: span, top: span.x, bottom: span.port[lower]})
		}
	}
	return channels
}

// dodge looks for two turns that would share a line in every order of their tracks, and moves the column of one of them
// aside. The distance between items leaves room for this.
func (s *scope) dodge(channels [][]*turn) bool {
	for _, turns := range channels {
		sorted := sortTurns(bentOnly(turns))
		for i, above := range sorted {
			for _, below := range sorted[i+1:] {
				if !above.joins(below) {
					continue
				}
				column, port := below, above.bottom
				if above.columnBelow {
					column, port = above, below.top
				}
				if column.span.x < port {
					column.span.moveTo(port - portGap/2)
				} else {
					column.span.moveTo(port + portGap/2)
				}
				return true
			}
		}
	}
	return false
}

// moveTo moves a column and its ends at borders.
func (it *item) moveTo(x float64) {
	it.x = x
	if it.above == nil {
		it.port[upper] = x
	}
	if it.below == nil {
		it.port[lower] = x
	}
}

// headerPad returns the distance between the header and the first rank.
func (s *scope) headerPad() float64 {
	switch {
	case s.owner.parent == nil:
		return 0
	case s.tall[1] > 0: // The edges of these labels start at the header.
		return arrowPad
	}
	return padding - 4
}

// turn is the place where an edge changes from one x to another.
type turn struct {
	span        *item
	top, bottom float64 // the x above and below the track
	columnBelow bool    // the edge's column is below the track, and its port above
	y           float64
	track       int
}

func (t *turn) straight() bool         { return math.Abs(t.top-t.bottom) < 0.1 }
func (t *turn) low() float64           { return min(t.top, t.bottom) }
func (t *turn) high() float64          { return max(t.top, t.bottom) }
func (t *turn) crosses(x float64) bool { return x > t.low() && x < t.high() }
func (t *turn) overlaps(o *turn) bool {
	return t.low() < o.high()+trackGap && o.low() < t.high()+trackGap
}

// joins reports whether two turns share a line if t is above o.
func (t *turn) joins(o *turn) bool { return math.Abs(t.bottom-o.top) < portGap/2-0.1 }

func bentOnly(turns []*turn) []*turn {
	var bent []*turn
	for _, t := range turns {
		if !t.straight() {
			bent = append(bent, t)
		}
	}
	return bent
}

// layTracks assigns the turns of a channel to tracks, and returns the height of the channel.
func layTracks(turns []*turn, y float64) float64 {
	bent := bentOnly(turns)
	if len(bent) == 0 {
		return straightPad
	}
	tracks := 0
	sorted := sortTurns(bent)
	for i, t := range sorted {
		for _, above := range sorted[:i] {
			if t.overlaps(above) {
				t.track = max(t.track, above.track+1)
			}
		}
		tracks = max(tracks, t.track+1)
	}
	for _, t := range bent {
		t.y = y + channelPad + float64(t.track)*trackGap
	}
	return channelPad + float64(tracks-1)*trackGap + arrowPad
}

// sortTurns sorts turns from top to bottom. It repeatedly takes the turn that is best above all others.
func sortTurns(turns []*turn) []*turn {
	n := len(turns)
	balance := make([]int, n)
	cost := make([][]int, n)
	for i := range turns {
		cost[i] = make([]int, n)
		for k := range turns {
			if i != k {
				cost[i][k] = costAbove(turns[i], turns[k])
			}
		}
	}
	for i := range turns {
		for k := range turns {
			balance[i] += cost[i][k] - cost[k][i]
		}
	}
	taken := make([]bool, n)
	var sorted []*turn
	for range turns {
		best := -1
		for i := range turns {
			if !taken[i] && (best < 0 || balance[i] < balance[best]) {
				best = i
			}
		}
		taken[best] = true
		sorted = append(sorted, turns[best])
		for i := range turns {
			balance[i] -= cost[i][best] - cost[best][i]
		}
	}
	return sorted
}

// costAbove returns the cost of placing turn a above turn b: 1 for each crossing, much more for a shared part.
func costAbove(a, b *turn) int {
	const shared = 1000
	cost := 0
	if b.crosses(a.bottom) {
		cost++
	}
	if a.crosses(b.top) {
		cost++
	}
	if a.joins(b) {
		cost += shared
	}
	return cost
}

// corners sets the points of a span, from its upper end to its lower end.
func (it *item) corners(s *scope, turns [2]*turn) {
	top, bottom := s.tops[it.first], s.area.H
	switch {
	case it.own:
		top = s.owner.header
	case it.above != nil:
		top = it.above.node.box.Y + it.above.node.box.H
	}
	if it.below != nil {
		bottom = it.below.node.box.Y
	}
	it.points = append(it.points[:0], point{it.port[upper], top})
	for _, t := range turns {
		if t != nil && !t.straight() {
			it.points = append(it.points, point{t.top, t.y}, point{t.bottom, t.y})
		}
	}
	it.points = append(it.points, point{it.port[lower], bottom})
}
