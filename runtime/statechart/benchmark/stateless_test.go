package benchmark

import (
	"context"
	"encoding/json"

	sm "github.com/qmuntal/stateless"
)

// stateless has no context, so its callbacks count in a variable. It has no transition actions either. The closest
// equivalent is a second exit action on the outermost state that the event leaves. It runs only for that event's
// trigger, and after the state's own exit action. It therefore runs after all exits and before all entries, like a
// transition action.

// firing is the cheaper of the two firing modes of stateless. The default mode adds a queue for events that callbacks
// fire.
const firing = sm.FiringImmediate

func act(count *int) sm.ActionFunc {
	return func(context.Context, ...any) error { *count++; return nil }
}

func statelessFlat() (subject, error) {
	m, c := sm.NewStateMachineWithMode("off", firing), new(counts)
	m.Configure("off").Permit("TOGGLE", "on").OnExitWith("TOGGLE", act(&c.Actions))
	m.Configure("on").Permit("TOGGLE", "off").OnExitWith("TOGGLE", act(&c.Actions))
	return statelessSubject(m, "TOGGLE", c, nil), nil
}

func statelessPayload() (subject, error) {
	m, c := sm.NewStateMachineWithMode("off", firing), new(counts)
	add := func(_ context.Context, args ...any) error { c.Actions += args[0].(added).N; return nil }
	m.Configure("off").Permit("ADD", "on").OnExitWith("ADD", add)
	m.Configure("on").Permit("ADD", "off").OnExitWith("ADD", add)
	return statelessSubject(m, "ADD", c, nil, added{N: 1}), nil
}

func statelessNested() (subject, error) {
	m, c := sm.NewStateMachineWithMode("a3", firing), new(counts)
	configureNested(m, c)
	return statelessSubject(m, "GO", c, nil), nil
}

func configureNested(m *sm.StateMachine, c *counts) {
	for _, name := range []string{"a", "b"} {
		m.Configure(name+"1").OnEntry(act(&c.Entries)).OnExit(act(&c.Exits)).OnExitWith("GO", act(&c.Actions))
		m.Configure(name + "2").SubstateOf(name + "1").OnEntry(act(&c.Entries)).OnExit(act(&c.Exits))
		m.Configure(name+"3").SubstateOf(name+"2").OnEntry(act(&c.Entries)).OnExit(act(&c.Exits)).
			Permit("GO", other(name, "a", "b")+"3")
	}
}

func statelessGuards() (subject, error) {
	m, c, asked := sm.NewStateMachineWithMode("off", firing), new(counts), new(int)
	no := func(context.Context, ...any) bool { *asked++; return false }
	yes := func(context.Context, ...any) bool { *asked++; return true }
	for _, id := range []string{"off", "on"} {
		s := m.Configure(id).OnExitWith("GO", act(&c.Actions))
		for range guards - 1 {
			s.Permit("GO", "never", no)
		}
		s.Permit("GO", other(id, "off", "on"), yes)
	}
	return statelessSubject(m, "GO", c, asked), nil
}

func statelessRing(r ring) (subject, error) {
	m, c := sm.NewStateMachineWithMode(r.leaf(0), firing), new(counts)
	var configure func(groups []group, parent string)
	configure = func(groups []group, parent string) {
		for _, g := range groups {
			s := m.Configure(g.id)
			if parent != "" {
				s.SubstateOf(parent)
			}
			if len(g.children) == 0 {
				s.Permit("NEXT", r.next(g.id)).OnExitWith("NEXT", act(&c.Actions))
			}
			configure(g.children, g.id)
		}
	}
	configure(r.tops, "")
	return statelessSubject(m, "NEXT", c, nil), nil
}

func statelessSubject(m *sm.StateMachine, trigger sm.Trigger, c *counts, asked *int, args ...any) subject {
	return subject{
		run: func(n int) error {
			for range n {
				if err := m.Fire(trigger, args...); err != nil {
					return err
				}
			}
			return nil
		},
		seen: func() seen {
			s := seen{counts: *c, State: []string{m.MustState().(string)}}
			if asked != nil {
				s.Guards = *asked
			}
			return s
		},
	}
}

// statelessPersist does the storage work that users of stateless have to write themselves: stateless has no snapshot
// and reads and writes its state through callbacks. The machine is configured once, and only its record changes.
func statelessPersist() (subject, error) {
	type record struct {
		State  string `json:"state"`
		Counts counts `json:"context"`
	}
	at := record{State: "a3"}
	m := sm.NewStateMachineWithExternalStorage(
		func(context.Context) (sm.State, error) { return at.State, nil },
		func(_ context.Context, state sm.State) error { at.State = state.(string); return nil }, firing)
	configureNested(m, &at.Counts)
	stored, err := json.Marshal(at)
	if err != nil {
		return subject{}, err
	}
	return subject{
		run: func(n int) error {
			for range n {
				at = record{}
				if err := json.Unmarshal(stored, &at); err != nil {
					return err
				}
				if err := m.Fire("GO"); err != nil {
					return err
				}
				if stored, err = json.Marshal(at); err != nil {
					return err
				}
			}
			return nil
		},
		seen: func() seen { return seen{counts: at.Counts, State: []string{at.State}} },
	}, nil
}
