package chartsvg

import (
	"cmp"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/internal/outline"
	"github.com/settle-run/settle/runtime/statechart"
)

// kind is the kind of a node.
type kind int

const (
	atomic kind = iota
	compound
	parallel
	final
	history
	anyState // the root as the source of transitions
	restart  // the root as the target of transitions
	initial  // the start of an initial transition to several states or to a deeper state
)

// failedTag is the tag of final states that mean failure. They are red and have a cross before their name.
const failedTag = "failed"

// graph is a chart as nodes and edges, before the layout.
type graph struct {
	root *node
	// nodes holds the nodes in document order, with the pseudostates first in their container.
	nodes []*node
	edges []*edge
	// internal lists the events that only the chart raises.
	internal []string
}

// node is a state, or a pseudostate of the drawing.
type node struct {
	kind       kind
	path, name string
	state      *outline.State // nil for a pseudostate
	parent     *node
	children   []*node
	depth      int
	failed     bool
	region     bool // a child of a parallel state
	isDefault  bool // the state that its parent enters by default: a dot points at it
	rows       []line
	loop       *edge // its transitions to itself
	shape
}

// edge is the arrow for all transitions from one node to another.
type edge struct {
	from, to    *node
	transitions []transition
	label       []line
	wire
}

// transition is a transition of an edge. A transition without a target has no edge: its state lists it.
type transition struct {
	trigger outline.Trigger
	// cause is the trigger in words.
	cause          string
	text           run
	guard, actions string
	doc            string
	others         []string // the names of its targets other than the edge's target
	rows           []line   // its part of the edge's label
	turn           int      // the place among the transitions of its state, in the order of evaluation
}

// labelHeight returns the height of the label. A gap between two transitions shows which of them a guard belongs to.
func (e *edge) labelHeight() float64 {
	return float64(len(e.label))*lineHeight + float64(max(0, len(e.transitions)-1))*blockGap
}

// container reports whether other nodes are drawn within the node.
func (n *node) container() bool { return n.kind == compound || n.kind == parallel }

// within reports whether the node is `of` or a descendant of it.
func (n *node) within(of *node) bool {
	for n.depth > of.depth {
		n = n.parent
	}
	return n == of
}

// childToward returns the child of `ancestor` that is the node or contains the node.
func (n *node) childToward(ancestor *node) *node {
	for n.parent != ancestor {
		n = n.parent
	}
	return n
}

// builder converts an outline to a graph.
type builder struct {
	graph
	states map[string]*node
	any    *node // the root as source, or nil
	again  *node // the root as target, or nil
}

// newGraph returns the graph of a chart.
func newGraph(chart *outline.Chart) *graph {
	b := &builder{states: map[string]*node{}}
	b.internal = chart.Internal
	b.root = b.add(&chart.Root, nil, "")
	if len(b.root.children) > 0 {
		r := &chart.Root
		if rows := b.rowsOf(r, ""); len(rows) > 0 || b.hasTargets(r) {
			b.any = &node{kind: anyState, name: "any state", parent: b.root, depth: 1, rows: rows}
			b.root.children = slices.Insert(b.root.children, 0, b.any)
		}
		b.root.rows = nil
	}
	for _, n := range slices.Clone(b.nodes) {
		b.connect(n)
	}
	for _, e := range b.edges {
		for i := range e.transitions {
			e.label = append(e.label, e.transitions[i].rows...)
		}
	}
	b.nodes = b.nodes[:0]
	b.collect(b.root)
	return &b.graph
}

// add adds a state and its descendants.
func (b *builder) add(s *outline.State, parent *node, path string) *node {
	n := &node{path: path, name: s.ID, state: s, parent: parent}
	switch statechart.Type(s.Type) {
	case statechart.Parallel:
		n.kind = parallel
	case statechart.Final:
		n.kind, n.failed = final, slices.Contains(s.Tags, failedTag)
	case statechart.ShallowHistory:
		n.kind, n.name = history, historyName("H", s.ID)
	case statechart.DeepHistory:
		n.kind, n.name = history, historyName("H*", s.ID)
	case statechart.Plain:
		if len(s.States) > 0 {
			n.kind = compound
		}
	}
	if parent != nil {
		n.depth, n.region = parent.depth+1, parent.kind == parallel
	}
	n.rows = b.rowsOf(s, path)
	b.states[path] = n
	b.nodes = append(b.nodes, n)
	for i := range s.States {
		n.children = append(n.children, b.add(&s.States[i], n, join(path, s.States[i].ID)))
	}
	return n
}

