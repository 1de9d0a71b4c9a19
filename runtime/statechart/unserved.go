package statechart

// unserved returns an unsettled active leaf that waits for a service which does not run, and the service's ID; ok is
// false if there is none. This version itself stores no such leaf: only one counts that the end of its service, or of a
// service of a state above it, is sure to leave. One with an always, of its own or above it, may wait for another region.
func (c *chart) unserved(s *bareSnapshot) (leaf *node, service string, ok bool) {
	for _, index := range s.configuration.leaves() {
		leaf = &c.nodes[index]
		if leaf.kind != atomic || leaf.settled {
			continue
		}
		waits, moves := "", false
		for i := leaf.index; i >= 0; i = c.nodes[i].parent {
			n := &c.nodes[i]
			moves = moves || len(n.always) > 0
			for _, running := range s.Services {
				moves = moves || running.state == i
			}
			for k := range n.invokes {
				if id := n.invokes[k].id; waits == "" && c.alwaysLeft(n, doneInvokePrefix+id) && c.alwaysLeft(n, errorInvokePrefix+id) {
					waits = id
				}
			}
		}
		if waits != "" && !moves {
			return leaf, waits, true
		}
	}
	return nil, "", false
}

// alwaysLeft reports whether an active state is left whenever the event comes: by its own transitions, whatever their
// guards say, and with no other state but those above it that could take the event or preempt them.
func (c *chart) alwaysLeft(n *node, typ string) bool {
	for i := range c.nodes {
		if i == n.index || c.isDescendant(n.index, i) {
			continue
		}
		for k := range c.nodes[i].transitions {
			if matches(c.nodes[i].transitions[k].event, typ) {
				return false
			}
		}
	}
	for k := range n.transitions {
		t := &n.transitions[k]
		if !matches(t.event, typ) {
			continue
		}
		if !c.leaves(t) {
			return false
		}
		if t.guard.test == nil {
			return true
		}
	}
	return false
}

// leaves reports whether a transition leaves its source, whatever history states have recorded. If it enters it again,
// its services start anew.
func (c *chart) leaves(t *transition) bool {
	beyond := false
	for _, target := range t.targets {
		if c.nodes[target].isHistory() && !t.reenter {
			return false // It may stand for the source itself.
		}
		beyond = beyond || target != t.source && !c.isDescendant(target, t.source)
	}
	return beyond || t.reenter && len(t.targets) > 0
}
