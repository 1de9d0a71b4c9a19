package statechart

import (
	"fmt"
	"reflect"
	"strings"
)

// Finding is one thing that is wrong with a definition.
type Finding struct {
	// State is the path of the state, "" for the chart itself.
	State string
	// Problem says what is wrong, Mend what to do.
	Problem, Mend string
}

// DefinitionError is returned by Compile: all that is wrong with a definition.
type DefinitionError struct {
	Chart    string
	Findings []Finding
}

// Error lists the findings, a line each.
func (e *DefinitionError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "chart %q: %d findings:", e.Chart, len(e.Findings))
	for _, f := range e.Findings {
		if f.State == "" {
			fmt.Fprintf(&b, "\n  the chart %s: %s", f.Problem, f.Mend)
		} else {
			fmt.Fprintf(&b, "\n  state %q %s: %s", f.State, f.Problem, f.Mend)
		}
	}
	return b.String()
}

func (c *compiler[C]) find(n *node[C], problem, mend string) {
	state := ""
	if n != nil {
		state = n.path
	}
	c.findings = append(c.findings, Finding{State: state, Problem: problem, Mend: mend})
}

func (c *compiler[C]) checkHead(def Definition[C]) {
	if def.ID == "" || strings.Trim(def.ID, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		c.find(nil, fmt.Sprintf("has the ID %q", def.ID), "use letters, digits, '-' and '_'")
	}
	if def.Version < 1 {
		c.find(nil, fmt.Sprintf("has the version %d", def.Version), "count versions from 1")
	}
	if len(def.States) == 0 {
		c.find(nil, "has no states", "add States")
	}
	for _, typ := range sortedKeys(def.Payloads) {
		if typ == "" || strings.HasPrefix(typ, ReservedPrefix) || strings.ContainsAny(typ, "* ") {
			c.find(nil, fmt.Sprintf("declares the event type %q", typ), "use a name without '*' and spaces that does not begin with "+ReservedPrefix)
		}
	}
}

// checkShape checks what can be seen of a state without its surroundings.
func (c *compiler[C]) checkShape(n *node[C]) {
	def := n.def
	if n.depth >= NestingDepthMax {
		c.find(n, fmt.Sprintf("is nested %d deep", n.depth), fmt.Sprintf("nest fewer than %d levels (NestingDepthMax)", NestingDepthMax))
	}
	if n.index == StatesMax {
		c.find(nil, fmt.Sprintf("has more than %d states", StatesMax), "split it into several charts (StatesMax)")
	}
	if n.index > 0 && (def.ID == "" || strings.ContainsAny(def.ID, ". #/")) {
		c.find(n, fmt.Sprintf("has the ID %q", def.ID), "use a name without '.', '#', '/' and spaces")
	}
	if n.kind == parallel && def.Initial != "" {
		c.find(n, "is parallel and has an Initial", "remove Initial: all regions are entered")
	}
	if n.kind == parallel && len(def.States) == 0 {
		c.find(n, "is parallel without regions", "add States")
	}
	leaf := n.kind == final || n.kind == history
	if leaf && len(def.States)+len(def.On)+len(def.Always)+len(def.After)+len(def.Invoke)+len(def.OnDone) > 0 {
		c.find(n, "is final or history but has children, transitions, timers or services", "remove them, or make it a plain state")
	}
	if n.kind == atomic && len(def.OnDone) > 0 {
		c.find(n, "has OnDone but no child that could be final", "move the transitions to an invocation's OnDone, or add States")
	}
	if def.Target != "" && n.kind != history {
		c.find(n, "has a Target but is no history state", "put the target into a transition")
	}
	if n.kind == history && len(def.Entry)+len(def.Exit)+len(def.Tags) > 0 {
		c.find(n, "is history but has actions or tags", "remove them: a history state is never active")
	}
	if def.Output != nil && n.kind != final {
		c.find(n, "has an Output but is not final", "move Output to a final state")
	}
}

func (c *compiler[C]) checkAfter(n *node[C], after *After[C], id string) {
	ways := 0
	for _, set := range []bool{after.Delay != 0, after.DelayFunc != nil, after.At != nil} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		c.find(n, fmt.Sprintf("after %s: has %d of Delay, DelayFunc and At", id, ways), "set exactly one")
		return
	}
	if after.Delay < 0 {
		c.find(n, fmt.Sprintf("after %s: the delay is negative", id), "use a positive delay")
	}
	if after.Delay == 0 && after.ID == "" {
		c.find(n, "after: a computed delay has no ID, so its timer is ambiguous", "set ID")
	}
	if after.ID == "" {
		return
	}
	for i := range n.def.After {
		other := &n.def.After[i]
		if other != after && other.ID == after.ID && (other.Delay != after.Delay || other.Delay == 0) {
			c.find(n, fmt.Sprintf("after %s: two entries share the ID but not a constant delay, so their timer is ambiguous", id), "give each its own ID")
			return
		}
	}
}

