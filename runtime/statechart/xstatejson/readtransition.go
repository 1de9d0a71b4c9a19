package xstatejson

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/settle-run/settle/runtime/statechart"
)

// Prefixes of the event types that a chart generates, here and in XState.
const (
	doneState   = "done.state."
	doneInvoke  = "done.invoke."
	errorInvoke = "error.invoke."
	doneChild   = "done.child."
	errorChild  = "error.child."

	xstatePrefix    = "xstate."
	xstateDoneState = "xstate.done.state."
	xstateDoneActor = "xstate.done.actor."
	xstateError     = "xstate.error.actor."
)

// on reads a state's transitions on events. These include the done and error events of the state, its services and
// its children.
//
// XState tries transitions on the event's own type first, then prefixes from long to short, then "*". A chart tries
// them in document order, so this function sorts them into XState's order. If a wildcard also matches a done or error
// event, the transitions on that event come before the transitions of the wildcard.
func (r *reader[C]) on(n *stateNode, s *statechart.State[C]) {
	type group struct {
		descriptor  string
		transitions []statechart.Transition[C]
	}
	var groups []group
	path, v := join(n.at, "on"), n.config.get("on")
	if v != nil && v.kind != object {
		if v.kind != array || len(v.items) > 0 { // XState exports "on" of a state from SCXML as []
			r.problem(path, "expected an object from event to transition, got %v", v.kind)
		}
		v = nil
	}
	if v != nil {
		for i := range v.members {
			at := join(path, v.members[i].key)
			transitions := r.transitions(n, at, &v.members[i].value, "")
			for _, descriptor := range r.descriptors(at, v.members[i].key) {
				own := slices.Clone(transitions)
				for k := range own {
					own[k].Event = descriptor
				}
				groups = append(groups, group{descriptor, own})
			}
		}
	}
	for _, i := range r.invocations(n) {
		if onSnapshot := i.get("onSnapshot"); onSnapshot != nil {
			event, at := snapshotPrefix+i.name, join(i.at, "onSnapshot")
			r.declare(at, event)
			groups = append(groups, group{event, r.transitions(n, at, onSnapshot, event)})
		}
	}
	if n.parent == nil {
		if routes := r.routes(n); len(routes) > 0 {
			groups = append(groups, group{routeType, routes})
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int { return rank(b.descriptor) - rank(a.descriptor) })
	shadowed := func(event string) bool {
		return slices.ContainsFunc(groups, func(g group) bool { return g.descriptor != event && covers(g.descriptor, event) })
	}
	var ends []statechart.Transition[C]
	end := func(path string, v *value, event string) []statechart.Transition[C] {
		if v == nil {
			return nil
		}
		if !shadowed(event) {
			return r.transitions(n, path, v, "")
		}
		ends = append(ends, r.transitions(n, path, v, event)...)
		return nil
	}
	s.OnDone = end(join(n.at, "onDone"), n.config.get("onDone"), doneState+n.path)
	for _, i := range r.invocations(n) {
		done, failed := join(i.at, "onDone"), join(i.at, "onError")
		if i.child {
			child := &s.Children[i.index]
			child.OnDone = end(done, i.get("onDone"), doneChild+i.id)
			child.OnError = end(failed, i.get("onError"), errorChild+i.id)
			continue
		}
		invoke := &s.Invoke[i.index]
		invoke.OnDone = end(done, i.get("onDone"), doneInvoke+i.id)
		invoke.OnError = end(failed, i.get("onError"), errorInvoke+i.id)
	}
	for _, g := range groups {
		if rank(g.descriptor) == exact {
			s.On = append(s.On, g.transitions...)
		}
	}
	s.On = append(s.On, ends...)
	for _, g := range groups {
		if rank(g.descriptor) != exact {
			s.On = append(s.On, g.transitions...)
		}
	}
}

// exact is the rank of a descriptor without a wildcard.
const exact = 1 << 30

// rank returns the order in which XState tries descriptors, highest first.
func rank(descriptor string) int {
	if descriptor == "*" || strings.HasSuffix(descriptor, ".*") {
		return len(descriptor)
	}
	return exact
}

// covers reports whether a descriptor matches an event type, or every type that another descriptor matches.
func covers(descriptor, event string) bool {
	if descriptor == "*" || descriptor == event {
		return true
	}
	prefix, partial := strings.CutSuffix(descriptor, ".*")
	return partial && (event == prefix || strings.HasPrefix(event, prefix+"."))
}

// descriptors reads an event descriptor and declares its event. XState's event for the end of an actor becomes the
// chart's event for the end of a service or of a child.
func (r *reader[C]) descriptors(path, key string) []string {
	for _, ends := range []struct{ theirs, service, child string }{{xstateDoneActor, doneInvoke, doneChild}, {xstateError, errorInvoke, errorChild}} {
		id, ok := strings.CutPrefix(key, ends.theirs)
		if !ok {
			continue
		}
		found, known := r.actors[id]
		switch {
		case id == "*" && r.services && r.children:
			return []string{ends.service + "*", ends.child + "*"}
		case id == "*" && r.children:
			return []string{ends.child + "*"}
		case id == "*":
			return []string{ends.service + "*"}
		case !known:
			r.problem(path, "expected the ID of a state or of an invocation after the prefix, got %q", id)
			return nil
		case found.child:
			return []string{ends.child + found.id}
		default:
			return []string{ends.service + found.id}
		}
	}
	if strings.Contains(strings.TrimSuffix(key, ".*"), "*") && key != "*" {
		return nil // XState takes '*' as a wildcard at the end only, and as a plain character elsewhere
	}
	return []string{r.descriptor(path, key)}
}

func (r *reader[C]) descriptor(path, key string) string {
	own := func(into, rest string, ids func(string) (string, bool)) string {
		if rest == "*" {
			return into + rest
		}
		id, ok := ids(rest)
		if !ok {
			r.problem(path, "expected the ID of a state or of an invocation after the prefix, got %q", rest)
		}
		return into + id
	}
	if rest, ok := strings.CutPrefix(key, xstateDoneState); ok {
		return own(doneState, rest, func(id string) (string, bool) {
			if n := r.ids[id]; n != nil {
				return n.path, true
			}
			return "", false
		})
	}
	switch key {
	case "":
		r.problem(path, "expected an event; put a transition without one under always")
		return key
	case "xstate.done.*", "xstate.error.*":
		return strings.TrimPrefix(key, xstatePrefix)
	case "*", statechart.ExecutionError:
		return key
	}
	if strings.HasPrefix(key, xstatePrefix) && !fromOutside(key) {
		r.problem(path, "expected an event of the machine, or an event of XState that charts support: %s*, %s*, %s*; got %q", xstateDoneState, xstateDoneActor, xstateError, key)
	}
	if rank(key) == exact {
		r.declare(path, key)
	}
	return key
}

// declare adds an event type to the chart's payloads, with the event's JSON as its payload.
func (r *reader[C]) declare(path, typ string) {
	for _, prefix := range []string{doneState, doneInvoke, errorInvoke, doneChild, errorChild, statechart.ReservedPrefix, statechart.ExecutionError} {
		if strings.HasPrefix(typ, prefix) {
			r.problem(path, "expected an event type that does not begin with %s, got %q", prefix, typ)
			return
		}
	}
	if _, known := r.payloads[typ]; !known {
		r.payloads[typ] = statechart.PayloadOf[json.RawMessage]()
	}
}

// transitions reads a single transition or an array of transitions.
func (r *reader[C]) transitions(n *stateNode, path string, v *value, event string) []statechart.Transition[C] {
	var transitions []statechart.Transition[C]
	each(path, v, func(path string, v *value) {
		t := statechart.Transition[C]{Event: event}
		switch v.kind {
		case null: // forbids the event, like undefined
		case text:
			if v.text != "" {
				t.Target = r.targets(n, path, v)
			}
		case object:
			r.check(path, v, "a transition", transitionKeys)
			if target := v.get("target"); target != nil && target.kind != null && (target.kind != text || target.text != "") {
				t.Target = r.targets(n, join(path, "target"), target)
			}
			if guard := v.get("guard"); guard != nil {
				t.Guard = r.guard(join(path, "guard"), guard)
			}
			t.Actions = r.actions(join(path, "actions"), v.get("actions"))
			if doc := v.get("description"); doc != nil {
				if doc.kind != text {
					r.problem(join(path, "description"), "expected a string, got %v", doc.kind)
				}
				t.Doc = doc.text
			}
			if reenter := v.get("reenter"); reenter != nil {
				if reenter.kind != boolean {
					r.problem(join(path, "reenter"), "expected a boolean, got %v", reenter.kind)
				}
				t.Reenter = reenter.truth
			}
		default:
			r.problem(path, "expected a target, a transition or an array of them, got %v", v.kind)
		}
		transitions = append(transitions, t)
	})
	return transitions
}

// targets resolves one or several targets to state paths.
func (r *reader[C]) targets(n *stateNode, path string, v *value) string {
	var targets []string
	each(path, v, func(path string, v *value) {
		if v.kind != text || v.text == "" {
			r.problem(path, "expected a target such as \"sibling\", \".child\" or \"#id\", got %s", v.raw())
			return
		}
		target, problem := r.resolve(n, v.text)
		if problem != "" {
			r.problem(path, "%s, got %q", problem, v.text)
			return
		}
		targets = append(targets, "#"+strings.TrimSuffix(r.root.key+"."+target.path, "."))
	})
	return strings.Join(targets, " ")
}

// resolve resolves a target as XState does. "#id" and "#id.path" are valid from anywhere. ".path" starts below the
// state itself. Any other target is a sibling, or a path that starts with a sibling.
func (r *reader[C]) resolve(n *stateNode, target string) (*stateNode, string) {
	var from *stateNode
	var rest []string
	if id, ok := strings.CutPrefix(target, "#"); ok {
		rest = splitPath(id)
		if from = r.ids[rest[0]]; from == nil {
			return nil, "expected the ID of a state after '#'"
		}
		rest = rest[1:]
	} else if path, ok := strings.CutPrefix(target, "."); ok {
		from, rest = n, splitPath(path)
	} else {
		if n.parent == nil {
			return nil, "expected a target that begins with '.' or '#', because the root has no siblings"
		}
		from, rest = n.parent, splitPath(target)
	}
	for _, key := range rest {
		if key == "" {
			break // XState ends a path at an empty key
		}
		if from = from.child(key); from == nil {
			return nil, "expected an existing state, not " + strconv.Quote(key)
		}
	}
	return from, ""
}
