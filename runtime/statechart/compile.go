package statechart

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/internal/foreign"
)

// Chart is a compiled definition: immutable, safe for concurrent use.
type Chart[C any] struct {
	id       string
	version  int
	payloads Payloads
	context  func(Start) C
	output   func(C, Event) any
	// contextParams and outputParams are the definition's, for Definition.
	contextParams, outputParams json.RawMessage
	// nodes are the states in document order, the root at index 0: the descendants of the
	// node i are the nodes i+1 to nodes[i].last.
	nodes  []node[C]
	byPath map[string]int
	// transitions are those of all states; see Transitions.
	transitions []*transition[C]
	// histories are the indexes of the history states, in document order.
	histories []int
	// hasAlways says that some state has an eventless transition.
	hasAlways bool
	// initial is the transition by which an instance starts.
	initial transition[C]
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
	// cloneContext copies a context so that the copy can be changed. Nil where assignment
	// copies all of it.
	cloneContext func(C) C
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
type node[C any] struct {
	def   *State[C]
	kind  kind
	index int
	// parent is the parent's index; -1 for the root.
	parent int
	// last is the index of the last descendant; the node's own if it has none.
	last  int
	depth int
	// table has the transitions of each event; see candidates.
	table table[C]
	// path is the IDs from below the root, joined with dots; "" for the root.
	path     string
	children []int
	// initial are the states that a compound state enters by default, or the default targets
	// of a history state.
	initial []int
	// transitions are those on events: On, OnDone, of services, children and timers, in this order.
	transitions []transition[C]
	always      []transition[C]
	timers      []delay[C]
	invokes     []invocation[C]
	settled     bool
	// entry are the actions on entry: Entry, and the answers of Resolve.
	entry []Action[C]
	// doneEvent is the type of the event that says that the state is in a final state.
	doneEvent string
	// remembers says that a child is a history state.
	remembers bool
	// ordinal is the position of a history state among the chart's.
	ordinal int
}

func (n *node[C]) isHistory() bool { return n.kind == history }

// transition is a compiled Transition.
type transition[C any] struct {
	source  int
	event   string
	targets []int
	guard   Guard[C]
	actions []Action[C]
	reenter bool
	// place says where the transition stands in the definition, for messages.
	place string
	// index is the transition's in the chart's list.
	index int

	// planned says that domain and entry are known whatever history states have recorded.
	planned bool
	domain  int
	entry   []entering
	program *program[C]
}

// delay is the compiled timer that the After entries of one ID share.
type delay[C any] struct {
	id    string
	event string
	due   func(C, Event) time.Time
	// inProcess timers are those of unsettled atomic states: the host serves them while it
	// runs the state's services, so they are never scheduled outside.
	inProcess bool
}

// invocation is a compiled Invoke.
type invocation[C any] struct {
	id      string
	service Service[C]
	timeout time.Duration
	retry   RetryPolicy
}

// The types of the events that the chart itself makes.
const (
	doneStatePrefix   = "done.state."
	doneInvokePrefix  = "done.invoke."
	errorInvokePrefix = "error.invoke."
	afterPrefix       = ReservedPrefix + "after."
)

// Must is Compile for charts that are part of the program: it panics with all findings.
func Must[C any](def Definition[C]) *Chart[C] {
	chart, err := Compile(def)
	if err != nil {
		panic(err)
	}
	return chart
}

// Compile checks a definition and compiles it. The error is a *DefinitionError with all
// findings at once.
func Compile[C any](def Definition[C]) (*Chart[C], error) { return compile(def, false) }

// CompileForeign compiles a chart that was written for an interpreter that does not know Settled,
// such as an SCXML document of a conformance suite: every configuration may wait, services run
// beside it, states may be unreachable, and event types need no declaration (an undeclared one
// carries what it was raised with or, once SendAfter has sent it, the JSON form of the event). An
// ExecutionError that no state takes is dropped.
// What remains is what the algorithm needs. It is for the packages of runtime/ that read such
// documents, which alone can make a foreign.Document; no machine hosts the chart: see Foreign.
func CompileForeign[C any](def Definition[C], _ foreign.Document) (*Chart[C], error) {
	return compile(def, true)
}

func compile[C any](def Definition[C], asForeign bool) (*Chart[C], error) {
	c := &compiler[C]{chart: &Chart[C]{
		id: def.ID, version: def.Version, payloads: def.Payloads, foreign: asForeign, input: def.Input,
		context: def.Context, output: def.Output, byPath: map[string]int{},
		contextParams: def.ContextParams, outputParams: def.OutputParams,
	}}
	c.checkHead(def)
	c.checkMigrations(def)
	head := len(c.findings)
	c.layOut(def.root(), -1, "", 0)
	if !c.tooLarge {
		for i := range c.chart.nodes {
			c.link(&c.chart.nodes[i])
		}
		whole := len(c.findings) == head
		c.check()
		if whole { // Otherwise what cannot be reached may be a mere consequence.
			c.checkGraph()
		}
	}
	clone, err := contextCloner[C]()
	if err != nil {
		c.find(nil, err.Error(), "give the context type a method Clone() that returns a copy")
	}
	c.chart.cloneContext = clone
	c.checkStored(reflect.TypeFor[C]())
	if len(c.findings) > 0 {
		return nil, &DefinitionError{Chart: def.ID, Findings: c.findings}
	}
	c.chart.tabulate()
	c.chart.plan()
	return c.chart, nil
}

// ID returns the chart's ID.
func (c *Chart[C]) ID() string { return c.id }

// Version returns the chart's version.
func (c *Chart[C]) Version() int { return c.version }

// Events returns the types of the events that the chart takes from outside, sorted.
func (c *Chart[C]) Events() []string { return c.payloads.Types() }

type compiler[C any] struct {
	chart    *Chart[C]
	findings []Finding
	// tooLarge says that a limit ended the layout, so that states are missing.
	tooLarge bool
}

// layOut appends the state and its descendants in document order.
func (c *compiler[C]) layOut(def *State[C], parent int, path string, depth int) int {
	index := len(c.chart.nodes)
	c.chart.nodes = append(c.chart.nodes, node[C]{def: def, path: path, index: index, parent: parent, depth: depth})
	n := node[C]{def: def, path: path, index: index, parent: parent, depth: depth, kind: kindOf(def), doneEvent: doneStatePrefix + path}
	if n.kind == history {
		n.ordinal = len(c.chart.histories)
		c.chart.histories = append(c.chart.histories, index)
	}
	c.checkShape(&n)
	if depth > NestingDepthMax || index >= StatesMax {
		c.tooLarge = true
		return index
	}
	c.chart.byPath[path] = index
	for _, tag := range def.Tags {
		n.settled = n.settled || tag == Settled
	}
	for i := range def.States {
		child := &def.States[i]
		childPath := child.ID
		if path != "" {
			childPath = path + "." + child.ID
		}
		if _, twice := c.chart.byPath[childPath]; twice && child.ID != "" {
			c.find(&n, fmt.Sprintf("has two children with the ID %q", child.ID), "give each its own ID")
			continue
		}
		n.remembers = n.remembers || kindOf(child) == history
		n.children = append(n.children, c.layOut(child, index, childPath, depth+1))
	}
	n.last = len(c.chart.nodes) - 1
	c.chart.nodes[index] = n
	return index
}

func kindOf[C any](def *State[C]) kind {
	switch {
	case def.Type == Parallel:
		return parallel
	case def.Type == Final:
		return final
	case def.Type == ShallowHistory || def.Type == DeepHistory:
		return history
	case len(def.States) > 0:
		return compound
	default:
		return atomic
	}
}

// link compiles what refers to other states: transitions, timers, invocations, defaults.
func (c *compiler[C]) link(n *node[C]) {
	def := n.def
	c.linkInitial(n)
	c.linkResolve(n)
	for i := range def.On {
		t := &def.On[i]
		if t.Event == "" {
			c.find(n, "has a transition in On without an event", "name the event, or move the transition to Always")
		}
		n.transitions = append(n.transitions, c.transition(n, *t, t.Event, "on "+t.Event))
		c.chart.handlesErrors = c.chart.handlesErrors || t.Event != "*" && matches(t.Event, ExecutionError)
	}
	for _, t := range def.OnDone {
		compiled := c.transition(n, t, n.doneEvent, "on done")
		if n.kind == parallel {
			c.checkPayload(n, compiled, nil)
		} else {
			c.checkPayload(n, compiled, reflect.TypeFor[json.RawMessage]())
		}
		n.transitions = append(n.transitions, compiled)
	}
	for i := range def.Invoke {
		c.linkInvoke(n, &def.Invoke[i], i)
	}
	for i := range def.Children {
		c.linkChild(n, i)
	}
	for i := range def.After {
		c.linkAfter(n, &def.After[i])
	}
	c.chart.defers = c.chart.defers || len(def.Defer) > 0
	c.checkMeta(n)
	for _, t := range def.Always {
		n.always = append(n.always, c.transition(n, t, "", "always"))
	}
}

// linkInitial resolves what a compound state and a history state enter by default.
func (c *compiler[C]) linkInitial(n *node[C]) {
	switch n.kind {
	case compound:
		n.initial = c.initial(n)
		if len(n.initial) == 0 {
			c.find(n, fmt.Sprintf("is compound but its Initial %q is none of its children", n.def.Initial), "set Initial to the ID of a child")
		}
		c.checkTogether(n, n.initial, n.def.Initial, "initial")
	case history:
		if n.def.Target != "" {
			n.initial = c.targets(n, n.def.Target, "default")
			for _, target := range n.initial {
				if !c.chart.isDescendant(target, n.parent) {
					c.find(n, fmt.Sprintf("default: target %q lies outside of the parent, whose history it is", n.def.Target), "name a sibling or a state below one")
				}
			}
		} else if parent := &c.chart.nodes[n.parent]; parent.kind == parallel {
			for _, child := range parent.children {
				if c.chart.nodes[child].kind != history {
					n.initial = append(n.initial, child)
				}
			}
		} else {
			n.initial = c.initial(parent)
		}
	}
}

// initial returns the states that the Initial of a state names, none if it does not name states
// below it.
func (c *compiler[C]) initial(n *node[C]) []int {
	below := func(path string) (int, bool) {
		if n.path != "" {
			path = n.path + "." + path
		}
		i, ok := c.chart.byPath[path]
		return i, ok && i != n.index
	}
	if i, ok := below(n.def.Initial); ok {
		return []int{i}
	}
	var initial []int
	for _, path := range strings.Fields(n.def.Initial) {
		i, ok := below(path)
		if !ok {
			return nil
		}
		initial = append(initial, i)
	}
	return initial
}

// defaultID returns the ID of an invocation or of a child without one of its own.
func (c *Chart[C]) defaultID(n *node[C], position int) string {
	id := n.path
	if n.index == 0 {
		id = c.id
	}
	if position > 0 {
		id += ":" + strconv.Itoa(position)
	}
	return id
}

func (c *compiler[C]) linkInvoke(n *node[C], invoke *Invoke[C], position int) {
	id := invoke.ID
	if id == "" {
		id = c.chart.defaultID(n, position)
	}
	if invoke.Service.Run == nil {
		c.find(n, fmt.Sprintf("invokes %q without a service", id), "set Service, for instance with ServiceFunc")
	}
	n.invokes = append(n.invokes, invocation[C]{id: id, service: invoke.Service, timeout: invoke.Timeout, retry: invoke.Retry})
	for _, t := range invoke.OnDone {
		compiled := c.transition(n, t, doneInvokePrefix+id, "on done of "+invoke.Service.Name)
		c.checkPayload(n, compiled, invoke.Service.result)
		n.transitions = append(n.transitions, compiled)
	}
	for _, t := range invoke.OnError {
		compiled := c.transition(n, t, errorInvokePrefix+id, "on error of "+invoke.Service.Name)
		c.checkPayload(n, compiled, reflect.TypeFor[ServiceError]())
		n.transitions = append(n.transitions, compiled)
	}
}

func (c *compiler[C]) linkAfter(n *node[C], after *After[C]) {
	id := after.id()
	event := afterPrefix + n.path + "#" + id // No path has a '#', so no two timers share an event.
	c.checkAfter(n, after, id)
	known := false
	for i := range n.timers {
		known = known || n.timers[i].id == id
	}
	if !known {
		n.timers = append(n.timers, delay[C]{
			id: id, event: event, due: after.deadline(),
			inProcess: n.kind == atomic && !n.settled,
		})
	}
	t := Transition[C]{Target: after.Target, Guard: after.Guard, Actions: after.Actions, Reenter: after.Reenter, Doc: after.Doc}
	compiled := c.transition(n, t, event, "after "+id)
	c.checkPayload(n, compiled, nil)
	n.transitions = append(n.transitions, compiled)
}

func (a *After[C]) id() string {
	if a.ID == "" {
		return a.Delay.String()
	}
	return a.ID
}

// deadline returns the function that computes when the timer is due, from the context and the
// event with which the state is entered.
func (a *After[C]) deadline() func(C, Event) time.Time {
	switch {
	case a.At != nil:
		return a.At
	case a.DelayFunc != nil:
		return func(c C, e Event) time.Time { return e.At.Add(a.DelayFunc(c, e)) }
	default:
		d := a.Delay
		return func(_ C, e Event) time.Time { return e.At.Add(d) }
	}
}

func (c *compiler[C]) transition(n *node[C], t Transition[C], event, place string) transition[C] {
	return transition[C]{
		source: n.index, event: event, guard: t.Guard, actions: t.Actions, reenter: t.Reenter,
		targets: c.targets(n, t.Target, place), place: place,
	}
}
