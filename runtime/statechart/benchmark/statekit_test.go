package benchmark

import (
	"encoding/json"
	"fmt"

	"github.com/felixgeelhaar/statekit"
)

// statekit changes its context in place. It requires state IDs that are unique in the machine. It visits active regions
// in the random order of a Go map.

func newKit(initial statekit.StateID) *statekit.MachineBuilder[counts] {
	return statekit.NewMachine[counts]("benchmark").WithInitial(initial).
		WithAction("exit", func(c *counts, _ statekit.Event) { c.Exits++ }).
		WithAction("action", func(c *counts, _ statekit.Event) { c.Actions++ }).
		WithAction("entry", func(c *counts, _ statekit.Event) { c.Entries++ })
}

func kitFlat() (subject, error) {
	b := newKit("off")
	b.State("off").On("TOGGLE").Target("on").Do("action")
	b.State("on").On("TOGGLE").Target("off").Do("action")
	return kitSubject(b, statekit.Event{Type: "TOGGLE"}, nil)
}

func kitPayload() (subject, error) {
	b := newKit("off").WithAction("add", func(c *counts, e statekit.Event) { c.Actions += e.Payload.(added).N })
	b.State("off").On("ADD").Target("on").Do("add")
	b.State("on").On("ADD").Target("off").Do("add")
	return kitSubject(b, statekit.Event{Type: "ADD", Payload: added{N: 1}}, nil)
}

func kitNestedMachine() *statekit.MachineBuilder[counts] {
	b := newKit("a1")
	for _, name := range []string{"a", "b"} {
		id := func(level string) statekit.StateID { return statekit.StateID(name + level) }
		s := b.State(id("1")).WithInitial(id("2")).OnEntry("entry").OnExit("exit")
		s = s.State(id("2")).WithInitial(id("3")).OnEntry("entry").OnExit("exit")
		s = s.State(id("3")).OnEntry("entry").OnExit("exit")
		s.On("GO").Target(statekit.StateID(other(name, "a", "b") + "3")).Do("action")
	}
	return b
}

func kitNested() (subject, error) {
	return kitSubject(kitNestedMachine(), statekit.Event{Type: "GO"}, nil)
}

func kitGuards() (subject, error) {
	asked := new(int)
	b := newKit("off").
		WithGuard("no", func(counts, statekit.Event) bool { *asked++; return false }).
		WithGuard("yes", func(counts, statekit.Event) bool { *asked++; return true })
	for _, id := range []string{"off", "on"} {
		s := b.State(statekit.StateID(id))
		for range guards - 1 {
			s.On("GO").Target("never").Guard("no")
		}
		s.On("GO").Target(statekit.StateID(other(id, "off", "on"))).Guard("yes").Do("action")
	}
	b.State("never")
	return kitSubject(b, statekit.Event{Type: "GO"}, asked)
}

func kitRegions() (subject, error) {
	b := newKit("both")
	parallel := b.State("both").Parallel()
	for i := 1; i <= 3; i++ {
		off, on := statekit.StateID(fmt.Sprintf("off%d", i)), statekit.StateID(fmt.Sprintf("on%d", i))
		region := parallel.Region(statekit.StateID(fmt.Sprintf("region%d", i))).WithInitial(off)
		region.State(off).On("TOGGLE").Target(on).Do("action")
		region.State(on).On("TOGGLE").Target(off).Do("action")
		region.EndRegion()
	}
	return kitSubject(b, statekit.Event{Type: "TOGGLE"}, nil)
}

func kitRing(r ring) (subject, error) {
	b := newKit(statekit.StateID(r.tops[0].id))
	var add func(groups []group, state func(statekit.StateID) *statekit.StateBuilder[counts])
	add = func(groups []group, state func(statekit.StateID) *statekit.StateBuilder[counts]) {
		for _, g := range groups {
			s := state(statekit.StateID(g.id))
			if len(g.children) == 0 {
				s.On("NEXT").Target(statekit.StateID(r.next(g.id))).Do("action")
				continue
			}
			s.WithInitial(statekit.StateID(g.children[0].id))
			add(g.children, s.State)
		}
	}
	add(r.tops, b.State)
	return kitSubject(b, statekit.Event{Type: "NEXT"}, nil)
}

func kitSubject(b *statekit.MachineBuilder[counts], event statekit.Event, asked *int) (subject, error) {
	machine, err := b.Build()
	if err != nil {
		return subject{}, err
	}
	interpreter := statekit.NewInterpreter(machine)
	interpreter.Start()
	return subject{
		run: func(n int) error {
			for range n {
				interpreter.Send(event)
			}
			return nil
		},
		seen: func() seen { return kitSeen(interpreter.State(), asked) },
	}, nil
}

// kitPersist restores each stored snapshot into a new interpreter, like a process that handles one event.
func kitPersist() (subject, error) {
	machine, err := kitNestedMachine().Build()
	if err != nil {
		return subject{}, err
	}
	interpreter := statekit.NewInterpreter(machine)
	interpreter.Start()
	stored, err := json.Marshal(interpreter.Snapshot())
	if err != nil {
		return subject{}, err
	}
	return subject{
		run: func(n int) error {
			for range n {
				var snapshot statekit.Snapshot[counts]
				if err := json.Unmarshal(stored, &snapshot); err != nil {
					return err
				}
				interpreter = statekit.NewInterpreter(machine)
				if err := interpreter.Restore(snapshot); err != nil {
					return err
				}
				interpreter.Send(statekit.Event{Type: "GO"})
				if stored, err = json.Marshal(interpreter.Snapshot()); err != nil {
					return err
				}
			}
			return nil
		},
		seen: func() seen { return kitSeen(interpreter.State(), nil) },
	}, nil
}

func kitSeen(state statekit.State[counts], asked *int) seen {
	s := seen{counts: state.Context}
	if asked != nil {
		s.Guards = *asked
	}
	for _, leaf := range state.ActiveInParallel {
		s.State = append(s.State, string(leaf))
	}
	if len(s.State) == 0 {
		s.State = []string{string(state.Value)}
	}
	s.State = sorted(s.State)
	return s
}
