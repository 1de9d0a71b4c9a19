package statechart

import (
	"encoding/json"
	"fmt"
	"reflect"
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
	raised, sent := c.ownEvents()
	made := c.madeEvents()
	undeclared := func(does string, types map[string]bool) {
		for _, typ := range sortedKeys(types) {
			if _, declared := c.chart.payloads[typ]; !declared {
				c.find(nil, fmt.Sprintf("%s the undeclared event type %q", does, typ)+c.similarEvent(typ, nil), "declare it in Payloads, with InternalOf if it never comes from outside")
			}
		}
	}
	undeclared("raises", raised)
	undeclared("sends itself", sent)
	for i := range c.chart.nodes {
		n := &c.chart.nodes[i]
		c.checkCode(n)
		c.checkEvents(n, made)
		c.checkDefer(n, raised, sent)
		c.checkChildren(n, made)
		switch {
		case n.kind == atomic && n.settled:
			c.checkSettled(n)
		case n.kind == atomic && i > 0:
			c.checkUnsettled(n, raised)
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
func (c *compiler) checkEvents(n *node, made map[string]bool) {
	for i := range n.def.On {
		t := &n.transitions[i]
		if t.event == ExecutionError {
			c.checkPayload(n, *t, reflect.TypeFor[StepError]())
		}
		known := t.event == "" || t.event == "*" || made[t.event] || childEvent(t.event) // checkChildren covers events of children
		for typ := range made {
			known = known || matches(t.event, typ)
		}
		before := len(c.findings)
		for _, typ := range sortedKeys(c.chart.payloads) {
			if matches(t.event, typ) && len(c.findings) == before {
				known = true
				c.checkPayload(n, *t, c.chart.payloads[typ].typ)
			}
		}
		if !known {
			c.find(n, fmt.Sprintf("%s: the event type is undeclared", t.place)+c.similarEvent(t.event, made), "declare it in Payloads")
		}
	}
}

// checkSettled checks that a settled state and its ancestors invoke no service and have no unguarded eventless
// transition.
func (c *compiler) checkSettled(n *node) {
	for i := n.index; i >= 0; i = c.chart.nodes[i].parent {
		at := &c.chart.nodes[i]
		if len(at.invokes) > 0 && at.index > 0 {
			c.find(n, fmt.Sprintf("is settled, but %s invokes the service %q", c.name(at), at.invokes[0].service), "remove the tag, or invoke the service from an unsettled state")
		} else if len(at.invokes) > 0 {
			c.find(n, fmt.Sprintf("is settled, but the chart itself invokes the service %q, so it can never settle", at.invokes[0].service), "invoke the service from an unsettled state")
		}
		for k := range at.always {
			if unguarded(at.always[k]) {
				c.find(n, fmt.Sprintf("is settled, but %s has an unguarded Always transition", c.name(at)), "remove the tag, or guard the transition")
				break
			}
		}
	}
}

// checkUnsettled checks that a service, an eventless transition or a raised event can move an unsettled atomic state.
// The state cannot wait for queued events, because the host delivers these only to settled instances.
func (c *compiler) checkUnsettled(n *node, raised map[string]bool) {
	moves, invokes := false, false
	for i := n.index; i >= 0; i = c.chart.nodes[i].parent {
		at := &c.chart.nodes[i]
		invokes = invokes || len(at.invokes) > 0
		moves = moves || len(at.invokes) > 0 || len(at.always) > 0
		for _, t := range at.def.On {
			moves = moves || internalEvent(t.Event)
			for typ := range raised {
				moves = moves || matches(t.Event, typ)
			}
		}
	}
	if !moves {
		c.find(n, "is unsettled, and no service or Always moves it on", "tag it settled if it waits for the outside world")
		return
	}
	if len(n.timers) > 0 && !invokes {
		c.find(n, "is unsettled and has a timer but no service", "tag it settled, or invoke the service that the timer limits")
	}
	for _, t := range n.def.On {
		if payload, declared := c.chart.payloads[t.Event]; declared && !payload.internal && !raised[t.Event] {
			c.find(n, fmt.Sprintf("is unsettled, so the event %q cannot reach it", t.Event), "tag the state settled, or handle the event in a settled state")
		}
	}
}

// internalEvent reports whether a descriptor matches the done and error events of states and services. With such an
// event, one region of a parallel state can move another.
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
			handled := false
			for i := n.index; i >= 0; i = c.chart.nodes[i].parent {
				for k := range c.chart.nodes[i].transitions {
					handled = handled || matches(c.chart.nodes[i].transitions[k].event, end.event)
				}
			}
			if !handled {
				c.find(n, fmt.Sprintf("invokes %s without %s", invoke.service, end.field), "add a transition to "+end.field)
			}
		}
	}
}

// checkInvocations checks that two invocations with the same ID can never run at once. Otherwise each would handle the
// other's end event.
func (c *compiler) checkInvocations() {
	holders := map[string][]int{}
	for i := range c.chart.nodes {
		n := &c.chart.nodes[i]
		for _, invoke := range n.invokes {
			for _, other := range holders[invoke.id] {
				if other == i || c.chart.isDescendant(i, other) || c.chart.orthogonal(i, other) {
					c.find(n, fmt.Sprintf("uses the invocation ID %q, and %s may use it at the same time", invoke.id, c.name(&c.chart.nodes[other])), "give each invocation its own ID")
					break
				}
			}
			holders[invoke.id] = append(holders[invoke.id], i)
		}
	}
}

func (c *compiler) name(n *node) string {
	if n.index == 0 {
		return "the chart"
	}
	return fmt.Sprintf("%q", n.path)
}
