package xstatejson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settle-run/settle/runtime/internal/outline"
	"github.com/settle-run/settle/runtime/statechart"
)

// Write writes a chart as a machine config of XState v5 that Read can read. The output is deterministic. The error is
// an *Error with all features that have no XState form.
func Write[C any](chart *statechart.Chart[C]) ([]byte, error) { return WriteOutline(chart.Outline()) }

// WriteOutline is Write for a chart whose context type is unknown, such as the chart of a durable.Machine.
func WriteOutline(chart *statechart.Outline) ([]byte, error) {
	w := &writer{chart: chart, named: map[string]bool{}, actors: map[actor]string{}, spawned: map[string]bool{}, children: map[string]bool{}}
	w.findActors(&chart.Root, "")
	w.findRoutes(&chart.Root)
	config := w.state(&chart.Root, nil, "")
	if len(w.problems) > 0 {
		return nil, &Error{What: "writing an XState machine", Problems: w.problems}
	}
	var b bytes.Buffer
	if err := json.Indent(&b, config.raw(), "", "  "); err != nil {
		return nil, fmt.Errorf("xstatejson: writing chart %s: %w", chart.Root.ID, err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

type writer struct {
	chart    *outline.Chart
	problems []Problem
	// named holds the event types in the config. Read declares them.
	named map[string]bool
	// actors maps invoked actors to their XState IDs.
	actors map[actor]string
	// spawned holds the IDs of children that actions of the config spawn. children holds the IDs of children whose ends
	// the config names.
	spawned, children map[string]bool
	// routes maps paths of states to their routes.
	routes map[string]route
}

func (w *writer) problem(path, format string, args ...any) {
	w.problems = append(w.problems, Problem{Path: path, Text: fmt.Sprintf(format, args...)})
}

func textValue(s string) value { return value{kind: text, text: s} }

func numberValue(s string) value { return value{kind: number, text: s} }

func list(items ...value) value { return value{kind: array, items: items} }

// one returns a list, or its only item.
func one(items []value) value {
	if len(items) == 1 {
		return items[0]
	}
	return list(items...)
}

// rawValue parses JSON that the chart holds.
func rawValue(text json.RawMessage) (value, error) { return parse(text) }

func (v *value) set(key string, to value) {
	v.kind = object
	v.members = append(v.members, member{key, to})
}

// id returns the ID of a state in XState.
func (w *writer) id(path string) string {
	return strings.TrimSuffix(w.chart.Root.ID+"."+path, ".")
}

func below(path, id string) string { return strings.TrimPrefix(path+"."+id, ".") }

func (w *writer) findActors(s *outline.State, path string) {
	for i := range s.Invoke {
		w.findActor(path, s.Invoke[i].ID, false, i, i)
	}
	for i := range s.Children {
		w.findActor(path, s.Children[i].ID, true, i, len(s.Invoke)+i)
	}
	for i := range s.States {
		w.findActors(&s.States[i], below(path, s.States[i].ID))
	}
}

// findActor determines the XState ID of an invoked actor. A default ID contains a position, for which XState counts
// services and children together.
func (w *writer) findActor(path, id string, child bool, index, position int) {
	name := id
	if id == "" {
		id, name = invokeID(w.chart.Root.ID, path, index), strconv.Itoa(position)+"."+w.id(path)
	}
	w.actors[actor{child, id}] = name
	if other, both := w.actors[actor{!child, id}]; both && other == name {
		w.problem(path, "expected different IDs for services and children, got %q for both", id)
	}
}

// state writes a state and its descendants. Keys are in a fixed order: the kind of the state, its actions, its
// transitions, its children.
func (w *writer) state(s, parent *outline.State, path string) value {
	v := value{kind: object}
	if parent == nil {
		v.set("id", textValue(s.ID))
		v.set("version", textValue(strconv.Itoa(w.chart.Version)))
	}
	if own, ok := w.routes[path]; ok {
		v.set("id", textValue(own.id))
		v.set("route", w.transition("", &own.Transition))
	}
	meta := value{kind: object}
	if s.Doc != "" {
		v.set("description", textValue(s.Doc))
	}
	switch statechart.Type(s.Type) {
	case statechart.Parallel:
		v.set("type", textValue("parallel"))
	case statechart.Final:
		v.set("type", textValue("final"))
	case statechart.ShallowHistory, statechart.DeepHistory:
		w.history(&v, s, parent, path)
		w.meta(&v, &meta, s.Meta, path)
		return v
	default:
		w.initial(&v, s, path)
	}
	w.strings(&v, "tags", s.Tags)
	if parent == nil {
		w.literal(&v, "context", path, w.chart.Context)
		w.literal(&v, "output", path, w.chart.Output)
	}
	w.literal(&v, "output", path, s.Output)
	w.actions(&v, "entry", path, s.Entry)
	w.actions(&v, "exit", path, s.Exit)
	onDone := w.on(&v, &meta, s, path)
	w.transitions(&v, "always", path, s.Always)
	w.after(&v, &meta, s, path)
	if len(onDone) > 0 {
		v.set("onDone", one(onDone))
	}
	if len(s.States) > 0 {
		v.set("states", w.states(s, path))
	}
	w.deferred(&meta, s)
	if parent == nil {
		w.events(&meta)
	}
	w.meta(&v, &meta, s.Meta, path)
	return v
}

// literal writes the constant result of a function, if it is known.
func (w *writer) literal(v *value, key, path string, result json.RawMessage) {
	if result != nil {
		v.set(key, w.raw(path, key, result))
	}
}

// meta writes the meta of a state, with this package's data under the key "settle". If the state's own meta is not an
// object or has that key, meta writes it into this package's data, under the key "meta".
func (w *writer) meta(v, settle *value, own any, path string) {
	meta := value{kind: object}
	if own != nil {
		text, err := json.Marshal(own)
		if err == nil {
			meta, err = parse(text)
		}
		if err != nil {
			w.problem(path, "the Meta: %v", err)
		}
	}
	switch {
	case meta.kind == null:
		meta = value{kind: object}
	case meta.kind != object && len(settle.members) > 0, meta.get("settle") != nil:
		settle.set("meta", meta)
		meta = value{kind: object}
	}
	if len(settle.members) > 0 {
		meta.set("settle", *settle)
	}
	if own != nil || len(meta.members) > 0 {
		v.set("meta", meta)
	}
}

// deferred lists the descriptors of a state's deferred events.
func (w *writer) deferred(meta *value, s *outline.State) {
	w.strings(meta, "defer", s.Defer)
	for _, descriptor := range s.Defer {
		w.named[descriptor] = true
	}
}

func (w *writer) states(s *outline.State, path string) value {
	states := value{kind: object}
	for i := range s.States {
		child := &s.States[i]
		at := below(path, child.ID)
		if strings.Contains(child.ID, `\`) {
			w.problem(at, "expected an ID without '\\', which XState reads as an escape, got %q", child.ID)
		}
		states.set(child.ID, w.state(child, s, at))
	}
	if !slices.IsSortedFunc(states.members, func(a, b member) int { return compareKeys(a.key, b.key) }) {
		w.problem(path, "expected children in the key order of JavaScript: numeric IDs first, ascending")
	}
	return states
}

func (w *writer) initial(v *value, s *outline.State, path string) {
	if len(s.States) == 0 {
		return
	}
	if !slices.ContainsFunc(s.States, func(child outline.State) bool { return child.ID == s.Initial }) {
		w.problem(path, "expected a child as the initial state, because XState allows no other, got %q", s.Initial)
	}
	if len(s.DefaultEntry) == 0 {
		v.set("initial", textValue(s.Initial))
		return
	}
	initial := value{}
	initial.set("target", textValue(s.Initial))
	w.actions(&initial, "actions", path, s.DefaultEntry)
	v.set("initial", initial)
}

// history writes a history state. Without a target, XState runs the actions of the parent's initial transition.
func (w *writer) history(v *value, s, parent *outline.State, path string) {
	v.set("type", textValue("history"))
	if statechart.Type(s.Type) == statechart.DeepHistory {
		v.set("history", textValue("deep"))
	} else {
		v.set("history", textValue("shallow"))
	}
	targets := s.Targets
	own, inherited := value{}, value{}
	w.actions(&own, "actions", path, s.DefaultEntry)
	if len(targets) == 0 && statechart.Type(parent.Type) != statechart.Parallel {
		w.actions(&inherited, "actions", path, parent.DefaultEntry)
		if len(s.DefaultEntry) == 0 && len(parent.DefaultEntry) > 0 {
			above, _, _ := cutLast(path)
			for _, initial := range strings.Fields(parent.Initial) {
				targets = append(targets, below(above, initial))
			}
			inherited = own
		}
	}
	if !bytes.Equal(own.raw(), inherited.raw()) {
		w.problem(path, "expected no actions: a history state has none in XState")
	}
	if len(targets) > 0 {
		v.set("target", w.targets(path, targets))
	}
}

func (w *writer) strings(v *value, key string, texts []string) {
	var items []value
	for _, t := range texts {
		items = append(items, textValue(t))
	}
	if len(items) > 0 {
		v.set(key, list(items...))
	}
}

// events lists the event types and the children that Read would not find elsewhere in the config.
func (w *writer) events(meta *value) {
	for id := range w.spawned {
		delete(w.children, id)
	}
	if len(w.spawned) > 0 || slices.ContainsFunc(slices.Collect(maps.Keys(w.actors)), func(a actor) bool { return a.child }) {
		delete(w.children, "*")
	}
	w.strings(meta, "children", sortedKeys(w.children))
	external := slices.DeleteFunc(slices.Clone(w.chart.Events), func(typ string) bool { return w.named[typ] })
	w.strings(meta, "events", external)
	w.strings(meta, "internal", w.chart.Internal)
}

// after writes the delayed transitions. A constant delay with its own ID becomes a named delay, and so does a
// computed delay.
func (w *writer) after(v, meta *value, s *outline.State, path string) {
	var keys []string
	groups, constants := map[string][]value{}, value{}
	for i := range s.After {
		after := &s.After[i]
		key := after.ID
		_, numeric := milliseconds(key)
		switch {
		case key == "":
			key = formatMilliseconds(after.Delay)
			if delay, _ := milliseconds(key); delay != after.Delay {
				w.problem(path, "after %v: expected a delay that a JavaScript number of milliseconds can represent", after.Delay)
			}
		case numeric && key != "0":
			w.problem(path, "after %s: expected a non-numeric ID, because XState reads a number as milliseconds", key)
		case after.Delay > 0 && constants.get(key) == nil:
			constants.set(key, numberValue(formatMilliseconds(after.Delay)))
		}
		if _, known := groups[key]; !known {
			keys = append(keys, key)
		}
		groups[key] = append(groups[key], w.transition(path, &after.Transition))
	}
	if len(keys) == 0 {
		return
	}
	slices.SortStableFunc(keys, compareKeys)
	timers := value{}
	for _, key := range keys {
		timers.set(key, one(groups[key]))
	}
	v.set("after", timers)
	if len(constants.members) > 0 {
		slices.SortStableFunc(constants.members, func(a, b member) int { return compareKeys(a.key, b.key) })
		meta.set("after", constants)
	}
}

func formatMilliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64)
}
