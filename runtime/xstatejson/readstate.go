package xstatejson

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// The keys of the objects of a config.
var (
	stateKeys = []string{
		"id", "type", "initial", "states", "on", "always", "after", "invoke", "onDone", "entry", "exit",
		"history", "target", "tags", "meta", "description", "output",
	}
	rootKeys       = append(slices.Clone(stateKeys), "version", "context")
	transitionKeys = []string{"target", "guard", "actions", "reenter", "meta", "description"}
	initialKeys    = []string{"target", "actions", "meta", "description"}
	invokeKeys     = []string{"id", "src", "input", "onDone", "onError"}
	actionKeys     = []string{"type", "params"}
	raiseKeys      = []string{"type", "event", "delay", "id"}
	cancelKeys     = []string{"type", "sendId"}
	guardKeys      = []string{"type", "params"}
	operatorKeys   = []string{"type", "guards"}
	stateInKeys    = []string{"type", "stateValue"}

	// hints are for keys of XState, of version 4 too, that are no keys here.
	hints = map[string]string{
		"cond":       "XState v5 says guard",
		"internal":   "XState v5 says reenter",
		"in":         "XState v5 says guard: {\"type\": \"xstate.stateIn\", \"stateValue\": ...}",
		"data":       "XState v5 says output or input",
		"activities": "XState v5 says invoke",
		"delimiter":  "XState v5 has none",
		"route":      "routes cannot be read",
		"onSnapshot": "a service has no snapshots",
		"systemId":   "services have no system",
		"order":      "document order is the order of keys",
	}
)

// check reports keys that are not known.
func (r *reader[C]) check(path string, v *value, what string, known []string) {
	for i := range v.members {
		key := v.members[i].key
		if slices.Contains(known, key) {
			continue
		}
		hint := ""
		if h, ok := hints[key]; ok {
			hint = "; " + h
		}
		r.problem(join(path, key), "is no key of %s: expected %s%s", what, strings.Join(known, ", "), hint)
	}
}

// notAtRoot are the keys that a chart's root cannot have, for they are a state's.
var notAtRoot = []string{"always", "invoke", "onDone", "tags", "history", "target"}

// state reads one state and those below it.
func (r *reader[C]) state(n *stateNode) statechart.State[C] {
	config := n.config
	if n.parent == nil {
		r.check(n.at, config, "a machine", rootKeys)
		for _, key := range notAtRoot {
			if config.get(key) != nil {
				r.problem(key, "cannot stand at the root of a chart: put it into a state around the others")
			}
		}
		if n.typ != "compound" && n.typ != "parallel" {
			r.problem("", "expected a machine with states")
		}
	} else {
		r.check(n.at, config, "a state", stateKeys)
	}
	s := statechart.State[C]{ID: n.key}
	switch n.typ {
	case "parallel":
		s.Type = statechart.Parallel
	case "final":
		s.Type = statechart.Final
	case "history":
		r.history(n, &s)
	}
	for _, child := range n.children {
		s.States = append(s.States, r.state(child))
	}
	r.initial(n, &s)
	r.texts(n, &s)
	s.Entry = r.actions(join(n.at, "entry"), config.get("entry"))
	s.Exit = r.actions(join(n.at, "exit"), config.get("exit"))
	r.invokes(n, &s)
	r.on(n, &s)
	s.Always = r.transitions(n, join(n.at, "always"), config.get("always"), "")
	r.after(n, &s)
	return s
}

// texts reads what only describes a state, and its output.
func (r *reader[C]) texts(n *stateNode, s *statechart.State[C]) {
	each(join(n.at, "tags"), n.config.get("tags"), func(path string, v *value) {
		s.Tags = append(s.Tags, r.text(path, v))
	})
	if v := n.config.get("description"); v != nil {
		if v.kind != text {
			r.problem(join(n.at, "description"), "expected a string, got %v", v.kind)
		}
		s.Doc = v.text
	}
	if v := n.config.get("id"); v != nil && n.parent != nil {
		r.text(join(n.at, "id"), v)
	}
	if v := n.config.get("meta"); v != nil && v.kind != object {
		r.problem(join(n.at, "meta"), "expected an object, got %v", v.kind)
	}
	if v := n.config.get("output"); v != nil && n.parent != nil {
		if n.typ != "final" {
			r.problem(join(n.at, "output"), "expected none: only a final state has an output")
		}
		output := v.raw()
		s.Output = func(C, statechart.Event) any { return output }
	}
}

// initial reads what a compound state enters by default.
func (r *reader[C]) initial(n *stateNode, s *statechart.State[C]) {
	path, v := join(n.at, "initial"), n.config.get("initial")
	if n.typ != "compound" {
		if v != nil {
			r.problem(path, "expected none: only a compound state has an initial state")
		}
		return
	}
	if v == nil {
		r.problem(n.at, "expected the key initial, with the key of a child")
		return
	}
	target := v
	if v.kind == object {
		r.check(path, v, "an initial transition", initialKeys)
		target = v.get("target")
		s.DefaultEntry = r.actions(join(path, "actions"), v.get("actions"))
		path = join(path, "target")
	}
	if target == nil || target.kind != text || n.child(target.text) == nil {
		r.problem(path, "expected the key of a child, got %s", rawOf(target))
		return
	}
	s.Initial = target.text
}

