package statechart

// unserved finds an unsettled active leaf that waits for a service, although the service is not running. It returns the
// leaf and the service's ID. This version itself never stores such a snapshot.
//
// A leaf counts only if the chart is certain to leave it when the service ends. The service may belong to the leaf or
// to an ancestor. A leaf with an eventless transition, its own or an ancestor's, does not count, because it may wait
// for another region.
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

// alwaysLeft reports whether the event always makes the chart leave an active state. The state's own transitions must
// leave it, whichever guard holds. Apart from the state, only its ancestors may handle the event, because a transition
// of any other state could preempt its transition.
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

// leaves reports whether a transition leaves its source, regardless of recorded history. A transition that re-enters
// its source counts too, because the services of the source restart.
func (c *chart) leaves(t *transition) bool {
	beyond := false
	for _, target := range t.targets {
		if c.nodes[target].isHistory() && !t.reenter {
			return false // The history state may stand for the source itself.
		}
		beyond = beyond || target != t.source && !c.isDescendant(target, t.source)
	}
	return beyond || t.reenter && len(t.targets) > 0
}
