package statechart

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// check runs the checks that need the linked chart.
func (c *compiler) check() {
	if c.chart.foreign {
		for i := range c.chart.nodes {
			c.checkCode(&c.chart.nodes[i])
			c.madeByChildren(&c.chart.nodes[i], map[string]bool{}) // for its side effect: it sets usesChildren
		}
		return
	}
	c.indexEvents()
	undeclared := func(does string, types []string) {
		for _, typ := range types {
			if _, declared := c.chart.payloads[typ]; !declared {
				c.find(nil, fmt.Sprintf("%s the undeclared event type %q", does, typ)+c.similarEvent(typ, nil), "declare it in Payloads, with InternalOf if it never comes from outside")
			}
		}
	}
	undeclared("raises", c.events.raised)
	undeclared("sends itself", sortedKeys(c.events.sent))
	movers := make([]mover, len(c.chart.nodes))
	for i := range c.chart.nodes {
		n := &c.chart.nodes[i]
		movers[i] = c.mover(n, movers)
		c.checkCode(n)
		c.checkEvents(n)
		c.checkDefer(n)
		c.checkChildren(n)
		switch {
		case n.kind == atomic && n.settled:
			c.checkSettled(n)
		case n.kind == atomic && i > 0:
			c.checkUnsettled(n, movers[i])
		case n.settled && n.kind != final && n.kind != history:
			c.find(n, "is tagged settled but is not atomic", "tag the atomic states below it that may wait")
		}
		if len(n.def.OnDone) > 0 && n.kind != final && n.kind != history && !c.completes(n) {
			c.find(n, "has OnDone but no child that could be final", "add a final child, or move the transitions to an invocation's OnDone")
		}
		c.checkHandled(n)
	}
	c.checkInvocations()
	c.checkChildIDs()
	c.checkDefaultIDs()
}

// checkCode checks that actions and guards were made by constructors, and that In guards name existing states.
func (c *compiler) checkCode(n *node) {
	actions := func(place string, actions []Action[erased]) {
		for _, action := range actions {
			c.checkRaised(n, place, action)
			if action.resolves != nil {
				c.checkResolves(n, place, action.resolves)
			}
			if action.starts != nil {
				c.checkStart(n, place, action.starts)
			}
			if action.run == nil && action.update == nil && action.assign == nil {
				c.find(n, fmt.Sprintf("%s: the action %q does nothing", place, action.Name), "make it with Assign, Raise or another constructor")
			}
		}
	}
	var guard func(place string, g Guard[erased])
	guard = func(place string, g Guard[erased]) {
		if g.test == nil && g.Name != "" {
			c.find(n, fmt.Sprintf("%s: the guard %q tests nothing", place, g.Name), "make it with When or another constructor")
		}
		if _, ok := c.chart.byPath[g.in]; g.in != "" && !ok {
			c.find(n, fmt.Sprintf("%s: the guard In(%q) does not name a state", place, g.in)+c.similarPath(g.in), "use the path of a state, such as region.state")
		}
		for _, inner := range g.of {
			guard(place, inner)
		}
	}
	actions("entry", n.entry)
	actions("default entry", n.def.DefaultEntry)
	actions("exit", n.def.Exit)
	for _, transitions := range [][]transition{n.transitions, n.always} {
		for _, t := range transitions {
			actions(t.place, t.actions)
			guard(t.place, t.guard)
		}
	}
}

// checkRaised checks that the payload of a raised event has the declared type.
func (c *compiler) checkRaised(n *node, place string, action Action[erased]) {
	payload, declared := c.chart.payloads[action.raises]
	if !declared || payload.typ == action.carries || action.carries == reflect.TypeFor[json.RawMessage]() {
		return
	}
	if action.carries != nil && action.carries.Kind() == reflect.Interface {
		return // The type is known only at run time.
	}
	c.find(n, fmt.Sprintf("%s: raises %q with %s, but Payloads declares %s", place, action.raises, typeName(action.carries), typeName(payload.typ)),
		"raise it with RaiseWith and the declared type, or change the declaration")
}

// checkEvents checks that the events in On are declared, and that their payload types match.
func (c *compiler) checkEvents(n *node) {
	for i := range n.def.On {
		t := &n.transitions[i]
		if t.event == ExecutionError {
			c.checkPayload(n, *t, reflect.TypeFor[StepError]())
		}
		payloads, before := c.payloadsOf(t.event), len(c.findings)
		for k := 0; k < len(payloads) && len(c.findings) == before; k++ {
			c.checkPayload(n, *t, payloads[k])
		}
		known := t.event == "" || t.event == "*" || len(payloads) > 0 || childEvent(t.event) // checkChildren covers events of children
		if !known && !c.events.made.matchesAny(t.event) {
			c.find(n, fmt.Sprintf("%s: the event type is undeclared", t.place)+c.similarEvent(t.event, c.events.made), "declare it in Payloads")
		}
	}
}

