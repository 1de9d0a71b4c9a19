package benchmark

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
)

// Names of the engines in the table.
const (
	settle    = "settle"
	stateless = "stateless"
	host      = "statelesshost"
	looplab   = "fsm"
	kit       = "statekit"
	xstate    = "xstate"
)

// counts holds the number of callbacks of each kind. It is the context in engines that have a context.
type counts struct {
	Exits   int `json:"exits"`
	Actions int `json:"actions"`
	Entries int `json:"entries"`
}

// seen is the observed work of one engine.
type seen struct {
	counts
	// Guards counts guard calls. It is not part of the context, because guards must not change the context.
	Guards int `json:"guards"`
	// State holds the IDs of the active atomic states, sorted.
	State []string `json:"state"`
}

// subject is one engine in one case. It starts in the case's initial state.
type subject struct {
	// run applies the case's event n times. The loop is inside run, so that no engine pays for calls through a function
	// value.
	run  func(n int) error
	seen func() seen
}

// benchmarkCase is one task and the engines that perform it.
type benchmarkCase struct {
	name string
	// `each` is the work of one event.
	each seen
	// state returns the active atomic states after n events.
	state   func(n int) []string
	engines []engine
}

type engine struct {
	name string
	make func() (subject, error)
}

var cases = []benchmarkCase{
	{
		// Two states, one event, one action.
		name: "flat", each: seen{counts: counts{Actions: 1}}, state: toggled("off", "on"),
		engines: []engine{{settle, settleFlat}, {stateless, statelessFlat}, {host, hostedFlat}, {looplab, looplabFlat}, {kit, kitFlat}},
	},
	{
		// Like the case "flat", but the event carries a payload of a custom type, which the action reads.
		name: "payload", each: seen{counts: counts{Actions: 1}}, state: toggled("off", "on"),
		engines: []engine{{settle, settlePayload}, {stateless, statelessPayload}, {host, hostedPayload}, {looplab, looplabPayload}, {kit, kitPayload}},
	},
	{
		// A transition from a leaf three levels deep to a leaf three levels deep in another branch.
		name: "nested3", each: seen{counts: nestedCounts}, state: toggled("a3", "b3"),
		engines: []engine{{settle, settleNested}, {stateless, statelessNested}, {host, hostedNested}, {kit, kitNested}},
	},
	{
		// Five guarded transitions on one event. The guard of the last one holds.
		name: "guards", each: seen{counts: counts{Actions: 1}, Guards: guards}, state: toggled("off", "on"),
		engines: []engine{{settle, settleGuards}, {stateless, statelessGuards}, {kit, kitGuards}},
	},
	{
		// A parallel state with three regions. Each takes a transition on the same event.
		name: "regions3", each: seen{counts: counts{Actions: 3}}, state: func(n int) []string {
			active := toggled("off", "on")(n)[0]
			return []string{active + "1", active + "2", active + "3"}
		},
		engines: []engine{{settle, settleRegions}, {kit, kitRegions}},
	},
	{
		// Restore from JSON, apply the event of the case "nested3", persist to JSON. The counts are stored too.
		name: "persist", each: seen{counts: nestedCounts}, state: toggled("a3", "b3"),
		engines: []engine{{settle, settlePersist}, {stateless, statelessPersist}, {host, hostedPersist}, {kit, kitPersist}},
	},
	ringCase("large10", flatRing(10), looplabRing),
	ringCase("large1000", flatRing(1000), looplabRing),
	// The ring of the case "large1000", with its states grouped 10 by 10 by 10.
	ringCase("deep1000", nestedRing()),
}

// nestedCounts is the work of one event in the case "nested3": seven callbacks.
var nestedCounts = counts{Exits: 3, Actions: 1, Entries: 3}

// guards is the number of guarded transitions in the case "guards".
const guards = 5

