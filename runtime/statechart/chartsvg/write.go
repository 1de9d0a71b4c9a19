package chartsvg

import (
	"bytes"
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"

	"github.com/settle-run/settle/runtime/statechart"
)

// writer writes a drawing as SVG.
type writer struct {
	bytes.Buffer
	options Options
	active  map[*node]bool
	visited map[*node]bool
	taken   map[*edge]bool
}

// write returns the SVG document. Containers come first, then edges, then all other states, so that no edge covers a
// state.
func (d *drawing) write(options Options) []byte {
	w := &writer{options: options, active: map[*node]bool{}, visited: map[*node]bool{}, taken: map[*edge]bool{}}
	for _, step := range options.Path {
		visited, ways := d.walk(step)
		for _, n := range visited {
			w.visited[n] = true
		}
		for _, h := range ways {
			w.taken[h.edge], w.visited[h.edge.to] = true, true
		}
	}
	for _, n := range d.nodes {
		if n.state != nil && slices.Contains(options.Active, n.path) {
			for ; n.parent != nil; n = n.parent {
				w.active[n] = true
			}
		}
	}
	w.printf(`<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" width="%s" height="%s" viewBox="0 0 %s %s">`+"\n",
		num(d.width), num(d.height), num(d.width), num(d.height))
	root := d.root.state
	w.printf("<title>%s</title>\n", text("Chart "+root.ID))
	w.printf("<desc>%s</desc>\n", text(d.describe(options)))
	if !options.Bare {
		w.printf("<style>%s</style>\n", Style)
	}
	w.printf(`<rect class="page" width="100%%" height="100%%"/>` + "\n")
	for _, n := range d.nodes {
		if n.container() && n.parent != nil {
			w.container(n)
		}
	}
	for _, e := range d.edges {
		w.edge(e)
	}
	for _, n := range d.nodes {
		if !n.container() {
			w.node(n)
		}
	}
	w.printf("</svg>\n")
	return w.Bytes()
}

func (w *writer) printf(format string, args ...any) { fmt.Fprintf(&w.Buffer, format, args...) }

