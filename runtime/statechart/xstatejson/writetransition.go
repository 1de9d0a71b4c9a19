package xstatejson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/internal/outline"
)

// candidate is a transition of a state with its event descriptor in the chart.
type candidate struct {
	descriptor string
	transition value
}

// on writes the transitions on events and the invocations of a state. It returns the transitions on the state's own
// done event.
//
// A chart tries transitions in document order. XState tries the event's own type first, then prefixes from long to
// short, then "*". If a wildcard precedes a descriptor that XState would try earlier, the function writes a copy of
// the wildcard's transition with that descriptor.
func (w *writer) on(v, meta *value, s *outline.State, path string) (onDone []value) {
	var candidates []candidate
	for i := range s.On {
		if _, to, is := routeOf(&s.On[i]); is && path == "" && w.routes[to].Event != "" {
			continue
		}
		candidates = append(candidates, candidate{s.On[i].Event, w.transition(path, &s.On[i])})
	}
	apart := map[string]bool{}
	end := func(descriptor string, transitions []outline.Transition) {
		apart[descriptor] = true
		for i := range transitions {
			candidates = append(candidates, candidate{descriptor, w.transition(path, &transitions[i])})
		}
	}
	own := doneState + path
	end(own, s.OnDone)
	for i := range s.Invoke {
		id := cmp.Or(s.Invoke[i].ID, invokeID(w.chart.Root.ID, path, i))
		end(doneInvoke+id, s.Invoke[i].OnDone)
		end(errorInvoke+id, s.Invoke[i].OnError)
	}
	for i := range s.Children {
		id := cmp.Or(s.Children[i].ID, invokeID(w.chart.Root.ID, path, i))
		end(doneChild+id, s.Children[i].OnDone)
		end(errorChild+id, s.Children[i].OnError)
	}
	w.invokes(v, meta, s, path, candidates)
	var descriptors []string
	for _, c := range candidates {
		if !apart[c.descriptor] && !slices.Contains(descriptors, c.descriptor) {
			descriptors = append(descriptors, c.descriptor)
		}
	}
	slices.SortStableFunc(descriptors, func(a, b string) int { return rank(b) - rank(a) })
	on := value{kind: object}
	for _, descriptor := range descriptors {
		key, transitions := w.descriptor(path, descriptor), one(pick(candidates, descriptor))
		if twin, is := w.twin(descriptor); is && !slices.Contains(descriptors, twin) {
			w.problem(path, "expected both descriptors %q and %q, because XState has one for both", twin, descriptor)
		}
		if same := on.get(key); same == nil {
			on.set(key, transitions)
		} else if !bytes.Equal(same.raw(), transitions.raw()) {
			w.problem(path, "expected the same transitions on the ends of services and of children, because XState has one descriptor, %q", key)
		}
	}
	slices.SortStableFunc(on.members, func(a, b member) int { return compareKeys(a.key, b.key) })
	if len(on.members) > 0 {
		v.set("on", on)
	}
	return pick(candidates, own)
}

// pick returns the transitions for a descriptor in XState: its own, and any earlier ones that match the same events.
func pick(candidates []candidate, descriptor string) []value {
	last := -1
	for i, c := range candidates {
		if c.descriptor == descriptor {
			last = i
		}
	}
	var picked []value
	for _, c := range candidates[:last+1] {
		if covers(c.descriptor, descriptor) {
			picked = append(picked, c.transition)
		}
	}
	return picked
}

// ends lists the events that report the end of services and children, here and in XState.
var ends = []struct {
	prefix, theirs string
	child          bool
}{
	{doneInvoke, xstateDoneActor, false}, {errorInvoke, xstateError, false},
	{doneChild, xstateDoneActor, true}, {errorChild, xstateError, true},
}

// twin returns the wildcard for the ends of children, given the wildcard for the ends of services, or the reverse.
// XState has one wildcard for both. twin reports false if Read would not add the returned wildcard.
func (w *writer) twin(descriptor string) (string, bool) {
	for i, end := range ends {
		if descriptor == end.prefix+"*" {
			twin := ends[(i+2)%len(ends)]
			is := twin.child && w.chart.UsesChildren
			for a := range w.actors {
				is = is || a.child == twin.child
			}
			return twin.prefix + "*", is
		}
	}
	return "", false
}

