package chartsvg

import (
	"fmt"
	"strings"
)

// flaws describes the geometric errors in a drawing.
func flaws(d *drawing) []string {
	c := &checker{drawing: d}
	c.nodesApart()
	c.labelsFree()
	c.edgesFree()
	c.edgesApart()
	return c.found
}

type checker struct {
	*drawing
	found []string
}

func (c *checker) flaw(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// meets reports whether the insides of two rectangles intersect.
func (r rect) meets(o rect) bool {
	const rounding = 0.2
	return r.X < o.right()-rounding && o.X < r.right()-rounding && r.Y < o.bottom()-rounding && o.Y < r.bottom()-rounding
}

func (r rect) holds(o rect) bool {
	return o.X >= r.X && o.Y >= r.Y && o.right() <= r.right() && o.bottom() <= r.bottom()
}

func (n *node) label() string {
	return n.path + "(" + n.name + ")"
}

func (e *edge) name() string { return e.from.label() + " > " + e.to.label() }

// segments returns the straight parts of an edge as flat rectangles.
func (e *edge) segments() []rect {
	var out []rect
	for i := 1; i < len(e.points); i++ {
		a, b := e.points[i-1], e.points[i]
		out = append(out, rect{min(a.X, b.X), min(a.Y, b.Y), max(a.X, b.X) - min(a.X, b.X), max(a.Y, b.Y) - min(a.Y, b.Y)})
	}
	return out
}

// wide widens the rectangle of a line by the width of the stroke.
func wide(s rect) rect { return rect{s.X - 0.6, s.Y - 0.6, s.W + 1.2, s.H + 1.2} }

// texts returns the places of the texts in a node.
func (n *node) texts() []rect {
	var out []rect
	for _, c := range n.captions() {
		out = append(out, rect{c.x, c.y - 9, c.width, 11})
	}
	return out
}

// nodesApart checks that nodes are within their containers, below the header, and apart from their siblings.
func (c *checker) nodesApart() {
	page := rect{0, 0, c.width, c.height}
	for _, n := range c.nodes {
		if n.parent == nil {
			continue
		}
		inside := page
		if n.parent.parent != nil {
			inside = n.parent.box
			inside.Y += n.parent.header
			inside.H -= n.parent.header
		}
		outer := n.box
		if n.isDefault {
			outer.Y -= dotRoom
			outer.H += dotRoom
		}
		if !inside.holds(outer) {
			c.flaw("%s %v is not within %v", n.label(), outer, inside)
		}
		for _, t := range n.texts() {
			if !n.box.holds(t) {
				c.flaw("a text of %s %v is not within %v", n.label(), t, n.box)
			}
		}
		for _, o := range c.nodes {
			if o != n && o.parent == n.parent && outer.meets(o.box) {
				c.flaw("%s %v overlaps %s %v", n.label(), outer, o.label(), o.box)
			}
		}
	}
}

// labelsFree checks that labels are on no state's border or text, on no other label and on no other edge.
func (c *checker) labelsFree() {
	page := rect{0, 0, c.width, c.height}
	for _, e := range c.edges {
		if len(e.label) == 0 {
			continue
		}
		l := e.labelBox
		if !page.holds(l) {
			c.flaw("the label of %s %v is not on the page", e.name(), l)
		}
		for _, n := range c.nodes {
			switch {
			case n.parent == nil && n.container():
			case l.meets(n.box) && (!n.container() || !n.box.holds(l)):
				c.flaw("the label of %s %v is on the border of %s %v", e.name(), l, n.label(), n.box)
			case n.container() && l.meets(rect{n.box.X, n.box.Y, n.box.W, n.header}):
				c.flaw("the label of %s %v is on the header of %s", e.name(), l, n.label())
			}
		}
		for _, o := range c.edges {
			if o == e {
				continue
			}
			if len(o.label) > 0 && l.meets(o.labelBox) {
				c.flaw("the label of %s %v is on the label of %s %v", e.name(), l, o.name(), o.labelBox)
			}
			for _, s := range o.segments() {
				if l.meets(wide(s)) {
					c.flaw("%s %v runs through the label of %s %v", o.name(), s, e.name(), l)
				}
			}
		}
	}
}

// edgesFree checks that edges lead from border to border, are horizontal or vertical, and meet no state in between.
func (c *checker) edgesFree() {
	for _, e := range c.edges {
		if len(e.points) < 2 {
			c.flaw("%s has no line", e.name())
			continue
		}
		for _, s := range e.segments() {
			if s.W > 0.2 && s.H > 0.2 {
				c.flaw("%s has the slanted part %v", e.name(), s)
			}
			for _, n := range c.nodes {
				if n.parent == nil && n.container() {
					continue
				}
				inner := rect{n.box.X + 1, n.box.Y + 1, n.box.W - 2, n.box.H - 2}
				if wide(s).meets(inner) && !(n.container() && (e.from.within(n) || e.to.within(n))) {
					c.flaw("%s %v runs through %s %v", e.name(), s, n.label(), n.box)
				}
				for _, t := range n.texts() {
					if wide(s).meets(t) {
						c.flaw("%s %v runs through a text of %s %v", e.name(), s, n.label(), t)
					}
				}
			}
		}
		for i, n := range []*node{e.from, e.to} {
			p := e.points[i*(len(e.points)-1)]
			b := n.box
			onSide := p.Y > b.Y-0.2 && p.Y < b.bottom()+0.2 && (near(p.X, b.X) || near(p.X, b.right()))
			onTop := p.X > b.X && p.X < b.right() && (near(p.Y, b.Y) || near(p.Y, b.bottom()) || n.container() && near(p.Y, b.Y+n.header))
			if !onSide && !onTop {
				c.flaw("%s ends at %v, not at the border of %s %v", e.name(), p, n.label(), b)
			}
		}
	}
}

// edgesApart checks that no two edges share a line. The teeth of a comb share their trunk.
func (c *checker) edgesApart() {
	for i, e := range c.edges {
		for _, o := range c.edges[:i] {
			if e.from == o.from && e.from.kind == anyState {
				continue
			}
			for _, s := range e.segments() {
				for _, t := range o.segments() {
					w, h := min(s.right(), t.right())-max(s.X, t.X), min(s.bottom(), t.bottom())-max(s.Y, t.Y)
					if (w > 3 || h > 3) && w > -3 && h > -3 && (s.W > s.H) == (t.W > t.H) {
						c.flaw("%s %v and %s %v share a line", e.name(), s, o.name(), t)
					}
				}
			}
		}
	}
}

// crossings counts the pairs of lines that cross.
func crossings(d *drawing) int {
	count := 0
	for i, e := range d.edges {
		for _, o := range d.edges[:i] {
			for k := 1; k < len(e.points); k++ {
				for m := 1; m < len(o.points); m++ {
					if cross(e.points[k-1], e.points[k], o.points[m-1], o.points[m]) {
						count++
					}
				}
			}
		}
	}
	return count
}

func brief(found []string) string {
	if len(found) > 6 {
		found = append(found[:6:6], fmt.Sprintf("and %d more", len(found)-6))
	}
	return strings.Join(found, "\n")
}
