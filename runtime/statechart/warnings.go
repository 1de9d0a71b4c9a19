package statechart

import "fmt"

// warn records a likely mistake that does not prevent the chart from compiling.
func (c *compiler) warn(n *node, problem, fix string) {
	state := ""
	if n != nil {
		state = n.path
	}
	c.chart.warnings = append(c.chart.warnings, Finding{State: state, Problem: problem, Fix: fix})
}

// warnOfUnhandled finds declared events that no state handles.
//
// The finding is a warning, not an error, because a chart may declare an event only to ignore it. A host parks
// undeclared events, and third parties send more event types than a chart needs. A transition without target and
// actions silences the warning.
func (c *compiler) warnOfUnhandled() {
	for _, typ := range c.events.declared {
		if !c.isHandled(nil, typ) {
			c.warn(nil, fmt.Sprintf("declares the event %q, which no state handles", typ), "add a transition; to ignore the event on purpose, add one without target and actions to On of the chart")
		}
	}
}

// warnOfDeadEnd finds a settled state that nothing leaves: neither the state nor an ancestor has a transition, a timer,
// a service or a child. An instance in this state never ends, so its item never expires, and tasks that wait for it get
// no answer.
//
// The finding is a warning, not an error, because the instance may be a child that its parent stops. States in parallel
// regions are exempt: another region may leave them.
func (c *compiler) warnOfDeadEnd(n *node) {
	if n.kind != atomic || !n.settled {
		return
	}
	for i := n.index; i >= 0; i = c.chart.nodes[i].parent {
		at := &c.chart.nodes[i]
		if at.kind == parallel || len(at.transitions)+len(at.always)+len(at.timers)+len(at.invokes)+len(at.def.Children) > 0 {
			return
		}
	}
	c.warn(n, "is settled, and nothing can leave it", "make it final, or add a transition")
}
