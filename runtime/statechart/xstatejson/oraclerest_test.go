package xstatejson_test

import "slices"

// resting may add unbounded eventless transitions to a state. XState takes them until a microstep changes nothing.
// The transition of an atomic state has no target, or leads to the state itself. The transitions of a compound state
// choose a child by guards: such a state is a router.
func (g *drawer) resting(s *drawnState) {
	for at := s; at != nil; at = g.parent[at] {
		if at.router { // Two routers would undo each other's choices for ever.
			return
		}
	}
	if !rests(s) {
		return
	}
	always := func(guard any, targets ...string) {
		s.always = append(s.always, &drawnTransition{targets: targets, guard: guard, actions: logged(s.key + " rests")})
	}
	var children []*drawnState
	for _, c := range s.children {
		if !isHistory(c) {
			children = append(children, c)
		}
	}
	switch {
	case s.kind == "compound" && len(children) > 1 && g.one(6):
		s.router = true
		var guard any = "even" // Guards that test active states would let the router alternate for ever.
		if g.one(2) {
			guard = doc{{"type", "lt"}, {"params", map[string]any{"n": g.IntN(12)}}}
		}
		always(guard, "."+children[0].key)
		if g.one(2) {
			guard = nil
		} else {
			guard = doc{{"type", "xstate.not"}, {"guards", []any{guard}}}
		}
		always(guard, "."+children[1].key)
	case s.kind == "atomic" && g.one(12):
		if g.one(2) && g.silence() {
			always(g.guard(1))
		} else {
			always(g.guard(1), s.key)
		}
	}
}

// rests reports whether entering a state raises no event. Otherwise a router would enter its children for ever.
func rests(s *drawnState) bool {
	return s.kind != "final" && len(s.entry)+len(s.exit) <= 2 && !slices.ContainsFunc(s.children, func(c *drawnState) bool { return !rests(c) })
}
