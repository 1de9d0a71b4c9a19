package xstatejson_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

type drawnState struct {
	key, id string
	// kind is atomic, compound, parallel, final, shallow or deep.
	kind           string
	children       []*drawnState
	initial        string
	initialActions bool
	target         string // the target of a history state
	entry, exit    []any
	tags           []string
	output         any
	on             []drawnOn
	always, onDone []*drawnTransition
	router         bool
	after          []drawnOn
}

type drawnOn struct {
	key         string
	transitions []*drawnTransition
}

type drawnTransition struct {
	targets []string
	guard   any
	actions []any
	reenter bool
}

// drawn is a random machine and its events.
type drawn struct {
	seed   uint64
	root   *drawnState
	events []any
	// notes is set for a machine with eventless transitions that change nothing. Its actions log with notes.
	notes bool
	text  []byte
}

type drawer struct {
	*rand.Rand
	// states holds all states below the root, in document order.
	states []*drawnState
	parent map[*drawnState]*drawnState
}

var (
	externalEvents = []string{"a", "b", "c", "a.x", "a.x.y", "b.y"}
	// Actions raise internalEvents. The transitions on these events are bounded.
	internalEvents = []string{"r", "r.s"}
	tagNames       = []string{"red", "green", "settled"}
)

func draw(seed uint64) *drawn {
	g := &drawer{Rand: rand.New(rand.NewPCG(seed, 1)), parent: map[*drawnState]*drawnState{}}
	root := &drawnState{key: "m", id: "m", kind: "compound"}
	if g.one(4) {
		root.kind = "parallel"
	}
	g.children(root, 0)
	g.connect(root)
	for _, s := range g.states {
		g.connect(s)
	}
	d := &drawn{seed: seed, root: root, notes: g.one(3)}
	for _, s := range append([]*drawnState{root}, g.states...) {
		if d.notes {
			g.resting(s)
		}
	}
	if g.one(2) {
		for _, s := range g.states {
			root.on = append(root.on, drawnOn{"to." + s.key, []*drawnTransition{{targets: []string{g.absolute(s)}, actions: logged("root to " + s.key)}}})
		}
	}
	for range 20 {
		switch {
		case g.one(4):
			d.events = append(d.events, map[string]any{"advance": 5 * (1 + g.IntN(12))})
		case len(root.on) > 4 && g.one(3):
			d.events = append(d.events, map[string]any{"type": "to." + g.states[g.IntN(len(g.states))].key})
		default:
			d.events = append(d.events, map[string]any{"type": externalEvents[g.IntN(len(externalEvents))]})
		}
	}
	return d
}

func (g *drawer) one(of int) bool { return g.IntN(of) == 0 }

func (g *drawer) children(of *drawnState, depth int) {
	count := 2 + g.IntN(2)
	for i := range count {
		s := &drawnState{key: fmt.Sprintf("s%d", len(g.states)), kind: "atomic"}
		g.states = append(g.states, s)
		g.parent[s] = of
		of.children = append(of.children, s)
		if g.one(6) {
			s.id = "id-" + s.key
		}
		switch k := g.IntN(10); {
		case depth < 3 && k < 3:
			s.kind = "compound"
		case depth < 3 && k == 3 || depth == 0 && k == 4:
			s.kind = "parallel"
		case i > 0 && k == 5 && (i < count-1 || of.kind == "compound"):
			s.kind = "shallow"
			if g.one(2) {
				s.kind = "deep"
			}
		case (depth > 0 || g.one(3)) && k == 6 && i > 0:
			s.kind = "final"
		}
		if s.kind == "compound" || s.kind == "parallel" {
			g.children(s, depth+1)
		}
	}
	if of.kind == "parallel" && g.one(2) {
		g.completing(of, depth)
	}
	if of.kind == "compound" {
		first := of.children[0]
		of.initial = first.key
		for _, c := range of.children {
			if isHistory(c) {
				if g.one(2) {
					c.target = first.key
					if g.one(4) && len(first.children) > 0 && !isHistory(first.children[0]) {
						c.target += "." + first.children[0].key
					}
					if g.one(3) {
						of.initial = c.key
					}
				}
			}
		}
		of.initialActions = g.one(25)
	}
}

