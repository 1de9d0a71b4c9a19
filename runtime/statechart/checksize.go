package statechart

import "fmt"

// checkSize checks the limits of a whole chart, so that neither compilation nor a step is slow.
func (c *compiler) checkSize() {
	nodes, transitions := c.chart.nodes, 0
	for i := range nodes {
		transitions += nodes[i].def.transitionCount()
	}
	if transitions > TransitionsMax {
		c.find(nil, fmt.Sprintf("has %d transitions", transitions), fmt.Sprintf("use at most %d, or split it into several charts (TransitionsMax)", TransitionsMax))
		c.tooLarge = true
	}
	// leaves holds, for each state, how many atomic states at or below it can be active at once.
	leaves := make([]int, len(nodes))
	for i := len(nodes) - 1; i >= 0; i-- {
		n, within := &nodes[i], 0
		for _, child := range n.children {
			if n.kind == parallel {
				leaves[i] += leaves[child]
			}
			leaves[i], within = max(leaves[i], leaves[child]), max(within, leaves[child])
		}
		if n.kind != history {
			leaves[i] = max(leaves[i], 1)
		}
		if leaves[i] > RegionsMax && within <= RegionsMax {
			c.find(n, fmt.Sprintf("has %d regions that can be active at once", leaves[i]), fmt.Sprintf("use at most %d, or move some into child instances (RegionsMax)", RegionsMax))
			c.tooLarge = true
		}
	}
}

// transitionCount returns the number of the state's own transitions.
func (s *State[C]) transitionCount() int {
	count := len(s.On) + len(s.Always) + len(s.After) + len(s.OnDone)
	for i := range s.Invoke {
		count += len(s.Invoke[i].OnDone) + len(s.Invoke[i].OnError)
	}
	for i := range s.Children {
		count += len(s.Children[i].OnDone) + len(s.Children[i].OnError)
	}
	return count
}
