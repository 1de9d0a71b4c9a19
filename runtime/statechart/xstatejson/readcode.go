package xstatejson

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/statechart"
)

// The builtins that JSON can express.
const (
	raiseType   = "xstate.raise"
	cancelType  = "xstate.cancel"
	emitType    = "xstate.emit"
	logType     = "xstate.log"
	spawnType   = "xstate.spawnChild"
	stopType    = "xstate.stopChild"
	sendToType  = "xstate.sendTo"
	andType     = "xstate.and"
	orType      = "xstate.or"
	notType     = "xstate.not"
	stateInType = "xstate.stateIn"
)

// actions reads a single action or an array of actions.
func (r *reader[C]) actions(path string, v *value) []statechart.Action[C] {
	var actions []statechart.Action[C]
	each(path, v, func(path string, v *value) {
		if action, ok := r.action(path, v); ok {
			actions = append(actions, action)
		}
	})
	return actions
}

// named reads {"type": name} or just the name.
func (r *reader[C]) named(path string, v *value, what string) (name string, ok bool) {
	typ := v
	if v.kind == object {
		if typ = v.get("type"); typ == nil {
			r.problem(path, "expected the key type, with the name of %s", what)
			return "", false
		}
		path = join(path, "type")
	}
	if typ.kind != text || typ.text == "" {
		r.problem(path, "expected the name of %s, or an object with the key type, got %s", what, typ.raw())
		return "", false
	}
	return typ.text, true
}

func (r *reader[C]) action(path string, v *value) (statechart.Action[C], bool) {
	name, ok := r.named(path, v, "an action")
	if !ok {
		return statechart.Action[C]{}, false
	}
	if strings.HasPrefix(name, xstatePrefix) {
		if keys, builtin := builtinKeys[name]; builtin && v.kind == object {
			r.check(path, v, name, keys)
			return r.builtin(path, name, v)
		}
		r.problem(path, "expected the name of an action, or an object whose type is one of %s, got %q", strings.Join(sortedKeys(builtinKeys), ", "), name)
		return statechart.Action[C]{}, false
	}
	params := r.params(path, v, "an action", actionKeys)
	factory, ok := r.impl.Actions[name]
	if otherwise := r.impl.Otherwise.Action; !ok && otherwise != nil {
		factory, ok = func(params json.RawMessage) (statechart.Action[C], error) { return otherwise(name, params) }, true
	}
	if !ok {
		r.problem(path, "expected an implemented action, got %q", name)
		return statechart.Action[C]{}, false
	}
	action, err := factory(params)
	if err != nil {
		r.problem(path, "the action %q: %v", name, err)
	}
	action.Name, action.Params = name, params
	return action, err == nil
}

// params returns the JSON under the key params, or nil.
func (r *reader[C]) params(path string, v *value, what string, known []string) json.RawMessage {
	if v.kind != object {
		return nil
	}
	r.check(path, v, what, known)
	if params := v.get("params"); params != nil {
		return params.raw()
	}
	return nil
}

// raise reads {"type": "xstate.raise", "event": {...}, "delay": ..., "id": ...}.
func (r *reader[C]) raise(path string, v *value) (statechart.Action[C], bool) {
	typ, body, ok := r.event(path, v)
	if !ok {
		return statechart.Action[C]{}, false
	}
	r.declare(join(path, "event"), typ)
	id := ""
	if given := v.get("id"); given != nil {
		id = r.text(join(path, "id"), given)
	}
	given := v.get("delay")
	if given == nil {
		action := statechart.RaiseWith(typ, func(C, statechart.Event) json.RawMessage { return body })
		action.Params = body
		return action, true
	}
	delay, ok := r.delay(join(path, "delay"), given)
	if !ok {
		return statechart.Action[C]{}, false
	}
	action := statechart.SendAfter(id, typ, func(c C, e statechart.Event) (time.Duration, any) { return delay(c, e), body })
	action.Params = (&value{kind: object, members: []member{{"event", *v.get("event")}, {"delay", *given}}}).raw()
	return action, true
}

// delay reads a number of milliseconds, or the name of a delay.
func (r *reader[C]) delay(path string, v *value) (func(C, statechart.Event) time.Duration, bool) {
	if v.kind == number {
		if constant, ok := milliseconds(v.text); ok && constant >= 0 {
			return func(C, statechart.Event) time.Duration { return constant }, true
		}
	}
	if v.kind == text && v.text != "" {
		return r.namedDelay(path, v.text, "non-negative milliseconds or the name of an implemented delay")
	}
	r.problem(path, "expected non-negative milliseconds or the name of an implemented delay, got %s", v.raw())
	return nil, false
}