// checkPayload checks that the actions and the guard of a transition expect what its event
// carries; nil means nothing.
func (c *compiler[C]) checkPayload(n *node[C], t transition[C], carries reflect.Type) {
	carried := "nothing"
	if carries != nil {
		carried = carries.String()
	}
	mismatch := func(what, name string, expects reflect.Type) {
		if expects != nil && expects != carries {
			c.find(n, fmt.Sprintf("%s: %s %s expects %v, but the event carries %s", t.place, what, name, expects, carried), "use the type of the payload, or Event")
		}
	}
	for _, action := range t.actions {
		mismatch("action", action.Name, action.payload)
	}
	var guard func(g Guard[C])
	guard = func(g Guard[C]) {
		mismatch("guard", g.Name, g.payload)
		for _, inner := range g.of {
			guard(inner)
		}
	}
	guard(t.guard)
}

// check finds what only the linked chart shows.
func (c *compiler[C]) check() {
	raised := c.raisedEvents()
	reachable := c.reachable()
	for i := range c.chart.nodes {
		n := &c.chart.nodes[i]
		c.checkGuards(n)
		c.checkEvents(n, raised)
		if n.index > 0 && !reachable[i] && reachable[n.parent] {
			c.find(n, "is unreachable", "add a transition to it, or remove it")
		}
		if n.kind == atomic && n.settled {
			c.checkSettled(n)
		} else if n.kind == atomic {
			c.checkUnsettled(n, raised)
		} else if n.settled && n.kind != final {
			c.find(n, "is tagged settled but is not atomic", "tag the atomic states below it that may wait")
		}
		c.checkHandled(n)
	}
	c.checkAlwaysCycles()
}

func (c *compiler[C]) checkGuards(n *node[C]) {
	var guard func(t *transition[C], g Guard[C])
	guard = func(t *transition[C], g Guard[C]) {
		if _, ok := c.chart.byPath[g.in]; g.in != "" && !ok {
			c.find(n, fmt.Sprintf("%s: the guard In(%q) names no state", t.place, g.in), "use the path of a state, such as region.state")
		}
		for _, inner := range g.of {
			guard(t, inner)
		}
	}
	for i := range n.transitions {
		guard(&n.transitions[i], n.transitions[i].guard)
	}
	for i := range n.always {
		guard(&n.always[i], n.always[i].guard)
	}
}

// checkEvents checks that the events of On and of Raise are declared, and what they carry.
func (c *compiler[C]) checkEvents(n *node[C], raised map[string]bool) {
	for i := range n.def.On {
		t := &n.transitions[i]
		payload, declared := c.chart.payloads[t.event]
		switch {
		case declared:
			c.checkPayload(n, *t, payload.typ)
		case strings.HasSuffix(t.event, "*"), strings.HasPrefix(t.event, "done."), strings.HasPrefix(t.event, "error."):
		default:
			c.find(n, fmt.Sprintf("%s: the event type is undeclared", t.place), "declare it in Payloads")
		}
	}
	if n.index == 0 {
		for _, typ := range sortedKeys(raised) {
			if _, declared := c.chart.payloads[typ]; !declared {
				c.find(nil, fmt.Sprintf("raises the undeclared event type %q", typ), "declare it in Payloads, with InternalOf if it never comes from outside")
			}
		}
	}
}

// checkSettled checks that nothing but the outside world can move a settled state.
func (c *compiler[C]) checkSettled(n *node[C]) {
	for i := n.index; i >= 0; i = c.chart.nodes[i].parent {
		at := &c.chart.nodes[i]
		if len(at.invokes) > 0 {
			c.find(n, fmt.Sprintf("is settled, but %s invokes the service %q", c.name(at), at.invokes[0].service.Name), "remove the tag, or invoke the service from an unsettled state")
		}
		for k := range at.always {
			if at.always[k].guard.test == nil {
				c.find(n, fmt.Sprintf("is settled, but %s has an unguarded always", c.name(at)), "remove the tag, or guard the transition")
				break
			}
		}
	}
}

// checkUnsettled checks that something moves an unsettled atomic state on within the step
// that entered it: it cannot wait for the queue, which waits for it.
func (c *compiler[C]) checkUnsettled(n *node[C], raised map[string]bool) {
	moves, invokes := false, false
	for i := n.index; i >= 0; i = c.chart.nodes[i].parent {
		at := &c.chart.nodes[i]
		invokes = invokes || len(at.invokes) > 0
		moves = moves || len(at.invokes) > 0 || len(at.always) > 0
		for _, t := range at.def.On {
			moves = moves || raised[t.Event]
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

// checkHandled checks that the end of every invocation leads somewhere, whatever it is.
func (c *compiler[C]) checkHandled(n *node[C]) {
	for _, invoke := range n.invokes {
		for _, end := range []struct{ event, field string }{{doneInvokePrefix + invoke.id, "OnDone"}, {errorInvokePrefix + invoke.id, "OnError"}} {
			handled := false
			for i := n.index; i >= 0; i = c.chart.nodes[i].parent {
				for k := range c.chart.nodes[i].transitions {
					handled = handled || matches(c.chart.nodes[i].transitions[k].event, end.event)
				}
			}
			if !handled {
				c.find(n, fmt.Sprintf("invokes %s without %s", invoke.service.Name, end.field), "say what follows in "+end.field)
			}
		}
	}
}

func (c *compiler[C]) name(n *node[C]) string {
	if n.index == 0 {
		return "the chart"
	}
	return fmt.Sprintf("%q", n.path)
}
