package statechart

import "slices"

// leavesInline is the number of leaves that a configuration stores without an allocation.
const leavesInline = 7

// configuration is the set of active states, represented by its leaves: the active states without an active child. A
// state is active exactly if it is a leaf or an ancestor of one. Between microsteps each leaf is an atomic or final
// state. Within a microstep, a leaf may also be a state whose children were left or are not entered yet.
//
// Copies share the slice that the field `many` points to. Clone a configuration before you change it.
type configuration struct {
	// few holds the leaves in ascending order, and `count` is their number. Both are unused if `many` is set.
	few   [leavesInline]uint16
	count uint16
	many  *[]uint16
}

// leaves returns the leaves in document order. The slice changes with the configuration.
func (c *configuration) leaves() []uint16 {
	if c.many != nil {
		return *c.many
	}
	return c.few[:c.count]
}

// only returns the single leaf, or -1 if the configuration does not have exactly one leaf.
func (c *configuration) only() int {
	if c.count != 1 || c.many != nil {
		return -1
	}
	return int(c.few[0])
}

func (c *configuration) clone() configuration {
	if c.many == nil {
		return *c
	}
	var copied configuration
	if len(*c.many) <= leavesInline {
		copied.count = uint16(copy(copied.few[:], *c.many))
		return copied
	}
	leaves := slices.Clone(*c.many)
	copied.many = &leaves
	return copied
}

// lastWithin returns the last leaf between `low` and `high` inclusive, or -1. To test whether a state is active, pass
// the indexes of the state and of its last descendant.
func (c *configuration) lastWithin(low, high int) int {
	leaves := c.leaves()
	if len(leaves) > leavesInline {
		k, _ := slices.BinarySearch(leaves, uint16(high)+1)
		if k == 0 || int(leaves[k-1]) < low {
			return -1
		}
		return int(leaves[k-1])
	}
	for k := len(leaves) - 1; k >= 0; k-- {
		switch leaf := int(leaves[k]); {
		case leaf < low:
			return -1
		case leaf <= high:
			return leaf
		}
	}
	return -1
}

// enter adds a state. The state's parent must be active, and must be parallel or have no other active child. The parent
// of the root is -1.
func (c *configuration) enter(state, parent int) {
	leaves := c.leaves()
	k := len(leaves)
	for k > 0 && int(leaves[k-1]) > state {
		k--
	}
	if k > 0 && int(leaves[k-1]) == parent { // A leaf and its child are neighbours.
		leaves[k-1] = uint16(state)
		return
	}
	if c.many == nil && len(leaves) < leavesInline {
		copy(c.few[k+1:], leaves[k:])
		c.few[k] = uint16(state)
		c.count++
		return
	}
	more := slices.Insert(slices.Clone(leaves), k, uint16(state))
	c.many = &more
}

// exit removes a state, which must be the last leaf below its parent. The parent becomes a leaf if nothing else below
// it is active. The parent of the root is -1.
func (c *configuration) exit(state, parent int) {
	leaves := c.leaves()
	k := slices.Index(leaves, uint16(state))
	if parent >= 0 && (k == 0 || int(leaves[k-1]) < parent) {
		leaves[k] = uint16(parent)
		return
	}
	if c.many != nil {
		*c.many = slices.Delete(*c.many, k, k+1)
		return
	}
	copy(c.few[k:], leaves[k+1:])
	c.count--
}

// replace replaces a leaf with another leaf that takes the same position in document order.
func (c *configuration) replace(leaf, by uint16) {
	leaves := c.leaves()
	for k := range leaves {
		if leaves[k] == leaf {
			leaves[k] = by
			return
		}
	}
}

func (c *chart) isActive(state int, configuration *configuration) bool {
	return configuration.lastWithin(state, c.nodes[state].last) >= 0
}

// active returns the active states in document order.
func (c *chart) active(configuration *configuration) []int {
	var active []int
	previous := -1
	for _, leaf := range configuration.leaves() {
		from := len(active)
		for i := int(leaf); i > previous; i = c.nodes[i].parent { // The loop stops at ancestors shared with the previous leaf.
			active = append(active, i)
		}
		slices.Reverse(active[from:])
		previous = int(leaf)
	}
	return active
}

// childAbove returns the child of `state` that is `descendant` or an ancestor of it.
func (c *chart) childAbove(descendant, state int) int {
	for c.nodes[descendant].parent != state {
		descendant = c.nodes[descendant].parent
	}
	return descendant
}

// recorded returns the record of a history state, or nil.
func (n *node) recorded(history []record) record {
	if history == nil {
		return nil
	}
	return history[n.ordinal]
}