// namedDelay looks up a delay by its name.
func (r *reader[C]) namedDelay(path, name, expected string) (func(C, statechart.Event) time.Duration, bool) {
	if delay, ok := r.impl.Delays[name]; ok {
		return delay, true
	}
	if r.impl.Otherwise.Delay == nil {
		r.problem(path, "expected %s, got %q", expected, name)
		return nil, false
	}
	delay, err := r.impl.Otherwise.Delay(name)
	if err != nil {
		r.problem(path, "the delay %q: %v", name, err)
	}
	return delay, err == nil
}

func (r *reader[C]) guard(path string, v *value) statechart.Guard[C] {
	name, ok := r.named(path, v, "a guard")
	if !ok {
		return statechart.Guard[C]{}
	}
	if operator := "xstate." + strings.TrimPrefix(name, xstatePrefix); v.kind == object && v.get("guards") != nil {
		return r.operator(path, v, operator)
	}
	if name == stateInType && v.kind == object {
		r.check(path, v, name, stateInKeys)
		return r.stateIn(path, v.get("stateValue"))
	}
	if strings.HasPrefix(name, xstatePrefix) {
		r.problem(path, "expected the name of a guard, xstate.stateIn, or xstate.and, xstate.or and xstate.not with the key guards, got %q", name)
		return statechart.Guard[C]{}
	}
	params := r.params(path, v, "a guard", guardKeys)
	factory, ok := r.impl.Guards[name]
	if otherwise := r.impl.Otherwise.Guard; !ok && otherwise != nil {
		factory, ok = func(params json.RawMessage) (statechart.Guard[C], error) { return otherwise(name, params) }, true
	}
	if !ok {
		r.problem(path, "expected an implemented guard, got %q", name)
		return statechart.Guard[C]{}
	}
	guard, err := factory(params)
	if err != nil {
		r.problem(path, "the guard %q: %v", name, err)
	}
	guard.Name, guard.Params = name, params
	return guard
}

// operator reads {"type": "xstate.and", "guards": [...]}, and the same for xstate.or and xstate.not.
func (r *reader[C]) operator(path string, v *value, name string) statechart.Guard[C] {
	r.check(path, v, name, operatorKeys)
	list := v.get("guards")
	if list.kind != array {
		r.problem(join(path, "guards"), "expected an array of guards, got %v", list.kind)
		return statechart.Guard[C]{}
	}
	var guards []statechart.Guard[C]
	each(join(path, "guards"), list, func(path string, v *value) { guards = append(guards, r.guard(path, v)) })
	switch name {
	case andType:
		return statechart.And(guards...)
	case orType:
		return statechart.Or(guards...)
	case notType:
		if len(guards) == 1 {
			return statechart.Not(guards[0])
		}
		r.problem(join(path, "guards"), "expected one guard, got %d", len(guards))
	default:
		r.problem(path, "expected xstate.and, xstate.or or xstate.not, which have the key guards, got %q", name)
	}
	return statechart.Guard[C]{}
}

// stateIn reads a state value: "#id", a path from the root, or an object that maps the key of a state to the state
// value below it.
func (r *reader[C]) stateIn(path string, v *value) statechart.Guard[C] {
	path = join(path, "stateValue")
	if v == nil || v.kind != text && v.kind != object {
		r.problem(path, "expected \"#id\", a path, or an object from key to state value, got %s", rawOf(v))
		return statechart.Guard[C]{}
	}
	if v.kind == text {
		target := v.text
		if !strings.HasPrefix(target, "#") {
			target = "." + target
		}
		n, problem := r.resolve(r.root, target)
		if problem != "" {
			r.problem(path, "%s, got %q", problem, v.text)
			return statechart.Guard[C]{}
		}
		if n == r.root {
			return statechart.And[C]()
		}
		return statechart.In[C](n.path)
	}
	var all []statechart.Guard[C]
	r.within(path, v, r.root, &all)
	if len(all) == 1 {
		return all[0]
	}
	return statechart.And(all...)
}

func (r *reader[C]) within(path string, v *value, n *stateNode, all *[]statechart.Guard[C]) {
	keys := v.members
	if v.kind == text {
		keys = []member{{key: v.text}}
	}
	for i := range keys {
		child := n.child(keys[i].key)
		if child == nil {
			r.problem(path, "expected the key of a state, got %q", keys[i].key)
			continue
		}
		inner := &keys[i].value
		if v.kind == text || inner.kind == object && len(inner.members) == 0 {
			*all = append(*all, statechart.In[C](child.path))
			continue
		}
		at := join(path, keys[i].key)
		if inner.kind != text && inner.kind != object {
			r.problem(at, "expected a state value, got %v", inner.kind)
			continue
		}
		r.within(at, inner, child, all)
	}
}

// strings returns the strings of an array, sorted.
func (v *value) strings() []string {
	var texts []string
	if v == nil {
		return nil
	}
	for _, item := range v.items {
		if item.kind == text {
			texts = append(texts, item.text)
		}
	}
	slices.Sort(texts)
	return texts
}
