package xstatejson

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/settle-run/settle/runtime/statechart"
)

// builtinKeys holds the keys of XState's own actions: the properties of its functions.
var builtinKeys = map[string][]string{
	raiseType:  {"type", "event", "delay", "id"},
	cancelType: {"type", "sendId"},
	emitType:   {"type", "event"},
	logType:    {"type", "value"},
	spawnType:  {"type", "id", "src", "input", "syncSnapshot", "systemId"},
	stopType:   {"type", "actorRef"},
	sendToType: {"type", "to", "event"},
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// builtin reads one of XState's own actions. If the chart's action takes a function, the function returns a constant
// from the document, and Params holds this constant for Write.
func (r *reader[C]) builtin(path, name string, v *value) (action statechart.Action[C], ok bool) {
	switch name {
	case raiseType:
		return r.raise(path, v)
	case cancelType:
		id, ok := r.key(path, v, "sendId", "the ID of the event to cancel")
		return statechart.Cancel[C](id), ok
	case emitType:
		typ, body, ok := r.event(path, v)
		action = statechart.Emit(typ, func(C, statechart.Event) any { return body })
		action.Params = body
		return action, ok
	case logType:
		message := v.get("value")
		if message == nil || message.kind != text {
			r.problem(path, "expected the key value, with the text to log, got %s", rawOf(message))
			return action, false
		}
		action = statechart.Log(func(C, statechart.Event) string { return message.text })
		action.Params = message.raw()
		return action, true
	case spawnType:
		return r.spawn(path, v)
	case stopType:
		id, ok := r.key(path, v, "actorRef", "the ID of a child")
		return statechart.StopChild[C](id), ok
	default:
		return r.sendTo(path, v)
	}
}

// key reads a required string.
func (r *reader[C]) key(path string, v *value, key, what string) (string, bool) {
	given := v.get(key)
	if given == nil || given.kind != text || given.text == "" {
		r.problem(path, "expected the key %s, with %s", key, what)
		return "", false
	}
	return given.text, true
}

// event reads the required key `event`. Its value is an object with a type.
func (r *reader[C]) event(path string, v *value) (typ string, body json.RawMessage, ok bool) {
	event, named := v.get("event"), (*value)(nil)
	if event != nil {
		named = event.get("type")
	}
	if named == nil || named.kind != text || named.text == "" || strings.Contains(named.text, "*") {
		r.problem(path, "expected the key event, with an object that has a type, got %s", rawOf(event))
		return "", nil, false
	}
	if strings.HasPrefix(named.text, xstatePrefix) {
		r.problem(join(path, "event"), "expected an event of the machine, not of XState, got %q", named.text)
		return "", nil, false
	}
	return named.text, event.raw(), true
}

func (r *reader[C]) spawn(path string, v *value) (statechart.Action[C], bool) {
	id, hasID := r.key(path, v, "id", "the ID of the child")
	machine, hasMachine := r.key(path, v, "src", "the ID of the child's machine")
	if sync := v.get("syncSnapshot"); sync != nil && (sync.kind != boolean || sync.truth) {
		r.problem(join(path, "syncSnapshot"), "expected false: snapshots of children are not supported")
	}
	input := v.get("input")
	if input == nil {
		return statechart.Spawn[C](id, machine, nil), hasID && hasMachine
	}
	made, params := literal[C](input)
	action := statechart.Spawn(id, machine, made)
	action.Params = params
	return action, hasID && hasMachine
}

func (r *reader[C]) sendTo(path string, v *value) (statechart.Action[C], bool) {
	to, hasTo := r.key(path, v, "to", "the ID of a child")
	typ, body, hasEvent := r.event(path, v)
	if strings.HasPrefix(to, "#_") {
		r.problem(join(path, "to"), "expected the ID of a child, got %q, which has another meaning in XState", to)
		return statechart.Action[C]{}, false
	}
	action := statechart.SendToChild(to, typ, func(C, statechart.Event) any { return body })
	action.Params = body
	return action, hasTo && hasEvent
}
