package explore_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/settle-run/settle/runtime/durable"
)

// search is a breadth-first search through the worlds of a scenario. It visits worlds with fewer faults first, then worlds
// with fewer steps, so the first violation of a kind has the fewest faults and, among those, the fewest steps.
type search struct {
	scope
	hosts []*durable.Machines
	seen  map[[16]byte]int32
	nodes []node
	// edges lead from each world to the successors that it reaches without a further fault.
	edges [][2]int32
	// todo holds the worlds that are not yet expanded, by their number of faults and their depth.
	todo       [][][]found
	violations map[string]violation
	// The coverage of the search.
	runs, calls, rests, depth int
}

// scope limits the search of a scenario.
type scope struct {
	scenario *scenario
	// faults is the maximum number of faults. `pauses` limits how often a process may wait while others run. `nested`
	// limits how many things may happen while one process waits or is frozen.
	faults, pauses, nested int
}

// worldsMax bounds a search. It is more than any scenario needs, so a search that finds more worlds would never end.
const worldsMax = 400_000

// receivesMax is more than the receives of one message that the limits and the faults together can cause. A message
// that is received more often never comes to rest.
const receivesMax = 9

// node is a visited world, stored as a step from its parent.
type node struct {
	parent           int32
	step             step
	faults, depth    int
	isExpanded, rest bool
}

// step is an action with its decisions other than the default.
type step struct {
	action    string
	decisions []string
}

type found struct {
	node  int32
	world *world
}

// violation is a violated property, with the schedule that leads to it.
type violation struct {
	kind, text string
	steps      []step
	// faults is the number of faults in the schedule. `worlds` is the number of worlds with this violation.
	faults, worlds int
}

// String describes the violation.
func (v violation) String() string {
	return fmt.Sprintf("%s (faults: %d; in %d worlds)", v.text, v.faults, v.worlds)
}

func newSearch(s scope) *search {
	return &search{scope: s, hosts: hosts(s.scenario.versions), seen: map[[16]byte]int32{}, violations: map[string]violation{}, todo: make([][][]found, s.faults+1)}
}

// from searches all worlds that are reachable from `start`. It returns false if there are more than worldsMax.
func (x *search) from(start *world) bool {
	x.add(start, -1, step{}, 0)
	for faults := range x.todo {
		for depth := 0; depth < len(x.todo[faults]); depth++ { //nolint:intrange // The loop body appends to x.todo.
			for i := 0; i < len(x.todo[faults][depth]); i++ { //nolint:intrange // The same.
				f := x.todo[faults][depth][i]
				x.todo[faults][depth][i].world = nil
				if n := x.nodes[f.node]; !n.isExpanded && n.depth == depth {
					x.expand(f)
				}
				if len(x.nodes) > worldsMax {
					return false
				}
			}
			x.todo[faults][depth] = nil
		}
	}
	x.livelocks()
	return true
}

// add queues the successor of a world for expansion, if the successor is new or the new path to it is shorter.
func (x *search) add(w *world, parent int32, s step, depth int) {
	key, faults := w.key(), x.faults-w.left.Faults
	id, known := x.seen[key]
	if !known {
		id = int32(len(x.nodes))
		x.seen[key] = id
		x.nodes = append(x.nodes, node{parent: parent, step: s, faults: faults, depth: depth})
	}
	if parent >= 0 && x.nodes[parent].faults == faults {
		x.edges = append(x.edges, [2]int32{parent, id})
	}
	n := &x.nodes[id]
	if known && (n.isExpanded || n.depth <= depth) {
		return
	}
	n.parent, n.step, n.depth = parent, s, depth
	for len(x.todo[faults]) <= depth {
		x.todo[faults] = append(x.todo[faults], nil)
	}
	x.todo[faults][depth] = append(x.todo[faults][depth], found{id, w})
}

