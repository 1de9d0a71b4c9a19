package xstatejson

import (
	"encoding/json"
	"strings"

	"github.com/settle-run/settle/runtime/internal/outline"
)

func (w *writer) actions(v *value, key, path string, actions []outline.Action) {
	var items []value
	for i := range actions {
		items = append(items, w.action(path, &actions[i]))
	}
	if len(items) > 0 {
		v.set(key, list(items...))
	}
}

// action writes an action as one of XState's own actions if their JSON can express it, or else by its name.
func (w *writer) action(path string, a *outline.Action) value {
	v, made := value{kind: object}, a.Made
	v.set("type", textValue(raiseType))
	switch {
	case made.By == outline.Raise:
		event := value{}
		event.set("type", textValue(made.Event))
		v.set("event", event)
		w.named[made.Event] = true
		return v
	case made.By == outline.RaiseWith && a.Params != nil && a.Name == "raise "+made.Event:
		v.set("event", w.raw(path, a.Name, a.Params))
		w.named[made.Event] = true
		return v
	case made.By == outline.SendAfter && a.Params != nil && a.Name == "send "+made.Event:
		sent := w.raw(path, a.Name, a.Params)
		v.members = append(v.members, sent.members...)
		if made.ID != "" {
			v.set("id", textValue(made.ID))
		}
		w.named[made.Event] = true
		return v
	case made.By == outline.Cancel && made.ID != "":
		v.members[0].text = cancelType
		v.set("sendId", textValue(made.ID))
		return v
	}
	if v, ok := w.builtin(path, a); ok {
		return v
	}
	return w.name(path, "action", a.Name, a.Params)
}

// builtin writes an action that emits, logs or refers to a child. The values of the action must be known: Read took
// them from a document, or the action has no function.
func (w *writer) builtin(path string, a *outline.Action) (v value, ok bool) {
	made := a.Made
	// An action that Read made from an action of XState has Params and the default name. A named implementation has
	// another name.
	known := func(name string) bool { return a.Params != nil && a.Name == name }
	body := func() value {
		if made.Computed {
			return w.raw(path, a.Name, a.Params)
		}
		event := value{}
		event.set("type", textValue(made.Event))
		return event
	}
	switch {
	case made.By == outline.Emit && (!made.Computed || known("emit "+made.Event)):
		v.set("type", textValue(emitType))
		v.set("event", body())
	case made.By == outline.Log && known("log") && a.Params[0] == '"':
		v.set("type", textValue(logType))
		v.set("value", w.raw(path, a.Name, a.Params))
	case made.By == outline.Spawn && (!made.Computed || known("spawn "+made.ID)):
		v.set("type", textValue(spawnType))
		v.set("id", textValue(made.ID))
		v.set("src", textValue(made.Machine))
		if made.Computed {
			v.set("input", w.raw(path, a.Name, a.Params))
		}
		w.spawned[made.ID] = true
	case made.By == outline.StopChild:
		v.set("type", textValue(stopType))
		v.set("actorRef", textValue(made.ID))
	case made.By == outline.SendToChild && (!made.Computed || known("send "+made.Event)):
		v.set("type", textValue(sendToType))
		v.set("to", textValue(made.ID))
		v.set("event", body())
	default:
		return value{}, false
	}
	if strings.HasPrefix(made.ID, "#_") {
		w.problem(path, "expected IDs of children that do not begin with #_, which XState reserves, got %q", made.ID)
	}
	return v, true
}

func (w *writer) raw(path, name string, params json.RawMessage) value {
	v, err := rawValue(params)
	if err != nil {
		w.problem(path, "the params of %q: %v", name, err)
	}
	return v
}

// name writes a reference to a named implementation.
func (w *writer) name(path, what, name string, params json.RawMessage) value {
	if name == "" || strings.HasPrefix(name, xstatePrefix) {
		w.problem(path, "expected each %s to have a name that does not begin with %s, got %q", what, xstatePrefix, name)
	}
	if params == nil {
		return textValue(name)
	}
	v := value{}
	v.set("type", textValue(name))
	v.set("params", w.raw(path, name, params))
	return v
}

func (w *writer) guard(path string, g outline.Guard) value {
	v := value{kind: object}
	var operator string
	switch g.By {
	case outline.And:
		operator = andType
	case outline.Or:
		operator = orType
	case outline.Not:
		operator = notType
	case outline.In:
		v.set("type", textValue(stateInType))
		v.set("stateValue", textValue("#"+w.id(g.In)))
		return v
	default:
		return w.name(path, "guard", g.Name, g.Params)
	}
	v.set("type", textValue(operator))
	guards := list()
	for _, inner := range g.Of {
		guards.items = append(guards.items, w.guard(path, inner))
	}
	v.set("guards", guards)
	return v
}
