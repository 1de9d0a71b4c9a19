// Package chartsvg draws charts as SVG. It needs no browser, no font and no other program.
//
//	svg := chartsvg.Draw(chart.Outline(), chartsvg.Options{Active: snapshot.State})
//
// # Elements
//
// A state is a group with the class state, the ID "state:PATH" and the attribute data-path. The transitions from one
// state to another form one group with the class edge, the ID "edge:FROM>TO" and the attributes data-from and data-to.
// Within that group, each transition is a group with the attribute data-event: the event as in an instance's history.
// The path of the root is empty.
//
// A page marks an instance with three classes: active and visited for states, taken for edges. Each group has a title
// with the names of its actions and with the documentation.
//
// # Layout
//
// The layout of each container follows Sugiyama, Tagawa and Toda (1981), from the innermost containers outwards. Each
// phase has its own file:
//
//	graph.go  a chart becomes nodes and edges
//	lift.go   an edge between containers becomes an edge between siblings; cycles are broken
//	rank.go   nodes and labels get their ranks
//	order.go  items get their order from left to right, by barycenters and by sifting (sift.go)
//	place.go  items get their x, by isotonic regression, and edges their ports (port.go)
//	route.go  edges get their tracks between the ranks
//	write.go  the drawing becomes SVG
//
// The order and the ranks guarantee that no label, state or edge covers another one.
package chartsvg

import "github.com/settle-run/settle/runtime/statechart"

// Options choose what a drawing shows besides the chart. The zero value shows the chart.
type Options struct {
	// Active holds the paths of the active states, as in Snapshot.State.
	Active []string
	// Path holds the steps of an instance, as in its history. Draw marks the states and transitions on this path.
	Path []Step
	// Bare leaves out the style sheet, for a page that contains Style.
	Bare bool
}

// Step is a step of an instance: an event, and the active states before and after it.
type Step struct {
	// Event is an event type, or "after ID" for a timer.
	Event    string
	From, To []string
}

// Draw returns a chart as an SVG document. The output is deterministic. Draw ignores paths that the chart does not have.
func Draw(chart *statechart.Outline, options Options) []byte {
	return layout(chart).write(options)
}
