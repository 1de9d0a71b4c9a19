package statechart

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// childID returns the ID of a state's child by its position in Children.
func (c *chart) childID(n *node, position int) string {
	if id := n.def.Children[position].ID; id != "" {
		return id
	}
	return c.defaultID(n, position)
}

// linkChild compiles the transitions that a child's done and error events trigger.
func (c *compiler) linkChild(n *node, position int) {
	child, id := &n.def.Children[position], c.chart.childID(n, position)
	c.chart.usesChildren = true
	if child.Machine == "" {
		c.find(n, fmt.Sprintf("has the child %q without a machine", id), "set Machine to the ID of the child's machine")
	}
	if len(errorChildPrefix+id) > EventNameBytesMax {
		c.find(n, fmt.Sprintf("has the child %q, whose ID is too long for the type of an event", id), fmt.Sprintf("use an ID of at most %d bytes", EventNameBytesMax-len(errorChildPrefix)))
	}
	for _, t := range child.OnDone {
		compiled := c.transition(n, t, doneChildPrefix+id, "on done of child "+id)
		c.checkPayload(n, compiled, reflect.TypeFor[json.RawMessage]())
		n.transitions = append(n.transitions, compiled)
	}
	for _, t := range child.OnError {
		compiled := c.transition(n, t, errorChildPrefix+id, "on error of child "+id)
		c.checkPayload(n, compiled, reflect.TypeFor[ChildError]())
		n.transitions = append(n.transitions, compiled)
	}
}

// childEvent reports whether a descriptor matches done and error events of children.
func childEvent(descriptor string) bool {
	return strings.HasPrefix(descriptor, doneChildPrefix) || strings.HasPrefix(descriptor, errorChildPrefix)
}

// madeByChildren adds the done and error event types of a state's children and of the children that its actions spawn.
func (c *compiler) madeByChildren(n *node, made map[string]bool) {
	add := func(id string) { made[doneChildPrefix+id], made[errorChildPrefix+id] = true, true }
	for k := range n.def.Children {
		add(c.chart.childID(n, k))
	}
	eachAction(n, func(_ string, action Action[erased]) {
		if action.spawns {
			add(action.child)
		}
		c.enqueues = c.enqueues || action.enqueues
		c.chart.usesChildren = c.chart.usesChildren || action.spawns || action.child != ""
	})
}

// eachAction calls fn with every action of a state and with the action's place in the definition.
func eachAction(n *node, fn func(place string, action Action[erased])) {
	each := func(place string, actions []Action[erased]) {
		for _, action := range actions {
			fn(place, action)
		}
	}
	each("entry", n.entry)
	each("default entry", n.def.DefaultEntry)
	each("exit", n.def.Exit)
	for _, transitions := range [][]transition{n.transitions, n.always} {
		for k := range transitions {
			each(transitions[k].place, transitions[k].actions)
		}
	}
}

// checkChildren checks that the child IDs used by a state's actions and transitions belong to some child.
// EnqueueActions can spawn children with any ID, so a chart that uses it is exempt.
func (c *compiler) checkChildren(n *node) {
	if n.kind == atomic && n.index > 0 && !n.settled && len(n.def.Children) > 0 {
		c.find(n, fmt.Sprintf("is unsettled but has the child %q, whose end cannot reach it", c.chart.childID(n, 0)), "move the child to the state that waits for it")
	}
	eachAction(n, func(place string, action Action[erased]) {
		switch {
		case action.spawns && action.child == "":
			c.find(n, place+": spawns a child without an ID", "give it one")
		case action.child != "" && !c.enqueues && !c.events.made.matchesAny(doneChildPrefix+action.child):
			c.find(n, fmt.Sprintf("%s: the action %q refers to the child %q, which nothing starts", place, action.Name, action.child), "use the ID of one of Children or of a Spawn")
		}
	})
	for i := range n.def.On {
		t := &n.transitions[i]
		if !childEvent(t.event) {
			continue
		}
		if !c.enqueues && !c.events.made.matchesAny(t.event) {
			c.find(n, t.place+": nothing starts a child with that ID", "use the ID of one of Children or of a Spawn")
		}
		if strings.HasPrefix(t.event, errorChildPrefix) {
			c.checkPayload(n, *t, reflect.TypeFor[ChildError]())
		} else {
			c.checkPayload(n, *t, reflect.TypeFor[json.RawMessage]())
		}
	}
}

// checkChildIDs checks that two children with the same ID can never be active at once, because the second could not
// start. A child that an action spawns may be active in every state.
func (c *compiler) checkChildIDs() {
	holders := idHolders{c.chart, map[heldID]int{}}
	owners := map[string]*node{} // by child ID, the first state that declares the child
	for i := range c.chart.nodes {
		n := &c.chart.nodes[i]
		for k := range n.def.Children {
			id := c.chart.childID(n, k)
			if owners[id] == nil {
				owners[id] = n
			}
			if other := holders.add(id, i); other != nil {
				c.find(n, fmt.Sprintf("uses the child ID %q, and %s may use it at the same time", id, c.name(other)), "give each child its own ID")
			}
		}
	}
	for i := range c.chart.nodes {
		n := &c.chart.nodes[i]
		eachAction(n, func(place string, action Action[erased]) {
			if owner := owners[action.child]; owner != nil && action.spawns {
				c.find(n, fmt.Sprintf("%s: spawns a child with the ID %q, which is the ID of a child of %s, so the second of them could not start", place, action.child, c.name(owner)), "give each child its own ID")
			}
		})
	}
}

// checkDefaultIDs finds services with the same name, or children of the same machine, that one state distinguishes only
// by default IDs. Default IDs depend on the order of the entries. If a later version inserted an entry before them, a
// running service or child would silently continue as another one.
func (c *compiler) checkDefaultIDs() {
	for i := range c.chart.nodes {
		n := &c.chart.nodes[i]
		services, children := map[string]int{}, map[string]int{}
		for k := range n.def.Invoke {
			if v := &n.def.Invoke[k]; v.ID == "" {
				services[v.Service.Name]++
			}
		}
		for k := range n.def.Children {
			if v := &n.def.Children[k]; v.ID == "" {
				children[v.Machine]++
			}
		}
		for _, name := range sortedKeys(services) {
			if services[name] > 1 {
				c.find(n, fmt.Sprintf("invokes the service %q %d times without an ID", name, services[name]), "set ID for each: a default ID changes when a later version adds a service before it")
			}
		}
		for _, machine := range sortedKeys(children) {
			if children[machine] > 1 {
				c.find(n, fmt.Sprintf("has %d children of the machine %q without an ID", children[machine], machine), "set ID for each: a default ID changes when a later version adds a child before it")
			}
		}
	}
}
