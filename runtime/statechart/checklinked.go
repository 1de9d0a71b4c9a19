package statechart

import (
	"fmt"
	"reflect"
	"strings"
)

// check finds what only the linked chart shows of a state.
func (c *compiler) check() {
	if c.chart.foreign {
		for i := range c.chart.nodes {
			c.checkCode(&c.chart.nodes[i])
			c.madeByChildren(&c.chart.nodes[i], map[string]bool{}) // It notes whether there are some.
		}
		return
	}
	raised, sent := c.ownEvents()
	made := c.madeEvents()
	undeclared := func(does string, types map[string]bool) {
		for _, typ := range sortedKeys(types) {
			if _, declared := c.chart.payloads[typ]; !declared {
				c.find(nil, fmt.Sprintf("%s the undeclared event type %q", does, typ), "declare it in Payloads, with InternalOf if it never comes from outside")
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
}

// checkCode checks that actions and guards were made by their constructors, and that In
// guards name states.
func (c *compiler) checkCode(n *node) {
	actions := func(place string, actions []Action[held]) {
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
	var guard func(place string, g Guard[held])
	guard = func(place string, g Guard[held]) {
		if g.test == nil && g.Name != "" {
			c.find(n, fmt.Sprintf("%s: the guard %q tests nothing", place, g.Name), "make it with When or another constructor")
		}
		if _, ok := c.chart.byPath[g.in]; g.in != "" && !ok {
			c.find(n, fmt.Sprintf("%s: the guard In(%q) names no state", place, g.in), "use the path of a state, such as region.state")
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

// checkRaised checks that an event is raised with the payload that the chart declares for it.
func (c *compiler) checkRaised(n *node, place string, action Action[held]) {
	payload, declared := c.chart.payloads[action.raises]
	by := action.made.By
	if !declared || by != MadeByRaise && by != MadeByRaiseWith || payload.typ == action.carries {
		return
	}
	if action.carries != nil && action.carries.Kind() == reflect.Interface {
		return // What it holds shows when it is raised.
	}
	c.find(n, fmt.Sprintf("%s: raises %q with %s, but declares that it carries %s", place, action.raises, typeName(action.carries), typeName(payload.typ)),
		"raise it with RaiseWith and the declared type, or declare what it carries")
}

// checkEvents checks that the chart may see the events of On, and what they carry.
func (c *compiler) checkEvents(n *node, made map[string]bool) {
	for i := range n.def.On {
		t := &n.transitions[i]
		if t.event == ExecutionError {
			c.checkPayload(n, *t, reflect.TypeFor[StepError]())
		}
		known := t.event == "" || t.event == "*" || made[t.event] || childEvent(t.event) // without an event: found already; of children: see checkChildren
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
			c.find(n, fmt.Sprintf("%s: the event type is undeclared", t.place), "declare it in Payloads")
		}
	}
}

// checkSettled checks that nothing but the outside world can move a settled state.
func (c *compiler) checkSettled(n *node) {
	for i := n.index; i >= 0; i = c.chart.nodes[i].parent {
		at := &c.chart.nodes[i]
		if len(at.invokes) > 0 && at.index > 0 {
			c.find(n, fmt.Sprintf("is settled, but %s invokes the service %q", c.name(at), at.invokes[0].service), "remove the tag, or invoke the service from an unsettled state")
		} else if len(at.invokes) > 0 {
			c.find(n, fmt.Sprintf("is settled, but the chart itself invokes the service %q, so that nothing in it ever settles", at.invokes[0].service), "invoke the service from an unsettled state")
		}
		for k := range at.always {
			if unguarded(at.always[k]) {
				c.find(n, fmt.Sprintf("is settled, but %s has an unguarded always", c.name(at)), "remove the tag, or guard the transition")
				break
			}
		}
	}
}

// checkUnsettled checks that something moves an unsettled atomic state on within the step
// that entered it: it cannot wait for the queue, which waits for it.
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
		c.find(n, "is unsettled and nothing moves it on: no service, no always", "tag it settled if it waits for the outside world")
		return
	}
	if len(n.timers) > 0 && !invokes {
		c.find(n, "is unsettled and has a timer but no service", "tag it settled, or invoke the service that the timer limits")
	}
	for _, t := range n.def.On {
		if payload, declared := c.chart.payloads[t.Event]; declared && !payload.internal && !raised[t.Event] {
			c.find(n, fmt.Sprintf("is unsettled, so the event %q cannot reach it", t.Event), "tag the state settled, or handle the event where the chart waits")
		}
	}
}

// internalEvent reports whether a descriptor names the end of a state or of a service, by
// which one region of a parallel state may move another.
func internalEvent(descriptor string) bool {
	for _, prefix := range []string{doneStatePrefix, doneInvokePrefix, errorInvokePrefix} {
		if strings.HasPrefix(descriptor, prefix) {
			return true
		}
	}
	return false
}

// checkHandled checks that the end of every invocation leads somewhere, whatever it is.
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
				c.find(n, fmt.Sprintf("invokes %s without %s", invoke.service, end.field), "say what follows in "+end.field)
			}
		}
	}
}

// checkInvocations checks that no two invocations of one ID can run at once: each would take
// the other's end for its own.
func (c *compiler) checkInvocations() {
	holders := map[string][]int{}
	for i := range c.chart.nodes {
		n := &c.chart.nodes[i]
		for _, invoke := range n.invokes {
			for _, other := range holders[invoke.id] {
				if other == i || c.chart.isDescendant(i, other) || c.chart.orthogonal(i, other) {
					c.find(n, fmt.Sprintf("invokes %q while %s may too", invoke.id, c.name(&c.chart.nodes[other])), "give each invocation its own ID")
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
