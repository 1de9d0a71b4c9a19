package statechart

import "time"

// chart is a Chart without its context type: what the engine works with.
type chart struct {
	id       string
	version  int
	payloads Payloads
	contexts contexts
	// output is Definition.Output.
	output func(held, Event) any
	// nodes are the states in document order, the root at index 0: the descendants of the
	// node i are the nodes i+1 to nodes[i].last.
	nodes  []node
	byPath map[string]int
	// transitions are those of all states; see Transitions.
	transitions []*transition
	// histories are the indexes of the history states, in document order.
	histories []int
	// hasAlways says that some state has an eventless transition.
	hasAlways bool
	// initial is the transition by which an instance starts.
	initial     transition
	description Description
	// foreign says that the chart was compiled by CompileForeign.
	foreign bool
	// handlesErrors says that some transition names ExecutionError.
	handlesErrors bool
	// input declares what an instance starts with.
	input Payload
	// defers says that some state defers events, usesChildren that some state or action has to do
	// with child instances.
	defers, usesChildren bool
	// migrations are in the order of their versions; the last one leads to version.
	migrations []Migration
}

// kind is what a state turned out to be.
type kind int

const (
	atomic kind = iota
	compound
	parallel
	final
	history
)

// node is a compiled state.
type node struct {
	def   *State[held]
	kind  kind
	index int
	// parent is the parent's index; -1 for the root.
	parent int
	// last is the index of the last descendant; the node's own if it has none.
	last  int
	depth int
	// table has the transitions of each event; see candidates.
	table table
	// path is the IDs from below the root, joined with dots; "" for the root.
	path     string
	children []int
	// initial are the states that a compound state enters by default, or the default targets
	// of a history state.
	initial []int
	// transitions are those on events: On, OnDone, of services, children and timers, in this order.
	transitions []transition
	always      []transition
	timers      []delay
	invokes     []invocation
	settled     bool
	// entry are the actions on entry: Entry, and the answers of Resolve.
	entry []Action[held]
	// doneEvent is the type of the event that says that the state is in a final state.
	doneEvent string
	// remembers says that a child is a history state.
	remembers bool
	// ordinal is the position of a history state among the chart's.
	ordinal int
}

func (n *node) isHistory() bool { return n.kind == history }

// transition is a compiled Transition.
type transition struct {
	source  int
	event   string
	targets []int
	guard   Guard[held]
	actions []Action[held]
	reenter bool
	// place says where the transition stands in the definition, for messages.
	place string
	// index is the transition's in the chart's list.
	index int

	// planned says that domain and entry are known whatever history states have recorded.
	planned bool
	domain  int
	entry   []entering
	program *program
}

// delay is the compiled timer that the After entries of one ID share.
type delay struct {
	id    string
	event string
	due   func(held, Event) time.Time
	// inProcess timers are those of unsettled atomic states: the host serves them while it
	// runs the state's services, so they are never scheduled outside.
	inProcess bool
}

// invocation is a compiled Invoke: its ID, and the name of its service.
type invocation struct{ id, service string }

// ID returns the chart's ID.
func (c *chart) ID() string { return c.id }

// Version returns the chart's version.
func (c *chart) Version() int { return c.version }

// Events returns the types of the events that the chart takes from outside, sorted.
func (c *chart) Events() []string { return c.payloads.Types() }