// completing makes atomic regions above depth 3 compound, and adds a final state to every compound region. The event
// "c" leads to the final state from each atomic child.
func (g *drawer) completing(of *drawnState, depth int) {
	for _, region := range of.children {
		if region.kind == "atomic" && depth < 3 {
			region.kind = "compound"
			g.children(region, 3)
		}
		if region.kind != "compound" {
			continue
		}
		last := &drawnState{key: fmt.Sprintf("s%d", len(g.states)), kind: "final"}
		g.states = append(g.states, last)
		g.parent[last] = region
		region.children = append(region.children, last)
		for _, s := range region.children {
			if s.kind == "atomic" {
				s.on = append(s.on, drawnOn{"c", []*drawnTransition{{targets: []string{last.key}, actions: logged(s.key + " completes")}}})
			}
		}
	}
}

func isHistory(s *drawnState) bool { return s.kind == "shallow" || s.kind == "deep" }

func logged(text string) []any {
	return []any{doc{{"type", "log"}, {"params", map[string]any{"text": text}}}}
}

// connect adds actions, tags and transitions to a state.
func (g *drawer) connect(s *drawnState) {
	if isHistory(s) {
		return
	}
	s.entry, s.exit = logged("+"+s.key), logged("-"+s.key)
	for _, tag := range tagNames {
		if g.one(5) {
			s.tags = append(s.tags, tag)
		}
	}
	if s.kind == "final" {
		if g.one(2) {
			s.output = map[string]any{"from": s.key}
		}
		return
	}
	if g.one(10) {
		s.entry = append(s.entry, g.raise())
	}
	if g.one(12) {
		s.exit = append(s.exit, g.raise())
	}
	keys := slices.Concat(externalEvents, internalEvents, []string{"*", "a.*", "a.x.*", "r.*", "b.*"})
	g.Shuffle(len(keys), func(i, k int) { keys[i], keys[k] = keys[k], keys[i] })
	for _, key := range keys[:g.IntN(5)] {
		on := drawnOn{key: key}
		if key == "*" && !g.one(3) || slices.ContainsFunc(s.on, func(on drawnOn) bool { return on.key == key }) {
			continue
		}
		bounded := key == "*" || strings.HasPrefix(key, "r")
		for range 1 + g.IntN(2) {
			on.transitions = append(on.transitions, g.transition(s, key, bounded))
		}
		if g.one(10) && g.silence() {
			on.transitions = []*drawnTransition{{}} // An empty transition forbids the event.
		}
		s.on = append(s.on, on)
	}
	if g.one(6) {
		s.always = append(s.always, g.transition(s, "always", true))
	}
	for _, delay := range []string{"10", "25", "30", "brief", "growing", "100"} {
		if g.one(14) {
			s.after = append(s.after, drawnOn{delay, []*drawnTransition{g.transition(s, "after "+delay, false)}})
			if g.one(3) {
				s.after[len(s.after)-1].transitions = append(s.after[len(s.after)-1].transitions, g.transition(s, "after "+delay, false))
			}
		}
	}
	if s.key != "m" && s.kind == "compound" && slices.ContainsFunc(s.children, func(c *drawnState) bool { return c.kind == "final" }) || s.key != "m" && s.kind == "parallel" && g.one(2) {
		t := g.transition(s, "done", true)
		t.actions = append([]any{"output"}, t.actions...)
		s.onDone = append(s.onDone, t)
	}
}

func (g *drawer) raise() any {
	return doc{{"type", "xstate.raise"}, {"event", map[string]any{"type": internalEvents[g.IntN(len(internalEvents))]}}}
}

// delayed returns two actions. One cancels the pending events with an ID, and the other raises an event with this ID
// later.
func (g *drawer) delayed() []any {
	id := fmt.Sprintf("d%d", g.IntN(2))
	var delay any = 10 + 10*g.IntN(4)
	if g.one(3) {
		delay = "growing"
	}
	event := map[string]any{"type": []string{"a", "b", "r"}[g.IntN(3)]}
	return []any{
		doc{{"type", "xstate.cancel"}, {"sendId", id}},
		doc{{"type", "xstate.raise"}, {"event", event}, {"delay", delay}, {"id", id}},
	}
}

