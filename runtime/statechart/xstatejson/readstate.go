package xstatejson

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// The keys that each kind of object in a config may have.
var (
	stateKeys = []string{
		"id", "type", "initial", "states", "on", "always", "after", "invoke", "onDone", "entry", "exit",
		"history", "target", "tags", "meta", "description", "output", "route",
	}
	rootKeys = append(slices.Clone(stateKeys), "version", "context")
	// ignoredKeys are keys of a machine without meaning at run time: types, the settings of the interpreter, and leftovers
	// of XState 4 that XState 5 ignores too.
	ignoredKeys = []string{
		"types", "schemas", "schema", "tsTypes", "options", "$schema", "key", "order", "strict",
		"predictableActionArguments", "preserveActionOrder",
	}
	transitionKeys = []string{"target", "guard", "actions", "reenter", "meta", "description"}
	routeKeys      = []string{"guard", "actions", "meta", "description"}
	initialKeys    = []string{"target", "actions", "meta", "description"}
	invokeKeys     = []string{"id", "src", "input", "onDone", "onError", "onSnapshot", "systemId"}
	actionKeys     = []string{"type", "params"}
	guardKeys      = []string{"type", "params"}
	operatorKeys   = []string{"type", "guards"}
	stateInKeys    = []string{"type", "stateValue"}

	// hints explain unsupported keys of XState, including keys of version 4.
	hints = map[string]string{
		"cond":       "XState v5 says guard",
		"internal":   "XState v5 says reenter",
		"in":         "XState v5 says guard: {\"type\": \"xstate.stateIn\", \"stateValue\": ...}",
		"data":       "XState v5 says output or input",
		"activities": "XState v5 says invoke",
		"delimiter":  "XState v5 has none",
		"order":      "document order is the order of keys",
		"label":      "put it into value",
		"assignment": "an assignment is a function: implement it under a name",
	}
)

// check reports unknown keys.
func (r *reader[C]) check(path string, v *value, what string, known []string, ignored ...string) {
	for i := range v.members {
		key := v.members[i].key
		if slices.Contains(known, key) || slices.Contains(ignored, key) {
			continue
		}
		hint := ""
		if h, ok := hints[key]; ok {
			hint = "; " + h
		}
		r.problem(join(path, key), "is not a key of %s: expected %s%s", what, strings.Join(known, ", "), hint)
	}
}

// notAtRoot lists the keys that a state may have but the root may not, with the reason.
var notAtRoot = []struct{ key, why string }{
	{"onDone", "is not allowed at the root, because XState never takes it: a machine that is done has ended. Wrap the states in a compound state and put it there"},
	{"history", "is not allowed at the root, which is not a history state"},
	{"target", "is not allowed at the root, which is not a history state"},
	{"route", "is not allowed at the root, which is always active"},
}

// onlyState is the state that Read adds to a machine without states, because a chart needs at least one.
const onlyState = "atomic"

// state reads a state and its descendants.
func (r *reader[C]) state(n *stateNode) statechart.State[C] {
	config := n.config
	if n.parent == nil {
		r.check(n.at, config, "a machine", rootKeys, ignoredKeys...)
		for _, not := range notAtRoot {
			if config.get(not.key) != nil {
				r.problem(not.key, "%s", not.why)
			}
		}
		if n.typ != "compound" && n.typ != "parallel" && n.typ != "atomic" {
			r.problem("type", "expected atomic, compound or parallel at the root, got %q", n.typ)
		}
	} else {
		r.check(n.at, config, "a state", stateKeys)
	}
	s := statechart.State[C]{ID: n.name}
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
	if n.parent == nil && n.typ == "atomic" {
		s.Initial, s.States, s.Tags = onlyState, []statechart.State[C]{{ID: onlyState, Tags: s.Tags}}, nil
	}
	s.Entry = r.actions(join(n.at, "entry"), config.get("entry"))
	s.Exit = r.actions(join(n.at, "exit"), config.get("exit"))
	if n.typ == "history" { // never active, so XState ignores them
		s.Entry, s.Exit, s.Tags = nil, nil, nil
	}
	r.invokes(n, &s)
	r.on(n, &s)
	s.Always = r.transitions(n, join(n.at, "always"), config.get("always"), "")
	r.after(n, &s)
	return s
}

// texts reads the description, tags, meta and output of a state.
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
	s.Meta = n.meta()
	r.deferred(n, s)
	if v := n.config.get("output"); v != nil && n.parent != nil {
		if n.typ != "final" {
			r.problem(join(n.at, "output"), "expected none: only a final state has an output")
		}
		s.Output, s.OutputParams = literal[C](v)
	}
}

// initial reads the initial transition of a compound state.
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
	s.Initial = n.child(target.text).name
}

func rawOf(v *value) json.RawMessage {
	if v == nil {
		return json.RawMessage("nothing")
	}
	return v.raw()
}

// history reads a history state. If it has neither a record nor a target, XState enters the parent's initial state and
// runs the actions of the parent's initial transition.
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
				r.problem(at, "expected a non-negative delay in milliseconds, got %q", key)
				continue
			}
			if base.Delay = delay; delay == 0 {
				base.ID, base.DelayFunc = key, func(C, statechart.Event) time.Duration { return 0 }
			}
		} else if _, implemented := r.impl.Delays[key]; !implemented && named.number(key) > 0 {
			base.ID, base.Delay = key, named.number(key)
		} else if delay, ok := r.namedDelay(at, key, "milliseconds or an implemented delay"); ok {
			base.ID, base.DelayFunc = key, delay
		} else {
			continue
		}
		for k := range v.members[i].items {
			if item := &v.members[i].items[k]; item.kind == text {
				r.problem(at, "expected objects in the array, because XState accepts no strings there, got %s", item.raw())
			}
		}
		for _, t := range r.transitions(n, at, &v.members[i].value, "") {
			after := base
			after.Target, after.Guard, after.Actions, after.Reenter, after.Doc = t.Target, t.Guard, t.Actions, t.Reenter, t.Doc
			s.After = append(s.After, after)
			if base.DelayFunc != nil { // later transitions share the timer
				base = statechart.After[C]{ID: base.ID}
			}
		}
	}
}
