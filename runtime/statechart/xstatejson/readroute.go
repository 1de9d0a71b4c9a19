package xstatejson

import (
	"encoding/json"
	"strings"

	"github.com/settle-run/settle/runtime/internal/outline"
	"github.com/settle-run/settle/runtime/statechart"
)

// routeType is XState's event type for entering a state that has the key "route".
const routeType = "xstate.route"

// snapshotPrefix is the prefix of the event types under which XState reports the snapshots of an actor.
const snapshotPrefix = "xstate.snapshot."

// fromOutside reports whether an event of XState may come from outside of a machine.
func fromOutside(typ string) bool {
	return typ == routeType || strings.HasPrefix(typ, snapshotPrefix)
}

// routes reads the routes of all states with an ID, in document order. Each is a transition of the root on
// {"type": "xstate.route", "to": "#id"}.
func (r *reader[C]) routes(n *stateNode) []statechart.Transition[C] {
	var found []statechart.Transition[C]
	for _, child := range n.children {
		v, at := child.config.get("route"), join(child.at, "route")
		switch {
		case v == nil || v.kind == null:
		case v.kind != object:
			r.problem(at, "expected an object, such as {} or {\"guard\": ...}, got %v", v.kind)
		default:
			r.check(at, v, "a route", routeKeys)
			// XState ignores a route without an ID.
			if id := child.config.get("id"); id != nil && id.text != "" {
				found = append(found, r.route(child, at, v, "#"+id.text))
			}
		}
		found = append(found, r.routes(child)...)
	}
	return found
}

func (r *reader[C]) route(n *stateNode, at string, v *value, to string) statechart.Transition[C] {
	r.declare(at, routeType)
	t := statechart.Transition[C]{Event: routeType, Guard: routeTo[C](to)}
	for _, own := range r.transitions(n, at, v, routeType) {
		if v.get("guard") != nil {
			own.Guard = statechart.And(t.Guard, own.Guard)
		} else {
			own.Guard = t.Guard
		}
		t = own
	}
	t.Target = "#" + r.root.key + "." + n.path
	return t
}

// routeTo returns the guard of a route. Its Params hold the ID of the state for Write.
func routeTo[C any](to string) statechart.Guard[C] {
	guard := statechart.When(routeType, func(_ C, e statechart.Event) bool {
		raw, _ := e.Payload.(json.RawMessage)
		var event struct {
			To string `json:"to"`
		}
		return json.Unmarshal(raw, &event) == nil && event.To == to
	})
	id := value{}
	id.set("to", textValue(to))
	guard.Params = id.raw()
	return guard
}

// route is a route in a chart.
type route struct {
	id string
	outline.Transition
}

// routeOf returns the route that a transition of the root represents, and the path of its state.
func routeOf(t *outline.Transition) (found route, to string, ok bool) {
	if t.Event != routeType || t.Guard == nil || len(t.Targets) != 1 {
		return route{}, "", false
	}
	found.Transition = *t
	guard := *t.Guard
	found.Targets, found.Guard = nil, nil
	if guard.By == outline.And && len(guard.Of) == 2 {
		guard, found.Guard = guard.Of[0], &guard.Of[1]
	}
	var params struct {
		To string `json:"to"`
	}
	if guard.Name != routeType || json.Unmarshal(guard.Params, &params) != nil || t.Reenter {
		return route{}, "", false
	}
	found.id, ok = strings.CutPrefix(params.To, "#")
	return found, t.Targets[0], ok
}

// findRoutes collects the routes that Read has made.
func (w *writer) findRoutes(root *outline.State) {
	w.routes = map[string]route{}
	for i := range root.On {
		if found, to, ok := routeOf(&root.On[i]); ok && w.routes[to].Event == "" {
			w.routes[to] = found
			w.named[routeType] = true
		}
	}
}

// splitPath splits a path of keys at its dots. A backslash quotes the next character, as in XState.
func splitPath(path string) []string {
	var keys []string
	var key strings.Builder
	quoted := false
	for _, c := range path {
		switch {
		case !quoted && c == '\\':
			quoted = true
			continue
		case !quoted && c == '.':
			keys = append(keys, key.String())
			key.Reset()
			continue
		}
		key.WriteRune(c)
		quoted = false
	}
	return append(keys, key.String())
}