// text escapes a text for an element or an attribute. It replaces most control characters, which XML cannot express.
func text(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r == 0xFFFE || r == 0xFFFF {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
}

// num formats a coordinate.
func num(x float64) string {
	s := strconv.FormatFloat(x, 'f', 1, 64)
	return strings.TrimSuffix(s, ".0")
}

// describe summarizes a drawing in words.
func (d *drawing) describe(options Options) string {
	states := 0
	for _, n := range d.nodes {
		if n.state != nil && n.parent != nil {
			states++
		}
	}
	description := fmt.Sprintf("A statechart with %d states.", states)
	if doc := d.root.state.Doc; doc != "" {
		description = doc + ". " + description
	}
	if len(options.Active) > 0 {
		description += " Active: " + strings.Join(options.Active, ", ") + "."
	}
	return description
}

// open starts the group of a node.
func (w *writer) open(n *node) {
	classes := []string{"state", [...]string{"atomic", "compound", "parallel", "final", "history", "any", "again", "start"}[n.kind]}
	for _, c := range []struct {
		is   bool
		name string
	}{
		{n.region, "region"}, {n.container(), n.ground()}, {n.failed, "failed"}, {w.active[n], "active"}, {w.visited[n], "visited"},
		{n.state != nil && slices.Contains(n.state.Tags, statechart.Settled), "settled"},
	} {
		if c.is {
			classes = append(classes, c.name)
		}
	}
	w.printf(`<g class="%s"`, strings.Join(classes, " "))
	if n.state != nil {
		w.printf(` id="state:%s" data-path="%s"`, text(n.path), text(n.path))
	}
	w.printf("><title>%s</title>\n", text(n.sentence(w.active[n])))
}

// sentence describes a node in words.
func (n *node) sentence(active bool) string {
	switch n.kind {
	case anyState:
		return "any state: transitions of the chart itself"
	case restart:
		return "the chart itself: all its states are left and entered again"
	case initial:
		return "initial transition of " + n.parent.path
	}
	parts := []string{n.path}
	if n.parent == nil {
		parts[0] = n.name
	}
	add := func(label, value string) {
		if value != "" {
			parts = append(parts, label+value)
		}
	}
	if active {
		add("", "active")
	}
	add("", map[kind]string{parallel: "parallel", final: "final", history: "history"}[n.kind])
	add("", n.state.Doc)
	add("tags: ", strings.Join(n.state.Tags, ", "))
	add("entry: ", actionNames(n.state.Entry))
	add("exit: ", actionNames(n.state.Exit))
	return strings.Join(parts, "\n")
}

// box writes a rectangle.
func (w *writer) box(class string, r rect, radius float64) {
	w.printf(`<rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="%s"/>`+"\n",
		class, num(r.X), num(r.Y), num(r.W), num(r.H), num(min(radius, r.H/2)))
}

// container writes a state with states inside: a body, a strip for the header, the name.
func (w *writer) container(n *node) {
	w.open(n)
	w.box("body", n.box, 8)
	if !n.region {
		r := 8.0
		w.printf(`<path class="strip" d="M%s %sv%sa%s %s 0 0 1 %s -%sh%sa%s %s 0 0 1 %s %sv%sz"/>`+"\n",
			num(n.box.X), num(n.box.Y+n.header), num(r-n.header), num(r), num(r), num(r), num(r), num(n.box.W-2*r), num(r), num(r), num(r), num(r), num(n.header-r))
	}
	w.box("border", n.box, 8)
	if n.region && slices.ContainsFunc(n.scope.spans, func(span *item) bool { return span.own }) { // Edges end at the header.
		w.printf(`<path class="border" d="M%s %sh%s"/>`+"\n", num(n.box.X), num(n.box.Y+n.header), num(n.box.W))
	}
	w.texts(n)
	w.dot(n)
	w.printf("</g>\n")
}

// node writes a state without states inside, or a pseudostate.
func (w *writer) node(n *node) {
	w.open(n)
	switch n.kind {
	case initial:
		w.printf(`<circle class="dot" cx="%s" cy="%s" r="5"/>`+"\n", num(n.box.X+n.box.W/2), num(n.box.Y+n.box.H/2))
	case history, anyState, restart:
		w.box("border", n.box, 14)
	case final:
		w.box("border", n.box, 7)
		w.box("inner", rect{n.box.X + 3, n.box.Y + 3, n.box.W - 6, n.box.H - 6}, 5)
	default:
		w.box("border", n.box, 7)
	}
	w.texts(n)
	w.dot(n)
	w.printf("</g>\n")
}

// dot writes the dot that points at the default state of a container.
func (w *writer) dot(n *node) {
	if n.isDefault {
		x := n.box.X + min(14, n.box.W/2)
		w.printf(`<circle class="dot" cx="%s" cy="%s" r="4"/><path class="dot-line" d="M%s %sV%s"/><path class="dot" d="M%s %sl-3.5 -7h7z"/>`+"\n",
			num(x), num(n.box.Y-16), num(x), num(n.box.Y-14), num(n.box.Y-6), num(x), num(n.box.Y))
	}
}

// caption is a placed text: a name, or a line.
type caption struct {
	x, y, width float64 // the left end of the baseline
	text        line
}

// title returns the name of a node, with a cross before the name of a state that means failure.
func (n *node) title() caption {
	c := caption{text: line{{n.name, "name"}}, width: float64(cells(n.name)) * nameAdvance}
	if n.failed {
		// A font with a wide cross shifts the name by one cell, within the margin of the state.
		c.text, c.width = append(line{{"✗ ", "error"}}, c.text...), 2*textAdvance+c.width
	}
	return c
}

// captions returns the texts in a node.
func (n *node) captions() []caption {
	if n.kind == initial {
		return nil
	}
	lines := []caption{n.title()}
	for _, row := range n.rows {
		lines = append(lines, caption{text: row, width: row.width()})
	}
	height := 18 + float64(len(n.rows))*lineHeight
	top := n.box.Y + (n.box.H-height)/2
	if n.container() {
		top = n.box.Y + (n.header-height)/2
	}
	for i := range lines {
		c := &lines[i]
		c.x, c.y = n.box.X+(n.box.W-c.width)/2, top+13+float64(i)*lineHeight
		if i > 0 {
			c.y += 2
		}
		if n.container() {
			c.x = n.box.X + padding
		}
	}
	return lines
}

func (w *writer) texts(n *node) {
	for _, c := range n.captions() {
		w.line(c)
	}
}

// line writes a line of text.
func (w *writer) line(c caption) {
	w.printf(`<text x="%s" y="%s" xml:space="preserve"`, num(c.x), num(c.y))
	if len(c.text) == 1 {
		w.printf(` class="%s">%s`, c.text[0].class, text(c.text[0].text))
	} else {
		w.printf(">")
		for _, r := range c.text {
			w.printf(`<tspan class="%s">%s</tspan>`, r.class, text(r.text))
		}
	}
	w.printf("</text>\n")
}

// edge writes an edge with its label.
func (w *writer) edge(e *edge) {
	if len(e.points) < 2 {
		return
	}
	classes := "edge " + e.ground().ground()
	if e.failing() {
		classes += " error"
	}
	if len(e.transitions) == 0 {
		classes += " entry"
	}
	if w.taken[e] {
		classes += " taken"
	}
	from, to := e.from.path, e.to.path
	w.printf(`<g class="%s" id="edge:%s&gt;%s" data-from="%s" data-to="%s"><title>%s</title>`+"\n",
		classes, text(from), text(to), text(from), text(to), text(e.sentence()))
	w.printf(`<path class="line" d="%s"/><path class="head" d="%s"/>`+"\n", linePath(e.points), headPath(e.points))
	y := e.labelBox.Y
	k := 0
	for _, t := range e.transitions {
		w.printf(`<g class="transition" data-event="%s">`+"\n", text(t.trigger.Event))
		for range t.rows {
			l := e.label[k]
			w.line(caption{x: e.labelBox.X + (e.labelBox.W-l.width())/2, y: y + 10.5, text: l})
			y += lineHeight
			k++
		}
		y += blockGap
		w.printf("</g>\n")
	}
	w.printf("</g>\n")
}

// ground returns the CSS class of the background within a container. Nested containers alternate between two tints.
func (n *node) ground() string {
	tints := 0
	for ; n.parent != nil; n = n.parent {
		if !n.region {
			tints++
		}
	}
	return [...]string{"ground0", "ground1", "ground2"}[min(tints, 1+(tints+1)%2)]
}

// ground returns the container on which the edge's label stands.
func (e *edge) ground() *node {
	if e.from == e.to {
		return e.from.parent
	}
	return commonAncestor(e.from, e.to)
}

// failing reports whether the edge stands only for errors.
func (e *edge) failing() bool {
	for _, t := range e.transitions {
		if t.text.class != "error" {
			return false
		}
	}
	return len(e.transitions) > 0
}

// sentence describes an edge in words.
func (e *edge) sentence() string {
	name := func(n *node) string {
		if n.path == "" {
			return n.name
		}
		return n.path
	}
	lines := []string{name(e.from) + " → " + name(e.to)}
	if e.from.kind == initial {
		lines[0] = "initial → " + name(e.to)
	}
	for i := range e.transitions {
		lines = append(lines, e.transitions[i].sentence())
	}
	return strings.Join(lines, "\n")
}