// historyName returns the symbol of a history state, with the ID unless the ID only repeats the symbol.
func historyName(symbol, id string) string {
	if slices.Contains([]string{"h", "hist", "history"}, strings.ToLower(id)) {
		return symbol
	}
	return symbol + " " + id
}

// collect lists the nodes in document order.
func (b *builder) collect(n *node) {
	b.nodes = append(b.nodes, n)
	for _, child := range n.children {
		b.collect(child)
	}
}

func join(path, id string) string { return strings.TrimPrefix(path+"."+id, ".") }

// connect adds the edges that start in a state.
func (b *builder) connect(n *node) {
	b.connectInitial(n)
	for _, t := range transitionsOf(n.state, n.path) {
		for _, target := range t.Targets {
			b.connectTo(n, b.states[target], t.arrowTo(target))
		}
	}
	for _, target := range n.state.Targets { // of a history state
		if to := b.states[target]; to != nil && to != n {
			b.edge(n, to)
		}
	}
}

// connectInitial marks the default state of a compound state. If the default is not a child, an arrow leads to it.
func (b *builder) connectInitial(n *node) {
	if n.kind != compound || n.state.Initial == "" {
		return
	}
	targets := strings.Fields(n.state.Initial)
	if child := b.states[join(n.path, targets[0])]; len(targets) == 1 && child != nil && child.parent == n {
		child.isDefault = true
		return
	}
	start := &node{kind: initial, parent: n, depth: n.depth + 1}
	for _, target := range targets {
		if to := b.states[join(n.path, target)]; to != nil {
			b.edge(start, to)
		}
	}
	n.children = slices.Insert(n.children, 0, start)
}

// connectTo adds a transition to the edge between two states. The root is two nodes: one as a source, one as a target.
func (b *builder) connectTo(from, to *node, t transition) {
	if to == nil || len(b.root.children) == 0 {
		return
	}
	if from == b.root {
		from = b.any
	}
	if to == b.root {
		if b.again == nil {
			b.again = &node{kind: restart, name: "start again", parent: b.root, depth: 1}
			b.root.children = append(b.root.children, b.again)
		}
		to = b.again
	}
	if from == to {
		if from.loop == nil {
			from.loop = &edge{from: from, to: to}
			b.edges = append(b.edges, from.loop)
		}
		from.loop.transitions = append(from.loop.transitions, t)
		return
	}
	e := b.edge(from, to)
	e.transitions = append(e.transitions, t)
}

// edge returns the edge between two nodes. It adds the edge if necessary.
func (b *builder) edge(from, to *node) *edge {
	for _, e := range b.edges {
		if e.from == from && e.to == to {
			return e
		}
	}
	e := &edge{from: from, to: to}
	b.edges = append(b.edges, e)
	return e
}

func (b *builder) hasTargets(s *outline.State) bool {
	return slices.ContainsFunc(transitionsOf(s, ""), func(t targeted) bool { return len(t.Targets) > 0 })
}

// rowsOf returns the lines in a state below its name: its services, child instances, transitions without a target,
// deferred events and tags.
func (b *builder) rowsOf(s *outline.State, path string) []line {
	var rows []line
	for i := range s.Invoke {
		rows = append(rows, line{{"⚙ " + cmp.Or(s.Invoke[i].Service, s.Invoke[i].ID, path), "muted"}})
	}
	for i := range s.Children {
		rows = append(rows, line{{"⧉ " + cmp.Or(s.Children[i].Machine, s.Children[i].ID), "muted"}})
	}
	for _, t := range transitionsOf(s, path) {
		if len(t.Targets) > 0 {
			continue
		}
		row := line{t.text}
		if t.guard != "" {
			row = append(row, run{" [" + t.guard + "]", "guard"})
		}
		if t.actions == "" {
			row = append(row, run{" ignored", "muted"})
		} else {
			row = append(row, run{" / " + t.actions, "muted"})
		}
		rows = append(rows, row)
	}
	if len(s.Defer) > 0 {
		rows = append(rows, wrap("defer "+strings.Join(s.Defer, ", "), "muted")...)
	}
	var tags []string
	for _, tag := range s.Tags {
		if tag != statechart.Settled && (tag != failedTag || statechart.Type(s.Type) != statechart.Final) {
			tags = append(tags, "#"+tag)
		}
	}
	if len(tags) > 0 {
		rows = append(rows, wrap(strings.Join(tags, " "), "muted")...)
	}
	return rows
}