// transition draws a transition. A bounded transition increments the counter, and its guard fails once the counter
// reaches a limit.
func (g *drawer) transition(from *drawnState, event string, bounded bool) *drawnTransition {
	t := &drawnTransition{reenter: g.one(4), actions: logged(from.key + " " + event)}
	if g.one(3) {
		t.actions = append(t.actions, "inc")
	}
	if g.one(3) {
		t.guard = g.guard(2)
	}
	if g.one(5) {
		bounded = true
		t.actions = append(t.actions, g.raise())
	}
	if g.one(9) {
		t.actions = append(t.actions, g.delayed()...)
	}
	if g.one(30) {
		t.actions = append(t.actions, doc{{"type", "xstate.cancel"}, {"sendId", "d0"}})
	}
	if bounded {
		limit := doc{{"type", "lt"}, {"params", map[string]any{"n": 1 + g.IntN(25)}}}
		t.actions = append(t.actions, "inc")
		if t.guard == nil {
			t.guard = limit
		} else {
			t.guard = doc{{"type", "xstate.and"}, {"guards", []any{limit, t.guard}}}
		}
	}
	t.targets = g.targets(from)
	if len(t.targets) == 1 && (t.targets[0] == from.key || t.targets[0] == "#"+from.id || strings.HasSuffix(t.targets[0], "."+from.key)) && !g.silence() {
		t.reenter = true // otherwise the transition does not leave an atomic state
	}
	return t
}

func (g *drawer) guard(depth int) any {
	switch k := g.IntN(9); {
	case depth > 0 && k == 0:
		return doc{{"type", "xstate.and"}, {"guards", []any{g.guard(depth - 1), g.guard(depth - 1)}}}
	case depth > 0 && k == 1:
		return doc{{"type", "xstate.or"}, {"guards", []any{g.guard(depth - 1), g.guard(depth - 1)}}}
	case depth > 0 && k == 2:
		return doc{{"type", "xstate.not"}, {"guards", []any{g.guard(depth - 1)}}}
	case k <= 5:
		s := g.states[g.IntN(len(g.states))]
		return doc{{"type", "xstate.stateIn"}, {"stateValue", g.absolute(s)}}
	case k == 6:
		return "even"
	case k == 7:
		return "never"
	default:
		return doc{{"type", "lt"}, {"params", map[string]any{"n": g.IntN(12)}}}
	}
}

// absolute returns a target reference that is valid from any state.
func (g *drawer) absolute(s *drawnState) string {
	if s.id != "" && g.one(2) {
		return "#" + s.id
	}
	path := s.key
	for at := g.parent[s]; at != nil; at = g.parent[at] {
		if at.id != "" && (at.key == "m" || g.one(2)) {
			return "#" + at.id + "." + path
		}
		path = at.key + "." + path
	}
	return "#" + path
}

// targets draws no state, one state, or two states in different regions.
func (g *drawer) targets(from *drawnState) []string {
	switch k := g.IntN(10); {
	case k == 0 && g.silence():
		return nil
	case k < 3 && len(from.children) > 0:
		if to := from.children[g.IntN(len(from.children))]; !isHistory(to) || g.one(8) {
			return []string{"." + to.key}
		}
	case k < 6 && from.key != "m":
		siblings := g.parent[from].children
		if to := siblings[g.IntN(len(siblings))]; !isHistory(to) || g.one(8) {
			return []string{to.key}
		}
	case k == 6:
		var parallels []*drawnState
		for _, s := range g.states {
			if s.kind == "parallel" {
				parallels = append(parallels, s)
			}
		}
		if len(parallels) > 0 {
			p := parallels[g.IntN(len(parallels))]
			first, last := p.children[0], p.children[len(p.children)-1]
			return []string{g.absolute(g.below(first)), g.absolute(g.below(last))}
		}
	}
	to := g.states[g.IntN(len(g.states))]
	for isHistory(to) && g.within(from, g.parent[to]) && !g.one(8) {
		to = g.states[g.IntN(len(g.states))]
	}
	return []string{g.absolute(to)}
}

// silence reports whether a transition may have no target. In machines with regions, it rarely returns true, because
// SCXML may also take a transition of an ancestor of the regions, and XState does not.
func (g *drawer) silence() bool {
	return !slices.ContainsFunc(g.states, func(s *drawnState) bool { return s.kind == "parallel" }) &&
		g.parent[g.states[0]].kind != "parallel" || g.one(40)
}

// within reports whether a state equals another or is its descendant.
func (g *drawer) within(s, of *drawnState) bool {
	for ; s != nil; s = g.parent[s] {
		if s == of {
			return true
		}
	}
	return false
}

// below draws the state or a descendant that is not a history state.
func (g *drawer) below(s *drawnState) *drawnState {
	for len(s.children) > 0 && !g.one(3) {
		child := s.children[g.IntN(len(s.children))]
		if isHistory(child) {
			break
		}
		s = child
	}
	return s
}