func rawOf(v *value) json.RawMessage {
	if v == nil {
		return json.RawMessage("nothing")
	}
	return v.raw()
}

// history reads a history state. Where XState enters the parent's initial state in its place, the
// actions of the initial transition run.
func (r *reader[C]) history(n *stateNode, s *statechart.State[C]) {
	s.Type = statechart.ShallowHistory
	path, v := join(n.at, "history"), n.config.get("history")
	switch {
	case v == nil || v.kind == boolean || v.kind == text && v.text == "shallow":
	case v.kind == text && v.text == "deep":
		s.Type = statechart.DeepHistory
	default:
		r.problem(path, "expected shallow, deep or a boolean, got %s", v.raw())
	}
	target := n.config.get("target")
	if target == nil {
		if n.parent.typ == "compound" {
			if initial := n.parent.config.get("initial"); initial != nil && initial.kind == object {
				s.DefaultEntry = r.actions(join(join(n.parent.at, "initial"), "actions"), initial.get("actions"))
			}
		}
		return
	}
	s.Target = r.targets(n, join(n.at, "target"), target)
}

// invokes reads the services of a state.
func (r *reader[C]) invokes(n *stateNode, s *statechart.State[C]) {
	extras := n.settle("invoke")
	each(join(n.at, "invoke"), n.config.get("invoke"), func(path string, v *value) {
		if v.kind != object {
			r.problem(path, "expected an object with the key src, got %v", v.kind)
			return
		}
		r.check(path, v, "an invocation", invokeKeys)
		position := len(s.Invoke)
		invoke := statechart.Invoke[C]{}
		if id := v.get("id"); id != nil {
			invoke.ID = r.text(join(path, "id"), id)
			r.actors[invoke.ID] = invoke.ID
		} else {
			r.actors[strconv.Itoa(position)+"."+n.id] = invokeID(n.path, position)
		}
		invoke.Service = r.service(path, v)
		if extras != nil && extras.kind == array && position < len(extras.items) {
			r.policy(&extras.items[position], &invoke)
		}
		s.Invoke = append(s.Invoke, invoke)
	})
}

// invokeID is the ID that an invocation has in a chart unless it is given one.
func invokeID(path string, position int) string {
	if position > 0 {
		return path + ":" + strconv.Itoa(position)
	}
	return path
}

func (r *reader[C]) service(path string, v *value) statechart.Service[C] {
	src := v.get("src")
	if src == nil {
		r.problem(path, "expected the key src, with the name of a service")
		return statechart.Service[C]{}
	}
	name := r.text(join(path, "src"), src)
	factory, ok := r.impl.Services[name]
	if !ok {
		if name != "" {
			r.problem(join(path, "src"), "expected a service that is implemented, got %q", name)
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

// after reads the delayed transitions of a state.
func (r *reader[C]) after(n *stateNode, s *statechart.State[C]) {
	path, v := join(n.at, "after"), n.config.get("after")
	if v == nil {
		return
	}
	if v.kind != object {
		r.problem(path, "expected an object from delay to transition, got %v", v.kind)
		return
	}
	named := n.settle("after")
	for i := range v.members {
		key, at := v.members[i].key, join(path, v.members[i].key)
		base := statechart.After[C]{}
		if delay, isNumber := milliseconds(key); isNumber {
			if delay < 0 {
				r.problem(at, "expected a delay in milliseconds from 0, got %q", key)
				continue
			}
			if base.Delay = delay; delay == 0 {
				base.ID, base.DelayFunc = key, func(C, statechart.Event) time.Duration { return 0 }
			}
		} else if delay, ok := r.impl.Delays[key]; ok {
			base.ID, base.DelayFunc = key, delay
		} else if constant := named.number(key); constant > 0 {
			base.ID, base.Delay = key, constant
		} else {
			r.problem(at, "expected milliseconds or a delay that is implemented, got %q", key)
			continue
		}
		for k := range v.members[i].items {
			if item := &v.members[i].items[k]; item.kind == text {
				r.problem(at, "expected objects in the array, for XState reads no strings there, got %s", item.raw())
			}
		}
		for _, t := range r.transitions(n, at, &v.members[i].value, "") {
			after := base
			after.Target, after.Guard, after.Actions, after.Reenter = t.Target, t.Guard, t.Actions, t.Reenter
			s.After = append(s.After, after)
			if base.DelayFunc != nil { // the others share the timer
				base = statechart.After[C]{ID: base.ID}
			}
		}
	}
}