// ringCase returns a case with a ring of states. The event leads from each state to the next.
func ringCase(name string, r ring, flatOnly ...func(ring) (subject, error)) benchmarkCase {
	c := benchmarkCase{
		name: name, each: seen{counts: counts{Actions: 1}},
		state: func(n int) []string { return []string{r.leaf(n)} },
	}
	add := func(name string, with func(ring) (subject, error)) {
		c.engines = append(c.engines, engine{name, func() (subject, error) { return with(r) }})
	}
	add(settle, settleRing)
	add(stateless, statelessRing)
	for _, with := range flatOnly {
		add(looplab, with)
	}
	add(kit, kitRing)
	return c
}

// ring is the shape of the large charts: a tree with the leaves s0, s1, s2 and so on, from left to right.
type ring struct {
	leaves int
	tops   []group
}

// group is one state of a ring's tree.
type group struct {
	id       string
	children []group
}

func (r ring) leaf(i int) string { return fmt.Sprintf("s%d", i%r.leaves) }

func (r ring) next(leaf string) string {
	var i int
	if _, err := fmt.Sscanf(leaf, "s%d", &i); err != nil {
		panic(err)
	}
	return r.leaf(i + 1)
}

func flatRing(leaves int) ring {
	r := ring{leaves: leaves}
	for i := range leaves {
		r.tops = append(r.tops, group{id: r.leaf(i)})
	}
	return r
}

func nestedRing() ring {
	r := ring{leaves: 1000}
	for i := range 10 {
		top := group{id: fmt.Sprintf("g%d", i)}
		for j := range 10 {
			middle := group{id: fmt.Sprintf("%sh%d", top.id, j)}
			for k := range 10 {
				middle.children = append(middle.children, group{id: r.leaf(100*i + 10*j + k)})
			}
			top.children = append(top.children, middle)
		}
		r.tops = append(r.tops, top)
	}
	return r
}

// toggled returns the state function of a case that alternates between two states.
func toggled(first, second string) func(int) []string {
	return func(n int) []string {
		if n%2 == 0 {
			return []string{first}
		}
		return []string{second}
	}
}

// other returns whichever of the two states is not `id`.
func other(id, first, second string) string {
	if id == first {
		return second
	}
	return first
}

// BenchmarkEvent measures the cost of one event: BenchmarkEvent/<case>/<engine>.
func BenchmarkEvent(b *testing.B) {
	for _, c := range cases {
		for _, e := range c.engines {
			b.Run(c.name+"/"+e.name, func(b *testing.B) {
				s, err := e.make()
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.ResetTimer()
				if err := s.run(b.N); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// checkpoints are the numbers of events after which the tests compare engines.
var checkpoints = []int{1, 2, 3, 13, 1001}

func TestEveryEngineDoesTheSameWork(t *testing.T) {
	t.Parallel()
	for _, c := range cases {
		for _, e := range c.engines {
			t.Run(c.name+"/"+e.name, func(t *testing.T) {
				t.Parallel()
				s, err := e.make()
				if err != nil {
					t.Fatal(err)
				}
				before := s.seen().counts // the counts after the initial state was entered
				sent := 0
				for _, n := range checkpoints {
					if err := s.run(n - sent); err != nil {
						t.Fatal(err)
					}
					sent = n
					got := s.seen()
					got.Exits -= before.Exits
					got.Actions -= before.Actions
					got.Entries -= before.Entries
					compare(t, n, got, c.want(n))
				}
			})
		}
	}
}

func (c benchmarkCase) want(n int) seen {
	return seen{
		counts: counts{Exits: n * c.each.Exits, Actions: n * c.each.Actions, Entries: n * c.each.Entries},
		Guards: n * c.each.Guards,
		State:  c.state(n),
	}
}

func compare(t *testing.T, n int, got, want seen) {
	t.Helper()
	if got.counts != want.counts || got.Guards != want.Guards || !slices.Equal(got.State, want.State) {
		t.Errorf("after %d events:\n got %+v\nwant %+v", n, got, want)
	}
}

func sorted[S cmp.Ordered](states []S) []S {
	slices.Sort(states)
	return states
}
