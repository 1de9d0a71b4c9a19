package statechart

import (
	"iter"
	"reflect"
	"slices"
	"strings"
)

// eventTypes is a sorted list of event types. It finds the types that a descriptor matches without comparing all types.
type eventTypes []string

// matching yields the types that a descriptor matches, in order.
func (e eventTypes) matching(descriptor string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if descriptor == "*" {
			for _, typ := range e {
				if matches(descriptor, typ) && !yield(typ) {
					return
				}
			}
			return
		}
		prefix, partial := strings.CutSuffix(descriptor, ".*")
		if _, found := slices.BinarySearch(e, prefix); found && !yield(prefix) || !partial {
			return
		}
		from, _ := slices.BinarySearch(e, prefix+".")
		for _, typ := range e[from:] {
			if !strings.HasPrefix(typ, prefix+".") || matches(descriptor, typ) && !yield(typ) {
				return
			}
		}
	}
}

// matchesAny reports whether a descriptor matches one of the types.
func (e eventTypes) matchesAny(descriptor string) bool {
	for range e.matching(descriptor) {
		return true
	}
	return false
}

// descriptorsOf yields the descriptors that match an event type: the type itself, "*", and prefixes of the type. It
// omits prefixes longer than EventNameBytesMax bytes, because no event has such a long type.
func descriptorsOf(typ string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !yield(typ) || strings.HasPrefix(typ, afterPrefix) {
			return
		}
		if matches("*", typ) && !yield("*") {
			return
		}
		for end := range min(len(typ), EventNameBytesMax) {
			if typ[end] == '.' && !yield(typ[:end]+".*") {
				return
			}
		}
		yield(typ + ".*")
	}
}

// eventIndex answers the compiler's questions about events. The compiler asks them for each state and transition, so
// the cost of an answer must not depend on the size of the chart.
type eventIndex struct {
	// declared holds the types in Payloads. raised, sent and made hold the results of ownEvents and madeEvents.
	declared, raised, made eventTypes
	sent                   map[string]bool
	// handlers maps each descriptor of a transition to the states that have such a transition, in document order.
	handlers map[string][]int
	// payloads and deferrals hold the results of payloadsOf and deferral, by descriptor.
	payloads  map[string][]reflect.Type
	deferrals map[string]deferral
}

func (c *compiler) indexEvents() {
	raised, sent := c.ownEvents()
	c.events = eventIndex{
		declared: sortedKeys(c.chart.payloads), raised: sortedKeys(raised), made: sortedKeys(c.madeEvents()), sent: sent,
		handlers: map[string][]int{}, payloads: map[string][]reflect.Type{}, deferrals: map[string]deferral{},
	}
	for i := range c.chart.nodes {
		for k := range c.chart.nodes[i].transitions {
			event := c.chart.nodes[i].transitions[k].event
			if states := c.events.handlers[event]; len(states) == 0 || states[len(states)-1] != i {
				c.events.handlers[event] = append(states, i)
			}
		}
	}
}

// isHandled reports whether a state or one of its ancestors has a transition for an event type. With a nil state, it
// reports whether any state has one.
func (c *compiler) isHandled(n *node, typ string) bool {
	for descriptor := range descriptorsOf(typ) {
		states := c.events.handlers[descriptor]
		if n == nil && len(states) > 0 {
			return true
		}
		if n == nil || len(states) == 0 {
			continue
		}
		for i := n.index; i >= 0; i = c.chart.nodes[i].parent {
			if _, found := slices.BinarySearch(states, i); found {
				return true
			}
		}
	}
	return false
}

// payloadsOf returns the distinct payload types of the declared events that a descriptor matches.
func (c *compiler) payloadsOf(descriptor string) []reflect.Type {
	types, known := c.events.payloads[descriptor]
	if known {
		return types
	}
	for typ := range c.events.declared.matching(descriptor) {
		if carries := c.chart.payloads[typ].typ; !slices.Contains(types, carries) {
			types = append(types, carries)
		}
	}
	c.events.payloads[descriptor] = types
	return types
}

// deferral describes the events that a descriptor in Defer matches.
type deferral struct {
	arrives bool // at least one of the events can be deferred
	reaches bool // at least one of the events can reach an unsettled state
	// lost holds the payload fields that the JSON form omits.
	lost []lostField
}

// lostField is a field of an event's payload that the JSON form omits.
type lostField struct {
	event string
	typ   reflect.Type
	field string
}

func (c *compiler) deferral(descriptor string) deferral {
	d, known := c.events.deferrals[descriptor]
	if known {
		return d
	}
	for typ := range c.events.declared.matching(descriptor) {
		payload, sent := c.chart.payloads[typ], c.events.sent[typ]
		if _, raised := slices.BinarySearch(c.events.raised, typ); payload.internal && raised && !sent {
			continue
		}
		d.arrives, d.reaches = true, d.reaches || payload.internal || sent
		if payload.typ != nil {
			w := storedWalk{known: map[storedType]bool{}, find: func(of reflect.Type, field string) { d.lost = append(d.lost, lostField{typ, of, field}) }}
			w.visit(payload.typ, false)
		}
	}
	c.events.deferrals[descriptor] = d
	return d
}

// idHolders finds states that use the same ID and can be active at the same time.
type idHolders struct {
	chart *chart
	// first holds, by ID and state, the first state in document order that is at or below the state and uses the ID.
	first map[heldID]int
}

type heldID struct {
	id    string
	state int
}

// add records that a state uses an ID. Call it in document order. It returns the first state added earlier that uses
// the ID and can be active at the same time, or nil.
func (h *idHolders) add(id string, state int) *node {
	other, child := len(h.chart.nodes), -1
	for at := state; at >= 0; at = h.chart.nodes[at].parent {
		first, known := h.first[heldID{id, at}]
		switch {
		case !known:
			h.first[heldID{id, at}] = state
		case first == at, h.chart.nodes[at].kind == parallel && first < child:
			other = min(other, first)
		}
		child = at
	}
	if other == len(h.chart.nodes) {
		return nil
	}
	return &h.chart.nodes[other]
}