// descriptor translates an event descriptor to XState's form.
func (w *writer) descriptor(path, descriptor string) string {
	if rest, ok := strings.CutPrefix(descriptor, doneState); ok {
		if rest == "*" {
			return xstateDoneState + rest
		}
		return xstateDoneState + w.id(rest)
	}
	for _, end := range ends {
		if id, ok := strings.CutPrefix(descriptor, end.prefix); ok {
			if name, invoked := w.actors[actor{end.child, id}]; invoked {
				return end.theirs + name
			}
			if end.child {
				w.children[id] = true
			}
			return end.theirs + id
		}
	}
	switch descriptor {
	case "done.*", "error.*":
		prefix := strings.TrimSuffix(descriptor, "*")
		for _, typ := range slices.Concat(w.chart.Events, w.chart.Internal) {
			if strings.HasPrefix(typ, prefix) {
				w.problem(path, "expected no event type %q next to the descriptor %q, which has another name in XState", typ, descriptor)
			}
		}
		return xstatePrefix + descriptor
	}
	if strings.HasPrefix(descriptor, xstatePrefix) && !fromOutside(descriptor) {
		w.problem(path, "expected event types that do not begin with %s, which XState reserves, got %q", xstatePrefix, descriptor)
	}
	w.named[descriptor] = true
	return descriptor
}

// invokes writes the services of a state, followed by its children.
func (w *writer) invokes(v, meta *value, s *outline.State, path string, candidates []candidate) {
	var invokes, extras []value
	plain := true
	add := func(id, src string, input json.RawMessage, done, failed string, extra value) {
		out := value{}
		if id != "" {
			out.set("id", textValue(id))
		}
		out.set("src", textValue(src))
		if input != nil {
			out.set("input", w.raw(path, src, input))
		}
		if transitions := pick(candidates, done); len(transitions) > 0 {
			out.set("onDone", one(transitions))
		}
		if transitions := pick(candidates, failed); len(transitions) > 0 {
			out.set("onError", one(transitions))
		}
		plain = plain && len(extra.members) == 0
		invokes, extras = append(invokes, out), append(extras, extra)
	}
	for i := range s.Invoke {
		invoke := &s.Invoke[i]
		id := cmp.Or(invoke.ID, invokeID(w.chart.Root.ID, path, i))
		if invoke.Service == "" {
			w.problem(path, "expected services with names")
		}
		add(invoke.ID, invoke.Service, invoke.Params, doneInvoke+id, errorInvoke+id, policyValue(invoke.Timeout, invoke.Retry))
	}
	for i := range s.Children {
		child := &s.Children[i]
		id := cmp.Or(child.ID, invokeID(w.chart.Root.ID, path, i))
		extra := value{}
		extra.set("child", value{kind: boolean, truth: true})
		add(child.ID, child.Machine, child.Input, doneChild+id, errorChild+id, extra)
	}
	if len(invokes) > 0 {
		v.set("invoke", one(invokes))
	}
	if !plain {
		meta.set("invoke", list(extras...))
	}
}

func policyValue(timeout time.Duration, retry outline.Retry) value {
	policy := value{kind: object}
	if timeout != 0 {
		policy.set("timeout", numberValue(formatMilliseconds(timeout)))
	}
	if retry != (outline.Retry{}) {
		policy.set("retry", retryValue(retry))
	}
	return policy
}

func retryValue(p outline.Retry) value {
	v := value{kind: object}
	set := func(key, number string, is bool) {
		if is {
			v.set(key, numberValue(number))
		}
	}
	set("attempts", strconv.Itoa(p.Attempts), p.Attempts != 0)
	set("interval", formatMilliseconds(p.Interval), p.Interval != 0)
	set("rate", strconv.FormatFloat(p.Rate, 'g', -1, 64), p.Rate != 0)
	set("intervalMax", formatMilliseconds(p.IntervalMax), p.IntervalMax != 0)
	return v
}

func (w *writer) transitions(v *value, key, path string, transitions []outline.Transition) {
	var items []value
	for i := range transitions {
		items = append(items, w.transition(path, &transitions[i]))
	}
	if len(items) > 0 {
		v.set(key, one(items))
	}
}

func (w *writer) transition(path string, t *outline.Transition) value {
	v := value{kind: object}
	if len(t.Targets) > 0 {
		v.set("target", w.targets(path, t.Targets))
	}
	if t.Guard != nil {
		v.set("guard", w.guard(path, *t.Guard))
	}
	w.actions(&v, "actions", path, t.Actions)
	if t.Reenter {
		v.set("reenter", value{kind: boolean, truth: true})
	}
	if t.Doc != "" {
		v.set("description", textValue(t.Doc))
	}
	return v
}

// targets writes the targets of a transition or history state at a path: a sibling by its key, a descendant as
// ".child", and any other state as "#machine.path".
func (w *writer) targets(path string, targets []string) value {
	var items []value
	for _, to := range targets {
		items = append(items, textValue(w.target(path, to)))
	}
	return one(items)
}

func (w *writer) target(from, to string) string {
	parent, _, _ := cutLast(from)
	of, key, _ := cutLast(to)
	switch {
	case from != "" && to != "" && of == parent:
		return key
	case from != to && from == "":
		return "." + to
	case strings.HasPrefix(to, from+"."):
		return strings.TrimPrefix(to, from)
	default:
		return "#" + w.id(to)
	}
}

// cutLast splits the last state off a path.
func cutLast(path string) (parent, id string, nested bool) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}
