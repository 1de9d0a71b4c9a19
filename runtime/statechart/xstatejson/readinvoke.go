package xstatejson

import (
	"encoding/json"
	"strconv"

	"github.com/settle-run/settle/runtime/statechart"
)

// actor is an actor in XState: a service or a child instance.
type actor struct {
	child bool
	// id is the ID in the chart.
	id string
}

// invocation is an entry of invoke.
type invocation struct {
	actor
	// name is the ID in XState.
	name string
	// explicit is set if the config gives the ID.
	explicit bool
	// index is the position among the services, or the children, of its state.
	index int
	at    string
	*value
}

// invocations lists the invocations of a state. meta.settle.invoke marks the children among them.
func (r *reader[C]) invocations(n *stateNode) []invocation {
	var invocations []invocation
	var count [2]int
	extras := n.settle("invoke")
	each(join(n.at, "invoke"), n.config.get("invoke"), func(path string, v *value) {
		if v.kind != object {
			return
		}
		i := invocation{at: path, value: v}
		position, kind := len(invocations), 0
		if extras != nil && position < len(extras.items) {
			if child := extras.items[position].get("child"); child != nil && child.truth {
				i.child, kind = true, 1
			}
		}
		i.index = count[kind]
		count[kind]++
		if id := v.get("id"); id != nil {
			i.id, i.name, i.explicit = id.text, id.text, true
		} else {
			i.id, i.name = invokeID(r.root.key, n.path, i.index), strconv.Itoa(position)+"."+n.id
		}
		invocations = append(invocations, i)
	})
	return invocations
}

// invokeID returns the default ID of a service or child in a chart.
func invokeID(machine, path string, position int) string {
	if path == "" {
		path = machine
	}
	if position > 0 {
		return path + ":" + strconv.Itoa(position)
	}
	return path
}

// findActors collects the invocations of all states first, because events such as done.invoke.ID refer to them.
func (r *reader[C]) findActors(n *stateNode) {
	for _, i := range r.invocations(n) {
		r.foundActor(i.at, i.name, i.actor)
	}
	for _, child := range n.children {
		r.findActors(child)
	}
}

func (r *reader[C]) foundActor(path, name string, a actor) {
	if other, known := r.actors[name]; known && other.child != a.child {
		r.problem(path, "expected different IDs for services and children, got %q for both", name)
	}
	r.actors[name] = a
	r.services, r.children = r.services || !a.child, r.children || a.child
}

// findSpawned collects the children that actions spawn, and those listed in the machine's meta.settle.
func (r *reader[C]) findSpawned(config *value) {
	var find func(v *value)
	find = func(v *value) {
		if typ, id := v.get("type"), v.get("id"); typ != nil && typ.text == spawnType && id != nil && id.text != "" {
			r.foundActor("", id.text, actor{child: true, id: id.text})
		}
		for i := range v.items {
			find(&v.items[i])
		}
		for i := range v.members {
			if key := v.members[i].key; key != "meta" && key != "context" && key != "params" {
				find(&v.members[i].value)
			}
		}
	}
	find(config)
	for _, id := range r.root.settle("children").strings() {
		r.foundActor("meta.settle.children", id, actor{child: true, id: id})
	}
}

// invokes reads the services and the children of a state.
func (r *reader[C]) invokes(n *stateNode, s *statechart.State[C]) {
	each(join(n.at, "invoke"), n.config.get("invoke"), func(path string, v *value) {
		if v.kind != object {
			r.problem(path, "expected an object with the key src, got %v", v.kind)
		}
	})
	extras := n.settle("invoke")
	for position, i := range r.invocations(n) {
		r.check(i.at, i.value, "an invocation", invokeKeys)
		id := ""
		if i.explicit {
			id = r.text(join(i.at, "id"), i.get("id"))
		}
		if i.child {
			child := statechart.Child[C]{ID: id}
			child.Machine, _ = r.key(i.at, i.value, "src", "the ID of a machine")
			if input := i.get("input"); input != nil {
				child.Input, child.InputParams = literal[C](input)
			}
			s.Children = append(s.Children, child)
			continue
		}
		invoke := statechart.Invoke[C]{ID: id, Service: r.service(i.at, i.value)}
		if extras != nil && extras.kind == array && position < len(extras.items) {
			r.policy(&extras.items[position], &invoke)
		}
		s.Invoke = append(s.Invoke, invoke)
	}
}

func (r *reader[C]) service(path string, v *value) statechart.Service[C] {
	src := v.get("src")
	if src == nil {
		r.problem(path, "expected the key src, with the name of a service")
		return statechart.Service[C]{}
	}
	name := r.text(join(path, "src"), src)
	factory, ok := r.impl.Services[name]
	if otherwise := r.impl.Otherwise.Service; !ok && otherwise != nil && name != "" {
		factory, ok = func(input json.RawMessage) (statechart.Service[C], error) { return otherwise(name, input) }, true
	}
	if !ok {
		if name != "" {
			r.problem(join(path, "src"), "expected an implemented service, got %q", name)
		}
		return statechart.Service[C]{}
	}
	var input json.RawMessage
	if given := v.get("input"); given != nil {
		input = given.raw()
	}
	service, err := factory(input)
	if err != nil {
		r.problem(path, "the service %q: %v", name, err)
	}
	service.Name, service.Params = name, input
	return service
}