// checkSettled checks that a settled state and its ancestors invoke no service.
func (c *compiler) checkSettled(n *node) {
	for i := n.index; i >= 0; i = c.chart.nodes[i].parent {
		at := &c.chart.nodes[i]
		if len(at.invokes) > 0 && at.index > 0 {
			c.find(n, fmt.Sprintf("is settled, but %s invokes the service %q", c.name(at), at.invokes[0].service), "remove the tag, or invoke the service from an unsettled state")
		} else if len(at.invokes) > 0 {
			c.find(n, fmt.Sprintf("is settled, but the chart itself invokes the service %q, so it can never settle", at.invokes[0].service), "invoke the service from an unsettled state")
		}
	}
}

// mover describes how the chart can move on from a state without an event from outside.
type mover struct {
	// invokes is set if the state or an ancestor invokes a service. moves is set if a service, an eventless transition or
	// an event that the chart itself makes can move the chart on from the state.
	invokes, moves bool
}

// mover returns the mover of a state. `movers` holds the movers of its ancestors.
func (c *compiler) mover(n *node, movers []mover) mover {
	var m mover
	if n.parent >= 0 {
		m = movers[n.parent]
	}
	m.invokes = m.invokes || len(n.invokes) > 0
	m.moves = m.moves || len(n.invokes)+len(n.always) > 0
	for i := 0; i < len(n.def.On) && !m.moves; i++ {
		m.moves = internalEvent(n.def.On[i].Event) || c.events.raised.matchesAny(n.def.On[i].Event)
	}
	return m
}

// checkUnsettled checks that a service, an Always or a raised event can move the chart on from an unsettled atomic
// state. The state cannot wait for queued events, because the host delivers these only to settled instances.
func (c *compiler) checkUnsettled(n *node, by mover) {
	if !by.moves {
		c.find(n, "is unsettled, and no service or Always moves it on", "tag it settled if it waits for the outside world")
		return
	}
	if len(n.timers) > 0 && !by.invokes {
		c.find(n, "is unsettled and has a timer but no service", "tag it settled, or invoke the service that the timer limits")
	}
	for _, t := range n.def.On {
		payload, declared := c.chart.payloads[t.Event]
		if _, raised := slices.BinarySearch(c.events.raised, t.Event); declared && !payload.internal && !raised {
			c.find(n, fmt.Sprintf("is unsettled, so the event %q cannot reach it", t.Event), "handle the event in a settled state, or tag this state if it invokes no service")
		}
	}
}

// internalEvent reports whether a descriptor matches the done and error events of states and services. Such an event of
// one region of a parallel state can trigger a transition in another region.
func internalEvent(descriptor string) bool {
	for _, prefix := range []string{doneStatePrefix, doneInvokePrefix, errorInvokePrefix} {
		if strings.HasPrefix(descriptor, prefix) {
			return true
		}
	}
	return false
}

// checkHandled checks that every outcome of an invocation has a transition.
func (c *compiler) checkHandled(n *node) {
	for _, invoke := range n.invokes {
		for _, end := range []struct{ event, field string }{{doneInvokePrefix + invoke.id, "OnDone"}, {errorInvokePrefix + invoke.id, "OnError"}} {
			if !c.isHandled(n, end.event) {
				c.find(n, fmt.Sprintf("invokes %s without %s", invoke.service, end.field), "add a transition to "+end.field)
			}
		}
	}
}

// checkInvocations checks that two invocations with the same ID can never run at once. Otherwise each would handle the
// other's end event.
func (c *compiler) checkInvocations() {
	holders := idHolders{c.chart, map[heldID]int{}}
	for i := range c.chart.nodes {
		n := &c.chart.nodes[i]
		for _, invoke := range n.invokes {
			if other := holders.add(invoke.id, i); other != nil {
				c.find(n, fmt.Sprintf("uses the invocation ID %q, and %s may use it at the same time", invoke.id, c.name(other)), "give each invocation its own ID")
			}
		}
	}
}

func (c *compiler) name(n *node) string {
	if n.index == 0 {
		return "the chart"
	}
	return fmt.Sprintf("%q", n.path)
}
