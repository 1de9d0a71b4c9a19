package statechart

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/internal/outline"
	"github.com/settle-run/settle/runtime/internal/readjson"
)

// Prefixes of the event types that the chart itself generates.
const (
	doneStatePrefix   = "done.state."
	doneInvokePrefix  = "done.invoke."
	errorInvokePrefix = "error.invoke."
	afterPrefix       = ReservedPrefix + "after."
)

// erasedDefinition is a Definition whose root is a State and whose contexts are erased.
type erasedDefinition struct {
	id         string
	version    int
	migrations []Migration
	payloads   Payloads
	input      Payload
	root       *State[erased]
	output     func(erased, Event) any
	contexts   contexts
}

// compile checks the definition and fills in the chart.
func (c *compiler) compile(def erasedDefinition, asForeign bool) error {
	*c.chart = chart{
		id: def.id, version: def.version, payloads: def.payloads, foreign: asForeign, input: def.input,
		output: def.output, contexts: def.contexts, byPath: map[string]int{},
	}
	if !asForeign {
		c.chart.contexts.keys = readjson.KeysOf(def.contexts.typ)
	}
	c.checkHead(def)
	c.checkMigrations(def)
	head := len(c.findings)
	c.layOut(def.root, -1, "", 0)
	c.checkSize()
	if !c.tooLarge {
		for i := range c.chart.nodes {
			c.link(&c.chart.nodes[i])
		}
		linked := len(c.findings) == head
		c.check()
		if linked { // If there are other findings, checkGraph might only report their consequences.
			c.checkGraph()
		}
	}
	if problem := def.contexts.problem; problem != nil {
		c.find(nil, problem.Error(), "give the context type a method Clone() that returns a copy")
	}
	c.checkStored(def.contexts.typ)
	if len(c.findings) > 0 {
		return &DefinitionError{Chart: def.id, Findings: c.findings}
	}
	c.chart.tabulate()
	c.chart.plan()
	c.chart.description = c.chart.describe()
	return nil
}

type compiler struct {
	chart    *chart
	findings []Finding
	// tooLarge is set if the chart exceeds a limit on its size. Some states may then be missing from chart.nodes.
	tooLarge bool
	limits   map[string]Limit // by name
	// enqueues is set if some action is made by EnqueueActions.
	enqueues bool
	events   eventIndex
	byEnd    map[string][]int // see endingWith
}

// layOut appends the state and its descendants in document order.
func (c *compiler) layOut(def *State[erased], parent int, path string, depth int) int {
	index := len(c.chart.nodes)
	c.chart.nodes = append(c.chart.nodes, node{def: def, path: path, index: index, parent: parent, depth: depth})
	n := node{def: def, path: path, index: index, parent: parent, depth: depth, kind: kindOf(def), doneEvent: doneStatePrefix + path}
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

func kindOf(def *State[erased]) kind {
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

// link compiles the parts of a state that refer to other states: its transitions, timers, services, children and
// defaults.
func (c *compiler) link(n *node) {
	def := n.def
	c.linkInitial(n)
	c.linkResolve(n)
	for i := range def.On {
		t := &def.On[i]
		if t.Event == "" {
			c.find(n, "has a transition in On without an event", "name the event, or move the transition to Always")
		}
		n.transitions = append(n.transitions, c.transition(n, *t, t.Event, "on "+t.Event))
		c.chart.handlesErrors = c.chart.handlesErrors || matches(t.Event, ExecutionError)
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
	c.linkAfters(n)
	c.chart.defers = c.chart.defers || len(def.Defer) > 0
	c.checkMeta(n)
	for _, t := range def.Always {
		n.always = append(n.always, c.transition(n, t, "", "always"))
	}
}

// linkInitial resolves the default of a compound or history state.
func (c *compiler) linkInitial(n *node) {
	switch n.kind {
	case compound:
		n.initial = c.initial(n)
		if len(n.initial) == 0 {
			c.find(n, fmt.Sprintf("is compound but its Initial %q is not one of its children", n.def.Initial)+c.similarChild(n), "set Initial to the ID of a child")
		}
		c.checkTogether(n, n.initial, n.def.Initial, "initial")
	case history:
		if n.def.Target != "" {
			n.initial = c.targets(n, n.def.Target, "default")
			for _, target := range n.initial {
				if !c.chart.isDescendant(target, n.parent) {
					c.find(n, fmt.Sprintf("default: target %q is outside the history state's parent", n.def.Target), "name a sibling or a state below one")
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

// initial returns the states that a state's Initial names, or none if one of them is not a descendant.
func (c *compiler) initial(n *node) []int {
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

// defaultID returns the ID of an invocation or a child for which the definition sets no ID.
func (c *chart) defaultID(n *node, position int) string {
	id := n.path
	if n.index == 0 {
		id = c.id
	}
	return outline.DefaultID(id, position)
}

func (c *compiler) linkInvoke(n *node, invoke *Invoke[erased], position int) {
	id := invoke.ID
	if id == "" {
		id = c.chart.defaultID(n, position)
	}
	if invoke.Service.Run == nil {
		c.find(n, fmt.Sprintf("invokes %q without a service", id), "set Service, for instance with ServiceFunc")
	}
	c.checkLimit(n, invoke, id)
	n.invokes = append(n.invokes, invocation{id: id, service: invoke.Service.Name})
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

func (c *compiler) linkAfters(n *node) {
	groups, known := groupAfters(n.def.After), map[string]bool{}
	for i := range n.def.After {
		after := &n.def.After[i]
		c.checkAfter(n, i, groups)
		id := after.id()
		event := afterPrefix + n.path + "#" + id // A path contains no '#', so timer events are unique.
		if !known[id] {
			known[id] = true
			n.timers = append(n.timers, delay{
				id: id, event: event, due: after.deadline(),
				inProcess: n.kind == atomic && !n.settled,
			})
		}
		c.linkAfter(n, after, event)
	}
}

func (c *compiler) linkAfter(n *node, after *After[erased], event string) {
	t := Transition[erased]{Target: after.Target, Guard: after.Guard, Actions: after.Actions, Reenter: after.Reenter, Doc: after.Doc}
	compiled := c.transition(n, t, event, "after "+after.id())
	c.checkPayload(n, compiled, nil)
	n.transitions = append(n.transitions, compiled)
}

func (a *After[C]) id() string {
	if a.ID == "" {
		return a.Delay.String()
	}
	return a.ID
}

// deadline returns a function that computes the timer's deadline from the context and the event that enters the state.
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

func (c *compiler) transition(n *node, t Transition[erased], event, place string) transition {
	return transition{
		source: n.index, event: event, guard: t.Guard, actions: t.Actions, reenter: t.Reenter,
		targets: c.targets(n, t.Target, place), place: place,
	}
}
