package statechart

import "time"

// chart is the part of Chart that does not depend on the context type. The engine works with it.
type chart struct {
	id       string
	version  int
	payloads Payloads
	contexts contexts
	// output is Definition.Output.
	output func(erased, Event) any
	// nodes holds the states in document order, with the root at index 0. The descendants of node i are the nodes i+1
	// to nodes[i].last.
	nodes  []node
	byPath map[string]int
	// transitions holds the transitions of all states: see Transitions.
	transitions []*transition
	// histories holds the indexes of the history states, in document order.
	histories []int
	// hasAlways is set if some state has an eventless transition.
	hasAlways bool
	// initial is the transition that starts an instance.
	initial     transition
	description Description
	foreign     bool
	warnings    []Finding
	// handlesErrors is set if some transition in On matches ExecutionError.
	handlesErrors bool
	input         Payload
	// defers is set if some state defers events. usesChildren is set if some state or action refers to child instances.
	defers, usesChildren bool
	// migrations is sorted by version. The last one leads to the chart's version.
	migrations []Migration
}

// kind is the resolved kind of a state.
type kind int

const (
	atomic kind = iota
	compound
	parallel
	final
	history
)

type node struct {
	def   *State[erased]
	kind  kind
	index int
	// parent is the index of the parent, or -1 for the root.
	parent int
	// last is the index of the last descendant, or the node's own index.
	last  int
	depth int
	// table indexes the transitions by event: see candidates.
	table table
	// path joins the IDs below the root with dots. It is "" for the root.
	path     string
	children []int
	// initial holds the states that a compound state enters by default, or the default targets of a history state.
	initial []int
	// transitions holds the transitions on events: On, OnDone, and the transitions of services, children and timers.
	transitions []transition
	always      []transition
	timers      []delay
	invokes     []invocation
	settled     bool
	// entry holds the actions on entry: Entry, then the answers of Resolve.
	entry []Action[erased]
	// doneEvent is the type of the state's done event.
	doneEvent string
	// remembers is set if a child is a history state.
	remembers bool
	// ordinal is the position of a history state in histories.
	ordinal int
}

func (n *node) isHistory() bool { return n.kind == history }

type transition struct {
	source  int
	event   string
	targets []int
	guard   Guard[erased]
	actions []Action[erased]
	reenter bool
	// place is the transition's place in the definition, for messages.
	place string
	// index is the transition's index in chart.transitions, or -1 if it is not a transition of the definition.
	index int

	// planned is set if plan has precomputed the domain and the entry set.
	planned bool
	domain  int
	entry   []entering
	program *program
}

// delay is the compiled timer that the After entries with the same ID share.
type delay struct {
	id    string
	event string
	due   func(erased, Event) time.Time
	// inProcess is set for timers of unsettled atomic states. The host fires them while it runs the state's services,
	// and never schedules them.
	inProcess bool
}

// invocation is a compiled Invoke: its ID and the name of its service.
type invocation struct{ id, service string }

// ID returns the chart's ID.
func (c *chart) ID() string { return c.id }

// Version returns the chart's version.
func (c *chart) Version() int { return c.version }

// Events returns the event types that the chart accepts from outside, sorted.
func (c *chart) Events() []string { return c.payloads.Types() }