// expand tries all possible next actions, unless the world violates a property.
func (x *search) expand(f found) {
	w, n := f.world, &x.nodes[f.node]
	n.isExpanded = true
	x.depth = max(x.depth, n.depth)
	x.awake(w)
	if len(w.messages)+len(w.scheduled)+len(w.later) == 0 && !w.denied && !w.isInterrupted() {
		n.rest = true
		x.rests++
		x.atRest(w)
	}
	for _, m := range w.messages {
		if m.ReceiveCount > receivesMax && !w.scenario.lanes { // A message may be held in its lane for any time.
			w.wrong("never at rest: %s was received %d times", m.MessageID, m.ReceiveCount)
			break
		}
	}
	if len(w.problems) > 0 {
		n.rest = true // Do not report a livelock as well.
		for _, problem := range w.problems {
			x.violate(f.node, problem)
		}
		return
	}
	depth := n.depth + 1
	for _, a := range x.actions(w, 0) {
		var list []int
		for more := true; more; {
			d, next := &decisions{list: list}, w.clone()
			a.do(next, d)
			x.runs++
			x.add(next, f.node, step{a.name, d.said}, depth)
			list, more = d.next()
		}
	}
}

func (x *search) violate(id int32, problem string) {
	kind, _, _ := strings.Cut(problem, ":")
	v, known := x.violations[kind]
	if !known {
		v = violation{kind: kind, text: problem, faults: x.nodes[id].faults}
		for ; x.nodes[id].parent >= 0; id = x.nodes[id].parent {
			v.steps = append(v.steps, x.nodes[id].step)
		}
		slices.Reverse(v.steps)
	}
	v.worlds++
	x.violations[kind] = v
}

// livelocks finds the worlds that cannot come to rest without a further fault.
func (x *search) livelocks() {
	into := make([][]int32, len(x.nodes))
	for _, e := range x.edges {
		into[e[1]] = append(into[e[1]], e[0])
	}
	reaches := make([]bool, len(x.nodes))
	var todo []int32
	for id, n := range x.nodes {
		if n.rest {
			reaches[id] = true
			todo = append(todo, int32(id))
		}
	}
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, from := range into[id] {
			if !reaches[from] {
				reaches[from] = true
				todo = append(todo, from)
			}
		}
	}
	shortest := int32(-1)
	for id, n := range x.nodes {
		if s := shortest; !reaches[id] && (s < 0 || n.faults < x.nodes[s].faults || n.faults == x.nodes[s].faults && n.depth < x.nodes[s].depth) {
			shortest = int32(id)
		}
	}
	if shortest >= 0 {
		x.violate(shortest, "never at rest: from here, the world cannot come to rest without a further fault")
	}
}

// covered describes the coverage of the search.
func (x *search) covered() string {
	return fmt.Sprintf("%-28s faults %d, pauses %d: %7d worlds, %6d at rest, depth %2d, %8d runs, %9d calls", x.scenario.name, x.faults, x.pauses, len(x.nodes), x.rests, x.depth, x.runs, x.calls)
}

// explore searches a scope in a bubble of virtual time. It returns the violations by kind.
func explore(t *testing.T, s scope) (violations map[string]violation) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := newSearch(s)
		if !x.from(s.scenario.begin(s)) {
			t.Errorf("%s: found more than %d worlds: the scenario does not end, or it is too large", s.scenario.name, worldsMax)
		}
		t.Log(x.covered())
		violations = x.violations
	})
	return violations
}

// TestExplore searches the selected scenarios. A violation is an error unless a script of the same scenario in testdata
// names it as known.
func TestExplore(t *testing.T) {
	t.Parallel()
	known := knownViolations(t)
	for _, s := range selected(t) {
		t.Run(s.scenario.name, func(t *testing.T) {
			t.Parallel()
			violations := explore(t, s)
			for _, kind := range slices.Sorted(maps.Keys(violations)) {
				v := violations[kind]
				script := scriptOf(s, v)
				script.save(t)
				if known[s.scenario.name+": "+kind] {
					t.Logf("known: %s: %s", s.scenario.name, v)
					continue
				}
				t.Errorf("%s: %s. To keep the schedule, run again with -save, or save this as a file in testdata:\n%s", s.scenario.name, v, script)
			}
		})
	}
}
