package chartsvg

import (
	"math"
	"strings"
)

// cornerRadius is the radius of the corners of edges.
const cornerRadius = 5.0

// headLength is the length of an arrowhead.
const headLength = 8.0

// linePath returns the SVG path of an edge: straight lines with rounded corners. It ends within the arrowhead.
func linePath(points []point) string {
	n := len(points)
	var b strings.Builder
	b.WriteString("M" + num(points[0].X) + " " + num(points[0].Y))
	end := toward(points[n-1], points[n-2], headLength-1)
	for i := 1; i < n-1; i++ {
		next := points[i+1]
		if i+1 == n-1 {
			next = end
		}
		r := min(cornerRadius, length(points[i-1], points[i])/2, length(points[i], next)/2)
		before, after := toward(points[i], points[i-1], r), toward(points[i], next, r)
		b.WriteString("L" + num(before.X) + " " + num(before.Y))
		b.WriteString("Q" + num(points[i].X) + " " + num(points[i].Y) + " " + num(after.X) + " " + num(after.Y))
	}
	b.WriteString("L" + num(end.X) + " " + num(end.Y))
	return b.String()
}

// headPath returns the SVG path of the arrowhead of an edge.
func headPath(points []point) string {
	tip, before := points[len(points)-1], points[len(points)-2]
	base := toward(tip, before, headLength)
	dx, dy := (tip.X-base.X)/2, (tip.Y-base.Y)/2
	return "M" + num(tip.X) + " " + num(tip.Y) + "L" + num(base.X-dy) + " " + num(base.Y+dx) + "L" + num(base.X+dy) + " " + num(base.Y-dx) + "z"
}

func length(a, b point) float64 { return math.Hypot(a.X-b.X, a.Y-b.Y) }

// toward returns the point at a distance from a in the direction of b.
func toward(a, b point, distance float64) point {
	l := length(a, b)
	if l == 0 {
		return a
	}
	return point{a.X + (b.X-a.X)*distance/l, a.Y + (b.Y-a.Y)*distance/l}
}

// appendPoint appends a point to a path. It drops points within a straight line.
func appendPoint(path []point, p point) []point {
	if n := len(path); n > 0 && near(path[n-1].X, p.X) && near(path[n-1].Y, p.Y) {
		return path
	} else if n > 1 && (near(path[n-2].X, path[n-1].X) && near(path[n-1].X, p.X) || near(path[n-2].Y, path[n-1].Y) && near(path[n-1].Y, p.Y)) {
		path[n-1] = p
		return path
	}
	return append(path, p)
}

func near(a, b float64) bool { return math.Abs(a-b) < 0.1 }
